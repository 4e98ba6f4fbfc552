"""Names of the methods, the versions of their formulas, and the libraries that computed them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from wavebed.extras import require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


FORMULAS = {
    "signed-ranks": 1,
    "anytime-signed-ranks": 1,
    "anytime-signs": 1,
    "planned-signed-ranks": 1,
    "mann-whitney": 1,
    "cliffs-delta": 1,
    "bootstrap-medians": 1,
    "order-statistics": 1,
    "holm": 1,
    "noncentral-t-sizing": 1,
    "mann-kendall": 1,
    "fisher-exact": 1,
    "chi-square": 2,
    "worst-case": 1,
}
"""The version of each formula; it rises when a change can change a result.

Formulas: docs/models/campaign-statistics.md.
"""

_LIBRARIES = ("numpy", "scipy")


@dataclass(frozen=True, slots=True)
class Method:
    """The origin of a result.

    Parameters
    ----------
    name : str
        A key of `FORMULAS`.
    formula : int
        Version of the formula.
    libraries : tuple of (str, str)
        Name and version of each library that the statistics use; those that are not installed are left out.
    """

    name: str
    formula: int
    libraries: tuple[tuple[str, str], ...]


@cache
def method(name: str) -> Method:
    """Return the method of this name, a key of `FORMULAS`."""
    return Method(name, FORMULAS[name], _libraries())


@cache
def _libraries() -> tuple[tuple[str, str], ...]:
    found = []
    for name in _LIBRARIES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return tuple(found)


LEVEL = 0.95
FEWEST = 6
"""With fewer values or pairs, even the extremes are not an interval at 95 %: 2 · 2⁻⁵ is more than 0.05."""
RESAMPLES = 9999
"""With the estimate one of 10 000, so that tail fractions are whole counts (Davison and Hinkley 1997, 2.5)."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and its confidence interval.

    Parameters
    ----------
    estimate : float or None
        ``None`` without values.
    low, high : float or None
        The interval; ``None`` if there are too few values for the level.
    level : float or None
        Coverage probability; of an exact interval at least the requested one.
    count : int
        Number of values or pairs.
    """

    estimate: float | None
    low: float | None
    high: float | None
    level: float | None
    count: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two independent samples.

    Parameters
    ----------
    medians : Interval
        Of the difference of the medians.
    cliffs_delta : float or None
        P(b > a) - P(b < a), from -1 to 1.
    """

    medians: Interval
    cliffs_delta: float | None


def median_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the median and its interval by order statistics (Thompson 1936).

    The interval is [x(k), x(n+1-k)] for the largest k with a coverage of at least `level`, by the binomial
    distribution; ``None`` if even the extremes have less (at 95 %, below 6 values).
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    count = len(ordered)
    if count == 0:
        return Interval(None, None, None, None, 0)
    estimate = float(np.median(ordered))
    rank, tail = 0, 0
    # P(fewer than `rank` values are below the median) is the sum of C(n, i) / 2^n for i < rank.
    while 2 * (tail + comb(count, rank)) / 2**count <= 1 - level:
        tail += comb(count, rank)
        rank += 1
    if rank == 0:
        return Interval(estimate, None, None, None, count)
    covered = 1 - 2 * tail / 2**count
    return Interval(estimate, float(ordered[rank - 1]), float(ordered[count - rank]), covered, count)


def paired_difference(a: Sequence[float], b: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the Hodges-Lehmann estimate of b - a for pairs, and its interval from Wilcoxon's signed ranks.

    Parameters
    ----------
    a, b : sequence of float
        One value for each block, in the same order.

    Raises
    ------
    ValueError
        If their lengths differ.
    """
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} values are not pairs")
    return signed_rank_interval(np.asarray(b, dtype=np.float64) - np.asarray(a, dtype=np.float64), level)


def signed_rank_interval(differences: Sequence[float] | NDArray[np.float64], level: float = LEVEL) -> Interval:
    """Return the Hodges-Lehmann estimate of the differences of pairs, and its interval from Wilcoxon's signed ranks."""
    walsh = walsh_averages(differences)
    count = len(differences)
    if count == 0:
        return Interval(None, None, None, None, 0)
    estimate = float(np.median(walsh))
    rank, covered = _signed_rank(count, level)
    if rank == 0:
        return Interval(estimate, None, None, None, count)
    return Interval(estimate, float(walsh[rank - 1]), float(walsh[len(walsh) - rank]), covered, count)


def fewest_pairs(level: float) -> int:
    """Return the fewest pairs with an interval at this level: 2 · 2⁻ⁿ is at most the error."""
    return max(1, math.ceil(1 - math.log2(1 - level) - 1e-9))


def walsh_averages(differences: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the averages of all pairs of n values, each with itself too: n · (n + 1) / 2, in rising order."""
    values = np.asarray(differences, dtype=np.float64)
    first, second = _pairs(len(values))
    return np.sort((values[first] + values[second]) / 2)


@lru_cache(maxsize=64)
def _pairs(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    first, second = np.triu_indices(count)
    return first, second


@cache
def _signed_rank(count: int, level: float) -> tuple[int, float]:
    """Return the rank of the Walsh average at the bound of the interval, 0 if there is none, and its coverage.

    Exact except for rounding, by the distribution of the rank sum; 1000 pairs take a second, once.
    """
    # The probability of each rank sum if every sign is equally likely; sums above the middle are not needed.
    middle = count * (count + 1) // 4
    likely = np.zeros(middle + 1)
    likely[0] = 1.0
    for rank in range(1, count + 1):
        before = likely.copy()
        likely[rank:] += before[: max(len(before) - rank, 0)]
        likely /= 2
    tails = np.cumsum(likely)
    bound = int(np.searchsorted(2 * tails, 1 - level + 1e-12, side="right"))
    return bound, 1.0 if bound == 0 else float(1 - 2 * tails[bound - 1])


def independent_difference(a: Sequence[float], b: Sequence[float], level: float = LEVEL, seed: int = 0) -> Difference:
    """Return median(b) - median(a) with a percentile bootstrap interval, and Cliff's delta.

    Parameters
    ----------
    seed : int
        Seed of the resampling.
    """
    count = min(len(a), len(b))
    if count == 0:
        return Difference(Interval(None, None, None, None, 0), None)
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    estimate = float(_median_difference(second, first))
    delta = cliffs_delta(a, b)
    from scipy.stats import bootstrap

    if count == 1:
        return Difference(Interval(estimate, None, None, None, count), delta)
    generator = np.random.Generator(np.random.PCG64(seed))
    resampled = bootstrap(
        (second, first), _median_difference, n_resamples=RESAMPLES, method="percentile", rng=generator
    ).bootstrap_distribution
    # SciPy's own interval interpolates between two of the ordered resamples; this is Davison and Hinkley's.
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2], method="weibull").tolist()
    return Difference(Interval(estimate, low, high, level, count), delta)


def _median_difference(second: NDArray[np.float64], first: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
    return np.asarray(np.median(second, axis=axis) - np.median(first, axis=axis))


def cliffs_delta(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Return P(b > a) - P(b < a) (Cliff 1993), from -1 to 1; ``None`` without values."""
    require("report", "Cliff's delta", ("scipy",))
    from scipy.stats import mannwhitneyu

    pairs = len(a) * len(b)
    return float(2 * mannwhitneyu(b, a, method="asymptotic").statistic - pairs) / pairs if pairs else None
