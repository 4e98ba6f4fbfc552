"""``wavebed forward`` from the command line, on an emulated device."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import outputs
from tests.lab.test_forward_cli import WITHIN_S, forward

KNOWN = "shaped:rate=20000,burst=4000"
"""It lets 20,000 frames through each second, which this machine offers under any load. Its bucket holds what is due in
0.2 s, as a busy machine does not always press."""
LEAST_PPS, MOST_PPS = 18_000, 25_200
"""In a trial of a second the bucket's 4,000 may come on top; a tenth less for gaps, a twentieth more for the time."""
SHORT = ("--quick", "--sizes", "64", "--tests", "overload")


def namespaces() -> set[str]:
    folder = Path("/run/netns")
    return {entry.name for entry in folder.iterdir()} if folder.exists() else set()


def record(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return told


def test_a_router_made_for_it_is_tested_from_end_to_end_and_nothing_is_left(tmp_path: Path) -> None:
    before = namespaces()
    done = forward(tmp_path / "run", "--dut", KNOWN, *SHORT, "--name", "known")
    assert done.returncode == 0, done.stderr
    assert "plan: about" in done.stderr
    assert "known (shaped): tx0 to rx0" in done.stdout
    assert str(tmp_path / "run/report.html") in done.stdout
    told = record(tmp_path / "run")
    (test,) = told["result"]["overload"]
    assert LEAST_PPS < test["received"]["pps"] < MOST_PPS
    assert test["sent"]["pps"] > 2 * test["received"]["pps"]
    assert told["result"]["kind"] == "shaped"
    assert 0 < test["cpu_busy_max"]["estimate"] <= 1
    assert "known" in (tmp_path / "run/report.html").read_text()
    assert namespaces() == before


def test_what_other_tools_printed_is_kept_beside(tmp_path: Path) -> None:
    done = forward(tmp_path / "run", "--dut", "netns", *SHORT, "--with", "iperf3", "--json")
    # The tester may be the limit on a busy machine (status 1); iperf3 runs all the same.
    assert done.returncode in {0, 1}, done.stderr
    told = outputs.read("forward", done.stdout)
    assert told["result"]["refusals"] == []  # a device that rests because others run looks like one that restarts
    runs = {run["test"]: run for run in told["result"]["beside"]["iperf3"]}
    small = runs["overload"]
    assert "-u -c 198.18.1.2 -b 1000M -P 10 -i 1 -l 18" in small["command"]
    # Within 5 %: iperf3's control connection is counted at the interface too.
    assert small["frame_bytes_mean"] == pytest.approx(64, rel=0.05)
    # What iperf3 says it received came through the interface; it may have lost some of that itself.
    assert small["pps"] >= 0.95 * small["claimed_pps"] > 0
    assert small["conversion"]["factor"] == pytest.approx(84 / 18)
    assert sorted(path.name for path in (tmp_path / "run/raw").glob("iperf3*")) == [
        "iperf3-overload.json.gz",
        "iperf3-throughput.json.gz",
    ]


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
    assert LEAST_PPS < told["result"]["overload"][0]["received"]["pps"] < MOST_PPS
    assert [one["code"] for one in told["result"]["refusals"]] == ["interrupted"]
