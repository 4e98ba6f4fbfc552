"""Writing a run: what is there is whole, whatever happens."""

from __future__ import annotations

import errno
import gzip
import json
import math
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.result_folders import open_run, write_run

from wavebed.errors import UserError, WavebedError
from wavebed.result.model import Check, RunRecord, TrialLine, TrialRecord, WorkloadRecord
from wavebed.store.disk import new_partial
from wavebed.store.folder import compress_raw, write_trial
from wavebed.store.records import read_run, read_trial
from wavebed.workload.model import Metric, Outcome, TimeSpan

if TYPE_CHECKING:
    from pathlib import Path


def run_record(*lines: TrialLine) -> RunRecord:
    return RunRecord(
        title="scene 1",
        source="kau.toml",
        scenario="title = 'scene 1'\n",
        overrides={"path.rate": "10mbit"},
        command_line=["wavebed", "run", "kau.toml"],
        started="2026-11-21T10:00:00Z",
        seed=1,
        blocks=2,
        versions={"wavebed": "0.1.0"},
        machine={"cores": "2"},
        workloads=[{"name": "file", "kind": "download", "settings": {"size": "2mb"}}],
        treatments=[{"name": "cubic", "set": {"tcp": "cubic"}}],
        trials=list(lines),
    )


def trial_record(folder: str = "0001-cubic", value: float | None = 42.0) -> TrialRecord:
    outcome = Outcome(
        status="partial",
        reason="stopped at 10 s",
        metrics=[Metric("goodput", value, "Mbit/s", "higher", "bytes of the body")],
        details={"sizes": [1, 2, None]},
        doubts=["the clock jumped"],
    )
    return TrialRecord(
        folder=folder,
        block=1,
        treatment="cubic",
        seed=1,
        started="2026-11-21T10:00:01Z",
        wall_s=1.5,
        verdict="suspect",
        reasons=["late"],
        checks=[Check("engine in time", False, "suspect", "p99 3 ms")],
        workloads=[
            WorkloadRecord("file", "download", TimeSpan(0.0, 10.0, True), outcome),
            WorkloadRecord("never", "bulk", None, Outcome("failed", "did not start")),
        ],
        transport=[Metric("share of capacity used", 93.5, "%", "higher")],
        engine={"links": []},
    )


def opened(tmp_path: Path) -> Path:
    run_dir = tmp_path / "run"
    open_run(run_dir, run_record(), "title = 'scene 1'\n")
    return run_dir


def test_a_record_of_a_run_comes_back_as_it_went(tmp_path: Path) -> None:
    run_dir = opened(tmp_path)
    record = run_record(TrialLine("0001-cubic", 1, "cubic", 1, "suspect", ["late"]))
    record.ended = "2026-11-21T10:01:00Z"
    write_run(run_dir, record)
    assert read_run(run_dir) == record
    assert (run_dir / "scenario.toml").read_text() == "title = 'scene 1'\n"


def test_a_record_of_a_trial_comes_back_as_it_went(tmp_path: Path) -> None:
    run_dir = opened(tmp_path)
    folder = write_trial(run_dir, new_partial(run_dir, "0001-cubic", "mark"), trial_record())
    assert folder == run_dir / "trials/0001-cubic"
    back, went = read_trial(folder), trial_record()
    assert back.workloads[1].outcome.metrics == []
    assert list(back.workloads[0].outcome.metrics) == list(went.workloads[0].outcome.metrics)
    assert back.workloads[0].span == went.workloads[0].span
    assert back.workloads[0].outcome.doubts == ["the clock jumped"]
    assert back.workloads[1].span is None
    assert (back.checks, back.transport, back.verdict) == (went.checks, went.transport, "suspect")


def test_the_metrics_of_the_path_and_of_workloads_are_one_list(tmp_path: Path) -> None:
    run_dir = opened(tmp_path)
    folder = write_trial(run_dir, new_partial(run_dir, "0001-cubic", "mark"), trial_record())
    metrics = json.loads((folder / "trial.json").read_text())["metrics"]
    assert [(metric["workload"], metric["name"]) for metric in metrics] == [
        ("path", "share of capacity used"),
        ("file", "goodput"),
    ]


