"""``wavebed.load``: frames of what a run wrote."""

from __future__ import annotations

import importlib.util
import json
import shutil
from typing import TYPE_CHECKING

import pytest

import wavebed
from wavebed.errors import MachineError, UserError
from wavebed.experiment.store import new_partial
from wavebed.result.model import RunRecord, TrialLine, TrialRecord, WorkloadRecord
from wavebed.result.tables import write_tables
from wavebed.run.write import open_run, write_run, write_trial
from wavebed.workload.model import Metric, Outcome, Series, Span

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run of two trials; each has two metrics, one of them missing, and two samples."""
    record = RunRecord("two", "two.toml", "", {}, [], "2026-11-21T10:00:00Z", 1, 1, {}, {}, [], [])
    folder = tmp_path / "run"
    open_run(folder, record, "")
    for number, treatment in enumerate(("cubic", "bbr"), start=1):
        name = f"{number:04}-{treatment}"
        partial = new_partial(folder, name, "mark")
        write_tables(
            partial / "series",
            None,
            capacity=[(0.0, "radio.down", number * 10**6, "LOS")],
            samples={"ping": [Series("rtt", "ms", (0.0, 1.0), (40.0, None))]},
            events={},
        )
        outcome = Outcome(metrics=[Metric("rtt p50", None, "ms", "lower", "ping")])
        verdict = "valid" if number == 1 else "invalid"
        trial = TrialRecord(
            name, 1, treatment, 7, "", 1.0, verdict,
            workloads=[WorkloadRecord("ping", "latency", Span(0.0, 2.0, False), outcome)],
            transport=[Metric("share of capacity used", 90.0 + number, "%", "higher")],
        )  # fmt: skip
        write_trial(folder, partial, trial)
        record.trials.append(TrialLine(name, 1, treatment, 7, verdict))
        write_run(folder, record)
    return folder


def test_every_trial_and_every_metric_has_a_row_whatever_its_verdict(run_dir: Path) -> None:
    run = wavebed.load(run_dir)
    assert run.record.title == "two"
    assert list(run.trials["folder"]) == ["0001-cubic", "0002-bbr"]
    assert list(run.trials["verdict"]) == ["valid", "invalid"]
    metrics = run.metrics
    assert list(metrics.columns) == [
        "folder", "block", "treatment", "seed", "verdict", "workload", "name", "value", "unit", "better", "definition",
    ]  # fmt: skip
    assert list(metrics["workload"]) == ["path", "ping", "path", "ping"]
    assert list(metrics["value"].fillna(-1)) == [91.0, -1, 92.0, -1]
    assert str(metrics["value"].dtype) == "float64"


def test_a_table_of_all_trials_says_which_row_is_whose(run_dir: Path) -> None:
    frame = wavebed.load(str(run_dir)).table("capacity")
    assert list(frame.columns) == ["folder", "block", "treatment", "time_s", "link", "rate_bps", "state"]
    assert list(frame["treatment"]) == ["cubic", "bbr"]
    assert list(frame["rate_bps"]) == [10**6, 2 * 10**6]


def test_a_table_of_one_trial_and_of_some_columns_is_read_alone(run_dir: Path) -> None:
    (run_dir / "trials/0001-cubic/series/samples.parquet").unlink()
    frame = wavebed.load(run_dir).table("samples", trial="0002-bbr", columns=["time_s", "value"])
    assert list(frame.columns) == ["folder", "block", "treatment", "time_s", "value"]
    assert list(frame["value"].isna()) == [False, True]


def test_a_run_without_trials_has_empty_tables_and_metrics(run_dir: Path) -> None:
    data = json.loads((run_dir / "run.json").read_text())
    (run_dir / "run.json").write_text(json.dumps({**data, "trials": []}))
    shutil.rmtree(run_dir / "trials")
    run = wavebed.load(run_dir)
    assert len(run.metrics) == len(run.trials) == len(run.table("links")) == 0
    assert list(run.table("cpu").columns) == ["folder", "block", "treatment", "time_ns", "core", "busy", "softirq"]


def test_what_is_not_there_is_named_with_what_is(run_dir: Path) -> None:
    run = wavebed.load(run_dir)
    with pytest.raises(UserError, match="no table 'queues': it must be one of links, departures"):
        run.table("queues")
    with pytest.raises(UserError, match="no trial '0003': it has 0001-cubic, 0002-bbr"):
        run.table("links", trial="0003")
    with pytest.raises(UserError, match="no column 'speed': it must be one of time_s, link, rate_bps, state"):
        run.table("capacity", columns=["speed"])


def test_a_folder_that_holds_no_run_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no run.json: name a folder that wavebed run or wavebed forward wrote"):
        wavebed.load(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "names no schema"),
        ('{"schema": 2}', "is of schema 2; this wavebed reads schema 1: install a newer wavebed"),
        ('{"schema": 1}', "missing required field `title`"),
    ],
)
def test_a_damaged_or_foreign_file_is_refused_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(UserError, match=said):
        wavebed.load(tmp_path)


@pytest.mark.parametrize("number", [2**63, -(2**70)])
def test_a_number_that_no_table_holds_is_refused_in_one_line(number: int, run_dir: Path) -> None:
    data = json.loads((run_dir / "run.json").read_text())
    data["trials"][0]["block"] = number
    (run_dir / "run.json").write_text(json.dumps(data))
    with pytest.raises(UserError, match=r"run\.json: is not as documented .*trials\[0\]\.block"):
        wavebed.load(run_dir)


def test_a_record_whose_parts_are_of_another_kind_is_refused_in_one_line(run_dir: Path) -> None:
    data = json.loads((run_dir / "run.json").read_text())
    (run_dir / "run.json").write_text(json.dumps({**data, "trials": 3}))
    with pytest.raises(UserError, match=r"run\.json: is not as documented"):
        wavebed.load(run_dir)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("treatments", [1], r"Expected `object`, got `int` - at `\$.treatments"),
        ("treatments", [{}], "has no 'name'"),
        ("overrides", [], r"Expected `object`, got `array` - at `\$.overrides`"),
        ("started", 5, r"Expected `str`, got `int` - at `\$.started`"),
        (
            "trials",
            [{"folder": "a", "block": 1, "treatment": "a", "seed": 1, "verdict": "good"}],
            "Invalid enum value 'good'",
        ),
    ],
)
def test_a_run_that_is_not_as_documented_is_refused_in_one_line(
    run_dir: Path, key: str, value: object, said: str
) -> None:
    file = run_dir / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {key: value}))
    with pytest.raises(UserError, match=said):
        wavebed.load(run_dir)


def test_a_metric_that_is_no_number_is_refused_in_one_line(run_dir: Path) -> None:
    file = run_dir / "trials" / "0001-cubic" / "trial.json"
    data = json.loads(file.read_text())
    data["metrics"][0]["value"] = "fast"
    file.write_text(json.dumps(data))
    with pytest.raises(UserError, match=r"trial\.json: is not as documented .*got `str` - at `\$.metrics.*value`"):
        wavebed.load(run_dir).trial("0001-cubic")


def test_a_damaged_table_is_named(run_dir: Path) -> None:
    file = run_dir / "trials/0001-cubic/series/links.parquet"
    file.write_bytes(b"PAR1")
    with pytest.raises(UserError, match=r"links\.parquet: cannot be read"):
        wavebed.load(run_dir).table("links")
    file.unlink()
    with pytest.raises(UserError, match=r"links\.parquet: is missing"):
        wavebed.load(run_dir).table("links")


def test_frames_of_polars_need_polars_and_say_so(run_dir: Path) -> None:
    run = wavebed.load(run_dir)
    if importlib.util.find_spec("polars") is None:
        with pytest.raises(MachineError, match="pip install polars"):
            run.polars("capacity")
    else:
        assert run.polars("capacity")["treatment"].to_list() == ["cubic", "bbr"]
