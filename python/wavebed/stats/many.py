"""Findings on many pairs of independent samples at once: those of `family.settle_independent`, in less time.

The median of a resample is that of its places in the ordered sample. So samples of one size share the places of their
resampled medians, which are drawn once. Formulas and sources: docs/models/campaign-statistics.md.
"""

from __future__ import annotations

import math
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
    from wavebed.stats.verdict import Finding

    Floats = NDArray[np.float64]
    Places = NDArray[np.intp]

__all__ = ["MOST_TOGETHER", "cliffs_deltas", "explore_independent", "settle_many"]

IN_TAIL = 5
"""Fewest resamples beyond each bound of an interval."""
MOST_RESAMPLES = 199_999
MOST_TOGETHER = int((1 - LEVEL) * (MOST_RESAMPLES + 1) / (2 * IN_TAIL) + 1e-9)
"""Most comparisons of one family at 95 % with intervals: the resamples of more would have too few beyond the bounds."""
_AT_ONCE = 4_000_000


def settle_many(samples: Sequence[Primary], level: float = LEVEL, seed: int = 0) -> list[Finding]:
    """Return the findings on all primary metrics of independent samples; the rules are those of `family.settle`.

    There is no interval, and the reason is ``too-few``, if the smallest p value of samples of these sizes is above the
    error of one comparison.

    Parameters
    ----------
    level : float
        Level of all comparisons together.
    seed : int
        Seed of the resampling.

    Raises
    ------
    MissingPackageError
        If SciPy is not installed.
    ValueError
        If a value is not finite.
    """
    groups = [Groups.of(each.a, each.b, each.margin) for each in samples]
    p_values = _p_values(groups)
    adjusted = holm(p_values)
    count = len(groups)
    rank = {index: place for place, index in enumerate(sorted(range(count), key=lambda each: p_values[each]))}
    findings = []
    for index, (group, sample) in enumerate(zip(groups, samples, strict=True)):
        p, raised = p_values[index], adjusted[index]
        found = _finding(group, sample, simultaneous_level(level, count), seed, p, raised)
        left = count - rank[index]
        if found.verdict == "undecided" and raised <= 1 - level and left < count:
            other = _finding(group, sample, simultaneous_level(level, left), seed, p, raised, stepped=True)
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
    groups = [Groups.of(each.a, each.b, each.margin) for each in samples]
    found = zip(groups, samples, _p_values(groups), strict=True)
    return [_finding(group, sample, level, seed, p, p) for group, sample, p in found]


def cliffs_deltas(samples: Sequence[Primary]) -> list[float | None]:
    """Return Cliff's delta of each pair of samples, from -1 to 1; ``None`` without values."""
    found: list[float | None] = []
    for each in samples:
        ordered = np.sort(np.asarray(each.a, dtype=np.float64))
        below, not_above = (np.searchsorted(ordered, each.b, side=side).sum() for side in ("left", "right"))
        pairs = len(each.a) * len(each.b)
        found.append(float(below + not_above - pairs) / pairs if pairs else None)
    return found


def _p_values(groups: Sequence[Groups]) -> list[float]:
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


def _finding(
    group: Groups, sample: Primary, level: float, seed: int, p: float, adjusted: float, *, stepped: bool = False
) -> Finding:
    count = min(len(group.a), len(group.b))
    estimate = float(np.median(group.b) - np.median(group.a)) if count else None
    interval = Interval(estimate, None, None, None, count)
    if estimate is not None and group.constant and count >= FEWEST:
        interval = Interval(estimate, estimate, estimate, level, count)
    elif _bears(len(group.a), len(group.b), level):
        interval = _bootstrap(group, level, seed)
    known = Sample(group.scale, group.margin, group.constant, group.reason)
    return conclude(
        known, interval, sample.better, method("bootstrap-medians"), p if count else None, adjusted, stepped=stepped
    )


def _bears(first: int, second: int, level: float) -> bool:
    """Return whether samples of these sizes can be told apart at this level, and the resamples reach its bounds."""
    if min(first, second) < FEWEST or (1 - level) / 2 * (1 + 1e-9) < IN_TAIL / (MOST_RESAMPLES + 1):
        return False
    return 2 / math.comb(first + second, first) <= 1 - level


def _bootstrap(group: Groups, level: float, seed: int) -> Interval:
    """Return the difference of the medians with the percentile bootstrap interval of `independent_difference`."""
    tail = (1 - level) / 2
    resamples = max(RESAMPLES, math.ceil(IN_TAIL / tail * (1 - 1e-9)) - 1)
    second, first = np.sort(group.b), np.sort(group.a)
    above, below = _places(len(second), len(first), resamples, seed)
    medians = _medians(second, above) - _medians(first, below)
    low, high = _quantiles(medians, (tail, 1 - tail))
    estimate = float(np.median(second) - np.median(first))
    return Interval(estimate, low, high, level, min(len(first), len(second)))


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
