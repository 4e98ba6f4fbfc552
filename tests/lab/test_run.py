"""`wavebed run`, as a user types it: results that are whole, faults that are said, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.on_time import assert_ended, lateness

from wavebed.store.journal import (
    RunBegun,
    RunInterrupted,
    RunPlanned,
    StepBegun,
    TrialBegun,
    TrialFailed,
    TrialStored,
    WorkloadBegun,
    read_journal,
)

KNOWN = '[path]\nrate = "100mbit"\ndelay = "20ms"\nqueue = "droptail:500kb"\n'
DOWNLOAD = '[[workload]]\nkind = "download"\nsize = "2mb"\n'
WAVEBED = [sys.executable, "-m", "wavebed"]


def wavebed(folder: Path, text: str, *options: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    (folder / "s.toml").write_text(text)
    argv = [*WAVEBED, "run", "s.toml", "-o", "out", *options]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False)


def trial(folder: Path, name: str = "0001-as-described") -> Any:
    return json.loads((folder / "out/trials" / name / "trial.json").read_text())


def metric(record: Any, workload: str, name: str) -> Any:
    (found,) = [m["value"] for m in record["metrics"] if (m["workload"], m["name"]) == (workload, name)]
    return found


def processes_of(folder: Path) -> list[str]:
    """Return the command lines of processes that work in `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").readlink() == folder:
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


def test_a_run_is_whole_and_says_where_it_is(tmp_path: Path) -> None:
    done = wavebed(tmp_path, KNOWN + DOWNLOAD + '[[workload]]\nkind = "latency"\n', "--trials", "2")
    assert_ended(done, tmp_path / "out")
    out = tmp_path / "out"
    run = json.loads((out / "run.json").read_text())
    assert [line["seed"] for line in run["trials"]] == [1, 2]
    assert run["ended"]
    assert run["command_line"][:2] == ["wavebed", "run"]
    assert {"wavebed", "kernel", "curl", "nginx", "ping"} <= set(run["versions"])
    assert (out / "report.html").stat().st_size > 10_000
    record = trial(tmp_path)
    words = [line.split()[0] for line in done.stdout.splitlines()]
    assert words == ["question", "answer", "effect", "timing", "report"]
    assert str(Path("out/report.html")) in done.stdout
    assert not list((out / "trials").glob(".*"))
    assert record["verdict"] in ("valid", "suspect") or lateness(record), record["reasons"]
    # 2 MB take 0.17 s at 100 Mbit/s, and more than two round trips of 40 ms in slow start.
    assert metric(record, "download", "download time") > 0.25


def test_the_trial_begins_when_its_pattern_does(tmp_path: Path) -> None:
    head = "# wavebed pattern 1\n# kind = steps\n# duration_s = 60\ntime_s,rate_bps,state\n"
    pattern = head + "0,100000000,los\n6,8000000,nlos\n"
    (tmp_path / "p.csv").write_text(pattern)
    text = '[path]\ntrace = "p.csv"\n[[workload]]\nkind = "bulk"\nduration = "8s"\n'
    assert_ended(wavebed(tmp_path, text), tmp_path / "out")
    import wavebed as package

    run = package.load(tmp_path / "out")
    links = run.table("links")
    down = links[links["link"] == "radio.down"]
    before = down[down["time_ms"] < 5990].groupby(down["time_ms"] // 300)["delivered_bytes"].sum()
    quick = before.max() * 8 / 0.3
    slow = down[(down["time_ms"] > 6100) & (down["time_ms"] < 6400)]["delivered_bytes"].sum() * 8 / 0.3
    assert quick > 1.5 * slow
    assert slow < 9e6  # the rate of the second step, with its packets in flight
    events = run.table("events")
    states = events[events["name"] == "state"]
    assert list(states[states["workload"] == "radio.down"]["text"]) == ["los", "nlos"]


def test_a_full_disk_is_said_and_what_was_there_stays(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", small], check=True)
    try:
        (tmp_path / "s.toml").write_text(KNOWN + '[[workload]]\nkind = "bulk"\nduration = "2s"\n')
        argv = [*WAVEBED, "run", "s.toml", "-o", str(small / "out"), "--trials", "6"]
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 1
        assert "no space left" in done.stderr.lower()
        assert "Traceback" not in done.stderr
        run = json.loads((small / "out/run.json").read_text())
        for line in run["trials"]:
            json.loads((small / "out/trials" / line["folder"] / "trial.json").read_text())
        assert not list((small / "out/trials").glob(".*"))
        stored = [event.trial for event in read_journal(small / "out") if isinstance(event, TrialStored)]
        assert stored == sorted(path.name for path in (small / "out/trials").iterdir())[: len(stored)]
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_whatever_ends_it_leaves_no_process_and_no_half_trial(tmp_path: Path, number: signal.Signals) -> None:
    text = KNOWN + '[[workload]]\nkind = "bulk"\nduration = "30s"\nname = "long"\n'
    (tmp_path / "s.toml").write_text(text)
    run = subprocess.Popen(
        [*WAVEBED, "run", "s.toml", "-o", "out"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        end = time.monotonic() + 60
        while not any(isinstance(event, WorkloadBegun) for event in read_journal(tmp_path / "out")):
            assert time.monotonic() < end, "its workload begins"
            time.sleep(0.05)
        run.send_signal(number)
        _, errors = run.communicate(timeout=60)
    finally:
        run.kill()
    assert run.returncode == {signal.SIGKILL: -9, signal.SIGINT: 130, signal.SIGTERM: 143}[number]
    assert b"Traceback" not in errors
    end = time.monotonic() + 60
    while (processes_of(tmp_path) or list((tmp_path / "out/trials").glob(".*"))) and time.monotonic() < end:
        time.sleep(0.1)
    assert processes_of(tmp_path) == []
    assert list((tmp_path / "out/trials").iterdir()) == []
    assert json.loads((tmp_path / "out/run.json").read_text())["ended"] is None
    told = [type(event) for event in read_journal(tmp_path / "out")]
    begun = [RunBegun, RunPlanned, StepBegun, TrialBegun, WorkloadBegun]
    assert told == (begun if number == signal.SIGKILL else [*begun, TrialFailed, RunInterrupted])


def test_a_missing_program_is_said_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(KNOWN + DOWNLOAD)
    empty = tmp_path / "bin"
    empty.mkdir()
    done = subprocess.run(
        [*WAVEBED, "run", "s.toml", "-o", "out"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PATH": str(empty), "WAVEBED_PROGRAMS": str(empty)},
    )
    assert done.returncode == 3
    assert "curl" in done.stderr
    assert "apt-get install" in done.stderr
    assert not (tmp_path / "out/trials").exists()
