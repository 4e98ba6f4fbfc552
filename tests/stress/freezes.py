"""An engine that is stopped for a while says so: in `shell`, in `run`, and in the Python interface."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.stress.family import WAVEBED, engine_of
from tests.stress.figure import Figure, of_all

import wavebed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["LENGTHS_MS", "WAYS", "check_marked", "measure"]

LENGTHS_MS = (5, 20, 60, 200, 2000)
INVALID_ABOVE_MS = 50
SEEN_SHORTER_MS = 1.2
"""A loop that sleeps for up to a millisecond sees that much less of a freeze."""
BEFORE_S = 0.3
STOPPED_WITHIN_S = 30.0
STOPPED = ("T", "X", "Z")
"""Stopped by a signal, or ended."""
PATH = {"rate": "50mbit", "delay": "5ms"}
SCENARIO = """
[path]
rate = "50mbit"
delay = "5ms"

[[workload]]
kind = "latency"
interval = "20ms"
probe = "icmp"

[[workload]]
kind = "command"
run = "until [ -e {over} ]; do sleep 0.02; done"
confined = false
"""


def freeze(engine: int, length_ms: float) -> None:
    """Stop a process for so long, counted from when its last thread stands still, which takes a while if others run."""
    os.kill(engine, signal.SIGSTOP)
    try:
        _wait_until_stopped(engine)
        time.sleep(length_ms / 1e3)
    finally:
        os.kill(engine, signal.SIGCONT)


def _wait_until_stopped(process: int) -> None:
    end = time.monotonic() + STOPPED_WITHIN_S
    while not all(_state(thread) in STOPPED for thread in Path(f"/proc/{process}/task").iterdir()):
        assert time.monotonic() < end, f"process {process} did not stop within {STOPPED_WITHIN_S:g} s"
        time.sleep(0.0002)


def _state(thread: Path) -> str:
    """Return the letter of a thread's state: proc_pid_stat(5); a thread that has just ended counts as dead."""
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def _after_start(root: int, length_ms: float) -> None:
    engine = engine_of(root)
    time.sleep(BEFORE_S)
    freeze(engine, length_ms)


def in_shell(length_ms: float) -> dict[str, Any]:
    """Return the summary of a laboratory whose engine was stopped beside a ping, with what was printed."""
    with tempfile.TemporaryDirectory() as folder:
        summary, over = Path(folder, "summary.json"), Path(folder, "over")
        ping = f"ping -i 0.02 -q server & until [ -e {over} ]; do sleep 0.02; done; kill $!"
        process = subprocess.Popen(
            [
                *(*WAVEBED, "shell", "--rate", PATH["rate"], "--delay", PATH["delay"]),
                *("--summary", summary, "--", "sh", "-c", ping),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            _after_start(process.pid, length_ms)
            time.sleep(BEFORE_S)
            over.touch()
            _, printed = process.communicate(timeout=60)
        finally:
            process.kill()
        found: dict[str, Any] = json.loads(summary.read_text())
    said = "invalid:" if length_ms > INVALID_ABOVE_MS else "stood still"
    assert said in printed, f"it is printed, too: {printed}"
    return found


def in_python(length_ms: float) -> dict[str, Any]:
    """Return the summary of a laboratory of the Python interface."""
    with wavebed.Path.of(**PATH).up() as lab:
        ping = lab.client.start(["ping", "-i", "0.02", "-q", "server"], stdout=subprocess.DEVNULL)
        _after_start(os.getpid(), length_ms)
        time.sleep(BEFORE_S)
        ping.kill()
    assert lab.summary is not None, "a laboratory that ended well has a summary"
    return dict(lab.summary)


def in_run(length_ms: float) -> dict[str, Any]:
    """Return the books of the engine of a trial of `wavebed run`; its verdict must agree with them."""
    with tempfile.TemporaryDirectory() as folder:
        scenario, over = Path(folder, "freeze.toml"), Path(folder, "over")
        scenario.write_text(SCENARIO.format(over=over))
        process = subprocess.Popen(
            [*WAVEBED, "run", scenario, "-o", f"{folder}/out"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            _after_start(process.pid, length_ms)
            time.sleep(BEFORE_S)
            over.touch()
            process.wait(timeout=90)
        finally:
            process.kill()
        (file,) = Path(folder, "out", "trials").glob("*/trial.json")
        trial = json.loads(file.read_text())
    allowed = ("invalid", "failed") if length_ms > INVALID_ABOVE_MS else ("suspect", "invalid")
    assert trial["verdict"] in allowed, f"{trial['verdict']}: {trial['reasons']}"
    return dict(trial["engine"])


WAYS: dict[str, Callable[[float], dict[str, Any]]] = {"shell": in_shell, "run": in_run, "Python": in_python}


def check_marked(way: str, length_ms: float) -> None:
    """Freeze an engine for `length_ms`.

    Raises
    ------
    AssertionError
        If the freeze was not reported with its length, or not judged as it must be; with what was reported.
    """
    engine = WAYS[way](length_ms)
    check = next(check for check in engine["checks"] if check["code"] == "gaps")
    gaps = [gap["length_ns"] / 1e6 for loop in engine["loops"] for gap in loop["gaps"]["longest"]]
    found = f"gaps of {', '.join(f'{gap:.1f}' for gap in gaps) or 'no length'} ms, {check}"
    assert not check["holds"], f"a freeze was not judged: {found}"
    assert max(gaps, default=0.0) >= length_ms - SEEN_SHORTER_MS, f"a freeze was reported as a shorter one: {found}"
    assert check["severity"] == "invalid" or length_ms <= INVALID_ABOVE_MS, f"a long freeze was let pass: {found}"


def measure(lengths_ms: Sequence[float] = LENGTHS_MS) -> list[Figure]:
    """Freeze an engine for each length in each way."""
    cases = []
    for way in WAYS:
        for length_ms in lengths_ms:
            name, held = f"{way} {length_ms:g} ms", True
            try:
                check_marked(way, length_ms)
            except AssertionError as error:
                name, held = f"{name}: {error}", False
            cases.append((name, held))
    return [of_all("freezes of the engine that are reported and marked", cases, what="freezes")]
