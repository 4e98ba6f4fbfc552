"""Regressions: primary metrics that are worse than the baseline by more than their margin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from wavebed.stats.family import simultaneous_level
from wavebed.stats.independent import LEVEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.compare.find import Answer, Comparison

__all__ = ["Judged", "Regression", "Regressions", "regression_of", "regressions"]

Regression: TypeAlias = Literal["yes", "no", "not excluded", "no values"]
_ORDER: tuple[Regression, ...] = ("yes", "no values", "not excluded", "no")
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Judged:
    """An answer on a primary metric, and whether it is a regression."""

    answer: Answer
    regression: Regression


@dataclass(frozen=True, slots=True)
class Regressions:
    """The judgement of a folder beside its baseline.

    Parameters
    ----------
    undecided_fails : bool
        Whether a regression that is not excluded is a failure.
    """

    comparison: Comparison
    judged: Sequence[Judged]
    undecided_fails: bool

    @property
    def passed(self) -> bool:
        """Whether there is no regression, and no metric without values."""
        failing = {"yes", "no values", "not excluded"} if self.undecided_fails else {"yes", "no values"}
        return not any(each.regression in failing for each in self.judged)

    def count(self, regression: Regression) -> int:
        """Return the number of comparisons of this kind."""
        return sum(each.regression == regression for each in self.judged)


def regressions(comparison: Comparison, *, undecided_fails: bool = False) -> Regressions:
    """Judge the primary metrics of a comparison of two folders; regressions come first."""
    judged = [Judged(answer, regression_of(answer)) for answer in comparison.primaries]
    judged.sort(key=lambda each: _ORDER.index(each.regression))
    return Regressions(comparison, judged, undecided_fails)


def regression_of(answer: Answer) -> Regression:
    """Return whether a primary metric is worse than the baseline by more than its margin.

    ``yes`` if the whole interval is beyond the margin, ``no`` if none of it is, ``no values`` if the baseline alone has
    values, else ``not excluded``. Values that do not vary are judged by their difference. Without a better direction,
    a change beyond the margin in either direction is a regression.
    """
    question, finding = answer.question, answer.finding
    if not len(question.b):
        return "no values"
    if finding.verdict in ("equal", "equivalent"):
        return "no"
    low, high = finding.low, finding.high
    if finding.constant and low is None:
        low = high = finding.estimate
    if low is None or high is None or finding.margin is None:
        return "not excluded"
    if finding.level is not None and finding.level < simultaneous_level(LEVEL, answer.together) - _ROUNDING:
        # The interval of a step of Holm's method says no more than on which side of 0 the difference is.
        return "no" if finding.verdict == "better" else "not excluded"
    margin = finding.margin
    if finding.scale == "ratio":
        low, high, margin = math.log(low), math.log(high), math.log(margin)
    if question.better is None:
        return "yes" if low > margin or high < -margin else "not excluded"
    worst, least = (high, low) if question.better == "lower" else (-low, -high)
    return "yes" if least > margin else "no" if worst <= margin else "not excluded"
