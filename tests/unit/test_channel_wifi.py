"""Sector sweeps of 802.11ad against hand-made timelines; periods of 1 ms."""

from __future__ import annotations

import numpy as np
import pytest

from wavebed.channel.serving import Link
from wavebed.channel.wifi import BEACON_S, LOST_S, follow_sectors, sweep_s

PERIOD_S = 0.001
TRAINING_S = sweep_s(34, 34)


def beam(*levels: tuple[float, float]) -> np.ndarray:
    """SINR in dB of one beam for 2 s: (from, value)."""
    values = np.empty(2000)
    for start_s, level in levels:
        values[round(start_s / PERIOD_S) :] = level
    return values


def follow(*beams: np.ndarray) -> list[tuple[float, Link, int]]:
    phases = follow_sectors(np.stack(beams), PERIOD_S, 1.0, TRAINING_S)
    return [(p.start_s, p.link, p.beam) for p in phases]


def test_a_sweep_of_34_sectors_on_both_sides_takes_1_27_ms():
    assert sweep_s(34, 34) == pytest.approx(1.27e-3, abs=5e-6)


def test_a_lost_beam_is_replaced_after_detection_and_one_sweep():
    got = follow(beam((0, 20), (0.95, -20)), beam((0, 8)))
    lost_s = 0.95 + LOST_S - PERIOD_S
    assert got == [
        (0.0, Link.CONNECTED, 0),
        (pytest.approx(lost_s), Link.OUTAGE, 1),
        (pytest.approx(lost_s + TRAINING_S), Link.CONNECTED, 1),
    ]


def test_the_first_beacon_after_the_obstacle_has_gone_brings_the_better_beam_back():
    got = follow(beam((0, 20), (0.95, -20), (1.3, 20)), beam((0, 8)))
    start_s, link, used = got[3]
    assert (link, used) == (Link.CONNECTED, 0)
    assert 1.3 <= start_s <= 1.3 + BEACON_S


def test_without_another_beam_each_beacon_tries_again():
    got = follow(beam((0, 20), (0.95, -20), (1.3, 20)))
    assert [link for _, link, _ in got] == [Link.CONNECTED, Link.OUTAGE, Link.CONNECTED]
    assert 1.3 + TRAINING_S <= got[2][0] <= 1.3 + BEACON_S + TRAINING_S


def test_a_short_fade_is_not_a_lost_beam():
    assert follow(beam((0, 20), (0.95, -20), (0.955, 20)), beam((0, 8))) == [(0.0, Link.CONNECTED, 0)]
