"""Independent samples: Mann-Whitney, medians by bootstrap, Cliff's delta with its interval."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from wavebed.stats.independent import delta_interval, independent_finding
from wavebed.stats.verdict import Margin


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
