"""The offset of another clock and its error, from questions and answers."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.hosts.clocks import ClockBounds, ClockSteppedError

MS = 1_000_000
S = 1_000 * MS


def exchange(bounds: ClockBounds, at_ns: int, ahead_ns: int, there_ns: int, back_ns: int) -> None:
    """Add the answer of a clock that is ahead by this much, over a path with these delays."""
    read_ns = at_ns + there_ns + ahead_ns
    bounds.add(at_ns, read_ns, read_ns + 1000, at_ns + there_ns + 1000 + back_ns)


def test_the_error_is_half_of_the_shortest_round_trip() -> None:
    bounds = ClockBounds()
    exchange(bounds, 0, 50 * MS, 3 * MS, 9 * MS)
    exchange(bounds, 100 * MS, 50 * MS, 200_000, 200_000)
    offset_ns, error_ns = bounds.at(100 * MS)
    assert abs(offset_ns - 50 * MS) <= error_ns
    assert 200_000 <= error_ns <= 201_000


def test_an_asymmetric_path_stays_within_the_error() -> None:
    bounds = ClockBounds()
    exchange(bounds, 0, 50 * MS, 1 * MS, 30 * MS)
    offset_ns, error_ns = bounds.at(0)
    assert abs(offset_ns - 50 * MS) <= error_ns
    assert error_ns > 14 * MS


def test_a_clock_that_was_set_is_noticed() -> None:
    bounds = ClockBounds()
    exchange(bounds, 0, 0, MS, MS)
    assert bounds.is_consistent()
    exchange(bounds, S, 100 * MS, MS, MS)
    assert not bounds.is_consistent()
    with pytest.raises(ClockSteppedError):
        bounds.at(S // 2)


@given(
    drift_ppm=st.floats(-500, 500),
    first_ns=st.integers(-(10**12), 10**12),
    seed=st.integers(0, 2**32),
    at_s=st.floats(0, 60),
)
def test_the_stated_error_is_never_exceeded(drift_ppm: float, first_ns: int, seed: int, at_s: float) -> None:
    draw = random.Random(seed)
    bounds = ClockBounds()

    def ahead_ns(at_ns: int) -> int:
        return first_ns + round(drift_ppm * 1e-6 * at_ns)

    for second in range(0, 60, 2):
        there_ns, back_ns = draw.randrange(100_000, 40 * MS), draw.randrange(100_000, 40 * MS)
        asked_ns = second * S
        read_ns = asked_ns + there_ns + ahead_ns(asked_ns + there_ns)
        bounds.add(asked_ns, read_ns, read_ns, asked_ns + there_ns + back_ns)
    at_ns = round(at_s * S)
    offset_ns, error_ns = bounds.at(at_ns)
    assert abs(offset_ns - ahead_ns(at_ns)) <= error_ns + 1
    assert bounds.is_consistent()


def test_a_thousand_answers_cost_no_more_than_their_number() -> None:
    bounds = ClockBounds()
    for number in range(1000):
        exchange(bounds, number * S, 5 * MS, 100_000, 100_000)
    answers = [bounds.at(number * S // 10) for number in range(10_000)]
    assert all(abs(offset_ns - 5 * MS) <= error_ns for offset_ns, error_ns in answers)
