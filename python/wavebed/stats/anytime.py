"""Inference that stays valid however often it is looked at: bets on the signs of differences.

If the differences are symmetric around a value, their signs around it are fair coins, given their sizes. A bet on each
sign by the rank of its size has a wealth that ever exceeds 20 with probability 5 % at most (Ville 1939). The interval
has the values against which no such wealth was gained. Formulas and sources: docs/models/campaign-statistics.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from wavebed.stats.intervals import Interval, walsh_averages
from wavebed.stats.methods import method

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.stats.methods import Method

    Floats = NDArray[np.float64]

__all__ = ["Anytime", "Score", "log_wealth"]

Score: TypeAlias = Literal["ranks", "signs"]

STAKES: Final = (0.5, 1.0, 2.0, 4.0)
"""Slopes of the bets. The best slope for normal differences is near 1.35 times their mean in standard deviations."""


@dataclass(frozen=True, slots=True)
class Anytime:
    """Continuous looks: a confidence sequence for the centre of the differences, and its p value.

    Parameters
    ----------
    level : float
        Probability with which the intervals of all looks together contain the centre.
    score : {"ranks", "signs"}
        ``ranks`` assumes symmetric differences and estimates their pseudo-median; ``signs`` assumes nothing about their
        shape, estimates their median, and needs more blocks.
    """

    level: float = 0.95
    score: Score = "ranks"

    @property
    def method(self) -> Method:
        """Origin of the results."""
        return method("anytime-signed-ranks" if self.score == "ranks" else "anytime-signs")

    def at(self, level: float) -> Anytime:
        """Return the same design at another level."""
        return replace(self, level=level)

    def interval(self, differences: Sequence[float] | Floats) -> Interval:
        """Return the estimate and the intersection of the intervals of all looks so far.

        If later blocks contradict earlier ones, so that nothing is left, the gap between them is returned.

        Parameters
        ----------
        differences : sequence of float
            In the order of their blocks.
        """
        values = np.asarray(differences, dtype=np.float64)
        count = len(values)
        if count == 0:
            return Interval(None, None, None, None, 0)
        walsh = walsh_averages(values) if self.score == "ranks" else np.sort(values)
        estimate = float(np.median(walsh))
        low = self._lower(values, walsh)
        high = self._lower(-values, -walsh[::-1])
        if low is None or high is None:
            return Interval(estimate, None, None, None, count)
        low, high = min(low, -high), max(low, -high)
        return Interval(estimate, low, high, self.level, count)

    def p(self, differences: Sequence[float] | Floats) -> float:
        """Return the two-sided p value of symmetry around 0, valid at every look: 1 / largest wealth so far."""
        values = np.asarray(differences, dtype=np.float64)
        if not len(values):
            return 1.0
        wealth = np.logaddexp(log_wealth(values, self.score), log_wealth(-values, self.score)) - math.log(2)
        return min(1.0, math.exp(-float(wealth.max())))

    def _lower(self, values: Floats, walsh: Floats) -> float | None:
        """Return the lower bound, the least value not rejected; ``None`` if there is none.

        The wealth of bets on positive signs falls in the centre, in steps at the Walsh averages.
        """
        needed = math.log(2 / (1 - self.level))
        steps = np.unique(walsh)
        # Region k lies below step k and above the one before.
        inside = np.concatenate(([steps[0] - 1 - abs(steps[0])], (steps[1:] + steps[:-1]) / 2))
        first, last = (
            0,
            len(steps),
        )  # region `first - 1` and those below are rejected, region `last` and those above not
        while first < last:
            middle = (first + last) // 2
            if log_wealth(values - inside[middle], self.score).max() >= needed:
                first = middle + 1
            else:
                last = middle
        return None if first == 0 else float(steps[first - 1])


def log_wealth(differences: Floats, score: Score = "ranks") -> Floats:
    """Return the logarithm of the wealth of bets on positive signs after each difference, starting at 1.

    Parameters
    ----------
    differences : float array, shape (..., n)
        In the order of their blocks.

    Returns
    -------
    float array, shape (..., n)
        The mean over `STAKES` c of the products of 1 + sign · tanh(c · score), where the score is the rank of the size
        among those so far, divided by their number + 1; 1 for ``signs``. A difference of 0 has no bet.
    """
    count = differences.shape[-1]
    signs = np.sign(differences)
    if score == "ranks":
        sizes = np.abs(differences)
        past = np.tri(count, dtype=np.bool_)
        ranks = ((sizes[..., None, :] <= sizes[..., :, None]) & past).sum(axis=-1)
        scores = ranks / np.arange(2, count + 2)
    else:
        scores = np.ones_like(signs)
    bets = np.tanh(np.multiply.outer(STAKES, scores)) * signs
    return np.asarray(np.logaddexp.reduce(np.cumsum(np.log1p(bets), axis=-1), axis=0) - math.log(len(STAKES)))
