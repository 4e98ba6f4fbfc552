"""The page that compares remedies, of made-up campaigns whose effects are known; and the shipped campaigns for it."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.made_up_campaigns import Wanted, write_campaign_folder

from wavebed.campaign.read import Campaign, campaign_file, read_campaign
from wavebed.campaign.results import CampaignResults, read_campaign_results
from wavebed.remedy import kind_of
from wavebed.reproduce.remedies_page import remedies_page, summary_table
from wavebed.result.campaign import PrimaryRecord
from wavebed.run.remedies import remedies_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SHIPPED = sorted(
    file.stem for file in Path(str(resources.files("wavebed"))).glob("scenarios/campaigns/remedies-*.toml")
)
FACTORS = {"remedy": ("none", "split", "tunnel", "syn"), "path": ("walk", "bus"), "beside": ("idle", "flood")}
EFFECTS = {"split": 0.5, "tunnel": 0.8, "bus": 3.0}


def results(
    folder: Path,
    effects: Mapping[str, float] = EFFECTS,
    factors: Mapping[str, tuple[str, ...]] = FACTORS,
    **more: object,
) -> CampaignResults:
    folder.mkdir()
    wanted = Wanted(
        factors=factors,
        effects=effects,
        family="comparison",
        title="Remedies: a download",
        primaries=(
            PrimaryRecord("download", "download time", 10.0, "%"),
            PrimaryRecord("ping", "rtt loaded p95", 10.0, "ms"),
        ),
        **more,  # type: ignore[arg-type]
    )
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


def shipped(name: str) -> Campaign:
    return read_campaign(campaign_file(name))


def test_the_campaigns_of_all_applications_have_the_same_remedies_and_paths() -> None:
    assert SHIPPED == ["remedies-call", "remedies-download", "remedies-video", "remedies-web"]
    common = [
        {name: shipped(file).table.factor[index] for index, name in enumerate(("remedy", "path", "beside"))}
        for file in SHIPPED
    ]
    assert all(each == common[0] for each in common)
    levels = [level.name for level in common[0]["remedy"].level]
    assert levels[0] == "none"
    assert len(levels) == 14
    assert [level.name for level in common[0]["path"].level][:2] == ["cas-mmwave", "bbr-5g-phone"]


def test_every_kind_of_remedy_is_in_the_campaigns() -> None:
    plan = shipped("remedies-download").plan
    kinds = {spec.kind for treatment in plan.treatments for spec in remedies_of(treatment)}
    from wavebed.remedy import KINDS

    assert kinds == set(KINDS)
    assert all(kind_of(kind) for kind in kinds)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_campaign_of_remedies_compares_each_with_none_and_asks_for_the_costs(name: str) -> None:
    campaign = shipped(name)
    assert campaign.compared == ("remedy", "none")
    assert [(each.workload, each.metric) for each in campaign.primaries][-2:] == [
        ("latency", "udp rtt loaded p95"),
        ("path", "processor time"),
    ]
    assert campaign.replicate == "host", "one path has no scene"
