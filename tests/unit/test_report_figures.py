"""Reports: figures, and remedies over all paths."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.made_up_campaigns import Wanted, write_campaign_folder

from wavebed.campaign.read import Campaign, campaign_file, read_campaign
from wavebed.page.document import island
from wavebed.page.plots import Panel, PanelLine, TimeFigure
from wavebed.page.points import ThinnedPoints, held, summed, thinned
from wavebed.page.text import figure, nice_ticks, signed, ticks_between
from wavebed.remedy import kind_of
from wavebed.report.build import path_row
from wavebed.reproduce.remedies_overview import main
from wavebed.result.model import PrimaryRecord
from wavebed.run.remedies import remedies_of

if TYPE_CHECKING:
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


def test_what_a_link_delivers_after_the_axis_is_no_peak_at_its_end() -> None:
    rate = summed(np.array([0.0, 0.35, 0.6, 9.0]), np.array([1.0, 4.0, 50.0, 50.0]), 0.1, 0.4)
    assert rate.value.tolist() == pytest.approx([10, 0, 0, 40])


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


FACTORS = {
    "remedy": ("none", "split", "tunnel"),
    "path": ("walk", "bus", "train", "lift", "street", "square"),
    "application": ("download", "page"),
    "beside": ("idle", "flood"),
}
EFFECTS = {"split": 0.5, "tunnel": 0.8, "bus": 3.0}


def overview_of(folder: Path, capsys: pytest.CaptureFixture[str], **more: object) -> str:
    """Return what is printed of a campaign of one block, in which a split halves times."""
    primaries = (
        PrimaryRecord("download", "download time", 10.0, "%", {"application": ["page"]}),
        PrimaryRecord("ping", "rtt loaded p95", 10.0, "%"),
    )
    one = {"blocks": 1, "planned": 1, **more}
    wanted = Wanted(factors=FACTORS, effects=EFFECTS, family="comparison", title="Remedies", primaries=primaries, **one)  # type: ignore[arg-type]
    write_campaign_folder(folder, wanted)
    main([str(folder)])
    return capsys.readouterr().out


def rows(text: str, begin: str) -> list[list[str]]:
    """Return the rows of the lines that begin with a name, cell by cell."""
    return [
        [cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if line.startswith(begin)
    ]


def test_over_all_paths_each_application_has_its_metric_and_the_costs_are_of_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = overview_of(tmp_path, capsys)
    assert "**beside idle**" in told
    heads = rows(told, "| remedy")
    assert heads == [["remedy", "page: download time", "delay of other traffic"]] * 2
    for split in rows(told, "| split"):
        found = re.fullmatch(r"×([0-9.]+) \(([0-9.]+) to ([0-9.]+)\) ▲", split[1])
        assert found, split
        assert float(found[2]) <= float(found[1]) <= float(found[3])
        assert float(found[1]) == pytest.approx(0.5, abs=0.05)
    assert "did not end" not in told


def test_a_path_in_which_nothing_ended_is_no_pair_and_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = {(1, f"split-{path}-page-flood"): "failed" for path in ("walk", "bus")}
    told = overview_of(tmp_path, capsys, lost=lost)
    assert rows(told, "| split")[1][1].endswith("(n = 4) ?")
    assert rows(told, "| did not end") == [["did not end", "page"]]
    assert rows(told, "| split")[-1] == ["split", "2 of 12"]


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
