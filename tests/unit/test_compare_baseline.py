"""Comparisons: regressions beyond margins, and the command."""

from __future__ import annotations

import csv
import json
import re
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.result_folders import open_run, write_run
from tests.unit.forward.example import device, record
from tests.unit.test_run_write import run_record, trial_record

import wavebed
from wavebed.cli import main
from wavebed.compare.find import compare_folders, regressions
from wavebed.compare.samples import read_samples
from wavebed.compare.words import sections
from wavebed.forward.folder import ForwardRun, write_forward
from wavebed.result.model import CampaignRecord, PrimaryRecord, TrialLine, TrialRecord, WorkloadRecord
from wavebed.store.disk import new_partial
from wavebed.store.folder import write_trial
from wavebed.store.load import Run
from wavebed.workload.model import Metric, Outcome, TimeSpan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from syrupy.assertion import SnapshotAssertion

    from wavebed.compare.find import ComparedAnswer, Regressions, RunComparison


GOODPUT = Metric("goodput", None, "Mbit/s", "higher", "bytes of the body")
TIME = Metric("time", None, "ms", "lower", "curl time_total")
LINES = Metric("lines", None, "", "neither", "a count")


def write_values(
    folder: Path,
    values: Mapping[str, Mapping[Metric, Sequence[float | None]]],
    *,
    processor: str = "an example",
    first_seed: int = 1,
    campaign: CampaignRecord | None = None,
    invalid: Mapping[str, int] | None = None,
) -> Path:
    """Write a run of the workload ``file``.

    Parameters
    ----------
    values : mapping
        By treatment and metric, one of each block; ``None`` is not measured.
    invalid : mapping, optional
        How many of the first trials of a treatment are invalid.
    """
    record = replace(
        run_record(),
        title="One",
        treatments=[{"name": name, "set": {}} for name in values],
        machine={"processor": processor, "cores": "2"},
        campaign=campaign,
    )
    open_run(folder, record, "")
    for treatment, metrics in values.items():
        for block in range(max(map(len, metrics.values()))):
            name = f"{len(record.trials) + 1:04d}-{treatment}"
            given = [replace(each, value=mine[block]) for each, mine in metrics.items() if block < len(mine)]
            trial = _trial(name, block + 1, treatment, first_seed + block, given)
            write_trial(folder, new_partial(folder, name, "mark"), trial)
            verdict = "invalid" if block < (invalid or {}).get(treatment, 0) else "valid"
            record.trials.append(TrialLine(name, block + 1, treatment, first_seed + block, verdict))
    record.ended = "2026-11-21T10:01:00Z"
    write_run(folder, record)
    return folder


def _trial(name: str, block: int, treatment: str, seed: int, metrics: Sequence[Metric]) -> TrialRecord:
    workload = WorkloadRecord("file", "download", TimeSpan(0.0, 1.0, True), Outcome(metrics=metrics))
    return replace(
        trial_record(name),
        block=block,
        treatment=treatment,
        seed=seed,
        workloads=[workload],
        transport=[],
        verdict="valid",
    )


def around(middle: float, count: int = 10, spread: float = 1.0) -> list[float]:
    """Return values around a middle, without ties, in no order."""
    return [middle + spread * ((7 * place) % count - (count - 1) / 2) / count for place in range(count)]


ONE = "as-described"
MARGINS = ("--margin", "file.goodput=5%", "--margin", "file.time=2 ms")


def judged(old: Path, new: Path, *margins: str) -> Regressions:
    folders = [read_samples(folder, folder.name) for folder in (old, new)]
    return regressions(compare_folders(folders, margins, explore=False))


def words(found: Regressions) -> dict[str, tuple[str, str]]:
    return {each.answer.question.metric.name: (each.answer.finding.verdict, each.regression) for each in found.judged}


def pair(
    tmp_path: Path, old: Sequence[float | None], new: Sequence[float | None], metric: object = GOODPUT
) -> list[Path]:
    return [
        write_values(tmp_path / name, {ONE: {metric: values}}, first_seed=seed)  # type: ignore[dict-item]
        for name, values, seed in (("old", old, 1), ("new", new, 101))
    ]


