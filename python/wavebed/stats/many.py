"""Findings on many pairs of independent samples at once: those of `family.settle_independent`, in less time.

The median of a resample is that of its places in the ordered sample. So samples of one size share the places of their
resampled medians, which are drawn once. Formulas and sources: docs/models/campaign-statistics.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from wavebed.extras import require
from wavebed.stats.family import holm, simultaneous_level
from wavebed.stats.independent import LEVEL, Groups
from wavebed.stats.intervals import FEWEST, RESAMPLES, Interval
from wavebed.stats.methods import method
from wavebed.stats.verdict import Sample, conclude

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.stats.family import Primary
    from wavebed.stats.verdict import Better, Finding

    Floats = NDArray[np.float64]
    Places = NDArray[np.intp]

__all__ = ["MOST_TOGETHER", "cliffs_deltas", "explore_independent", "settle_many"]

IN_TAIL = 5
"""Fewest resamples beyond each bound of an interval."""
MOST_RESAMPLES = 159_999
MOST_TOGETHER = int((1 - LEVEL) * (MOST_RESAMPLES + 1) / (2 * IN_TAIL) + 1e-9)
"""Most comparisons of one family at 95 % with intervals: the resamples of more would have too few beyond the bounds."""
_AT_ONCE = 4_000_000
_ROUNDING = 1e-9


def settle_many(families: Sequence[Sequence[Primary]], level: float = LEVEL, seed: int = 0) -> list[list[Finding]]:
    """Return the findings on the primary metrics of each family of independent samples, by the rules of `family`.

    There is no interval, and the reason is ``too-few``, if the smallest p value of samples of these sizes is above the
    error of one comparison.

    Parameters
    ----------
    families : sequence of sequence of Primary
        Comparisons over which false alarms are held together.
    level : float
        Level of each family.
    seed : int
        Seed of the resampling.

    Raises
    ------
    MissingPackageError
        If SciPy is not installed.
    ValueError
        If a value is not finite.
    """
    groups = [[_Ordered.of(each) for each in family] for family in families]
    p_values = iter(_p_values([group for family in groups for group in family]))
    return [_settled(family, [next(p_values) for _ in family], level, seed) for family in groups]


def _settled(groups: Sequence[_Ordered], p_values: Sequence[float], level: float, seed: int) -> list[Finding]:
    adjusted = holm(p_values)
    count = len(groups)
    rank = {index: place for place, index in enumerate(sorted(range(count), key=lambda each: p_values[each]))}
    findings = []
    for index, (group, p, raised) in enumerate(zip(groups, p_values, adjusted, strict=True)):
        found = group.finding(simultaneous_level(level, count), seed, p, raised)
        left = count - rank[index]
        if found.verdict == "undecided" and raised <= 1 - level and left < count:
            other = group.finding(simultaneous_level(level, left), seed, p, raised, stepped=True)
            found = found if other.verdict == "undecided" else other
        findings.append(found)
    return findings


def explore_independent(samples: Sequence[Primary], level: float = LEVEL, seed: int = 0) -> list[Finding]:
    """Return the findings on independent samples, each by itself: exploratory, with false alarms among many.

    Raises
    ------
    MissingPackageError
        If SciPy is not installed.
    ValueError
        If a value is not finite.
    """
    groups = [_Ordered.of(each) for each in samples]
    return [group.finding(level, seed, p, p) for group, p in zip(groups, _p_values(groups), strict=True)]


def cliffs_deltas(samples: Sequence[Primary]) -> list[float | None]:
    """Return Cliff's delta of each pair of samples, from -1 to 1; ``None`` without values."""
    found: list[float | None] = []
    for each in samples:
        ordered = np.sort(np.asarray(each.a, dtype=np.float64))
        below, not_above = (np.searchsorted(ordered, each.b, side=side).sum() for side in ("left", "right"))
        pairs = len(each.a) * len(each.b)
        found.append(float(below + not_above - pairs) / pairs if pairs else None)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Ordered:
    """Two samples on the working scale, each in rising order."""

    a: Floats
    b: Floats
    sample: Sample
    better: Better | None

    @classmethod
    def of(cls, given: Primary) -> _Ordered:
        groups = Groups.of(given.a, given.b, given.margin)
        sample = Sample(groups.scale, groups.margin, groups.constant, groups.reason)
        return cls(np.sort(groups.a), np.sort(groups.b), sample, given.better)

    def finding(self, level: float, seed: int, p: float, adjusted: float, *, stepped: bool = False) -> Finding:
        """Return the finding at a level, as `Groups.finding` does."""
        count = min(len(self.a), len(self.b))
        estimate = _middle(self.b) - _middle(self.a) if count else None
        interval = Interval(estimate, None, None, None, count)
        if self.sample.constant and count >= FEWEST:
            interval = Interval(estimate, estimate, estimate, level, count)
        elif _bears(len(self.a), len(self.b), level):
            low, high = self._bounds((1 - level) / 2, seed)
            interval = Interval(estimate, low, high, level, count)
        known = p if count else None
        origin = method("bootstrap-medians")
        return conclude(self.sample, interval, self.better, origin, known, adjusted, stepped=stepped)

    def _bounds(self, tail: float, seed: int) -> list[float]:
        """Return the bounds of the percentile bootstrap interval of the difference of the medians."""
        resamples = RESAMPLES
        while (resamples + 1) * tail < IN_TAIL * (1 - _ROUNDING):
            resamples = 2 * resamples + 1
        above, below = _places(len(self.b), len(self.a), resamples, seed)
        return _quantiles(_medians(self.b, above) - _medians(self.a, below), (tail, 1 - tail))


