"""Verdicts: the rule of margin and interval, samples that do not vary, the scale of a relative margin."""

from __future__ import annotations

import math
from importlib.metadata import version

import pytest

from wavebed.stats.anytime import Anytime
from wavebed.stats.methods import FORMULAS, method
from wavebed.stats.paired import SignedRanks, paired_finding
from wavebed.stats.verdict import Margin, judge


@pytest.mark.parametrize(
    ("low", "high", "margin", "better", "verdict"),
    [
        (1.0, 3.0, None, "lower", "worse"),
        (1.0, 3.0, None, "higher", "better"),
        (-3.0, -1.0, None, "lower", "better"),
        (-3.0, -1.0, None, "higher", "worse"),
        (1.0, 3.0, None, None, "different"),
        (-1.0, 3.0, None, "lower", "undecided"),
        (0.0, 3.0, None, "lower", "undecided"),  # 0 is in the interval
        (-1.0, 1.0, 1.0, "lower", "equivalent"),  # the ends belong to the margin
        (0.2, 0.8, 1.0, "lower", "equivalent"),  # a difference, but none that matters
        (0.2, 1.1, 1.0, "lower", "worse"),
        (-0.2, 1.1, 1.0, "lower", "undecided"),
        (0.0, 0.0, 0.0, "lower", "equivalent"),
        (None, None, 1.0, "lower", "undecided"),
    ],
)
def test_the_interval_and_the_margin_decide(low, high, margin, better, verdict) -> None:
    assert judge(low, high, margin, better) == verdict


def test_an_interval_that_ends_at_0_excludes_it_if_the_exact_test_does() -> None:
    assert judge(0.0, 3.0, None, "lower", rejected=True) == "worse"
    assert judge(-3.0, 0.0, None, "lower", rejected=True) == "better"
    assert judge(-0.1, 3.0, None, "lower", rejected=True) == "undecided"
    assert judge(0.0, 0.0, None, "lower", rejected=True) == "undecided"
    ties = [0.0] * 9 + [1.0] * 9
    found = paired_finding([0.0] * 18, ties, None, "lower")
    assert (found.low, found.verdict) == (0.0, "worse")
    assert found.p is not None
    assert found.p < 0.05
    assert paired_finding([0.0] * 18, [0.0] * 14 + [1.0] * 4, None, "lower").verdict == "undecided"


@pytest.mark.parametrize("value", [-0.1, math.inf, math.nan])
def test_a_margin_is_a_finite_number_of_at_least_0(value: float) -> None:
    with pytest.raises(ValueError, match="finite number of at least 0"):
        Margin(value)


def test_differences_that_are_all_0_are_equal() -> None:
    found = paired_finding([5.0, 6.0, 7.0] * 3, [5.0, 6.0, 7.0] * 3, Margin(0.1), "lower")
    assert (found.verdict, found.estimate, found.low, found.high) == ("equal", 0.0, 0.0, 0.0)
    assert found.constant
    assert found.settled
    assert found.p == 1


@pytest.mark.parametrize(
    ("difference", "better", "verdict"),
    [(2.0, None, "different"), (2.0, "lower", "worse"), (-2.0, "lower", "better"), (0.5, "lower", "equivalent")],
)
def test_a_constant_difference_is_judged_by_its_value(difference: float, better, verdict: str) -> None:
    first = [float(value) for value in range(10)]
    found = paired_finding(first, [value + difference for value in first], Margin(1.0), better)
    assert (found.verdict, found.estimate, found.low, found.high) == (verdict, difference, difference, difference)
    assert found.constant
    assert found.p == pytest.approx(2 / 2**10)


def test_few_constant_differences_have_a_verdict_on_the_sample_and_no_interval() -> None:
    found = paired_finding([1.0] * 5, [3.0] * 5, Margin(1.0), "lower")
    assert (found.verdict, found.estimate, found.low, found.level) == ("worse", 2.0, None, None)
    assert (found.constant, found.reason, found.settled) == (True, "too-few", False)
    assert paired_finding([1.0, 1.0], [1.0, 1.0]).verdict == "equal"


