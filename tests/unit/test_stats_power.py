"""Advice on the number of blocks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import nct

from wavebed.stats.intervals import fewest_pairs, signed_rank_interval
from wavebed.stats.power import MOST, advise


def test_the_size_is_that_of_the_non_central_t_distribution() -> None:
    pilot = np.random.default_rng(1).normal(0, 2, 10)
    spread = pilot.std(ddof=1)
    expected = (spread / 1.5 * nct.ppf(0.8, 9, 1.959964)) ** 2 * np.pi / 3 + 1.959964**2 / 2
    found = advise(pilot.tolist(), 1.5)
    assert found.blocks == int(np.ceil(expected))
    assert found.spread == pytest.approx(spread)
    assert found.reason is None


def test_a_certain_pilot_needs_what_the_textbook_says() -> None:
    """The normal distribution: ((1.96 + 0.84) / 0.5)² / 0.955 + 1.92."""
    pilot = np.random.default_rng(2).normal(0, 1, 20_000)
    found = advise(pilot.tolist(), 0.5)
    assert found.blocks == pytest.approx(34.8, abs=1.5)


def test_more_primaries_more_power_and_smaller_margins_need_more_blocks() -> None:
    pilot = np.random.default_rng(3).normal(0, 1, 15).tolist()
    sizes = [
        advise(pilot, 1.0).blocks,
        advise(pilot, 1.0, primaries=3).blocks,
        advise(pilot, 0.5, primaries=3).blocks,
        advise(pilot, 0.5, power=0.9, primaries=3).blocks,
    ]
    assert None not in sizes
    assert sizes == sorted(set(sizes), key=lambda each: each or 0)


def test_a_pilot_without_spread_or_margin_bears_no_advice() -> None:
    assert (advise([2.0] * 10, 1.0).blocks, advise([2.0] * 10, 1.0).reason) == (None, "constant")
    assert advise([1.0, 2.0, 3.0, 4.0], 1.0).reason == "too-few"
    assert advise([1.0, 2.0, 3.0, 4.0, 6.0], None).reason == "no-margin"
    assert advise([1.0, 2.0, 3.0, 4.0, 6.0], 0.0).reason == "no-margin"
    found = advise([1.0, 2.0, 3.0, 4.0, 6.0], 1e-4)
    assert (found.blocks, found.reason) == (None, "too-many")
    assert MOST == 100_000


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99, 1 - 0.05 / 3])
def test_no_advice_is_below_the_pairs_that_an_interval_needs(level: float) -> None:
    pilot = [0.0, 0.001, 0.002, 0.001, 0.0015]
    blocks = advise(pilot, 10.0, level).blocks
    assert blocks == fewest_pairs(level)
    assert signed_rank_interval(list(range(blocks)), level).low is not None
    assert signed_rank_interval(list(range(blocks - 1)), level).low is None
