"""Intervals of medians and differences, against published tables and exact counts."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import quantile_test, wilcoxon

from wavebed.stats.intervals import (
    Interval,
    cliffs_delta,
    independent_difference,
    median_interval,
    paired_difference,
)


@pytest.mark.parametrize(
    ("count", "low", "high", "covered"),
    [  # Ranks and coverage of the sign test's interval at 95 %, as in Conover's and Hahn and Meeker's tables.
        (6, 1, 6, 0.9688),
        (8, 1, 8, 0.9922),
        (9, 2, 8, 0.9609),
        (10, 2, 9, 0.9785),
        (20, 6, 15, 0.9586),
        (30, 10, 21, 0.9572),
    ],
)
def test_the_interval_of_the_median_has_the_ranks_of_the_binomial(count, low, high, covered) -> None:
    found = median_interval([float(value) for value in reversed(range(1, count + 1))])
    assert (found.low, found.high, found.count) == (low, high, count)
    assert found.level == pytest.approx(covered, abs=5e-5)
    assert found.estimate == (count + 1) / 2


def test_too_few_values_have_a_median_and_no_interval() -> None:
    assert median_interval([3.0, 1.0, 2.0, 5.0, 4.0]) == Interval(3.0, None, None, None, 5)
    assert median_interval([]) == Interval(None, None, None, None, 0)


def test_more_values_than_a_float_can_count_ways_for_have_an_interval() -> None:
    found = median_interval([float(value) for value in range(2000)])
    # 1.96 standard deviations of the binomial are 44 ranks.
    assert (found.low, found.high) == (pytest.approx(955, abs=1), pytest.approx(1044, abs=1))


@pytest.mark.parametrize(
    ("count", "critical"),
    [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (12, 13), (15, 25), (20, 52), (25, 89), (30, 137)],
)
def test_the_interval_of_pairs_has_the_critical_values_of_wilcoxons_table(count: int, critical: int) -> None:
    # Two-sided 5 %; differences of 1, 2, 4, 8 … have Walsh averages that are all different.
    differences = [float(2**place) for place in range(count)]
    walsh = sorted((a + b) / 2 for at, a in enumerate(differences) for b in differences[at:])
    found = paired_difference([0.0] * count, differences)
    assert found.low == walsh[critical]
    assert found.high == walsh[-1 - critical]
    assert found.level is not None
    assert found.level >= 0.95


def test_many_pairs_have_the_interval_of_the_normal_distribution_and_take_no_minutes() -> None:
    count = 800
    generator = np.random.default_rng(1)
    found = paired_difference([0.0] * count, list(generator.normal(size=count)))
    assert found.level == pytest.approx(0.95, abs=1e-4)
    # Wilcoxon's estimate is nearly as sharp as the mean: 1.96 / sqrt(0.955 n).
    assert found.low is not None
    assert found.high is not None
    assert (found.high - found.low) / 2 == pytest.approx(1.96 / np.sqrt(0.955 * count), rel=0.1)


def test_the_coverage_of_the_interval_of_pairs_is_the_count_of_signs_within_it() -> None:
    # All 2^8 assignments of signs: the interval covers 0 where neither all nor nearly all differences have one sign.
    ranks = [float(2**place) for place in range(8)]
    covers = 0
    for signs in product((-1, 1), repeat=8):
        found = paired_difference([0.0] * 8, [sign * rank for sign, rank in zip(signs, ranks, strict=True)])
        assert found.low is not None
        assert found.high is not None
        covers += found.low <= 0 <= found.high
    assert covers / 2**8 == paired_difference([0.0] * 8, ranks).level


def test_the_estimate_of_pairs_is_the_median_of_walsh_averages() -> None:
    # Hollander and Wolfe's depression data (example 3.1): theta = -0.46, interval [-0.786, -0.010] at 96.1 %.
    before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
    after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
    found = paired_difference(before, after)
    assert found.estimate == pytest.approx(-0.46)
    assert (found.low, found.high) == (pytest.approx(-0.786), pytest.approx(-0.010))
    assert found.level == pytest.approx(0.961, abs=5e-4)


@pytest.mark.parametrize("count", [5, 6, 7, 12, 25, 60])
def test_intervals_agree_with_the_tests_of_scipy(count: int) -> None:
    generator = np.random.default_rng(count)
    for shift in np.linspace(-1.0, 1.0, 9):
        values = generator.normal(shift, 1.0, count)
        by_order = quantile_test(values).confidence_interval(0.95)
        found = median_interval(values.tolist())
        assert np.array_equal([by_order.low, by_order.high], np.array([found.low, found.high], float), equal_nan=True)
        paired = paired_difference([0.0] * count, values.tolist())
        leaves_out_0 = paired.low is not None and paired.high is not None and not paired.low <= 0 <= paired.high
        assert leaves_out_0 == (wilcoxon(values, method="exact").pvalue <= 0.05)


def test_few_pairs_have_no_interval_and_unequal_numbers_are_no_pairs() -> None:
    assert paired_difference([1.0, 1.0], [2.0, 3.0]) == Interval(1.5, None, None, None, 2)
    assert paired_difference([], []) == Interval(None, None, None, None, 0)
    with pytest.raises(ValueError, match="3 and 2 values are not pairs"):
        paired_difference([1, 2, 3], [1, 2])


@pytest.mark.parametrize(
    ("a", "b", "delta"),
    [([1, 2, 3], [4, 5, 6], 1.0), ([4, 5], [1, 2], -1.0), ([1, 2, 3], [1, 2, 3], 0.0), ([1, 2], [2, 3], 0.75)],
)
def test_cliffs_delta_counts_the_pairs(a: list[float], b: list[float], delta: float) -> None:
    by_hand = sum((y > x) - (y < x) for x in a for y in b) / (len(a) * len(b))
    assert cliffs_delta(a, b) == by_hand == delta
    assert cliffs_delta([], b) is None


def test_the_bootstrap_gives_the_same_interval_for_the_same_values() -> None:
    a, b = [1.0, 5.0, 2.0, 8.0, 3.0], [9.0, 4.0, 7.0, 6.0, 12.0]
    found = independent_difference(a, b)
    assert found == independent_difference(a, b)
    assert found.medians.estimate == 4.0
    assert found.medians.low is not None
    assert found.medians.high is not None
    assert found.medians.low <= 4.0 <= found.medians.high


def test_samples_of_nothing_or_of_one_have_no_interval() -> None:
    assert independent_difference([], [1.0]).medians == Interval(None, None, None, None, 0)
    assert independent_difference([1.0], [3.0]).medians == Interval(2.0, None, None, None, 1)
