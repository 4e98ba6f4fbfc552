"""Who pays: the harm of a choice to the devices of a cell, in campaigns and between folders."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from markupsafe import Markup

from wavebed.campaign.harm import harm_json, harm_rows, harm_text, harms
from wavebed.campaign.report.answers import ChosenResults
from wavebed.campaign.report.build import _paid
from wavebed.campaign.results import CampaignResults
from wavebed.compare.find import compare_folders
from wavebed.compare.find import harms as harms_of_folders
from wavebed.compare.samples import Folder, MetricSeries, Sample
from wavebed.compare.text import comparison_json, comparison_text
from wavebed.interface.comparing import Comparison
from wavebed.result.model import CampaignRecord, RunRecord
from wavebed.stats.harm import Harm, harm, harm_of_pairs
from wavebed.workload.model import Metric

KINDS = {"a.download": "download", "b.call": "call", "b.download": "download"}
GOODPUT, FROZEN = "goodput", "frozen"
"""The main metrics of the two kinds of workloads."""


@pytest.mark.parametrize(
    ("alone", "together", "better", "value"),
    [
        (100.0, 25.0, "higher", 0.75),
        (25.0, 100.0, "higher", -3.0),
        (10.0, 40.0, "lower", 0.75),
        (40.0, 10.0, "lower", -3.0),
        (0.0, 3.0, "lower", 1.0),
        (0.0, 0.0, "lower", 0.0),
        (0.0, 3.0, "higher", -math.inf),
        (3.0, 0.0, "lower", -math.inf),
    ],
)
def test_harm_is_the_part_of_a_result_that_is_lost(alone: float, together: float, better, value: float) -> None:
    assert harm(alone, together, better) == value


def test_pairs_are_of_one_block() -> None:
    found = harm_of_pairs({1: 10.0, 2: 20.0, 3: 5.0}, {1: 5.0, 2: 5.0, 9: 3.0}, "higher")
    assert (found.estimate, found.count) == (0.625, 2)


def test_a_pair_with_a_benefit_without_bound_counts() -> None:
    """Without these pairs a device that gains in most blocks would be said to lose."""
    found = harm_of_pairs(dict(enumerate([2.0, 2.0, 2.0])), dict(enumerate([0.0, 1.0, 4.0])), "lower")
    assert (found.estimate, found.count) == (-1.0, 3)
    gains = harm_of_pairs(dict(enumerate([2.0, 2.0, 2.0])), dict(enumerate([0.0, 0.0, 4.0])), "lower")
    assert (gains.estimate, gains.count) == (None, 3)
    few = harm_of_pairs(dict(enumerate([2.0] * 6)), dict(enumerate([0.0, *[4.0] * 5])), "lower")
    assert (few.estimate, few.low, few.high) == (0.5, None, 0.5)
    (row,) = harm_rows([Harm("b.call", FROZEN, "cubic", "bbr", few)])
    assert row[3:] == ("50 % (to 50)", 6)


def rows(blocks: int) -> list[dict[str, object]]:
    """Return metrics in which cell bbr takes three quarters of b's goodput, and freezes its call."""
    values = {
        ("a.download", GOODPUT, "higher"): (20.0, 30.0),
        ("b.call", FROZEN, "lower"): (1.0, 10.0),
        ("b.download", GOODPUT, "higher"): (20.0, 5.0),
        ("b.download", "other", "higher"): (1.0, 0.1),
        ("path", GOODPUT, "higher"): (1.0, 0.1),
    }
    return [
        {
            "block": block,
            "cell": cell,
            "counted": True,
            "workload": workload,
            "metric": name,
            "value": value + block / 1000,
            "unit": "Mbit/s",
            "better": better,
            "definition": "",
        }
        for block in range(1, blocks + 1)
        for (workload, name, better), both in values.items()
        for cell, value in zip(("cubic", "bbr"), both, strict=True)
    ]


def campaign(blocks: int, devices: bool = True) -> CampaignResults:
    record = CampaignRecord("f", "", {"cc": ("cubic", "bbr")}, "cc", "cubic", "all", [], "blocks", 6, 1, "all", {})
    workloads = [
        {"name": name, "kind": kind, **({"device": name.partition(".")[0]} if devices else {})}
        for name, kind in KINDS.items()
    ]
    treatments = [{"name": name, "levels": {"cc": name}} for name in ("cubic", "bbr")]
    run = RunRecord("t", "", "s", {}, [], "", 1, blocks, {}, {}, workloads, treatments, campaign=record)
    return CampaignResults(Path(), run, record, pa.Table.from_pylist(rows(blocks)), list(range(1, blocks + 1)))


def test_a_campaign_tells_who_pays_the_one_that_loses_most_first() -> None:
    found = harms(campaign(12))
    assert [(each.workload, each.metric) for each in found] == [
        ("b.call", FROZEN),
        ("b.download", GOODPUT),
        ("a.download", GOODPUT),
    ]
    assert [each.interval.estimate for each in found] == pytest.approx([0.9, 0.75, -0.5], abs=0.01)
    assert all(each.interval.low is not None for each in found)
    text = "\n".join(harm_text(found))
    assert "who pays" in text
    assert "b.call frozen" in text
    assert [each["harm"] for each in harm_json(found)] == [each.interval.estimate for each in found]


def test_the_report_has_a_section_on_who_pays() -> None:
    assert "b.call frozen" in Markup(_paid(ChosenResults(campaign(12)))).striptags()
    assert _paid(ChosenResults(campaign(12, devices=False))) == ""


def test_without_devices_nobody_pays() -> None:
    assert harms(campaign(12, devices=False)) == []
    assert harm_text([]) == []


def folder(name: str, cell: str, blocks: int, devices: bool) -> Folder:
    series = {}
    for row in rows(blocks):
        if row["cell"] == cell:
            series.setdefault((row["workload"], row["metric"]), []).append(row)
    made = {
        key: MetricSeries(
            key[0],
            Metric(key[1], None, "Mbit/s", found[0]["better"]),
            {"as-described": Sample(np.array([r["value"] for r in found]), np.array([r["block"] for r in found]))},
        )
        for key, found in series.items()
    }
    kinds = KINDS if devices else {}
    none = frozenset()
    return Folder(Path(name), name, {}, none, ["as-described"], {}, none, 0, True, None, made, kinds)


@pytest.mark.parametrize("devices", [True, False])
def test_folders_beside_each_other_tell_it_too(devices: bool) -> None:
    compared = compare_folders([folder(name, name, 6, devices) for name in ("cubic", "bbr")])
    found = harms_of_folders(compared)
    told = [(each.workload, each.baseline, each.cell) for each in found]
    wanted = [(name, "cubic", "bbr") for name in ("b.call", "b.download", "a.download")]
    assert told == (wanted if devices else [])
    assert ("who pays" in comparison_text(compared)) == devices
    assert ("harm" in comparison_json(compared)) == devices
    frame = Comparison(compared).harm()
    assert frame["workload"].tolist() == [name for name, _, _ in told]
    assert frame["harm"].tolist() == [each.interval.estimate for each in found]
