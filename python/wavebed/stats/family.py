"""Several primary metrics at once: no more false alarms over all of them than over one.

Formulas and sources: docs/models/campaign-statistics.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from wavebed.extras import require
from wavebed.stats.independent import Groups
from wavebed.stats.intervals import FEWEST, LEVEL, RESAMPLES, Interval, fewest_pairs, method
from wavebed.stats.paired import Pairs, SignedRanks, find
from wavebed.stats.verdict import MetricSample, conclude

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from wavebed.stats.intervals import Method
    from wavebed.stats.paired import PairedDesign
    from wavebed.stats.verdict import Better, Finding, Margin, Reason

    Floats = NDArray[np.float64]
    Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Primary:
    """A metric of two treatments.

    Parameters
    ----------
    a, b : sequence of float
        Pairs: one value for each block, in the order of the blocks.
    margin : Margin or None
        The smallest difference that matters.
    better : {"lower", "higher"} or None
        The better direction.
    """

    a: Sequence[float]
    b: Sequence[float]
    margin: Margin | None = None
    better: Better | None = None


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values adjusted by Holm's step-down method (1979), in the given order."""
    count = len(p_values)
    adjusted = [0.0] * count
    largest = 0.0
    for place, index in enumerate(sorted(range(count), key=lambda each: p_values[each])):
        largest = max(largest, min(1.0, (count - place) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def simultaneous_level(level: float, count: int) -> float:
    """Return the level of each of `count` intervals that together have `level` (Bonferroni)."""
    return 1 - (1 - level) / max(count, 1)


def settle(primaries: Sequence[Primary], design: PairedDesign | None = None) -> list[Finding]:
    """Return the findings on all primary metrics, in pairs.

    The intervals are simultaneous (Bonferroni), and `judge` gives the verdicts. A metric that they leave undecided, and
    whose p value adjusted by Holm is at most the error, has the interval of its step of Holm's method, if that
    excludes 0.
    So ``better``, ``worse`` and ``different`` are false alarms with probability 1 - level at most over all metrics, and
    so is ``equivalent``.

    Parameters
    ----------
    primaries : sequence of Primary
        All primary metrics of one comparison, with the samples in pairs.
    design : PairedDesign, optional
        Its level holds for all metrics together; `SignedRanks` at 95 % by default.

    Raises
    ------
    ValueError
        If the samples of a metric are not pairs or a value is not finite.
    """
    whole = design or SignedRanks()
    samples = [Pairs.of(each.a, each.b, each.margin) for each in primaries]

    def finding(index: int, level: float, p: float, adjusted: float, stepped: bool) -> Finding:
        return find(samples[index], primaries[index].better, whole.at(level), p, adjusted, stepped=stepped)

    return _stepwise([whole.p(pairs.values) for pairs in samples], finding, whole.level)


def settle_independent(primaries: Sequence[Primary], level: float = LEVEL, seed: int = 0) -> list[Finding]:
    """Return the findings on all primary metrics of independent samples; the rules are the same as in `settle`.

    Parameters
    ----------
    level : float
        Level of all metrics together.
    seed : int
        Seed of the resampling.

    Raises
    ------
    MissingPackageError
        If SciPy is not installed.
    ValueError
        If a value is not finite.
    """
    samples = [Groups.of(each.a, each.b, each.margin) for each in primaries]

    def finding(index: int, level: float, p: float, adjusted: float, stepped: bool) -> Finding:
        return samples[index].finding(primaries[index].better, level, seed, p, adjusted, stepped=stepped)

    return _stepwise([groups.p() for groups in samples], finding, level)


def _stepwise(
    p_values: Sequence[float], finding: Callable[[int, float, float, float, bool], Finding], level: float
) -> list[Finding]:
    """Return the finding of each metric: simultaneous, or by its step of Holm's method where that decides more.

    Parameters
    ----------
    finding : callable
        From index, level of the interval, p value, adjusted p value, and whether it is a step of Holm's method.
    """
    count = len(p_values)
    adjusted = holm(p_values)
    place = {index: rank for rank, index in enumerate(sorted(range(count), key=lambda each: p_values[each]))}
    findings = []
    for index, (p, raised) in enumerate(zip(p_values, adjusted, strict=True)):
        found = finding(index, simultaneous_level(level, count), p, raised, False)
        left = count - place[index]
        if found.verdict == "undecided" and raised <= 1 - level and left < count:
            other = finding(index, simultaneous_level(level, left), p, raised, True)
            found = found if other.verdict == "undecided" else other
        findings.append(found)
    return findings


def explore(metrics: Sequence[Primary], design: PairedDesign | None = None) -> list[Finding]:
    """Return the findings on other metrics, each by itself: exploratory, with false alarms among many."""
    chosen = design or SignedRanks()
    return [find(Pairs.of(each.a, each.b, each.margin), each.better, chosen) for each in metrics]


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
    sample: MetricSample
    better: Better | None

    @classmethod
    def of(cls, given: Primary) -> _Ordered:
        groups = Groups.of(given.a, given.b, given.margin)
        sample = MetricSample(groups.scale, groups.margin, groups.constant, groups.reason)
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


DriftCode: TypeAlias = Literal["rising", "falling", "none", "constant", "too-few"]
FEWEST_FOR_DRIFT = 5
"""With fewer values even a strict order has a two-sided p value above 0.05: 2 / 4!."""


@dataclass(frozen=True, slots=True)
class Drift:
    """A trend over the order of the blocks.

    Parameters
    ----------
    code : str
        ``rising`` or ``falling`` if `adjusted` is at most the error; ``none``, ``constant`` or ``too-few`` otherwise.
    tau : float or None
        Kendall's rank correlation with the order, from -1 to 1.
    slope : float or None
        Median change from one block to the next, in the unit of the values (Theil and Sen).
    p, adjusted : float or None
        Two-sided p value, and the same adjusted by Holm over all tested samples.
    count : int
        Number of values.
    method : Method
        Origin of the result.
    """

    code: DriftCode
    tau: float | None
    slope: float | None
    p: float | None
    adjusted: float | None
    count: int
    method: Method


def drift(values: Sequence[float], level: float = 0.95) -> Drift:
    """Return the Mann-Kendall test of values in the order of their blocks."""
    return drifts({"": values}, level)[""]


def drifts(samples: Mapping[str, Sequence[float]], level: float = 0.95) -> dict[str, Drift]:
    """Return the Mann-Kendall tests of several samples, such as treatments, adjusted by Holm.

    Raises
    ------
    MissingPackageError
        If SciPy is not installed.
    """
    tested = {name: _tested(values) for name, values in samples.items()}
    names = [name for name, each in tested.items() if each.p is not None]
    adjusted = holm([p for name in names if (p := tested[name].p) is not None])
    for name, p in zip(names, adjusted, strict=True):
        found = tested[name]
        code: DriftCode = "none"
        if p <= 1 - level:
            code = "rising" if (found.tau or 0.0) > 0 else "falling"
        tested[name] = replace(found, code=code, adjusted=p)
    return tested


def _tested(values: Sequence[float]) -> Drift:
    require("report", "A drift test", ("scipy",))
    from scipy.stats import kendalltau, theilslopes

    origin, count = method("mann-kendall"), len(values)
    if count < FEWEST_FOR_DRIFT:
        return Drift("too-few", None, None, None, None, count, origin)
    if min(values) == max(values):
        return Drift("constant", None, 0.0, None, None, count, origin)
    found = kendalltau(range(count), values)
    slope = float(theilslopes(values, range(count)).slope)
    return Drift("none", float(found.statistic), slope, float(found.pvalue), None, count, origin)


FEWEST_FOR_SIZE: Final = 5
"""A pilot of fewer blocks says too little about the spread: the 95 % interval of it spans a factor of 6 and more."""
MOST: Final = 100_000
"""More blocks are not advised."""
EFFICIENCY: Final = 3 / math.pi
"""Of signed ranks beside the t test, for normal differences (Hollander and Wolfe 3.11)."""


@dataclass(frozen=True, slots=True)
class Advice:
    """How many blocks are needed.

    Parameters
    ----------
    blocks : int or None
        The pilot's not included; ``None`` if the pilot does not bear an advice.
    reason : str or None
        ``too-few``, ``constant``, ``no-margin`` (none, or 0), or ``too-many`` (more than `MOST`).
    spread : float or None
        Standard deviation that the pilot's differences have for signed ranks, on the working scale.
    method : Method
        Origin of the result.
    """

    blocks: int | None
    reason: Reason | None
    spread: float | None
    method: Method


def advise(
    pilot: Sequence[float] | Floats,
    margin: float | None,
    level: float = 0.95,
    power: float = 0.8,
    primaries: int = 1,
) -> Advice:
    """Return how many blocks find a true difference as large as the margin with this probability.

    Parameters
    ----------
    pilot : sequence of float
        Differences of a pilot's pairs on the working scale (`Pairs.values`).
    margin : float or None
        The smallest difference that matters, on the same scale (`Pairs.margin`).
    level : float
        Level of all primary metrics together.
    power : float
        Probability that the interval excludes 0, over pilots and campaigns.
    primaries : int
        Number of primary metrics.

    Raises
    ------
    MissingPackageError
        If SciPy is not installed.
    """
    require("report", "A sample size", ("scipy",))
    values, origin = np.asarray(pilot, dtype=np.float64), method("noncentral-t-sizing")
    if len(values) < FEWEST_FOR_SIZE:
        return Advice(None, "too-few", None, origin)
    spread = float(values.std(ddof=1))
    if spread == 0:
        return Advice(None, "constant", spread, origin)
    if not margin:
        return Advice(None, "no-margin", spread, origin)
    strict = simultaneous_level(level, primaries)
    tail = NormalDist().inv_cdf((1 + strict) / 2)
    needed = _noncentral(power, len(values) - 1, tail)
    blocks = math.ceil((spread * needed / margin) ** 2 / EFFICIENCY + tail**2 / 2)
    if blocks > MOST:
        return Advice(None, "too-many", spread, origin)
    return Advice(max(blocks, fewest_pairs(strict)), None, spread, origin)


@cache
def _noncentral(power: float, degrees: int, tail: float) -> float:
    """Return the quantile of the non-central t distribution."""
    from scipy.stats import nct

    return float(nct.ppf(power, degrees, tail))