@pytest.mark.parametrize(
    ("new", "verdict", "regression"),
    [
        (80.0, "worse", "yes"),
        (94.8, "worse", "not excluded"),
        (97.0, "equivalent", "no"),
        (100.0, "equivalent", "no"),
        (120.0, "better", "no"),
    ],
)
def test_a_regression_is_an_interval_wholly_beyond_the_margin(
    new: float, verdict: str, regression: str, tmp_path: Path
) -> None:
    old, other = pair(tmp_path, around(100, spread=2), around(new, spread=2))
    assert words(judged(old, other, "file.goodput=5%")) == {"goodput": (verdict, regression)}


def test_an_undecided_metric_that_is_not_worse_than_the_margin_is_no_regression(tmp_path: Path) -> None:
    old, new = pair(tmp_path, around(100, spread=8), around(103, spread=8))
    assert words(judged(old, new, "file.goodput=5%")) == {"goodput": ("undecided", "no")}


def test_a_metric_where_lower_is_better_regresses_upwards(tmp_path: Path) -> None:
    old, new = pair(tmp_path, around(20), around(30), TIME)
    assert words(judged(old, new, "file.time=2 ms")) == {"time": ("worse", "yes")}
    assert words(judged(new, old, "file.time=2 ms")) == {"time": ("better", "no")}


def test_a_metric_without_a_better_direction_regresses_either_way(tmp_path: Path) -> None:
    old, new = pair(tmp_path, around(20), around(30), LINES)
    assert words(judged(old, new, "file.lines=2")) == {"lines": ("different", "yes")}
    assert words(judged(new, old, "file.lines=2")) == {"lines": ("different", "yes")}
    assert words(judged(new, old, "file.lines=20")) == {"lines": ("equivalent", "no")}


