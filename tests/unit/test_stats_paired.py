"""Signed ranks of pairs, against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import PermutationMethod, wilcoxon

from wavebed.stats.paired import SignedRanks, paired_finding, signed_rank_p


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
