"""A study is campaigns, and each published figure has a verdict beside ours."""

from __future__ import annotations

import math
import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from wavebed.campaign.read import campaign_file, read_campaign
from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.reproduce.judge import (
    METRIC,
    Beside,
    PublishedFigure,
    beside_published,
    cells_beside,
    judged,
    logarithm,
    published_of,
    read_published,
    tried,
)
from wavebed.reproduce.studies import STUDIES, Hypothesis, Study, StudyPart, read_study
from wavebed.reproduce.study import BegunStudy, begin, begun_in, campaigns_of
from wavebed.reproduce.study_words import explains_text, moved_text
from wavebed.result.model import TrialRecord, WorkloadRecord
from wavebed.run.design import expected_s
from wavebed.run.folder import in_virtual_time
from wavebed.workload.model import Metric, Outcome, TimeSpan

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.campaign.results import CampaignResults
    from wavebed.run.design import Slot

FIGURE = PublishedFigure("6", {"scene": "scene-1"}, "download", "goodput", "Mbit/s", 100, 5)


NAMES = ", ".join(part.name for part in read_study("kau-e5g").part)
MORE = ("cas-mmwave-beam", "cas-mmwave-loss", "kau-e5g-video")
"""Campaigns with cells of which nothing was published."""
FEWER = ("kau-e5g-large", "kau-e5g-limit-750")
"""Campaigns that run some figures with a change only."""
PARTS = [(name, part) for name in STUDIES for part in read_study(name).part]


@pytest.mark.parametrize(("name", "part"), PARTS, ids=[part.campaign for _, part in PARTS])
def test_each_published_figure_has_cells_of_its_campaign(name: str, part: StudyPart) -> None:
    campaign = read_campaign(campaign_file(part.campaign), blocks=1)
    cells = [dict(levels) for levels in campaign.levels.values()]
    if part.figures == "none":
        assert published_of(part) == ("", [])
        assert part.metrics
        assert not part.quick_blocks
        return
    _, rows = published_of(part)
    assert set(part.metrics) <= {row.metric for row in rows}
    hypotheses = read_study(name).hypotheses_of(part)
    assert bool(hypotheses) == bool(part.hypotheses)
    used = []
    for row in rows:
        assert row.value >= 0
        assert row.error >= 0
        for hypothesis in hypotheses or [None]:
            of = cells_beside(row.levels, part.hypotheses, hypothesis)
            unchanged = hypothesis is not None and hypothesis is hypotheses[0]
            assert all(levels in cells for levels in of) or (unchanged and part.campaign in FEWER)
            used += of
    assert all(levels in used for levels in cells) or part.campaign in MORE, "cells that no figure needs"
    assert campaign.plan.trials == 1


@pytest.mark.parametrize("name", STUDIES)
def test_each_hypothesis_has_a_part_and_all_but_the_first_a_prediction(name: str) -> None:
    study = read_study(name)
    assert {each.part for each in study.hypothesis} <= {part.name for part in study.part}
    for part in study.part:
        first, *others = study.hypotheses_of(part) or [None]
        assert first is None or (first.expected is None and not first.read)
        assert all(each.prediction and each.expected for each in others)
        assert not part.fitted or set(part.fitted) <= {*published_of(part)[1][0].levels, METRIC}


def beside(levels: dict[str, str], published: float, values: list[float]) -> Beside:
    return judged(PublishedFigure("6", levels, "download", "goodput", "Mbit/s", published, 1), "cell", values)


def test_a_change_explains_if_it_moves_held_out_figures_in_and_none_out() -> None:
    part = StudyPart("causes", "kau-e5g-causes", "Causes", "scene", fitted={"scene": ["a"]})
    described = [beside({"scene": name}, 100, [200]) for name in "abc"]
    described[2] = beside({"scene": "c"}, 100, [110])

    def changed(*values: float) -> list[Beside]:
        return [beside({"scene": name}, 100, [value]) for name, value in zip("abc", values, strict=True)]

    runs = [
        (Hypothesis("causes", "none", "all said"), described),
        (Hypothesis("causes", "fits", "x", "y", "closer"), changed(100, 105, 110)),
        (Hypothesis("causes", "breaks", "x", "y", "closer"), changed(100, 105, 310)),
        (Hypothesis("causes", "same", "x", "y", "no change"), changed(100, 200, 111)),
    ]
    none, fits, breaks, same = tried(part, runs)
    assert none.fitted == pytest.approx(math.log(2))
    assert none.held_out == pytest.approx((math.log(2) + math.log(1.1)) / 2)
    assert (none.found, none.counts) == (None, (1, 2))
    assert (fits.found, fits.inside, fits.outside, fits.explains) == ("closer", 1, 0, True)
    assert (breaks.found, breaks.inside, breaks.outside, breaks.explains) == ("farther", 1, 1, False)
    assert (same.found, same.explains) == ("no change", False)


