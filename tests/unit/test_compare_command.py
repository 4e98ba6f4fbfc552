"""``wavebed report`` and ``wavebed compare`` on any folder of results, those of an older wavebed too."""

from __future__ import annotations

import csv
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.unit.test_run_write import run_record, trial_record

import wavebed
from wavebed.cli import main
from wavebed.compare.find import compare_folders
from wavebed.compare.samples import read_samples
from wavebed.experiment.store import new_partial
from wavebed.forward.read import ForwardRun
from wavebed.result.load import Run
from wavebed.result.model import TrialLine
from wavebed.run.write import open_run, write_run, write_trial

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.compare.find import Answer, Comparison

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


def compared(*folders: str | Path) -> Comparison:
    return compare_folders([read_samples(Path(folder), Path(folder).name) for folder in folders])


def goodput(comparison: Comparison, column: str) -> Answer:
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
