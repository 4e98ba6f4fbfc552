"""``wavebed forward`` from the command line: its files, its exit status, and what is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from wavebed._core import find_core

WITHIN_S = 240.0
"""A test of a device is a dozen short trials, each of which a busy machine starts late."""
KNOWN = "shaped:rate=20000,burst=4000"
"""It lets 20,000 frames through each second. Its bucket holds what is due in 0.2 s."""
MOST_PPS = 25_200
"""In a trial of a second the bucket's 4,000 may come on top; a twentieth more for the time."""
SHORT = ("--quick", "--sizes", "64", "--tests", "overload")


def namespaces() -> set[str]:
    """Return the namespaces with a name, without the ones of container engines, which other tests start."""
    folder = Path("/run/netns")
    names = {entry.name for entry in folder.iterdir()} if folder.exists() else set()
    return {name for name in names if not name.startswith("netns-")}


def record(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return told


def forward(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wavebed", "forward", *arguments, "-o", str(folder)],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )


def test_without_the_rights_to_make_a_device_the_status_is_3_and_nothing_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-m", "wavebed", "forward", "-o", str(folder)],
        env={**os.environ, "WAVEBED_CORE": str(tmp_path / "nothing")},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 3
    assert "WAVEBED_CORE" in done.stderr
    assert not folder.exists()


def test_a_port_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    find_core()
    done = forward(tmp_path / "run", "--tx", "nothere0", "--rx", "nothere1")
    assert done.returncode in {2, 3}
    assert "nothere0" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "run").exists()


def test_a_router_made_for_it_is_tested_from_end_to_end_and_nothing_is_left(tmp_path: Path) -> None:
    before = namespaces()
    done = forward(tmp_path / "run", "--dut", KNOWN, *SHORT, "--name", "known")
    # The tester may be the limit on a busy machine: its frames leave late.
    assert done.returncode in {0, 1}, done.stderr
    assert "plan: about" in done.stderr
    assert "known (shaped): tx0 to rx0" in done.stdout
    assert str(tmp_path / "run/report.html") in done.stdout
    told = record(tmp_path / "run")
    (test,) = told["result"]["overload"]
    assert 0 < test["received"]["pps"] < MOST_PPS
    assert test["sent"]["pps"] >= test["received"]["pps"]
    assert told["result"]["kind"] == "shaped"
    assert 0 < test["cpu_busy_max"]["estimate"] <= 1
    assert "known" in (tmp_path / "run/report.html").read_text()
    assert namespaces() == before


def test_an_interrupted_test_keeps_what_was_whole_and_ends_with_130(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "wavebed", "forward", "--dut", KNOWN, "--sizes", "64"]
    with subprocess.Popen(
        [*command, "--tests", "overload,search", "-o", str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        assert any("search 64" in line and "plan" not in line for line in lines)
        process.send_signal(signal.SIGINT)
        told_text, said = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 130, told_text + said
    told = record(tmp_path / "run")
    assert 0 < told["result"]["overload"][0]["received"]["pps"] < MOST_PPS
    assert "interrupted" in [one["code"] for one in told["result"]["refusals"]]
