"""What ``drx = "on"`` and ``rrc = "on"`` mean for NR is what a public probe of a mmWave network shows."""

from __future__ import annotations

import cmath
import csv
import math

import pytest
from tests.traces import trace

from wavebed.radio.presets import SLEEP

DRX, RRC = SLEEP["nr"]


@pytest.fixture(scope="module")
def probes(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[float, float]]:
    """Idle time before a probe and its round trip, in milliseconds."""
    path = trace("rrc_probe_verizon_nsa_mmwave.csv", tmp_path_factory.getbasetemp())
    with path.open(encoding="utf-8") as file:
        return [(float(row["interval"]) * 1000, float(row["RTT1"])) for row in csv.DictReader(file)]


def in_step(probes: list[tuple[float, float]], period_ms: float) -> float:
    """Return how well answers keep to one phase of a period: 1 if all do, about 0 by chance (mean resultant length)."""
    turns = [cmath.exp(2j * math.pi * (idle_ms + rtt_ms) / period_ms) for idle_ms, rtt_ms in probes]
    return abs(sum(turns)) / len(turns)


def test_answers_after_long_idling_keep_step_with_paging(probes: list[tuple[float, float]]) -> None:
    idle = [probe for probe in probes if probe[0] >= 13_000]
    periods_ms = range(640, 2561, 80)
    assert max(periods_ms, key=lambda period_ms: in_step(idle, period_ms)) == RRC.paging_ns / 1e6
    assert in_step(idle, RRC.paging_ns / 1e6) > 0.99


def test_answers_of_a_connected_device_keep_step_with_the_long_cycle(probes: list[tuple[float, float]]) -> None:
    connected = [probe for probe in probes if 2000 <= probe[0] < 10_000]
    cycles_ms = (20, 32, 40, 60, 64, 80, 128, 160, 256, 320)
    assert max(cycles_ms, key=lambda cycle_ms: in_step(connected, cycle_ms)) == DRX.long_cycle_ns / 1e6


def test_the_connection_is_released_after_the_inactivity_timer(probes: list[tuple[float, float]]) -> None:
    before = [rtt_ms for idle_ms, rtt_ms in probes if idle_ms < RRC.inactivity_ns / 1e6]
    after = sorted(rtt_ms for idle_ms, rtt_ms in probes if idle_ms >= 13_000)
    assert max(before) < 300
    # The shortest answers met the paging at once: beside an ordinary round trip, what is left is the promotion. A
    # hundredth is left out: in some probes something else had woken the device.
    ordinary_ms = sorted(before)[len(before) // 20]
    assert after[len(after) // 100] - ordinary_ms == pytest.approx(RRC.promotion_ns / 1e6, abs=40)