def test_a_change_that_moves_one_figure_in_and_all_farther_explains_nothing() -> None:
    part = StudyPart("causes", "kau-e5g-causes", "Causes", "scene")
    described = [beside({"scene": name}, 100, [200]) for name in "abc"]
    moved = [beside({"scene": name}, 100, [value]) for name, value in zip("abc", (105, 900, 900), strict=True)]
    runs = [(Hypothesis("causes", "none", "all said"), described), (Hypothesis("causes", "far", "x"), moved)]
    _, far = tried(part, runs)
    assert (far.inside, far.outside, far.found, far.explains) == (1, 0, "farther", False)
    assert explains_text(far) == "no"


def test_a_change_that_explains_says_how_few_trials_it_had() -> None:
    part = StudyPart("causes", "kau-e5g-causes", "Causes", "scene")

    def told(values: list[float]) -> str:
        runs = [
            (Hypothesis("causes", "none", "all said"), [beside({"scene": "a"}, 100, [200])]),
            (Hypothesis("causes", "near", "x"), [beside({"scene": "a"}, 100, values)]),
        ]
        return explains_text(tried(part, runs)[1])

    assert (told([100]), told([100] * 6)) == ("yes, n = 1", "yes")


def test_a_change_may_be_fitted_to_one_metric() -> None:
    part = StudyPart("causes", "kau-e5g-causes", "Causes", "scene", fitted={METRIC: ["goodput"]})
    figures = [beside({"scene": name}, 100, [200]) for name in "ab"]
    (found,) = tried(part, [(Hypothesis("causes", "none", "x"), figures)])
    assert found.counts == (2, 0)


def test_a_figure_without_trials_moves_nothing() -> None:
    part = StudyPart("causes", "kau-e5g-causes", "Causes", "scene")
    described = [beside({"scene": "a"}, 100, [110]), beside({"scene": "b"}, 100, [900])]
    lost = [beside({"scene": "a"}, 100, [111]), beside({"scene": "b"}, 100, [])]
    _, found = tried(part, [(Hypothesis("causes", "none", "x"), described), (Hypothesis("causes", "lost", "x"), lost)])
    assert (found.found, found.compared, found.inside, found.outside) == ("no change", 1, 0, 0)
    assert moved_text(found) == "0 in, 0 out, 1 missing"


def test_a_part_compares_the_figures_of_its_levels() -> None:
    parts = {part.name: part for part in read_study("bbr-5g").part}
    _, everything = published_of(parts["downloads"])
    _, modem = published_of(parts["modem"])
    assert modem == [row for row in everything if row.levels["device"] == "usb-modem"]
    assert 0 < len(modem) < len(everything)


def test_a_ratio_of_geometric_means_is_that_of_each_block() -> None:
    cells = [{"scene": scene, "site": site} for scene in ("lte", "far") for site in ("a", "b")]
    values = np.array([[1.0, 2.0], [4.0, 8.0], [2.0, 1.0], [18.0, np.nan]])  # lte a, lte b, far a, far b; two blocks
    matrix = SimpleNamespace(values=values)
    results = SimpleNamespace(
        cells=["0", "1", "2", "3"], levels=dict(zip("0123", cells, strict=True)), matrices={("web", "index"): matrix}
    )
    published = PublishedFigure("8", {"scene": "far / lte", "site": "a & b"}, "web", "index", "ratio", 3, 0)
    (beside,) = beside_published(cast("CampaignResults", results), [published])
    assert beside.ours.estimate == pytest.approx(3)  # (2 * 18 / (1 * 4)) ** (1 / 2)
    assert beside.ours.count == 1


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([], "no value"),
        ([100], "one trial only"),
        ([100] * 5, "undecided"),
        ([76, 90, 100, 100, 110, 124], "reproduced"),
        ([74, 90, 100, 100, 110, 124], "undecided"),
        ([126, 130, 140, 150, 150, 200], "not reproduced"),
        ([10, 20, 30, 40, 50, 74], "not reproduced"),
    ],
)
def test_a_verdict_needs_the_whole_interval(values: list[float], verdict: str) -> None:
    assert judged(FIGURE, "cell", values).verdict == verdict


def test_the_reading_error_is_tolerated_where_it_is_larger() -> None:
    low = PublishedFigure("6", {}, "download", "goodput", "Mbit/s", 14, 5)
    assert judged(low, "cell", [9.5] * 6).verdict == "reproduced"
    assert judged(low, "cell", [8.5] * 6).verdict == "not reproduced"


def test_more_than_a_published_at_least_reproduces_it() -> None:
    ratio = PublishedFigure("8", {}, "bulk", "goodput", "ratio", 10, 0, at_least=True)
    assert judged(ratio, "cell", [60, 70, 80, 80, 90, 900]).verdict == "reproduced"
    assert logarithm(judged(ratio, "cell", [80])) == 0
    less = judged(ratio, "cell", [5, 5, 5, 6, 6, 7])
    assert less.verdict == "not reproduced"
    assert logarithm(less) == pytest.approx(math.log(0.55))
    assert judged(ratio, "cell", [7, 8, 8, 9, 9, 20]).verdict == "undecided"


