"""Findings on pairs: all treatments of a block have the same channel, so their differences are compared.

Formulas and sources: docs/models/campaign-statistics.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import numpy as np

from wavebed.extras import require
from wavebed.stats.intervals import Interval, method, signed_rank_interval
from wavebed.stats.verdict import Margin, MetricSample, conclude, judge, scaled_margin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from wavebed.stats.intervals import Method
    from wavebed.stats.verdict import Better, Finding, Reason, Scale, Verdict

    Floats = NDArray[np.float64]

LEVEL = 0.95
EXACT = 200
"""The exact distribution of more values takes seconds; the normal one differs from it by less than 0.001."""
_ROUNDING = 8 * np.finfo(np.float64).eps
"""Relative to the values: differences that vary by less vary by the rounding of the subtraction."""


class PairedDesign(Protocol):
    """A way to infer from differences in the order of their blocks: fixed size, planned looks, or continuous looks."""

    @property
    def level(self) -> float:
        """Coverage probability of the interval."""

    @property
    def method(self) -> Method:
        """Origin of the results."""

    def at(self, level: float) -> PairedDesign:
        """Return the same design at another level."""

    def interval(self, differences: Sequence[float] | Floats) -> Interval:
        """Return the estimate of the typical difference and its interval; without bounds where there are too few."""

    def p(self, differences: Sequence[float] | Floats) -> float:
        """Return the two-sided p value of no difference, 1 without differences."""


@dataclass(frozen=True, slots=True)
class SignedRanks:
    """Fixed size: Wilcoxon's signed ranks, looked at once.

    The p value is exact, given the sizes of the differences: zeros are ranked and then left out (Pratt 1959), ties have
    their mean rank.
    """

    level: float = LEVEL

    @property
    def method(self) -> Method:
        """Origin of the results."""
        return method("signed-ranks")

    def at(self, level: float) -> SignedRanks:
        """Return the same design at another level."""
        return replace(self, level=level)

    def interval(self, differences: Sequence[float] | Floats) -> Interval:
        """Return the Hodges-Lehmann estimate and the interval of Walsh averages, exact."""
        return signed_rank_interval(differences, self.level)

    def p(self, differences: Sequence[float] | Floats) -> float:
        """Return the exact two-sided p value."""
        return signed_rank_p(differences)


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Differences of pairs on the working scale.

    Parameters
    ----------
    values : float array, shape (n,)
        b - a, or log(b / a).
    scale : str
        ``difference`` or ``ratio``.
    margin : float or None
        Largest difference within the margin, on this scale.
    constant : bool
        Whether at least two differences are all the same, but for the rounding of the subtraction.
    reason : str or None
        ``not-positive``: a relative margin is judged on differences, since a value is not positive;
        ``no-reference``: and there is no margin, since the median of a is 0.
    """

    values: Floats
    scale: Scale
    margin: float | None
    constant: bool
    reason: Reason | None

    @classmethod
    def of(cls, a: Sequence[float], b: Sequence[float], margin: Margin | None = None) -> Pairs:
        """Return the pairs of two samples; on logarithms if the margin is relative and all values are positive.

        Parameters
        ----------
        a, b : sequence of float
            One value for each block, in the same order.

        Raises
        ------
        ValueError
            If their lengths differ or a value is not finite.
        """
        if len(a) != len(b):
            raise ValueError(f"{len(a)} and {len(b)} values are not pairs")
        both = np.array([a, b], dtype=np.float64)
        if not np.isfinite(both).all():
            raise ValueError("a value is not a finite number")
        reference = float(np.median(both[0])) if both.size else None
        scale, half, reason = scaled_margin(margin, bool((both > 0).all()), reference)
        values, constant = _snapped(both, scale)
        return cls(values, scale, half, constant, reason)


def _snapped(both: Floats, scale: Scale) -> tuple[Floats, bool]:
    """Return the differences, equal to the last bit if they differ by rounding only, and whether they do."""
    count = both.shape[1]
    used = np.log(both) if scale == "ratio" else both
    values = np.asarray(used[1] - used[0])
    if count < 2:
        return values, False
    # A logarithm has the rounding of its argument too.
    rounding = _ROUNDING * (float(np.abs(used).max()) + (scale == "ratio"))
    if float(values.max() - values.min()) > rounding:
        return values, False
    middle = float(np.median(values))
    return np.full(count, 0.0 if abs(middle) <= rounding else middle), True


