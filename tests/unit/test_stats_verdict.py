"""Verdicts by interval and margin: of one metric, of families of metrics, and of many comparisons."""

from __future__ import annotations

import math
from importlib.metadata import version

import numpy as np
import pytest

from wavebed.stats.family import (
    MOST_TOGETHER,
    Primary,
    cliffs_deltas,
    explore,
    explore_independent,
    holm,
    settle,
    settle_independent,
    settle_many,
    simultaneous_level,
)
from wavebed.stats.independent import independent_finding
from wavebed.stats.intervals import FORMULAS, cliffs_delta, method
from wavebed.stats.looks import Anytime
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


def test_p_values_are_adjusted_step_by_step() -> None:
    # As R's p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_intervals_are_simultaneous() -> None:
    assert simultaneous_level(0.95, 5) == pytest.approx(0.99)
    sample = np.random.default_rng(1).normal(10, 1, (3, 2, 20))
    found = settle([Primary(a.tolist(), b.tolist()) for a, b in sample])
    alone = [paired_finding(a.tolist(), b.tolist()) for a, b in sample]
    for each, one in zip(found, alone, strict=True):
        assert each.level is not None
        assert each.level >= 1 - 0.05 / 3
        assert None not in (each.low, each.high, one.low, one.high)
        assert each.low <= one.low <= one.high <= each.high
        assert each.p == one.p
    assert [each.adjusted for each in found] == holm([one.p for one in alone if one.p is not None])


def _metric(differences: list[float], margin: Margin | None = None) -> Primary:
    return Primary([0.0] * len(differences), differences, margin, "lower")


CLEAR = [1.0 + 0.1 * place for place in range(8)]
NEARLY = [-0.05, *(0.3 + 0.11 * place for place in range(7))]
"""The p value of 8 pairs of which the least is negative: 4 / 256."""


def test_a_metric_next_to_a_clear_one_is_decided_at_the_next_step_of_holm() -> None:
    weak = _metric([-0.05, 0.1, *NEARLY[2:]])
    first, second, third = settle([_metric(CLEAR), _metric(NEARLY), weak])
    # Of three metrics, Bonferroni asks for 1 / 60; the second step of Holm for 1 / 40, the last for 1 / 20.
    assert first.p == pytest.approx(2 / 256)
    assert second.p == pytest.approx(4 / 256)
    assert [each.verdict for each in (first, second, third)] == ["worse", "worse", "worse"]
    assert settle([_metric([0.0, *NEARLY[1:]]), _metric([-9.0, 1.0] * 4)])[1].verdict == "undecided"


def test_a_step_of_holm_bears_no_equivalence() -> None:
    small = Margin(0.9)
    narrow = [-0.08, *(0.2 + 0.1 * place for place in range(7))]
    clear, other = settle([_metric(CLEAR, small), _metric(narrow, small)])
    assert clear.verdict == "worse"
    assert other.verdict != "equivalent" or other.level >= 0.975


def test_one_metric_is_the_finding_alone() -> None:
    a, b = np.random.default_rng(2).normal(10, 1, (2, 15)).tolist()
    for design in (None, Anytime()):
        assert settle([Primary(a, b, Margin(0.2), "lower")], design) == [
            paired_finding(a, b, Margin(0.2), "lower", design)
        ]
    assert settle([]) == []


def test_other_metrics_are_judged_each_by_itself() -> None:
    sample = np.random.default_rng(3).normal(10, 1, (4, 2, 12))
    metrics = [Primary(a.tolist(), b.tolist()) for a, b in sample]
    assert explore(metrics) == [paired_finding(each.a, each.b) for each in metrics]


def test_independent_samples_have_the_same_rules() -> None:
    rng = np.random.default_rng(4)
    clear = Primary(
        rng.normal(10, 1, 12).tolist(), rng.normal(15, 1, 14).tolist(), Margin(0.05, relative=True), "lower"
    )
    none = Primary(rng.normal(10, 1, 12).tolist(), rng.normal(10, 1, 14).tolist(), Margin(0.05, relative=True), "lower")
    found = settle_independent([clear, none])
    assert [each.verdict for each in found] == ["worse", "undecided"]
    assert [each.level for each in found] == [0.975, 0.975]
    assert found[0].adjusted == pytest.approx(2 * (found[0].p or 0))