def test_only_a_row_that_says_so_is_a_bound() -> None:
    _, ratios = read_published("cas-mmwave-delay")
    _, rates = read_published("cas-mmwave-f5")
    assert all(row.at_least for row in ratios)
    assert not any(row.at_least for row in rates)


def measured(slot: Slot, _resolved: object, partial: Path, _look: object, of_machine: object) -> TrialRecord:
    """Take the place of `run_trial`: a download in which everything is close to the published figures of scene 1."""
    (partial / "raw" / "out.txt").write_text("raw")
    draw = random.Random(f"{slot.treatment.name} {slot.seed}")
    names = {"goodput first 2mb": 52, "goodput first 20mb": 133, "goodput first 200mb": 240, "goodput": 265}
    metrics = [Metric(name, value * draw.uniform(0.95, 1.05), "Mbit/s", "higher") for name, value in names.items()]
    workload = WorkloadRecord("download", "download", TimeSpan(0, 1, False), Outcome(metrics=metrics))
    head = (slot.folder, slot.block, slot.treatment.name, slot.seed, "", 0.1, "valid", [])
    return TrialRecord(*head, [], [workload], attempt=slot.attempt)


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Study:
    monkeypatch.setenv("WAVEBED_LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr("wavebed.run.runner.run_trial", measured)
    monkeypatch.setattr("wavebed.run.runner.prepare", lambda *_: None)
    whole = read_study("kau-e5g")
    short = Study(whole.title, whole.notes, whole.part[:1])
    monkeypatch.setattr("wavebed.reproduce.study.read_study", lambda _: short)
    return short


@pytest.mark.parametrize("name", STUDIES)
def test_series_that_are_drawn_are_of_cells_of_the_campaign(name: str) -> None:
    for part in read_study(name).part:
        for wanted in part.over_time:
            factors = {each.name: each.levels for each in read_campaign(campaign_file(part.campaign)).factors}
            assert all(set(levels) <= set(factors[factor]) for factor, levels in wanted.cells.items())


def test_parts_and_blocks_can_be_chosen() -> None:
    (part, campaign), *others = campaigns_of(BegunStudy("kau-e5g", True, ("causes",), 2))
    assert (part.name, others) == ("causes", [])
    assert campaign.plan.trials == 2
    assert [part.name for part, _ in campaigns_of(BegunStudy("kau-e5g", True))] == ["downloads", "web"]


@pytest.mark.parametrize("name", STUDIES)
def test_a_run_without_names_of_parts_is_planned_for_three_hours_at_most(name: str) -> None:
    plans = [campaign.plan for _, campaign in campaigns_of(BegunStudy(name, False))]
    planned_s = sum(plan.trials * expected_s(treatment) for plan in plans for treatment in plan.treatments)
    assert planned_s <= 3 * 3600


def test_a_folder_of_another_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no study\.json"):
        begun_in(tmp_path, "kau-e5g")
    (tmp_path / "study.json").write_text('{"study": "bbr-5g", "quick": true}')
    with pytest.raises(UserError, match="is of bbr-5g: write that"):
        begun_in(tmp_path, "kau-e5g")
    (tmp_path / "study.json").write_text("{")
    with pytest.raises(UserError, match="name another folder"):
        begun_in(tmp_path, "kau-e5g")


def test_a_study_in_virtual_time_has_all_its_campaigns_in_it() -> None:
    for time in ("real", "virtual"):
        plans = [campaign.plan for _, campaign in campaigns_of(BegunStudy("kau-e5g", True, time=time))]
        assert [in_virtual_time(plan) for plan in plans] == [time == "virtual"] * 2


def test_small_packets_are_of_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "small-packets", "--virtual-time"]) == 2
    assert "--virtual-time: small-packets measures how fast this machine computes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (["--seed", "3"], "--seed: the seeds of this study are those of its campaigns: leave it out"),
        (["--accept-changes"], "--accept-changes: goes with --resume"),
        (["--resume"], "--resume: name the folder to go on in with -o DIR"),
        (["--resume", "-o", "none"], "none: has no study.json: name a folder that wavebed reproduce kau-e5g began"),
        (["--resume", "--quick", "-o", "long"], "--quick: long was begun without it: leave it out"),
        (["--all", "--quick"], "--all: is every part, with all its blocks: leave --quick and --part out"),
        (["--resume", "--virtual-time", "-o", "long"], "--virtual-time: long was begun in real time: leave it out"),
        (["--blocks", "0"], "--blocks: 0 is out of range: write a whole number from 1 to 10000"),
        (
            ["--part", "dash"],
            f"--part: 'dash' is no part of kau-e5g: write one of {NAMES}",
        ),
        (["-o", "long"], "long: holds other files (study.json): name a new folder"),
    ],
)
def test_a_mistake_is_one_line(
    given: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*_: object, **__: object) -> None:
        raise AssertionError("it began")

    monkeypatch.setattr("wavebed.reproduce.study.run_study", run)
    monkeypatch.chdir(tmp_path)
    begin(tmp_path / "long", BegunStudy("kau-e5g", False))
    assert main(["reproduce", "kau-e5g", *given]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"wavebed: {line}"