def paired_finding(
    a: Sequence[float],
    b: Sequence[float],
    margin: Margin | None = None,
    better: Better | None = None,
    design: PairedDesign | None = None,
) -> Finding:
    """Return the finding on b beside a, of one metric; several primary metrics: `family.settle`.

    Parameters
    ----------
    a, b : sequence of float
        One value for each block, in the order of the blocks.
    margin : Margin, optional
        The smallest difference that matters.
    better : {"lower", "higher"}, optional
        The better direction of the metric.
    design : PairedDesign, optional
        `SignedRanks` at 95 % by default.

    Raises
    ------
    ValueError
        If their lengths differ or a value is not finite.
    """
    return find(Pairs.of(a, b, margin), better, design or SignedRanks())


def find(
    pairs: Pairs,
    better: Better | None,
    design: PairedDesign,
    p: float | None = None,
    adjusted: float | None = None,
    *,
    stepped: bool = False,
) -> Finding:
    """Return the finding on pairs by a design; its p value, and that adjusted for other metrics, may be known.

    Parameters
    ----------
    stepped : bool
        Whether the interval is one of a step of Holm's method, which bears no equivalence.
    """
    interval = design.interval(pairs.values)
    sample = MetricSample(pairs.scale, pairs.margin, pairs.constant, pairs.reason)
    known = design.p(pairs.values) if p is None and interval.count else p
    # A level of 1 - 0.05 / 3 is not exact to the last digit.
    rejected = known is not None and known <= 1 - design.level + 1e-12
    return conclude(sample, interval, better, design.method, known, adjusted, stepped=stepped, rejected=rejected)


def signed_rank_p(differences: Sequence[float] | Floats) -> float:
    """Return the two-sided p value of Wilcoxon's signed ranks: zeros by Pratt, ties by mean ranks.

    Exact up to `EXACT` values, by the normal distribution above.

    SciPy's is exact too, but with ties only up to 13 values, by permutations, in milliseconds.
    """
    values = np.asarray(differences, dtype=np.float64)
    twice = _twice_ranks(np.abs(values))
    used = values != 0
    if not used.any():
        return 1.0
    less = min(int(twice[values > 0].sum()), int(twice[values < 0].sum()))
    if len(values) > EXACT:
        middle, spread = twice[used].sum() / 2, float(np.sqrt((twice[used].astype(np.float64) ** 2).sum())) / 2
        return min(1.0, 2 * NormalDist().cdf((less + 1 - middle) / spread))
    tail = _tails(tuple(np.sort(twice[used]).tolist()))
    return min(1.0, 2 * float(tail[less]))


def _twice_ranks(sizes: Floats) -> NDArray[np.int64]:
    """Return twice the mean rank of each size, whole numbers."""
    ordered = np.sort(sizes)
    below = np.searchsorted(ordered, sizes, side="left")
    through = np.searchsorted(ordered, sizes, side="right")
    return np.asarray(below + through + 1, dtype=np.int64)


@lru_cache(maxsize=512)
def _tails(twice: tuple[int, ...]) -> Floats:
    """Return P(sum ≤ s) for s from 0 if each number is in the sum with probability ½; empty without numbers."""
    if not twice:
        return np.empty(0)
    likely = np.zeros(sum(twice) + 1)
    likely[0] = 1.0
    for number in twice:
        likely[number:] += likely[:-number].copy()
        likely /= 2
    return np.cumsum(likely)