@pytest.mark.parametrize(
    ("new", "verdict", "regression", "said"),
    [
        (100.0, "equal", "no", "equal: 100 Mbit/s in all 3 and 3 values"),
        (99.0, "equivalent", "no", "different by −1 Mbit/s in all 3 and 3 values"),
        (90.0, "worse", "yes", "different by −10 Mbit/s in all 3 and 3 values"),
        (110.0, "better", "no", "different by +10 Mbit/s in all 3 and 3 values"),
    ],
)
def test_values_that_do_not_vary_are_equal_or_different(
    new: float, verdict: str, regression: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, other = pair(tmp_path, [100.0] * 3, [new] * 3)
    assert words(judged(old, other, "file.goodput=5%")) == {"goodput": (verdict, regression)}
    assert main(["compare", "--baseline", str(old), str(other), "--margin", "file.goodput=5%"]) == (new == 90)
    assert said in capsys.readouterr().out


def test_the_same_values_at_each_seed_are_equal_and_the_folder_a_replica(tmp_path: Path) -> None:
    values = {ONE: {GOODPUT: around(100, 4, 30)}}
    old, new, shifted = (
        write_values(tmp_path / name, values, first_seed=seed) for name, seed in (("old", 1), ("new", 1), ("other", 2))
    )
    found = judged(old, new, "file.goodput=5%")
    assert words(found) == {"goodput": ("equal", "no")}
    assert "new is a replica of old: every seed has the same value of every compared metric" in found.comparison.notes
    assert words(judged(old, shifted, "file.goodput=5%")) == {"goodput": ("undecided", "not excluded")}


def test_too_few_values_are_undecided_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = pair(tmp_path, around(100, 5), around(50, 5))
    command = ["compare", "--baseline", str(old), str(new), "--margin", "file.goodput=5%"]
    assert main(command) == 0
    told = capsys.readouterr().out
    assert "too few values for an interval: at least 6" in told
    assert told.splitlines()[-1] == ("passed: 1 comparison of primary metrics: 1 where a regression is not excluded")
    assert main([*command, "--undecided", "fail"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("failed: ")


def test_a_primary_metric_without_values_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = pair(tmp_path, around(100), [None] * 10)
    assert main(["compare", "--baseline", str(old), str(new), "--margin", "file.goodput=5%"]) == 1
    assert "failed: 1 comparison of primary metrics: 1 without values" in capsys.readouterr().out
    assert main(["compare", "--baseline", str(new), str(old), "--margin", "file.goodput=5%"]) == 0
    lost = write_values(tmp_path / "lost", {ONE: {GOODPUT: around(100)}}, invalid={ONE: 10})
    assert main(["compare", "--baseline", str(old), str(lost), "--margin", "file.goodput=5%"]) == 1
    told = capsys.readouterr().out
    assert "lost: as-described: 10 of 10 trials are not counted, 0 of 10 in old: the missing values may hide" in told


def test_the_error_is_held_over_all_primary_metrics(tmp_path: Path) -> None:
    values = {name: {GOODPUT: around(100), TIME: around(20)} for name in ("a", "b", "c")}
    old, new = (write_values(tmp_path / name, values, first_seed=seed) for name, seed in (("old", 1), ("new", 50)))
    found = judged(old, new, "file.goodput=5%", "file.time=2 ms")
    assert {each.answer.together for each in found.judged} == {6}
    assert [each.answer.finding.level for each in found.judged] == [pytest.approx(1 - 0.05 / 6)] * 6
    family = replace(campaign("comparison"), primaries=[PrimaryRecord("file", "goodput", 5.0, "%")])
    by_comparison = write_values(tmp_path / "by", values, campaign=family)
    assert {each.answer.together for each in judged(by_comparison, new).judged} == {1}


def campaign(family: str = "all") -> CampaignRecord:
    return CampaignRecord(
        file="c.toml",
        text="",
        factors={},
        factor="",
        baseline="",
        family=family,
        primaries=[PrimaryRecord("file", "goodput", 5.0, "%"), PrimaryRecord("file", "never", 5.0, "%")],
        stop="blocks",
        least_blocks=6,
        attempts=3,
        keep="metrics",
        inputs={},
        replicate="channel",
    )


def test_primary_metrics_and_margins_are_those_of_the_campaign_unless_given(tmp_path: Path) -> None:
    values = {ONE: {GOODPUT: around(100), TIME: around(20)}}
    old = write_values(tmp_path / "old", values, campaign=campaign())
    new = write_values(tmp_path / "new", {ONE: {GOODPUT: around(90), TIME: around(20)}}, campaign=campaign())
    found = judged(old, new)
    assert words(found) == {"goodput": ("worse", "yes")}
    assert "file never is a primary metric, and no folder has a value of it" in found.comparison.notes
    assert words(judged(old, new, "file.goodput=30%")) == {"goodput": ("equivalent", "no")}
    assert set(words(judged(old, new, "file.time=2 ms"))) == {"goodput", "time"}


@pytest.mark.parametrize(
    ("margin", "said"),
    [
        ("file.goodput=5 ms", "--margin: the margin of file goodput is in ms, the metric in Mbit/s: write the margin"),
        ("file.goodput=5%5", "--margin file.goodput: '5%5' is not a margin: write"),
        ("file.goodput", "--margin: 'file.goodput' is not a margin: write WORKLOAD.METRIC=VALUE"),
        ("file.godput=5%", "--margin: no folder has the metric 'file.godput': did you mean 'file.goodput'?"),
        ("web.x=5%", "--margin: no folder has the metric 'web.x': it must be one of file.goodput"),
    ],
)
def test_a_wrong_margin_is_one_clear_line(
    margin: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = pair(tmp_path, around(100), around(100))
    assert main(["compare", "--baseline", str(old), str(new), "--margin", margin]) == 2
    told = capsys.readouterr()
    assert told.err.startswith(f"wavebed: {said}")
    assert (told.err.count("\n"), told.out) == (1, "")


def test_what_cannot_be_judged_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = pair(tmp_path, around(100), around(100))
    kilobits = write_values(tmp_path / "kilobits", {ONE: {replace(GOODPUT, unit="kbit/s"): around(100_000)}})
    others = [
        write_values(tmp_path / name, {name: {GOODPUT: [1.0]}, "x" + name: {GOODPUT: [1.0]}}) for name in ("b", "c")
    ]
    margin = ("--margin", "file.goodput=5%")
    units = f"{kilobits}: file goodput is in kbit/s, and in Mbit/s in old"
    for command, said in (
        (["--baseline", old, new], f"{old}: has no primary metric with a value: add --margin WORKLOAD.METRIC=VALUE"),
        (["--baseline", old, new, new], f"{new}: is a second folder beside --baseline: name one"),
        (["--baseline", old, kilobits, *margin], units + ": compare results of one version of the metric"),
        (
            ["--baseline", *others, *margin],
            f"{others[1]}: has no treatment of {others[0]}: name results of the same treatments",
        ),
        ([old, new, "--undecided", "fail"], "--undecided: belongs to --baseline: write --baseline DIR DIR"),
        ([old, new, "--markdown", "x.md"], "--markdown: belongs to --baseline: write --baseline DIR DIR"),
    ):
        assert main(["compare", *map(str, command)]) == 2
        assert capsys.readouterr().err == f"wavebed: {said}\n"
    assert main(["compare", str(old), str(kilobits)]) == 0
    assert "kilobits: file goodput is in kbit/s, and in Mbit/s in old: not compared" in capsys.readouterr().out


def test_text_markdown_and_json_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    monkeypatch.chdir(tmp_path)
    write_values(
        tmp_path / "old",
        {
            "cubic": {GOODPUT: around(100), TIME: [20.0] * 8},
            "bbr": {GOODPUT: around(120, spread=40), TIME: [10.0] * 3},
        },
        processor="one | <two>",
    )
    write_values(
        tmp_path / "new",
        {
            "cubic": {GOODPUT: around(80), TIME: [23.0] * 8},
            "bbr": {GOODPUT: around(121, 9, 40), TIME: [10.0] * 3},
        },
        first_seed=3,
        processor="another",
        invalid={"bbr": 1},
    )
    command = ["compare", "--baseline", "old", "new", *MARGINS]
    assert main([*command, "--markdown", "table.md"]) == 1
    assert capsys.readouterr().out == snapshot(name="text")
    assert (tmp_path / "table.md").read_text() == snapshot(name="markdown")
    assert main([*command, "--json"]) == 1
    told = re.sub(r'"libraries": \{[^}]*\}', '"libraries": {}', capsys.readouterr().out)
    assert json.dumps(json.loads(told), indent=1) == snapshot(name="json")


def test_compare_gives_each_metric_a_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    old, new = (
        write_values(
            tmp_path / name,
            {ONE: {GOODPUT: around(100 - 10 * seed), TIME: around(20, spread=30), LINES: [4.0] * 9}},
            first_seed=1 + seed,
        )
        for seed, name in enumerate(("old", "new"))
    )
    assert main(["compare", str(old), str(new), *MARGINS[:2]]) == 0
    assert capsys.readouterr().out == snapshot


def test_primary_metrics_come_first_where_rows_are_left_out(tmp_path: Path) -> None:
    values = {name: {LINES: around(5), GOODPUT: around(100)} for name in ("a", "b")}
    folders = [read_samples(write_values(tmp_path / name, values), name) for name in ("old", "new")]
    comparison = compare_folders(folders, ["file.goodput=5%"])
    found, more = sections(comparison, 3)
    assert [(section.column, section.base, len(section.answers)) for section in found] == [
        ("new: a", "old: a", 1),
        ("new: a", "old: a", 1),
        ("new: b", "old: b", 1),
    ]
    assert [answer.question.metric.name for section in found for answer in section.answers] == [
        "goodput",
        "lines",
        "goodput",
    ]
    assert more == 1
    assert sections(comparison, 100)[1] == 0


def test_metrics_of_a_campaign_without_series_are_read_from_one_table(tmp_path: Path) -> None:
    from wavebed.store.metrics import keep_metrics, merge_metrics
    from wavebed.store.records import read_run

    old, new = pair(tmp_path, around(100), around(90))
    record = read_run(new)
    for block in range(1, 11):
        keep_metrics(new, block, [line for line in record.trials if line.block == block], 1, "here")
    by_parts = read_samples(new, "new").series
    merge_metrics(new, range(1, 11), {})
    for trial in (new / "trials").iterdir():
        (trial / "trial.json").unlink()
    by_table = read_samples(new, "new").series
    assert list(by_parts) == list(by_table) == [("file", "goodput")]
    for series in (by_parts, by_table):
        sample = series["file", "goodput"].samples[ONE]
        assert sample.values.tolist() == around(90)
        assert sample.seeds.tolist() == list(range(101, 111))
    assert words(judged(old, new, "file.goodput=5%")) == {"goodput": ("worse", "yes")}


def test_the_repeats_of_a_forwarding_test_are_judged_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, rate in (("old", 6e5), ("slower", 3e5), ("same", 6e5)):
        write_forward(tmp_path / name, record(device("router", rate)))
    command = ["compare", "--margin", "overload.received=5%", "--baseline", str(tmp_path / "old")]
    assert main([*command, str(tmp_path / "slower")]) == 1
    assert "overload received, frames/s" in capsys.readouterr().out
    assert main([*command, str(tmp_path / "same")]) == 0
    assert main(["compare", str(tmp_path / "old"), str(tmp_path / "same"), *command[1:3]]) == 2
    assert "--margin: forwarding tests take it with --baseline only" in capsys.readouterr().err


OLD = Path(__file__).parents[1] / "samples" / "results-1.tar.xz"
"""A run and a forwarding test, written by the version of before there was a journal (e82a161)."""
ONLY = ("as-described",)
EVIL = "<b>Another</b>"


def write_example(folder: Path, title: str, treatments: Sequence[str], blocks: int, lost: int = 0) -> Path:
    """Write a run with one metric; the values rise with the block, and the first `lost` trials are invalid."""
    record = replace(run_record(), title=title, treatments=[{"name": name, "set": {}} for name in treatments])
    open_run(folder, record, "")
    for number in range(blocks * len(treatments)):
        block, treatment = number // len(treatments) + 1, treatments[number % len(treatments)]
        trial = replace(trial_record(f"{number + 1:04d}-{treatment}", 40.0 + block), block=block, treatment=treatment)
        write_trial(folder, new_partial(folder, trial.folder, "mark"), trial)
        verdict = "invalid" if number < lost else "valid"
        record.trials.append(TrialLine(trial.folder, block, treatment, block, verdict))
    record.ended = "2026-11-21T10:01:00Z"
    write_run(folder, record)
    return folder


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(OLD) as packed:
        packed.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    base = tmp_path_factory.mktemp("runs")
    write_example(base / "before", "One", ONLY, 7)
    write_example(base / "after", EVIL, ONLY, 6)
    write_example(base / "both", "Both", ("cubic", "bbr"), 3, lost=2)
    return [str(base / name) for name in ("before", "after", "both")]


def test_an_old_folder_of_either_kind_is_recognised_and_reported(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert isinstance(wavebed.load(old / "run"), Run)
    assert isinstance(wavebed.load(old / "forward"), ForwardRun)
    for name, said in (("run", "A small download"), ("forward", "Small packets through routing")):
        page = tmp_path / f"{name}.html"
        assert main(["report", str(old / name), "-o", str(page)]) == 0
        assert said in page.read_text()
    assert capsys.readouterr().err == ""


def test_old_folders_are_compared_with_new_ones(old: Path, runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(old / "run"), runs[0]]) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[0] == "no metric was measured by two folders"
    assert "scenario differs: run has A small download, before has One" in told
    assert main(["compare", str(old / "run"), str(old / "run")]) == 0
    assert "download goodput, Mbit/s" in capsys.readouterr().out
    assert main(["compare", str(old / "forward"), str(old / "forward")]) == 0
    assert "Table 1." in capsys.readouterr().out


def test_a_run_and_a_forwarding_test_are_not_compared(
    old: Path, runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for first, other, said in (
        (
            runs[0],
            str(old / "forward"),
            "holds a forwarding test, and {} a run of a scenario: compare folders of one kind",
        ),
        (
            str(old / "forward"),
            runs[0],
            "holds a run of a scenario, and {} a forwarding test: compare folders of one kind",
        ),
    ):
        assert main(["compare", first, other]) == 2
        told = capsys.readouterr()
        assert told.err == f"wavebed: {other}: {said.format(first)}\n"
        assert told.out == ""


def compared(*folders: str | Path) -> RunComparison:
    return compare_folders([read_samples(Path(folder), Path(folder).name) for folder in folders])


def goodput(comparison: RunComparison, column: str) -> ComparedAnswer:
    answers = comparison.by_column[column]
    return next(each for each in answers if (each.question.workload, each.question.metric.name) == ("file", "goodput"))


def test_runs_are_independent_samples_with_their_intervals(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", runs[0], runs[1]]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("file goodput, Mbit/s"))
    assert row.count("[") == 2
    assert row.count(" to ") == 1
    answer = goodput(compared(*runs[:2]), "after")
    assert [len(sample) for sample in (answer.question.a, answer.question.b)] == [7, 6]
    # 41 to 47 and 41 to 46: of 42 pairs 15 are higher, 21 lower and 6 alike.
    found = answer.finding
    assert found.estimate == pytest.approx(43.5 - 44)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0 < found.high
    assert found.verdict == "undecided"
    assert answer.delta == pytest.approx((15 - 21) / 42)


def test_too_few_trials_have_a_difference_and_no_interval(runs: list[str]) -> None:
    comparison = compared(runs[0], runs[2])
    assert [column.name for column in comparison.columns] == ["before", "both: cubic", "both: bbr"]
    assert [column.base for column in comparison.columns] == [None, "as-described", "as-described"]
    answer = goodput(comparison, "both: cubic")
    assert answer.finding.estimate is not None
    assert (answer.finding.low, answer.finding.high, answer.finding.reason) == (None, None, "too-few")
    assert answer.finding.verdict == "undecided"
    assert "both: 2 of 6 trials are not counted" in comparison.notes


def test_treatments_are_compared_with_those_of_their_name(runs: list[str], tmp_path: Path) -> None:
    other = write_example(tmp_path / "other", "Other", ("bbr", "reno"), 1)
    comparison = compared(runs[2], other)
    assert {column.name: column.base for column in comparison.columns} == {
        "both: cubic": None,
        "both: bbr": None,
        "other: bbr": "bbr",
        "other: reno": None,
    }
    assert "other: reno: both has no treatment of this name, so there is no difference" in comparison.notes
    assert "both: cubic: other has no treatment of this name" in comparison.notes


def test_folders_of_one_name_are_told_apart_by_their_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [write_example(tmp_path / name / "run", "One", ONLY, 1) for name in ("a", "b")]
    assert main(["compare", "--json", *map(str, folders)]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == [str(folder) for folder in folders]


def test_json_csv_and_page_say_the_same(runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, table = tmp_path / "page.html", tmp_path / "table.csv"
    assert main(["compare", "--json", *runs[:2], "--csv", str(table), "-o", str(page)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["runs"] == ["before", "after"]
    metric = next(one for one in told["metrics"] if (one["workload"], one["name"]) == ("file", "goodput"))
    after = metric["columns"]["after"]
    rows = list(csv.DictReader(table.read_text().splitlines()))
    row = next(one for one in rows if (one["metric"], one["workload"], one["run"]) == ("goodput", "file", "after"))
    assert float(row["median"]) == after["median"]
    assert float(row["difference_low"]) == after["difference_low"]
    assert row["compared_with"] == "before"
    text = page.read_text()
    assert "2 folders compared" in text
    assert "after beside before" in text
    assert EVIL not in text
