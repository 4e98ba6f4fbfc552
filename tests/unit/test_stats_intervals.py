"""Intervals, and tests of single comparisons: pairs, independent samples, drift, exclusions, distances."""

from __future__ import annotations

from itertools import product
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from real_traces_data import Runs, ks_distance, mahimahi, outages
from scipy.stats import PermutationMethod, fisher_exact, kendalltau, mannwhitneyu, quantile_test, wilcoxon

from wavebed.stats.family import drift
from wavebed.stats.independent import delta_interval, independent_finding
from wavebed.stats.intervals import (
    Interval,
    cliffs_delta,
    independent_difference,
    median_interval,
    paired_difference,
)
from wavebed.stats.paired import SignedRanks, exclusions, paired_finding, signed_rank_p, worst_case
from wavebed.stats.verdict import Margin, needed, percentile

if TYPE_CHECKING:
    from pathlib import Path


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


@pytest.mark.parametrize("count", [1, 5, 6, 12, 40])
def test_the_p_value_is_scipys_exact_one(count: int) -> None:
    for seed in range(20):
        differences = np.random.default_rng(seed).normal(0.3, 1, count)
        assert signed_rank_p(differences) == pytest.approx(wilcoxon(differences, method="exact").pvalue, rel=1e-9)


def test_with_ties_and_zeros_the_p_value_is_that_of_all_signs() -> None:
    every = PermutationMethod(n_resamples=np.inf)
    for seed in range(5):
        differences = np.round(np.random.default_rng(seed).normal(0.5, 1.2, 9))
        expected = wilcoxon(differences, zero_method="pratt", method=every).pvalue
        assert signed_rank_p(differences) == pytest.approx(expected, rel=1e-9)


def test_without_a_difference_other_than_0_the_p_value_is_1() -> None:
    assert signed_rank_p([]) == 1
    assert signed_rank_p([0.0] * 8) == 1


@given(st.lists(st.floats(-100, 100, allow_nan=False), min_size=6, max_size=25, unique_by=abs))
def test_the_interval_excludes_0_exactly_if_the_p_value_is_at_most_5_percent(differences: list[float]) -> None:
    values = [value for value in differences if abs(value) > 1e-6]
    interval = SignedRanks().interval(values)
    if interval.low is not None and interval.high is not None:
        assert (interval.low > 0 or interval.high < 0) == (signed_rank_p(values) <= 0.05)


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=6, max_size=30))
def test_samples_that_change_places_change_the_sign_only(pairs: list[tuple[int, int]]) -> None:
    first, second = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    found, turned = paired_finding(first, second), paired_finding(second, first)
    assert found.low is not None
    assert turned.high is not None
    assert (found.p, found.low, found.estimate) == (turned.p, -turned.high, -(turned.estimate or 0.0))


def test_the_p_value_is_that_of_mann_and_whitney_and_the_interval_that_of_the_medians() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(10, 1, 15), rng.normal(13, 1, 12)
    found = independent_finding(a.tolist(), b.tolist(), Margin(0.05, relative=True), "higher")
    assert found.finding.p == pytest.approx(mannwhitneyu(a, b).pvalue)
    assert found.finding.estimate == pytest.approx(np.median(b) / np.median(a), rel=0.02)
    assert (found.finding.verdict, found.finding.scale, found.finding.count) == ("better", "ratio", 12)
    assert found.finding.low is not None
    assert found.finding.low < found.finding.estimate < (found.finding.high or 0)


def test_samples_that_do_not_vary_are_equal_or_different() -> None:
    same = independent_finding([5.0] * 8, [5.0] * 7, Margin(0.1), "lower")
    assert (same.finding.verdict, same.finding.p, same.finding.constant) == ("equal", 1.0, True)
    assert same.delta.estimate == 0
    other = independent_finding([5.0] * 8, [6.0] * 7, Margin(0.1), "lower")
    assert (other.finding.verdict, other.finding.low, other.finding.high) == ("worse", 1.0, 1.0)
    few = independent_finding([5.0] * 3, [6.0] * 3, Margin(0.1), "lower")
    assert (few.finding.verdict, few.finding.low, few.finding.settled) == ("worse", None, False)


