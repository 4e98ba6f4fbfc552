"""``wavebed forward`` from the command line: the rate of an emulated device, and what other tools report beside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests import outputs
from tests.lab.test_forward_cli import KNOWN, MOST_PPS, SHORT, forward, record

if TYPE_CHECKING:
    from pathlib import Path

LEAST_PPS = 18_000
"""A tenth less than the device forwards, for gaps."""


def test_the_rate_of_a_shaped_device_is_found(tmp_path: Path) -> None:
    done = forward(tmp_path / "run", "--dut", KNOWN, *SHORT, "--name", "known")
    assert done.returncode == 0, done.stderr
    told = record(tmp_path / "run")
    (test,) = told["result"]["overload"]
    assert LEAST_PPS < test["received"]["pps"] < MOST_PPS
    assert test["sent"]["pps"] > 2 * test["received"]["pps"]
    assert 0 < test["cpu_busy_max"]["estimate"] <= 1


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
