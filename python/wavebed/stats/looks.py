"""Looks at results before all are there: continuous, and planned."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from wavebed.extras import require
from wavebed.stats.intervals import Interval, method, signed_rank_interval, walsh_averages
from wavebed.stats.paired import signed_rank_p

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.stats.intervals import Method

    Floats = NDArray[np.float64]

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


Spending: TypeAlias = Literal["obrien-fleming", "pocock"]

_NORMAL = NormalDist()
_POINTS: Final = 201
"""Points of the grid between two boundaries; with five times as many, no boundary differs by more than 1e-4."""
_KNOTS: Final = 60
"""Points below and above 0.3 between which p values are interpolated on logarithms: within 0.1 % below 0.9."""
_WIDEST: Final = 8.0
"""Standard deviations at which a density ends, and the boundary of a look that has nothing to spend."""


@dataclass(frozen=True, slots=True)
class Planned:
    """Looks at sizes that are fixed before the campaign.

    Parameters
    ----------
    looks : tuple of int
        Numbers of blocks, rising. Blocks beyond the last reached look are not used.
    level : float
        Probability with which the intervals of all looks together contain the centre.
    spending : {"obrien-fleming", "pocock"}
        ``obrien-fleming`` spends little early, so the last look is nearly a test of a fixed size; ``pocock`` spends
        more early and stops large effects sooner.

    Raises
    ------
    ValueError
        If the looks do not rise from at least 1.
    """

    looks: tuple[int, ...]
    level: float = 0.95
    spending: Spending = "obrien-fleming"

    def __post_init__(self) -> None:
        if not self.looks or self.looks[0] < 1 or any(later <= look for look, later in pairwise(self.looks)):
            raise ValueError(f"looks at {self.looks} blocks: the numbers must rise from at least 1")

    @property
    def method(self) -> Method:
        """Origin of the results."""
        return method("planned-signed-ranks")

    def at(self, level: float) -> Planned:
        """Return the same design at another level."""
        return replace(self, level=level)

    def interval(self, differences: Sequence[float] | Floats) -> Interval:
        """Return the estimate and the intersection of the intervals of the looks so far.

        If later blocks contradict earlier ones, so that nothing is left, the gap between them is returned.
        """
        values = np.asarray(differences, dtype=np.float64)
        low, high, found = -math.inf, math.inf, Interval(None, None, None, None, len(values))
        for size, error in self._reached(len(values)):
            found = signed_rank_interval(values[:size], 1 - error)
            if found.low is not None and found.high is not None:
                low, high = max(low, found.low), min(high, found.high)
        if not math.isfinite(low):
            estimate = signed_rank_interval(values, self.level).estimate if found.estimate is None else found.estimate
            return Interval(estimate, None, None, None, len(values))
        return Interval(found.estimate, min(low, high), max(low, high), self.level, found.count)

    def p(self, differences: Sequence[float] | Floats) -> float:
        """Return the repeated two-sided p value: the least total error at which a look so far would have decided."""
        values = np.asarray(differences, dtype=np.float64)
        found = [(look, signed_rank_p(values[:size])) for look, (size, _) in enumerate(self._reached(len(values)))]
        return min((self._repeated(look, p) for look, p in found), default=1.0)

    def _reached(self, count: int) -> list[tuple[int, float]]:
        errors = look_levels(self.looks, 1 - self.level, self.spending)
        return [(size, error) for size, error in zip(self.looks, errors, strict=True) if size <= count]

    def _repeated(self, look: int, p: float) -> float:
        """Return the total error with which a look alone has `p`."""
        totals, levels = _table(self.looks, self.spending)
        return float(np.exp(np.interp(math.log(p), levels[:, look], totals, right=0.0)))


@lru_cache(maxsize=1 << 12)
def look_levels(looks: tuple[int, ...], error: float, spending: Spending) -> tuple[float, ...]:
    """Return the two-sided error of each look taken alone, so that all looks together have `error`.

    Parameters
    ----------
    looks : tuple of int
        Numbers of blocks, rising.
    error : float
        Total two-sided error, above 0 and below 1.

    Raises
    ------
    MissingPackageError
        If SciPy is not installed.
    """
    require("report", "A test at planned looks", ("scipy",))
    times = [look / looks[-1] for look in looks]
    spent = [_spent(time, error, spending) for time in times]
    levels: list[float] = []
    grid, density = np.zeros(1), np.ones(1)
    for index, time in enumerate(times):
        step = math.sqrt(time - (times[index - 1] if index else 0.0))
        share = spent[index] - (spent[index - 1] if index else 0.0)
        bound = _boundary(grid, density, step, share, _WIDEST * math.sqrt(time))
        levels.append(2 * _NORMAL.cdf(-bound / math.sqrt(time)))
        grid, density = _survivors(grid, density, step, bound)
    return tuple(levels)


@lru_cache(maxsize=64)
def _table(looks: tuple[int, ...], spending: Spending) -> tuple[Floats, Floats]:
    """Return logarithms of total errors, shape (n,), and of the levels of the looks at them, shape (n, looks)."""
    totals = np.log(np.concatenate((np.geomspace(1e-7, 0.3, _KNOTS), np.linspace(0.31, 1 - 1e-9, _KNOTS))))
    levels = [look_levels(looks, math.exp(total), spending) for total in totals]
    return totals, np.log(np.maximum(levels, 1e-300))


def _spent(time: float, error: float, spending: Spending) -> float:
    """Return the error spent until a fraction of the largest size (Lan and DeMets 1983)."""
    if spending == "pocock":
        return error * math.log1p((math.e - 1) * time)
    return 4 * _NORMAL.cdf(_NORMAL.inv_cdf(error / 4) / math.sqrt(time))  # half of the error on either side


def _boundary(grid: Floats, weights: Floats, step: float, share: float, widest: float) -> float:
    """Return the bound that the motion, not stopped before, exceeds in either direction with probability `share`."""
    low, high = 0.0, widest
    while high - low > 1e-9:
        bound = (low + high) / 2
        beyond = float((weights * (_cdf((grid - bound) / step) + _cdf((-grid - bound) / step))).sum())
        low, high = (bound, high) if beyond > share else (low, bound)
    return high


def _survivors(grid: Floats, weights: Floats, step: float, bound: float) -> tuple[Floats, Floats]:
    """Return points within the bounds and their probabilities (trapezoidal rule), for the motion that goes on."""
    points = np.linspace(-bound, bound, _POINTS)
    away = (points[:, None] - grid) / step
    density = (np.exp(-(away**2) / 2) * weights).sum(axis=1) / (step * math.sqrt(2 * math.pi))
    density[[0, -1]] /= 2
    return points, density * (points[1] - points[0])


def _cdf(values: Floats) -> Floats:
    from scipy.special import ndtr

    return np.asarray(ndtr(values), dtype=np.float64)
