"""Drift, exclusions, percentiles."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import fisher_exact, kendalltau, quantile_test

from wavebed.stats.drift import drift
from wavebed.stats.exclusions import exclusions, worst_case
from wavebed.stats.paired import paired_finding
from wavebed.stats.percentiles import needed, percentile
from wavebed.stats.verdict import Margin


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