def _p_values(groups: Sequence[_Ordered]) -> list[float]:
    """Return the p values of Mann and Whitney as `Groups.p` does, samples of one size at once; 1 without values."""
    require("report", "A comparison of independent samples", ("scipy",))
    from scipy.stats import mannwhitneyu

    p_values = [1.0] * len(groups)
    alike: dict[tuple[int, int, bool], list[int]] = {}
    for index, group in enumerate(groups):
        both = np.sort(np.concatenate((group.a, group.b)))
        if len(group.a) and len(group.b) and both[0] != both[-1]:
            has_ties = bool((both[1:] == both[:-1]).any())
            alike.setdefault((len(group.a), len(group.b), has_ties), []).append(index)
    for members in alike.values():
        first, second = (np.stack([getattr(groups[index], side) for index in members]) for side in ("a", "b"))
        for index, p in zip(members, mannwhitneyu(second, first, axis=1).pvalue.tolist(), strict=True):
            p_values[index] = p
    return p_values


def _bears(first: int, second: int, level: float) -> bool:
    """Return whether samples of these sizes can be told apart at this level, and the resamples reach its bounds."""
    if min(first, second) < FEWEST or (1 - level) / 2 * (1 + _ROUNDING) < IN_TAIL / (MOST_RESAMPLES + 1):
        return False
    return 2 / math.comb(first + second, first) <= 1 - level


def _middle(ordered: Floats) -> float:
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _medians(ordered: Floats, places: Places) -> Floats:
    middle: Floats = ordered[places[0]]
    if len(ordered) % 2 == 0:
        middle = (middle + ordered[places[1]]) / 2
    return middle


def _quantiles(values: Floats, fractions: Sequence[float]) -> list[float]:
    """Return quantiles as ``numpy.quantile(…, method="weibull")`` does; it orders `values` in part."""
    last = len(values) - 1
    places = [min(max(fraction * (last + 2) - 1, 0.0), last) for fraction in fractions]
    lower = [int(place) for place in places]
    values.partition([*lower, *(min(each + 1, last) for each in lower)])
    return [
        float(values[each] + (place - each) * (values[min(each + 1, last)] - values[each]))
        for place, each in zip(places, lower, strict=True)
    ]


@lru_cache(maxsize=16)
def _places(second: int, first: int, resamples: int, seed: int) -> tuple[Places, Places]:
    """Return the two middle places of each resample, shape (2, resamples), of samples of these sizes."""
    generator = np.random.Generator(np.random.PCG64(seed))
    above, below = _middles(generator, second, resamples), _middles(generator, first, resamples)
    return above, below


def _middles(generator: np.random.Generator, size: int, resamples: int) -> Places:
    step = max(_AT_ONCE // size, 1)
    middles = np.empty((2, resamples), dtype=np.intp)
    at = ((size - 1) // 2, size // 2)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        drawn = generator.integers(0, size, (stop - start, size))
        drawn.partition(at, axis=1)
        middles[:, start:stop] = drawn[:, at].T
    return middles
