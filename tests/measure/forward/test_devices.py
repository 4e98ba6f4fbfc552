"""Forwarding on the real machine: the rate of a shaped device, the latency of a cable, and iperf3 beside the tester."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests import outputs
from tests.lab.forward.test_cli import SHORT, forward
from tests.lab.forward.test_devices import ask
from tests.lab.forward.test_tester import ask as ask_tester

if TYPE_CHECKING:
    from pathlib import Path


def test_a_shaped_device_lets_its_packet_rate_through() -> None:
    # The bucket holds 0.2 s: a busy machine does not always press.
    rate, burst = 2000, 400
    answer = ask("press", f"shaped:rate={rate},burst={burst}", "2", "0.001")
    assert answer["sent"] > 2 * rate * answer["took_s"], "it was pressed"
    # The bucket fills by the kernel's clock: what comes in this time, and what it held, to a percent.
    assert answer["received"] == pytest.approx(rate * answer["took_s"] + burst, rel=0.01)


def test_the_latency_of_a_cable_is_below_five_milliseconds() -> None:
    latency = ask_tester("exact")[0]["counters"]["latency"]
    # Microseconds on a quiet machine, a time slice on a busy one.
    assert latency["p50_s"] < 0.005
    assert latency["max_s"] < 2


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