def test_few_values_are_undecided_and_none_are_nothing() -> None:
    few = independent_finding([1.0, 2.0, 3.0], [7.0, 8.0, 9.5]).finding
    assert (few.verdict, few.estimate, few.low, few.reason) == ("undecided", 6.0, None, "too-few")
    nothing = independent_finding([], [1.0]).finding
    assert (nothing.verdict, nothing.estimate, nothing.p) == ("undecided", None, None)


@pytest.mark.parametrize(("shift", "least"), [(0.0, 0.93), (0.8, 0.93), (2.0, 0.88)])
def test_the_interval_of_the_delta_covers(shift: float, least: float) -> None:
    """1000 pairs of samples; two standard errors of 95 % are 1.4 %. Near a delta of 1 it is too narrow: 90 %."""
    rng = np.random.default_rng(2)
    true = 2 * NormalDist().cdf(shift / 2**0.5) - 1
    hits = []
    for _ in range(1000):
        found = delta_interval(rng.normal(0, 1, 15).tolist(), rng.normal(shift, 1, 15).tolist())
        assert found.low is not None
        assert found.high is not None
        hits.append(found.low <= true <= found.high)
    assert np.mean(hits) > least


def test_separate_samples_have_a_delta_of_1_and_a_lower_bound_below() -> None:
    found = delta_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [7.0, 8.0, 9.0, 10.0, 11.0, 12.0])
    assert (found.estimate, found.high) == (1.0, 1.0)
    assert found.low is not None
    assert 0 < found.low < 1
    turned = delta_interval([7.0, 8.0, 9.0, 10.0, 11.0, 12.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert (turned.low, turned.high) == (-1.0, -found.low)


def test_values_that_rise_with_the_blocks_drift() -> None:
    rng = np.random.default_rng(1)
    values = (np.arange(20) * 0.5 + rng.normal(0, 1, 20)).tolist()
    found = drift(values)
    assert (found.code, found.count) == ("rising", 20)
    assert found.p == pytest.approx(kendalltau(range(20), values).pvalue)
    assert found.slope == pytest.approx(0.5, abs=0.1)
    assert drift([-value for value in values]).code == "falling"


def test_constant_and_few_values_bear_no_drift_test() -> None:
    assert drift([5.0] * 10).code == "constant"
    assert drift([1.0, 2.0, 3.0, 4.0]).code == "too-few"
    assert drift([1.0, 2.0, 3.0, 4.0, 5.0]).code == "rising"


def test_exclusions_of_two_treatments_are_judged_by_fishers_test() -> None:
    found = exclusions({"a": (1, 20), "b": (9, 20)})
    assert (found.code, found.method.name) == ("differ", "fisher-exact")
    assert found.p == pytest.approx(fisher_exact([[1, 19], [9, 11]]).pvalue)
    assert exclusions({"a": (1, 20), "b": (2, 20)}).code == "alike"
    assert exclusions({"a": (0, 20), "b": (0, 20)}).code == "none"
    assert exclusions({"a": (3, 3), "b": (4, 4)}).p == 1


A = [10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0]
B = [value + 3 + 0.1 * place for place, value in enumerate(A)]


def test_without_missing_values_the_worst_case_is_the_finding() -> None:
    found, plain = worst_case(A, B, Margin(1.0), "lower"), paired_finding(A, B, Margin(1.0), "lower")
    assert found is not None
    assert (found.verdict, found.low, found.high, found.p) == (plain.verdict, plain.low, plain.high, plain.p)


def test_missing_values_widen_the_interval_to_what_they_could_be() -> None:
    missing = [None, *B[1:9], None]
    found = worst_case(A, missing, Margin(1.0), "lower")
    least, most = 10.0, max(B[:9])  # of all observed values
    low = paired_finding(A, [least, *B[1:9], least]).low
    high = paired_finding(A, [most, *B[1:9], most]).high
    assert found is not None
    assert (found.low, found.high, found.count) == (low, high, 10)
    assert found.low < paired_finding(A[1:9], B[1:9]).low
    assert found.estimate == paired_finding(A[1:9], B[1:9]).estimate


def test_many_missing_values_leave_nothing_decided() -> None:
    found = worst_case(A, [None] * 6 + B[6:], Margin(1.0), "lower", bounds=(0.0, 100.0))
    assert found is not None
    assert found.verdict == "undecided"
    assert worst_case([None], [None]) is None
    with pytest.raises(ValueError, match="beyond the bounds"):
        worst_case(A, B, bounds=(0.0, 5.0))


def test_values_that_could_be_0_have_no_ratio() -> None:
    relative = Margin(0.05, relative=True)
    ratio, difference = (
        worst_case(A, [*B[:9], None], relative),
        worst_case(A, [*B[:9], None], relative, bounds=(0.0, 30.0)),
    )
    assert ratio is not None
    assert difference is not None
    assert (ratio.scale, difference.scale) == ("ratio", "difference")


@pytest.mark.parametrize(("probability", "count"), [(0.9, 29), (0.95, 59), (0.99, 299), (0.5, 5), (0.1, 29)])
def test_a_percentile_needs_its_number_of_values(probability: float, count: int) -> None:
    assert needed(probability) == count
    values = [float(value) for value in range(count)]
    assert percentile(values, probability).estimate is not None
    short = percentile(values[1:], probability)
    assert (short.estimate, short.low, short.high, short.reason, short.needed) == (None, None, None, "too-few", count)


@pytest.mark.parametrize("count", [60, 100, 333])
def test_the_bounds_are_those_of_scipys_quantile_test(count: int) -> None:
    values = np.random.default_rng(3).exponential(size=count)
    found = percentile(values.tolist(), 0.9, sides="upper")
    assert found.high == quantile_test(values, q=0, p=0.9, alternative="less").confidence_interval(0.95).high
    both = percentile(values.tolist(), 0.9, sides="both")
    expected = quantile_test(values, q=0, p=0.9).confidence_interval(0.95)
    assert (both.low, both.high) == (expected.low, expected.high)
    assert both.level is not None
    assert both.level >= 0.95


def test_a_probability_of_1_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="not above 0 and below 1"):
        needed(1.0)


def numbers(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)


def test_a_sample_has_no_distance_from_itself_in_any_order_and_number() -> None:
    assert ks_distance(numbers(1, 2, 3), numbers(3, 1, 2, 1, 2, 3)) == 0


def test_samples_that_do_not_meet_are_one_apart() -> None:
    assert ks_distance(numbers(1, 2), numbers(3, 4, 5)) == 1
    assert ks_distance(numbers(3, 4, 5), numbers(1, 2)) == 1


def test_the_greatest_distance_counts_and_ties_are_jumped_at_once() -> None:
    assert ks_distance(numbers(1, 2, 3, 4), numbers(3, 4, 5, 6)) == 0.5
    assert ks_distance(numbers(1, 1, 1, 2), numbers(1, 2, 2, 2)) == 0.5
    assert ks_distance(numbers(0), numbers(-1, 0, 1, 2)) == 0.5


def test_two_draws_of_one_distribution_are_as_near_as_kolmogorov_says() -> None:
    chance = np.random.default_rng(1)
    one, other = chance.normal(size=4000), chance.normal(size=1000)
    scale = (1 / 4000 + 1 / 1000) ** 0.5
    assert ks_distance(one, other) < 1.95 * scale  # exceeded once in a thousand
    assert ks_distance(one, other + 0.5) > 1.95 * scale


def test_nothing_has_no_distribution() -> None:
    with pytest.raises(ValueError, match="samples"):
        ks_distance(numbers(), numbers(1))


def test_times_below_a_threshold_do_not_run_from_one_walk_into_the_next() -> None:
    found = outages(Runs("walks", (numbers(9, 1, 1, 5, 0), numbers(4, 4, 4, 9, 9))), 5)
    assert found.lengths_s.tolist() == [2, 1, 3]
    assert found.fraction == 0.6


def test_opportunities_are_counted_by_whole_second(tmp_path: Path) -> None:
    (tmp_path / "trace").write_text("0\n999\n1000\n2999\n3000\n")
    rates = mahimahi(tmp_path, "trace").rates
    assert rates.tolist() == pytest.approx([0.024, 0.012, 0.012])
