"""The workload `bulk` on a known path: constant 100 Mbit/s, 40 ms, one bandwidth-delay product of queue."""

from __future__ import annotations

import math
import statistics
import time
from typing import TYPE_CHECKING, Any, cast

import pytest
from workload_harness import KNOWN_PATH, metrics, run_workload

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.path.lab import Laboratory
    from wavebed.workload.model import Outcome, TrialContext

RATE_MBPS = 100.0
TCP_SHARE = 1448 / 1500
"""Payload of a packet of 1500 bytes: 20 bytes of IPv4 and 32 of TCP with time stamps are not."""
UDP_SHARE = 1448 / 1476
"""iperf3 sends what TCP's segments would carry: 28 bytes of IPv4 and UDP come on top."""


def series(outcome: Outcome, name: str) -> tuple[Sequence[float], Sequence[float | None]]:
    found = next(each for each in outcome.series if each.name == name)
    return found.time_s, found.value


@pytest.mark.alone
def test_a_long_flow_fills_the_link(tmp_path: Path) -> None:
    """At least 90 % of what the headers leave, once cubic has filled the path: after 3 s, wherever slow start ended.

    With a queue of one bandwidth-delay product the window never falls below what the path holds (cubic keeps 70 % of
    twice that), so nothing else is lost. Before it has filled the path, in 2.5 s at most, it has a third on average.
    """
    outcome, about = run_workload({"kind": "bulk", "duration": "8s", "settle": "3s"}, KNOWN_PATH, tmp_path)
    assert outcome.status == "ok", outcome.reason
    found = metrics(outcome)
    assert found["goodput"] is not None
    assert found["goodput after 3s"] is not None
    assert 0.6 * TCP_SHARE * RATE_MBPS < found["goodput"] < TCP_SHARE * RATE_MBPS
    assert 0.90 * TCP_SHARE * RATE_MBPS < found["goodput after 3s"] < 1.01 * TCP_SHARE * RATE_MBPS
    assert found["retransmits"] is not None
    assert outcome.details["congestion_control"] == {"down": "cubic"}
    time_s, rtt_ms = series(outcome, "rtt")
    # 40 ms, and at most 41 ms of queue: 500 kB and the packet that is being sent; the machine may add to some of them.
    known_ms = [value for value in rtt_ms if value is not None]
    assert len(known_ms) == len(time_s)
    assert min(known_ms) >= 40
    assert 45 < statistics.median(known_ms) < 85
    time_s, goodput = series(outcome, "goodput")
    assert len(goodput) in (80, 81)
    span = about["schedule"]["bulk"]  # type: ignore[index]
    # Five round trips of 40 ms are before the first interval, whose middle is 50 ms later.
    assert span.start_s + 0.24 < time_s[0] < span.start_s + 1.5
    assert time_s[-1] < span.end_s


@pytest.mark.alone
def test_at_its_limit_it_keeps_its_intervals(tmp_path: Path) -> None:
    table = {"kind": "bulk", "duration": "60s", "direction": "up", "limit": "2s"}
    outcome, about = run_workload(table, KNOWN_PATH, tmp_path)
    assert (outcome.status, outcome.reason) == ("partial", "stopped at its limit of 2 s")
    found = metrics(outcome)
    assert found["goodput"] is not None
    # From 16 segments by a twentieth in each of 45 round trips: 2500 segments, 15 Mbit/s.
    assert 0.1 * RATE_MBPS < found["goodput"] < TCP_SHARE * RATE_MBPS
    assert len(series(outcome, "goodput")[1]) >= 15
    assert about["wall_s"] < 2 + 8  # type: ignore[operator]


@pytest.mark.alone
def test_streams_in_both_directions_use_the_control_that_was_asked_for(tmp_path: Path) -> None:
    table = {"kind": "bulk", "duration": "2s", "direction": "both", "streams": 2, "congestion-control": "reno"}
    outcome, _ = run_workload(table, KNOWN_PATH, tmp_path)
    assert outcome.status == "ok", outcome.reason
    assert outcome.details["congestion_control"] == {"down": "reno", "up": "reno"}
    found = metrics(outcome)
    for towards in ("down", "up"):
        value = found[f"goodput {towards}"]
        assert value is not None
        # Mostly slow start and what it loses; how quick that is depends on the machine.
        assert 0.2 * RATE_MBPS < value < TCP_SHARE * RATE_MBPS
        parts = [series(outcome, f"goodput {towards} stream {number}")[1] for number in (1, 2)]
        both = series(outcome, f"goodput {towards}")[1]
        assert math.isclose(sum(map(sum, parts)), sum(both), rel_tol=0.02)  # type: ignore[arg-type]