ExclusionsCode: TypeAlias = Literal["none", "alike", "differ"]
SEED, RESAMPLES = 0, 9999
ROUNDING = 1e-9
"""Relative difference of statistics that counts as equal."""


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Whether the fraction of excluded trials differs between treatments.

    Parameters
    ----------
    code : str
        ``none`` without exclusions, ``differ`` if `p` is at most the error, else ``alike``.
    p : float or None
        ``None`` without exclusions or with fewer than two treatments.
    excluded : tuple of (str, int, int)
        Treatment, excluded trials, all trials.
    method : Method
        Origin of the result.
    """

    code: ExclusionsCode
    p: float | None
    excluded: tuple[tuple[str, int, int], ...]
    method: Method


def exclusions(counts: Mapping[str, tuple[int, int]], level: float = 0.95) -> Exclusions:
    """Return the test of excluded trials by treatment: Fisher's exact test.

    With three treatments and more, the chi-square statistic among random permutations of the trials.

    Parameters
    ----------
    counts : mapping of str to (int, int)
        Excluded trials and all trials of each treatment.
    level : float
        1 minus the error at which treatments differ.

    Raises
    ------
    MissingPackageError
        If SciPy is not installed.
    ValueError
        If a treatment has more excluded trials than trials.
    """
    for name, (lost, total) in counts.items():
        if not 0 <= lost <= total:
            raise ValueError(f"{name}: {lost} of {total} trials cannot be excluded")
    listed = tuple((name, lost, total) for name, (lost, total) in counts.items())
    table = np.array([(lost, total - lost) for _, lost, total in listed if total])
    if len(table) < 2 or not table[:, 0].any():
        code: ExclusionsCode = "alike" if len(table) and table[:, 0].any() else "none"
        return Exclusions(code, None, listed, method("fisher-exact"))
    p, name = _tested(table)
    return Exclusions("differ" if p <= 1 - level else "alike", p, listed, method(name))


def _tested(table: NDArray[np.int64]) -> tuple[float, str]:
    """Return the p value and the name of the test of a table of excluded and counted trials by treatment."""
    require("report", "A test of exclusions", ("scipy",))
    from scipy.stats import fisher_exact, random_table

    if not table[:, 1].any():
        return 1.0, "fisher-exact"
    if len(table) == 2:
        return float(fisher_exact(table).pvalue), "fisher-exact"
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    expected = np.outer(rows, columns) / table.sum()
    permuted = random_table.rvs(rows, columns, size=RESAMPLES, random_state=np.random.Generator(np.random.PCG64(SEED)))
    statistics, observed = (((each - expected) ** 2 / expected).sum(axis=(-2, -1)) for each in (permuted, table))
    as_far = int(np.count_nonzero(statistics >= observed * (1 - ROUNDING)))
    return (as_far + 1) / (RESAMPLES + 1), "chi-square"


def worst_case(
    a: Sequence[float | None],
    b: Sequence[float | None],
    margin: Margin | None = None,
    better: Better | None = None,
    design: PairedDesign | None = None,
    bounds: tuple[float, float] | None = None,
) -> Finding | None:
    """Return the finding on pairs whose missing values could be any within bounds; ``None`` without a value.

    The interval reaches from the lower bound with the missing values that make b as small and a as large as possible to
    the upper bound with the opposite; the p value is the larger one. The complete pairs give the estimate.

    Parameters
    ----------
    a, b : sequence of float or None
        One value for each block, in the order of the blocks; ``None`` is missing.
    bounds : (float, float), optional
        Least and greatest possible value; by default the least and greatest of all observed values.

    Raises
    ------
    ValueError
        If the lengths of the samples differ or a value is not finite or beyond the bounds.
    """
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} values are not pairs")
    seen = [value for value in (*a, *b) if value is not None]
    if not seen:
        return None
    least, most = bounds or (min(seen), max(seen))
    if min(seen) < least or max(seen) > most:
        raise ValueError(f"values from {min(seen):g} to {max(seen):g} are beyond the bounds of {least:g} to {most:g}")
    chosen = design or SignedRanks()
    complete = [(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None]
    asked = _bearable(margin, least, seen)
    ends = [
        paired_finding(_filled(a, for_a), _filled(b, for_b), asked, better, chosen)
        for for_a, for_b in ((most, least), (least, most))
    ]
    found = paired_finding([x for x, _ in complete], [y for _, y in complete], asked, better, chosen)
    low, high = ends[0].low, ends[1].high
    verdict = found.verdict if len(complete) == len(a) else _worst(low, high, found, better)
    return replace(
        found,
        verdict=verdict,
        low=low,
        high=high,
        level=ends[0].level,
        count=len(a),
        p=max(p for end in ends if (p := end.p) is not None),
        adjusted=None,
        constant=all(end.constant for end in ends) and ends[0].estimate == ends[1].estimate,
        reason="too-few" if low is None else found.reason,
    )


def _bearable(margin: Margin | None, least: float, seen: Sequence[float]) -> Margin | None:
    """Return the margin, in the unit of the metric if missing values could be 0 or less, which have no ratio."""
    if margin is None or not margin.relative or least > 0:
        return margin
    return Margin(margin.value * abs(float(np.median(seen))))


def _filled(values: Sequence[float | None], missing: float) -> list[float]:
    return [missing if value is None else value for value in values]


def _worst(low: float | None, high: float | None, found: Finding, better: Better | None) -> Verdict:
    """Return the verdict of an interval in the unit or ratio of a finding."""
    if found.scale == "difference":
        return judge(low, high, found.margin, better)
    low, high, margin = (None if value is None else math.log(value) for value in (low, high, found.margin))
    return judge(low, high, margin, better)
