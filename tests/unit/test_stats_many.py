"""Many independent comparisons at once have the findings of each by itself."""

from __future__ import annotations

import numpy as np
import pytest

from wavebed.stats.family import Primary, settle_independent
from wavebed.stats.independent import independent_finding
from wavebed.stats.intervals import cliffs_delta
from wavebed.stats.many import MOST_TOGETHER, cliffs_deltas, explore_independent, settle_many
from wavebed.stats.verdict import Margin

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