@pytest.mark.alone
def test_udp_above_the_rate_loses_what_the_link_does_not_carry(tmp_path: Path) -> None:
    """In 2 s, 120 Mbit/s are offered; the link carries its rate, and its queue holds 500 kB more.

    A machine that is busy makes the sender offer less or in bursts, and the receiver lose some, so the theory is the
    least for what was offered. What was lost is in the books, but for datagrams that are under way when the receiver
    stops counting (0.2 %).
    """
    table = {"kind": "bulk", "duration": "2s", "protocol": "udp", "rate": "120mbit", "direction": "up"}
    outcome, about = run_workload(table, KNOWN_PATH, tmp_path)
    assert outcome.status == "ok", outcome.reason
    found = metrics(outcome)
    assert found["loss"] is not None
    books = cast("dict[str, Any]", about["summary"])
    link = next(each for each in books["links"] if each["name"] == "radio.up")
    server = next(each for each in books["hosts"] if each["name"] == "server")
    carried_bytes = RATE_MBPS * 1e6 / 8 * 2 + 500e3
    assert found["loss"] > 100 * (1 - carried_bytes / link["offered_bytes"]) - 1.5
    lost = link["dropped_segments"]["overflow"] + server["udp_receive_buffer_errors"]
    assert found["loss"] == pytest.approx(100 * lost / link["offered_segments"], abs=0.2)
    assert found["goodput"] is not None
    assert found["goodput"] < UDP_SHARE * RATE_MBPS * 1.01
    assert found["jitter"] is not None


@pytest.mark.alone
def test_udp_below_the_rate_loses_nothing(tmp_path: Path) -> None:
    """Nothing on the path; a receiver that has no time loses some at its socket, which is in the books."""
    table = {"kind": "bulk", "duration": "1s", "protocol": "udp", "rate": "20mbit"}
    outcome, about = run_workload(table, KNOWN_PATH, tmp_path)
    found = metrics(outcome)
    books = cast("dict[str, Any]", about["summary"])
    link = next(each for each in books["links"] if each["name"] == "radio.down")
    client = next(each for each in books["hosts"] if each["name"] == "client")
    assert link["dropped_segments"]["overflow"] == 0
    lost = client["udp_receive_buffer_errors"]
    assert found["loss"] == pytest.approx(100 * lost / link["offered_segments"], abs=0.2 if lost else 0)
    assert found["goodput"] == pytest.approx(20 * (1 - (found["loss"] or 0) / 100), rel=0.1)


def test_an_unknown_congestion_control_fails_with_the_words_of_iperf3(tmp_path: Path) -> None:
    table = {"kind": "bulk", "congestion-control": "nonesuch", "limit": "5s"}
    outcome, _ = run_workload(table, KNOWN_PATH, tmp_path)
    assert outcome.status == "failed"
    assert outcome.reason.startswith("iperf3: unable to set TCP_CONGESTION")


@pytest.mark.alone
def test_a_server_that_dies_fails_it_at_once(tmp_path: Path) -> None:
    killed_at = 0.0

    def kill_server(lab: Laboratory, context: TrialContext) -> None:
        nonlocal killed_at
        time.sleep(1)
        found = lab.server.run(["pidof", "iperf3"], capture_output=True, check=True).stdout.split()
        # The server is older than the client.
        lab.server.run(["kill", "-KILL", str(min(map(int, found)))], check=True)
        killed_at = context.clock.now_s()

    outcome, about = run_workload({"kind": "bulk", "limit": "20s"}, KNOWN_PATH, tmp_path, during=kill_server)
    assert outcome.status == "failed"
    assert "iperf3" in outcome.reason
    assert about["schedule"]["bulk"].end_s < killed_at + 4  # type: ignore[index]


def test_a_path_that_carries_nothing_fails_it_at_its_limit(tmp_path: Path) -> None:
    outcome, about = run_workload({"kind": "bulk", "limit": "1s"}, {**KNOWN_PATH, "loss": "100%"}, tmp_path)
    assert (outcome.status, outcome.reason) == ("failed", "nothing arrived down within 1 s")
    assert about["wall_s"] < 1 + 8  # type: ignore[operator]
