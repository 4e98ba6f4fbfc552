"""Reports: figures, and the page of remedies."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.made_up_campaigns import Wanted, write_campaign_folder

from wavebed.campaign.read import Campaign, campaign_file, read_campaign
from wavebed.campaign.results import CampaignResults, read_campaign_results
from wavebed.page.document import island
from wavebed.page.plots import Panel, PanelLine, TimeFigure
from wavebed.page.points import ThinnedPoints, held, summed, thinned
from wavebed.page.text import figure, nice_ticks, signed, ticks_between
from wavebed.remedy import kind_of
from wavebed.report.build import path_row
from wavebed.reproduce.remedies_page import remedies_page, summary_table
from wavebed.result.model import PrimaryRecord
from wavebed.run.remedies import remedies_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0.0, "0"),
        (0.0999999, "0.100"),
        (9.999, "10.0"),
        (1234.4, "1234"),
        (84.0, "84"),
        (22.34, "22.3"),
        (-0.05, "−0.0500"),
        (200e6, "200\u202f000\u202f000"),
        (4e-7, "0.000000400"),
    ],
)
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert figure(value) == text


def test_differences_have_a_sign() -> None:
    assert [signed(value) for value in (1.5, -1.5, 0.0, None)] == ["+1.50", "−1.50", "0", "–"]


def test_ticks_are_round() -> None:
    assert nice_ticks(0, 1005) == [0, 500, 1000, 1500]
    assert nice_ticks(0, 0)[-1] >= 1
    assert ticks_between(0.3, 2.1, 4) == [0.5, 1.0, 1.5, 2.0]


def test_thinning_keeps_extremes_and_gaps() -> None:
    time_s = np.linspace(0, 10, 100_001)
    value = np.sin(time_s)
    value[50_000] = 7.0
    value[70_000] = -9.0
    value[20_000:30_000] = np.nan
    few = thinned(ThinnedPoints(time_s, value), 0, 10, 100)
    assert len(few) <= 310
    assert (np.nanmax(few.value), np.nanmin(few.value)) == (7.0, -9.0)
    assert np.isnan(few.value[(few.time_s > 2.01) & (few.time_s < 2.99)]).all()
    assert (np.diff(few.time_s) > 0).all()


def test_few_points_stay_as_they_are() -> None:
    points = ThinnedPoints(np.array([0.0, 1.0]), np.array([5.0, np.nan]))
    assert thinned(points, 0, 1, 10) is points


def test_a_value_holds_until_the_next() -> None:
    points = ThinnedPoints(np.array([1.0, 2.0]), np.array([5.0, 6.0]))
    out = held(points, np.array([0.5, 1.5, 9.0]))
    assert np.isnan(out[0])
    assert out[1:].tolist() == [5.0, 6.0]


def test_a_rate_is_what_was_carried_in_each_step() -> None:
    rate = summed(np.array([0.0, 0.05, 0.35]), np.array([1.0, 2.0, 4.0]), 0.1, 0.4)
    assert rate.value.tolist() == pytest.approx([30, 0, 0, 40])


def test_a_line_is_cut_at_a_gap() -> None:
    points = ThinnedPoints(np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 2.0, np.nan, 1.0]))
    html = TimeFigure("f", 0, 4, [Panel("p", "ms", [PanelLine("a", "t0", points)])]).render()
    assert 'd="M0 5000l25000 -5000M75000 5000h10"' in html


def test_capacity_holds_from_the_start_to_the_end() -> None:
    points = ThinnedPoints(np.array([0.0, 5.0]), np.array([10.0, 20.0]))
    line = PanelLine("capacity", "capacity", points, stepped=True, holds=True)
    html = TimeFigure("f", 2, 10, [Panel("p", "Mbit/s", [line])]).render()
    assert 'd="M0 5000h37500v-5000h62500v0"' in html


def test_data_cannot_leave_its_island() -> None:
    assert "</script><b>" not in island(["</script><b>"])


def test_the_path_names_what_each_link_does() -> None:
    delay = {"stage": "delay", "delay": {"kind": "constant", "delay_ns": 11_000_000}}
    limit = {"kind": "droptail", "limit": {"packets": 1000}}
    down = {"stage": "bottleneck", "rate": {"kind": "constant", "rate_bps": 54_000_000}, "queue": limit}
    segment = {"name": "lte", "kind": "radio", "down": [down, delay], "up": [delay]}
    hosts = [{"name": "server"}, {"name": "client", "congestion_control": "bbr"}]
    row = path_row({"network": {"hosts": hosts, "legs": [{"hops": [segment]}]}})
    assert "54 Mbit/s, queue droptail 1\u202f000 packets, delay 11 ms" in row
    assert path_row({}) == ""


FACTORS = {"remedy": ("none", "split", "tunnel", "syn"), "path": ("walk", "bus"), "beside": ("idle", "flood")}
EFFECTS = {"split": 0.5, "tunnel": 0.8, "bus": 3.0}


def results(
    folder: Path,
    effects: Mapping[str, float] = EFFECTS,
    factors: Mapping[str, tuple[str, ...]] = FACTORS,
    **more: object,
) -> CampaignResults:
    folder.mkdir()
    primaries = (
        PrimaryRecord("download", "download time", 10.0, "%"),
        PrimaryRecord("ping", "rtt loaded p95", 10.0, "ms"),
    )
    given = {"primaries": primaries, **more}
    wanted = Wanted(factors=factors, effects=effects, family="comparison", title="Remedies: a download", **given)  # type: ignore[arg-type]
    return read_campaign_results(write_campaign_folder(folder, wanted))


def rows(text: str, begin: str) -> list[list[str]]:
    """Return the rows of the lines that begin with a name, cell by cell."""
    return [
        [cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if line.startswith(begin)
    ]


def test_the_summary_names_the_remedy_that_helps_most_and_its_costs(tmp_path: Path) -> None:
    told = summary_table([results(tmp_path / "a")])
    assert rows(told, "| application") == [["application", "walk", "bus"]]
    for row in rows(told, "| download,"):
        for cell in row[1:]:
            found = re.fullmatch(r"\*\*split\*\* ×(0\.[0-9]+); d −([0-9.]+) ms", cell)
            assert found, cell
            assert float(found[1]) == pytest.approx(0.5, abs=0.03)
    walk, bus = rows(told, "| download, idle")[0][1:]
    assert float(walk.split("−")[1].split(" ")[0]) == pytest.approx(15, abs=3)
    assert float(bus.split("−")[1].split(" ")[0]) == pytest.approx(45, abs=3)


def test_where_a_remedy_has_no_ratio_all_are_ranked_by_their_differences(tmp_path: Path) -> None:
    told = summary_table([results(tmp_path / "a", {"split": 1e-9, "tunnel": 0.0, "bus": 3.0})])
    for row in rows(told, "| download,"):
        assert all(cell.startswith("**tunnel** −") for cell in row[1:]), row


def test_no_remedy_is_named_where_none_helps(tmp_path: Path) -> None:
    told = summary_table([results(tmp_path / "a", {"split": 1.5, "tunnel": 2.0})])
    assert [row[1:] for row in rows(told, "| download,")] == [["none", "none"]] * 2


def test_each_remedy_has_a_row_with_ratio_interval_and_verdict_by_path(tmp_path: Path) -> None:
    page = remedies_page([results(tmp_path / "a")])
    tables = page.split("**download: download time**")[1:]
    assert [text.splitlines()[0].strip(" ,") for text in tables] == [
        "beside idle (margin 10%)",
        "beside flood (margin 10%)",
    ]
    (split,) = rows(tables[0].partition("**ping")[0], "| split")
    for cell in split[1:]:
        found = re.fullmatch(r"×([0-9.]+) \(([0-9.]+) to ([0-9.]+)\) ▲", cell)
        assert found, cell
        estimate, low, high = map(float, found.groups())
        assert low <= estimate <= high
        assert estimate == pytest.approx(0.5, abs=0.03)
    (syn,) = rows(tables[0].partition("**ping")[0], "| syn")
    assert all(cell.endswith("≈") for cell in syn[1:]), "no effect, and a margin of 10 %"
    (none,) = rows(tables[0].partition("**ping")[0], "| none")
    assert all(cell.endswith(" s") for cell in none[1:]), "medians in their unit"
    assert "12 of 12 blocks, begun 2026-01-02; trials: 192 valid." in page


def test_a_cell_without_trials_has_a_dash_and_no_number(tmp_path: Path) -> None:
    lost = {(block, "split-walk-idle"): "failed" for block in range(1, 13)}
    page = remedies_page([results(tmp_path / "a", lost=lost)])
    first = page.split("**download: download time**")[1].partition("**ping")[0]
    (split,) = rows(first, "| split")
    assert split[1] == "–"
    assert split[2].startswith("×")
    assert "12 failed" in page


def test_several_campaigns_share_the_summary(tmp_path: Path) -> None:
    page = remedies_page([results(tmp_path / "a"), results(tmp_path / "b", {"tunnel": 0.6})])
    summary = page.partition("## Remedies: a download")[0]
    assert len(rows(summary, "| download,")) == 4
    assert "**tunnel**" in summary


def test_a_campaign_of_one_path_has_tables_and_no_summary(tmp_path: Path) -> None:
    alone = results(tmp_path / "a", factors={"remedy": FACTORS["remedy"]})
    page = remedies_page([alone])
    assert "## What helps" not in page
    assert rows(page, "| split")[0][1].startswith("×0.5")
    both = remedies_page([results(tmp_path / "b"), alone])
    summary = both.partition("## Remedies: a download")[0]
    assert len(rows(summary, "| download,")) == 2


OF_APPLICATIONS = {
    "remedy": ("none", "split", "tunnel"),
    "path": ("walk", "bus", "train", "lift", "street", "square"),
    "application": ("download", "page"),
    "beside": ("idle", "flood"),
}


def of_applications(folder: Path, **more: object) -> CampaignResults:
    return results(folder, factors=OF_APPLICATIONS, **more)


def overview_of(page: str) -> str:
    return page.partition("## What helps\n")[2].partition("\n## ")[0]


def test_over_all_paths_each_application_has_its_metric_and_the_costs_are_of_all(tmp_path: Path) -> None:
    primaries = (
        PrimaryRecord("download", "download time", 10.0, "%", {"application": ["page"]}),
        PrimaryRecord("ping", "rtt loaded p95", 10.0, "%"),
    )
    told = overview_of(remedies_page([of_applications(tmp_path / "a", blocks=1, planned=1, primaries=primaries)]))
    assert "**beside idle**" in told
    heads = rows(told, "| remedy")
    assert heads == [["remedy", "page: download time", "delay of other traffic"]] * 2
    for split in rows(told, "| split"):
        found = re.fullmatch(r"×([0-9.]+) \(([0-9.]+) to ([0-9.]+)\) ▲", split[1])
        assert found, split
        assert float(found[2]) <= float(found[1]) <= float(found[3])
        assert float(found[1]) == pytest.approx(0.5, abs=0.05)
    assert "did not end" not in told


def test_a_path_in_which_nothing_ended_is_no_pair_and_is_counted(tmp_path: Path) -> None:
    lost = {(1, f"split-{path}-download-flood"): "failed" for path in ("walk", "bus")}
    told = overview_of(remedies_page([of_applications(tmp_path / "a", blocks=1, planned=1, lost=lost)]))
    assert rows(told, "| split")[1][1].endswith("(n = 4) ?")
    assert rows(told, "| did not end") == [["did not end", "download"]]
    assert rows(told, "| split")[-1] == ["split", "2 of 12"]


def test_one_block_decides_nothing_on_a_single_path(tmp_path: Path) -> None:
    few, enough = of_applications(tmp_path / "a", blocks=1, planned=1), of_applications(tmp_path / "b")
    assert "## What helps on each path" not in remedies_page([few])
    summary = remedies_page([few, enough]).partition("## What helps on each path")[2].partition("\n## ")[0]
    assert [row[0] for row in rows(summary, "| download ·")] == ["download · idle", "download · flood"]


@pytest.fixture(scope="module")
def shipped() -> Campaign:
    return read_campaign(campaign_file("remedies"))


def test_every_kind_of_remedy_is_in_the_campaign(shipped: Campaign) -> None:
    kinds = {spec.kind for treatment in shipped.plan.treatments for spec in remedies_of(treatment)}
    from wavebed.remedy import KINDS

    assert kinds == set(KINDS)
    assert all(kind_of(kind) for kind in kinds)
    assert len(shipped.factors[0].levels) == 14


def test_a_cell_of_the_campaign_runs_one_application_beside_other_traffic(shipped: Campaign) -> None:
    for cell, treatment in zip(shipped.cells, shipped.plan.treatments, strict=True):
        names = [workload.name for workload in treatment.workloads]
        assert names == [cell.levels["application"].partition("-")[0], "beside", "latency"], cell.name


def test_the_campaign_compares_with_none_and_asks_each_application_its_own_questions(shipped: Campaign) -> None:
    assert shipped.compared == ("remedy", "none")
    asked: dict[str, list[str]] = {}
    for application in shipped.factors[3].levels:
        levels = {"application": application}
        asked[application] = [each.metric for each in shipped.primaries if each.is_asked_of(levels)]
    costs = ["udp rtt loaded p95", "processor time"]
    assert asked == {
        "download": ["goodput", *costs],
        **{key: ["on load", *costs] for key in ("page-h1", "page-h2", "page-h3")},
        "call": ["rtt p95", "bitrate down", *costs],
        "video": ["mean bitrate", "startup time", *costs],
    }


def test_a_part_of_the_campaign_keeps_the_metrics_of_its_applications_alone() -> None:
    part = read_campaign(campaign_file("remedies"), only={"application": ["call"], "path": ["kau-e5g-3"]})
    assert {each.workload for each in part.primaries} == {"call", "latency", "path"}
    assert part.replicate == "channel"
