"""Probes on a known path: idle they take the round trip, beside a full queue they take the queue as well."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from workload_harness import KNOWN_PATH, metrics, run_workload, run_workloads

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.alone
def test_idle_probes_take_the_round_trip_of_the_path(tmp_path: Path) -> None:
    table = {"kind": "latency", "probe": "both", "duration": "2s", "interval": "10ms"}
    outcome, _ = run_workload(table, KNOWN_PATH, tmp_path)
    found = metrics(outcome)
    assert outcome.status == "ok"
    # 40 ms of delay; a busy machine adds some, never takes any away. ping rounds to 0.1 ms.
    for name in ("rtt idle p50", "udp rtt idle p50"):
        assert 39.9 <= (found[name] or 0) < 50
    for name in ("one-way delay up idle p50", "one-way delay down idle p50"):
        assert 20 <= (found[name] or 0) < 26
    assert found["probe loss"] == found["udp probe loss"] == 0
    assert found["rtt loaded p50"] is None
    assert found["loaded latency increase p50"] is None
    assert found["probe loss loaded"] is None


def test_probes_have_the_size_that_is_asked_for(tmp_path: Path) -> None:
    table = {"kind": "latency", "probe": "udp", "duration": "1s", "interval": "10ms", "udp-size": "1200b"}
    outcome, _ = run_workload(table, KNOWN_PATH, tmp_path)
    assert outcome.status == "ok"
    (file,) = tmp_path.rglob("irtt.json")
    found = json.loads(file.read_text(encoding="utf-8"))
    assert found["config"]["params"]["length"] == 1172  # what client and server agreed on: without IPv4 and UDP
    assert len(found["round_trips"]) >= 50


@pytest.mark.alone
def test_a_full_queue_shows_in_the_loaded_window_alone(tmp_path: Path) -> None:
    tables = [
        {"kind": "latency", "probe": "both"},
        # More than the link carries: its queue is full after 0.2 s. When TCP fills one is random.
        {"kind": "bulk", "protocol": "udp", "rate": "120mbit", "direction": "down", "duration": "3s", "start": "1s"},
    ]
    outcomes, _ = run_workloads(tables, KNOWN_PATH, tmp_path)
    found = metrics(outcomes["latency"])
    # The queue holds 40 ms at 100 Mbit/s; what a busy machine adds comes on top.
    for probe in ("", "udp "):
        assert 39.9 <= (found[f"{probe}rtt idle p50"] or 0) < 50
        loaded, increase = found[f"{probe}rtt loaded p50"], found[f"{probe}loaded latency increase p50"]
        assert loaded is not None
        assert increase is not None
        assert 50 < loaded < 95
        assert increase == pytest.approx(loaded - (found[f"{probe}rtt idle p50"] or 0))
    # Only the downlink has a queue.
    up, down = found["loaded one-way delay increase up p50"], found["loaded one-way delay increase down p50"]
    assert up is not None
    assert down is not None
    assert down > 10
    assert up < down / 2
    ping_said = outcomes["latency"].details["icmp"]["ping said"]  # type: ignore[index, call-overload]
    average, mdev = (float(part) for part in re.findall(r"= [0-9.]+/([0-9.]+)/[0-9.]+/([0-9.]+) ms", str(ping_said))[0])
    # ping sums in microseconds what it prints with three digits.
    assert found["rtt average"] == pytest.approx(average, abs=0.1)
    assert found["rtt mdev"] == pytest.approx(mdev, abs=0.1)


def test_lost_probes_are_counted_and_missing(tmp_path: Path) -> None:
    table = {"kind": "latency", "probe": "both", "duration": "4s", "interval": "5ms"}
    outcome, _ = run_workload(table, {**KNOWN_PATH, "up_loss": "10%"}, tmp_path)
    found = metrics(outcome)
    # Some 700 probes of each kind: four standard deviations of 10 % are 4.5 points.
    for name in ("probe loss", "udp probe loss"):
        assert found[name] == pytest.approx(10, abs=4.5)
    (rtt,) = (series for series in outcome.series if series.name == "rtt")
    lost = sum(value is None for value in rtt.value)
    assert found["probe loss"] == pytest.approx(100 * lost / len(rtt.value))
    assert list(rtt.time_s) == sorted(rtt.time_s)


@pytest.mark.alone
def test_fresh_connections_take_a_round_trip_for_each_of_their_parts(tmp_path: Path) -> None:
    table = {"kind": "latency", "duration": "4s", "rpm": True}
    outcome, _ = run_workload(table, KNOWN_PATH, tmp_path)
    found = metrics(outcome)
    assert outcome.status == "ok"
    assert found["rpm failed"] == 0
    assert 40 <= (found["rpm tcp_f idle"] or 0) < 50
    # The processor's part in TLS and HTTP comes on top of the round trip.
    for part in ("tls_f", "http_f"):
        assert 40 <= (found[f"rpm {part} idle"] or 0) < 200
    assert 60_000 / 150 < (found["rpm foreign idle"] or 0) < 60_000 / 40
