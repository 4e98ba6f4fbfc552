"""Several primary metrics: Holm, simultaneous intervals, speed."""

from __future__ import annotations

import numpy as np
import pytest

from wavebed.stats.anytime import Anytime
from wavebed.stats.family import Primary, explore, holm, settle, settle_independent, simultaneous_level
from wavebed.stats.paired import paired_finding
from wavebed.stats.verdict import Margin


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
