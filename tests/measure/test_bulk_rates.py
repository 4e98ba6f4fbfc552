"""Rates of `bulk` on a known path: constant 100 Mbit/s, 40 ms, one bandwidth-delay product of queue."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import pytest
from tests.lab.workload_trial import run_scenario
from tests.measure.known_path import KNOWN_PATH

if TYPE_CHECKING:
    from pathlib import Path

RATE_MBPS = 100.0
TCP_SHARE = 1448 / 1500
"""Payload of a packet of 1500 bytes: 20 bytes of IPv4 and 32 of TCP with time stamps are not."""
UDP_SHARE = 1448 / 1476
"""iperf3 sends what TCP's segments would carry: 28 bytes of IPv4 and UDP come on top."""


def test_a_long_flow_fills_the_link(tmp_path: Path) -> None:
    """At least 90 % of what the headers leave, once cubic has filled the path: after 3 s, wherever slow start ended.

    With a queue of one bandwidth-delay product the window never falls below what the path holds (cubic keeps 70 % of
    twice that), so nothing else is lost. Before it has filled the path, in 2.5 s at most, it has a third on average.
    """
    trial = run_scenario(KNOWN_PATH + '[[workload]]\nkind = "bulk"\nduration = "8s"\nsettle = "3s"\n', tmp_path)
    assert trial.outcome().status == "ok", trial.outcome().reason
    found = trial.metrics()
    assert 0.6 * TCP_SHARE * RATE_MBPS < found["goodput"] < TCP_SHARE * RATE_MBPS
    assert 0.90 * TCP_SHARE * RATE_MBPS < found["goodput after 3s"] < 1.01 * TCP_SHARE * RATE_MBPS
    rtt = trial.series("rtt")
    # 40 ms, and at most 41 ms of queue: 500 kB and the packet that is being sent; the machine may add to some of them.
    known_ms = [value for value in rtt.value if value is not None]
    assert len(known_ms) == len(rtt.time_s)
    assert min(known_ms) >= 40
    assert 45 < statistics.median(known_ms) < 85
    goodput = trial.series("goodput")
    assert len(goodput.value) in (80, 81)
    # Five round trips of 40 ms are before the first interval, whose middle is 50 ms later.
    assert trial.span().start_s + 0.24 < goodput.time_s[0] < trial.span().start_s + 1.5
    assert goodput.time_s[-1] < trial.span().end_s


def test_udp_above_the_rate_loses_what_the_link_does_not_carry(tmp_path: Path) -> None:
    """In 2 s, 120 Mbit/s are offered; the link carries its rate, and its queue holds 500 kB more.

    A machine that is busy makes the sender offer less or in bursts, and the receiver lose some, so the theory is the
    least for what was offered. What was lost is in the counters, but for datagrams that are under way when the receiver
    stops counting (0.2 %).
    """
    text = '[[workload]]\nkind = "bulk"\nduration = "2s"\nprotocol = "udp"\nrate = "120mbit"\ndirection = "up"\n'
    trial = run_scenario(KNOWN_PATH + text, tmp_path)
    assert trial.outcome().status == "ok", trial.outcome().reason
    found = trial.metrics()
    link, server = trial.engine("links", "radio.up"), trial.engine("hosts", "server")
    carried_bytes = RATE_MBPS * 1e6 / 8 * 2 + 500e3
    assert found["loss"] > 100 * (1 - carried_bytes / link["offered_bytes"]) - 1.5
    lost = link["dropped_segments"]["overflow"] + server["udp_receive_buffer_errors"]
    assert found["loss"] == pytest.approx(100 * lost / link["offered_segments"], abs=0.2)
    assert found["goodput"] < UDP_SHARE * RATE_MBPS * 1.01


def test_udp_below_the_rate_loses_nothing(tmp_path: Path) -> None:
    """Nothing on the path; a receiver that has no time loses some at its socket, which is in the counters."""
    text = '[[workload]]\nkind = "bulk"\nduration = "1s"\nprotocol = "udp"\nrate = "20mbit"\n'
    trial = run_scenario(KNOWN_PATH + text, tmp_path)
    found = trial.metrics()
    link, client = trial.engine("links", "radio.down"), trial.engine("hosts", "client")
    assert link["dropped_segments"]["overflow"] == 0
    lost = client["udp_receive_buffer_errors"]
    assert found["loss"] == pytest.approx(100 * lost / link["offered_segments"], abs=0.2 if lost else 0)
    assert found["goodput"] == pytest.approx(20 * (1 - found["loss"] / 100), rel=0.1)