SIZES = ((7, 6), (10, 10), (30, 29), (9, 12))


def _samples(count: int) -> list[Primary]:
    generator = np.random.default_rng(5)
    found = []
    for number in range(count):
        first, second = SIZES[number % len(SIZES)]
        a, b = generator.normal(10, 1, first), generator.normal(13 if number % 5 else 10, 1, second)
        if number % 3 == 0:
            a, b = a.round(), b.round()
        margin = Margin(0.05, relative=True) if number % 2 else Margin(1.0)
        found.append(Primary(a.tolist(), b.tolist(), margin, "higher"))
    return found


def test_p_values_and_verdicts_are_those_of_single_comparisons() -> None:
    samples = _samples(12)
    (many,) = settle_many([samples])
    for one, other in zip(settle_independent(samples), many, strict=True):
        assert (one.p, one.adjusted) == pytest.approx((other.p, other.adjusted), rel=1e-12)
        assert (one.scale, one.margin, one.count, one.verdict) == (
            other.scale,
            other.margin,
            other.count,
            other.verdict,
        )


def test_exploratory_findings_stand_alone() -> None:
    samples = _samples(8)
    for sample, found in zip(samples, explore_independent(samples), strict=True):
        alone = independent_finding(sample.a, sample.b, sample.margin, sample.better).finding
        assert (found.p, found.adjusted, found.level) == (alone.p, alone.p, 0.95)
        assert found.estimate == pytest.approx(alone.estimate)
        assert alone.low is not None
        assert alone.high is not None
        # The resamples are others, and there are few medians of samples as small as these.
        assert found.low == pytest.approx(alone.low, abs=0.1 * (alone.high - alone.low))
        assert found.high == pytest.approx(alone.high, abs=0.1 * (alone.high - alone.low))
    assert cliffs_deltas(samples) == [pytest.approx(cliffs_delta(each.a, each.b)) for each in samples]


def test_families_are_apart() -> None:
    samples = _samples(6)
    together, (alone, *_) = settle_many([samples])[0], settle_many([samples[:1], samples[1:]])
    assert together[0].p == alone[0].p
    assert alone[0].adjusted == alone[0].p
    assert together[0].level == pytest.approx(1 - 0.05 / 6)
    assert alone[0].level == pytest.approx(0.95)


def test_samples_without_variation_are_equal_or_different_however_few() -> None:
    same, higher, near = ([Primary([5.0] * 3, [value] * 2, Margin(1.0), "higher")] for value in (5.0, 7.0, 5.5))
    verdicts = [found[0].verdict for found in settle_many([same, higher, near])]
    assert verdicts == ["equal", "better", "equivalent"]
    (many,) = settle_many([[Primary([5.0] * 8, [7.0] * 9, Margin(1.0), "lower")]])
    assert (many[0].verdict, many[0].low, many[0].high, many[0].constant) == ("worse", 2.0, 2.0, True)


def test_too_few_values_are_undecided_at_the_level_of_the_family() -> None:
    five = Primary([1.0, 2, 3, 4, 5], [11.0, 12, 13, 14, 15], Margin(1.0), "higher")
    (found,) = settle_many([[five]])
    assert (found[0].verdict, found[0].low, found[0].reason) == ("undecided", None, "too-few")
    # The smallest p value of 6 and 6 values is 2/924: it bears 23 comparisons together, not 24.
    six = Primary([1.0, 2, 3, 4, 5, 6], [11.0, 12, 13, 14, 15, 16], Margin(1.0), "higher")
    assert settle_many([[six] * 23])[0][0].verdict == "better"
    assert {each.verdict for each in settle_many([[six] * 24])[0][:1]} == {"undecided"}


def test_more_comparisons_than_the_resamples_bear_have_no_interval() -> None:
    far = Primary([float(place) for place in range(30)], [100.0 + place for place in range(30)], Margin(1.0), "higher")
    same = Primary([1.0, 1.0], [1.0, 1.0], Margin(1.0), "higher")
    assert settle_many([[far, *[same] * (MOST_TOGETHER - 1)]])[0][0].low is not None
    found = settle_many([[far, *[same] * MOST_TOGETHER]])[0][0]
    assert (found.verdict, found.low, found.reason) == ("undecided", None, "too-few")
