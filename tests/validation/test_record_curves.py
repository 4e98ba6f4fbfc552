"""The curves of recordings over links whose rate, delay, loss and outages are known."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.test_record_curves import BITS, HEADER, MS, NO_DRIFT, PAYLOAD, Link, cycles  # noqa: F401

from wavebed.record.build import direction, joined, split_delays


def test_rate_and_delay_of_a_constant_link_are_found() -> None:
    found = cycles(Link(lambda _: 50e6))
    known = found.rate_bps[~np.isnan(found.rate_bps)]
    assert np.median(known) == pytest.approx(50e6, rel=0.01)
    assert known.mean() == pytest.approx(50e6, rel=0.01)
    assert np.median(found.delay_ns) / 1e6 == pytest.approx(15.0, abs=0.1)
    assert np.median(found.train_bps) == pytest.approx(50e6, rel=0.01)
    assert found.busy_ns > 0.9 * found.heavy_ns


def test_recordings_are_joined_one_after_the_other() -> None:
    slow, fast = (direction(cycles(Link(lambda _, rate=rate: rate)), "down") for rate in (10e6, 90e6))
    both = joined([slow, fast])
    assert len(both) == len(slow) + len(fast)
    assert np.median(both.rate_bps[: len(slow)]) == pytest.approx(10e6, rel=0.02)
    assert np.median(both.rate_bps[len(slow) :]) == pytest.approx(90e6, rel=0.02)


def test_unknown_clocks_split_the_round_trip_in_halves() -> None:
    near, far = (direction(cycles(Link(lambda _: 50e6, delay_ns=delay * MS)), "down") for delay in (10, 30))
    assert split_delays(near, far) / 1e6 == pytest.approx(10, abs=0.1)