@pytest.mark.parametrize("value", [None, math.nan, math.inf, np.float64("nan")])
def test_what_is_not_a_number_is_null_in_the_file(value: float | None, tmp_path: Path) -> None:
    run_dir = opened(tmp_path)
    folder = write_trial(run_dir, new_partial(run_dir, "0001-cubic", "mark"), trial_record(value=value))
    data = json.loads((folder / "trial.json").read_text(), parse_constant=pytest.fail)
    assert data["metrics"][1]["value"] is None


def test_a_trial_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    run_dir = opened(tmp_path)
    partial = new_partial(run_dir, "0001-cubic", "mark")
    (partial / "raw" / "file").mkdir()
    (partial / "raw" / "file" / "curl.json").write_text("{}")
    assert [path.name for path in (run_dir / "trials").iterdir() if not path.name.startswith(".")] == []
    folder = write_trial(run_dir, partial, trial_record())
    assert not partial.exists()
    assert gzip.decompress((folder / "raw/file/curl.json.gz").read_bytes()) == b"{}"


def test_raw_text_is_compressed_and_what_is_compressed_by_nature_is_left_alone(tmp_path: Path) -> None:
    text = "10 20 30\n" * 1000
    for name in ("a.txt", "deep/b.csv", "c.gz", "d.PNG", "e.mp4", "f.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    compress_raw(tmp_path)
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert names == ["a.txt.gz", "c.gz", "d.PNG", "deep/b.csv.gz", "e.mp4", "f.parquet"]
    assert gzip.decompress((tmp_path / "a.txt.gz").read_bytes()).decode() == text
    assert (tmp_path / "c.gz").read_text() == text


def test_sockets_and_links_among_raw_outputs_are_not_kept(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path)
    compress_raw(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_a_run_or_other_files_is_refused(tmp_path: Path) -> None:
    run_dir = opened(tmp_path)
    with pytest.raises(UserError, match="holds a run: name a new folder"):
        open_run(run_dir, run_record(), "")
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").touch()
    with pytest.raises(UserError, match=r"other files \(thesis.tex\): name a new folder"):
        open_run(other, run_record(), "")
    with pytest.raises(UserError, match=r"thesis\.tex: file exists: name a new folder"):
        open_run(other / "thesis.tex", run_record(), "")


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    open_run(tmp_path, run_record(), "")
    assert read_run(tmp_path) == run_record()


def no_space(_: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_leaves_the_finished_trials_and_says_so_in_one_line(tmp_path: Path, monkeypatch) -> None:
    run_dir = opened(tmp_path)
    write_trial(run_dir, new_partial(run_dir, "0001-cubic", "mark"), trial_record())
    record = run_record(TrialLine("0001-cubic", 1, "cubic", 1, "valid", []))
    write_run(run_dir, record)
    partial = new_partial(run_dir, "0002-bbr", "mark")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", no_space)
        with pytest.raises(WavebedError, match="no space left on device: the trials that had ended can be read"):
            write_trial(run_dir, partial, trial_record("0002-bbr"))
        with pytest.raises(WavebedError, match="no space left on device"):
            write_run(run_dir, run_record())
    assert read_run(run_dir) == record
    assert read_trial(run_dir / "trials/0001-cubic").folder == "0001-cubic"
    assert sorted(path.name for path in run_dir.rglob("*")) == [
        "0001-cubic",
        "raw",
        "run.json",
        "scenario.toml",
        "series",
        "trial.json",
        "trials",
    ]


def test_a_verdict_in_the_words_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    run_dir = opened(tmp_path)
    folder = write_trial(run_dir, new_partial(run_dir, "0001-cubic", "mark"), trial_record())
    file = folder / "trial.json"
    file.write_text(file.read_text().replace('"suspect"', '"doubtful"'))
    back = read_trial(folder)
    assert (back.verdict, back.checks[0].severity) == ("suspect", "suspect")
