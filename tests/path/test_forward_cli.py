"""``wavebed forward`` from the command line, on an emulated device."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import outputs

from wavebed._core import find_core

WITHIN_S = 60.0
KNOWN = "shaped:rate=20000,burst=4000"
"""It lets 20,000 frames through each second, which this machine offers under any load. Its bucket holds what is due in
0.2 s, as a busy machine does not always press."""
LEAST_PPS, MOST_PPS = 18_000, 25_200
"""In a trial of a second the bucket's 4,000 may come on top; a tenth less for gaps, a twentieth more for the time."""
SHORT = ("--quick", "--sizes", "64", "--tests", "overload")


def forward(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wavebed", "forward", *arguments, "-o", str(folder)],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )


def namespaces() -> set[str]:
    folder = Path("/run/netns")
    return {entry.name for entry in folder.iterdir()} if folder.exists() else set()


def record(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return told


@pytest.mark.alone
@pytest.mark.slow
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


@pytest.mark.alone
@pytest.mark.slow
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


@pytest.mark.alone
@pytest.mark.slow
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