def test_one_pair_is_not_a_sample_that_does_not_vary() -> None:
    found = paired_finding([1.0], [3.0], Margin(1.0), "lower")
    assert (found.verdict, found.constant, found.estimate) == ("undecided", False, 2.0)


def test_differences_that_vary_by_rounding_only_are_constant() -> None:
    first = [0.1 * place for place in range(1, 12)]
    found = paired_finding(first, [value + 0.1 for value in first])
    assert len({value + 0.1 - value for value in first}) > 1
    assert (found.verdict, found.constant) == ("different", True)
    assert found.low == found.high == pytest.approx(0.1)
    ratio = paired_finding(first, [value * 1.1 for value in first], Margin(0.05, relative=True), "higher")
    assert (ratio.verdict, ratio.constant) == ("better", True)
    assert ratio.estimate == pytest.approx(1.1)


def test_constant_differences_settle_a_continuous_look_once_it_has_an_interval() -> None:
    found = [paired_finding([1.0] * count, [3.0] * count, None, "lower", Anytime()) for count in (5, 12)]
    assert [each.verdict for each in found] == ["worse", "worse"]
    assert [each.settled for each in found] == [False, True]
    assert (found[1].low, found[1].high) == (2.0, 2.0)


def test_a_relative_margin_is_judged_on_logarithms() -> None:
    first = [10.0, 20.0, 40.0, 80.0, 160.0, 320.0]
    factors = [1.02, 1.03, 0.99, 1.01, 0.98, 1.04]
    margin = Margin(0.05, relative=True)
    found = paired_finding(
        first, [value * factor for value, factor in zip(first, factors, strict=True)], margin, "lower"
    )
    assert (found.scale, found.verdict, found.margin) == ("ratio", "equivalent", pytest.approx(1.05))
    assert (found.low, found.high) == (pytest.approx(0.98), pytest.approx(1.04))
    # Symmetric: the inverse ratios have the same verdict and the inverse interval.
    other = paired_finding(
        [value * factor for value, factor in zip(first, factors, strict=True)], first, margin, "lower"
    )
    assert other.verdict == "equivalent"
    assert other.low == pytest.approx(1 / 1.04)


def test_a_relative_margin_without_ratios_is_one_of_the_median() -> None:
    first = [0.0, 4.0, 4.0, 4.0, 4.0, 4.0, 5.0]
    found = paired_finding(first, [value + 1 for value in first], Margin(0.5, relative=True), "lower")
    assert (found.scale, found.margin, found.reason, found.verdict) == ("difference", 2.0, "not-positive", "equivalent")
    found = paired_finding([0.0] * 7, [1.0] * 7, Margin(0.5, relative=True), "lower")
    assert (found.scale, found.margin, found.reason, found.verdict) == ("difference", None, "no-reference", "worse")


def test_too_few_pairs_are_undecided_with_an_estimate() -> None:
    found = paired_finding([1.0, 2.0, 3.0], [4.0, 7.0, 5.0], Margin(1.0), "lower")
    assert (found.verdict, found.low, found.level, found.count, found.reason) == ("undecided", None, None, 3, "too-few")
    assert found.estimate == 3.25
    nothing = paired_finding([], [], Margin(0.05, relative=True), "lower")
    assert (nothing.verdict, nothing.estimate, nothing.p, nothing.count) == ("undecided", None, None, 0)


def test_pairs_of_different_lengths_and_values_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="2 and 1 values are not pairs"):
        paired_finding([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="not a finite number"):
        paired_finding([1.0, math.nan], [1.0, 2.0])


def test_results_name_their_formula_and_the_libraries() -> None:
    origin = SignedRanks().method
    assert (origin.name, origin.formula) == ("signed-ranks", FORMULAS["signed-ranks"])
    assert dict(origin.libraries) == {"numpy": version("numpy"), "scipy": version("scipy")}
    assert method("holm").name == "holm"
