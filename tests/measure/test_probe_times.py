"""Times of `latency` and `voice` on a known path: idle the round trip, beside a full queue the queue as well."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.lab.workload_trial import run_scenario
from tests.measure.known_path import KNOWN_PATH

if TYPE_CHECKING:
    from pathlib import Path


def test_idle_probes_take_the_round_trip_of_the_path(tmp_path: Path) -> None:
    text = '[[workload]]\nkind = "latency"\nprobe = "both"\nduration = "2s"\ninterval = "10ms"\n'
    trial = run_scenario(KNOWN_PATH + text, tmp_path)
    found = trial.metrics()
    assert trial.outcome().status == "ok"
    # 40 ms of delay; a busy machine adds some, never takes any away. ping rounds to 0.1 ms.
    for name in ("rtt idle p50", "udp rtt idle p50"):
        assert 39.9 <= found[name] < 50
    for name in ("one-way delay up idle p50", "one-way delay down idle p50"):
        assert 20 <= found[name] < 26
    assert found["probe loss"] == found["udp probe loss"] == 0
    assert found["rtt loaded p50"] is None
    assert found["loaded latency increase p50"] is None
    assert found["probe loss loaded"] is None


def test_a_full_queue_shows_in_the_loaded_window_alone(tmp_path: Path) -> None:
    # More than the link carries: its queue is full after 0.2 s. When TCP fills one is random.
    load = 'kind = "bulk"\nprotocol = "udp"\nrate = "120mbit"\ndirection = "down"\nduration = "3s"\nstart = "1s"\n'
    text = f'{KNOWN_PATH}[[workload]]\nkind = "latency"\nprobe = "both"\n[[workload]]\n{load}'
    trial = run_scenario(text, tmp_path)
    found = trial.metrics()
    # The queue holds 40 ms at 100 Mbit/s; what a busy machine adds comes on top.
    for probe in ("", "udp "):
        assert 39.9 <= found[f"{probe}rtt idle p50"] < 50
        loaded = found[f"{probe}rtt loaded p50"]
        assert 50 < loaded < 95
        assert found[f"{probe}loaded latency increase p50"] == pytest.approx(loaded - found[f"{probe}rtt idle p50"])
    # Only the downlink has a queue.
    up, down = found["loaded one-way delay increase up p50"], found["loaded one-way delay increase down p50"]
    assert down > 10
    assert up < down / 2
    said = cast("dict[str, Any]", trial.outcome().details["icmp"])["ping said"]
    average, mdev = (float(part) for part in re.findall(r"= [0-9.]+/([0-9.]+)/[0-9.]+/([0-9.]+) ms", said)[0])
    # ping sums in microseconds what it prints with three digits.
    assert found["rtt average"] == pytest.approx(average, abs=0.1)
    assert found["rtt mdev"] == pytest.approx(mdev, abs=0.1)


def test_fresh_connections_take_a_round_trip_for_each_of_their_parts(tmp_path: Path) -> None:
    text = '[[workload]]\nkind = "latency"\nduration = "4s"\nrpm = true\n'
    trial = run_scenario(KNOWN_PATH + text, tmp_path)
    found = trial.metrics()
    assert trial.outcome().status == "ok"
    assert found["rpm failed"] == 0
    assert 40 <= found["rpm tcp_f idle"] < 50
    # The processor's part in TLS and HTTP comes on top of the round trip.
    for part in ("tls_f", "http_f"):
        assert 40 <= found[f"rpm {part} idle"] < 200
    assert 60_000 / 150 < found["rpm foreign idle"] < 60_000 / 40


def test_voice_takes_the_delay_of_the_path(tmp_path: Path) -> None:
    trial = run_scenario(KNOWN_PATH + '[[workload]]\nkind = "voice"\nduration = "2s"\n', tmp_path)
    found = trial.metrics()
    assert trial.outcome().status == "ok"
    for direction in ("down", "up"):
        assert found[f"packet loss {direction}"] == 0
        # 20 ms of delay; a busy machine adds some.
        assert 20 <= found[f"one-way delay {direction} p50"] < 26
        # 20 ms of speech, the least delay of the path, 60 ms of buffer.
        assert 100 <= found[f"mouth-to-ear delay {direction}"] < 106
