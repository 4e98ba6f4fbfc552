"""Verdicts on a difference, from its interval and the margin that matters.

The rule is on the page docs/models/campaign-statistics.md. Verdicts are codes; sentences are made elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from wavebed.stats.intervals import method

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.stats.intervals import Interval, Method


Verdict: TypeAlias = Literal["better", "worse", "equivalent", "undecided", "equal", "different"]
Better: TypeAlias = Literal["lower", "higher"]
Scale: TypeAlias = Literal["difference", "ratio"]
Reason: TypeAlias = Literal["too-few", "not-positive", "no-reference", "constant", "no-margin", "too-many", "no-values"]
"""Why a result is missing or is not of the requested form."""


@dataclass(frozen=True, slots=True)
class Margin:
    """The smallest difference that matters.

    Parameters
    ----------
    value : float
        At least 0: in the unit of the metric, or a fraction of the reference if `relative` (0.05 for 5 %).
    relative : bool
        Symmetric on logarithms: with 0.05, ratios from 1/1.05 to 1.05 are within the margin.

    Raises
    ------
    ValueError
        If `value` is negative or not finite.
    """

    value: float
    relative: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value >= 0):
            raise ValueError(f"a margin of {self.value:g} is not a finite number of at least 0")


def scaled_margin(
    margin: Margin | None, positive: bool, reference: float | None
) -> tuple[Scale, float | None, Reason | None]:
    """Return the scale for a margin, its largest difference there, and why it is not what the margin asks for.

    Parameters
    ----------
    positive : bool
        Whether all values are, so that they have ratios.
    reference : float or None
        Median of the first sample; ``None`` without values.
    """
    if margin is None:
        return "difference", None, None
    if not margin.relative:
        return "difference", margin.value, None
    if positive:
        return "ratio", math.log1p(margin.value), None
    if not reference:
        return "difference", None, "no-reference"
    return "difference", margin.value * abs(reference), "not-positive"


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict on the second of two samples beside the first, with what it rests on.

    Parameters
    ----------
    verdict : str
        ``better``, ``worse``, ``equivalent``, ``undecided``, ``equal``, or ``different`` where neither direction of the
        metric is better.
    estimate, low, high : float or None
        The difference second - first or the ratio second / first (see `scale`), and its interval. ``None`` where there
        are too few values.
    level : float or None
        Coverage probability of the interval; simultaneous over several primary metrics only as `family.settle` says.
    count : int
        Number of pairs; of independent samples, values of the smaller one.
    p : float or None
        Two-sided p value of no difference.
    adjusted : float or None
        The same, adjusted by Holm over all primary metrics; equal to `p` if there is one.
    scale : str
        ``difference`` or ``ratio``.
    margin : float or None
        The largest difference within the margin, or the largest ratio; ``None`` without a margin.
    constant : bool
        All differences (or ratios) are the same. Without an interval the verdict is then on the values seen only.
    reason : str or None
        Why there is no interval, or why a relative margin was judged on differences.
    method : Method
        Name and version of the formula, versions of the libraries.
    """

    verdict: Verdict
    estimate: float | None
    low: float | None
    high: float | None
    level: float | None
    count: int
    p: float | None
    adjusted: float | None
    scale: Scale
    margin: float | None
    constant: bool
    reason: Reason | None
    method: Method

    @property
    def settled(self) -> bool:
        """Whether a stop rule may stop: there is a verdict, and an interval bears it."""
        return self.verdict != "undecided" and self.low is not None


def judge(
    low: float | None, high: float | None, margin: float | None, better: Better | None, *, rejected: bool = False
) -> Verdict:
    """Return the verdict of an interval of second - first, on the working scale (0 is no difference).

    ``equivalent`` if the whole interval is within the margin, even if it excludes 0; else ``better`` or ``worse`` if it
    excludes 0; else ``undecided``. ``equal`` is said of differences that are all 0, not of an interval (see `paired`).

    Parameters
    ----------
    low, high : float or None
        The interval; ``None`` if there is none.
    margin : float or None
        Largest difference that does not matter, at least 0.
    better : {"lower", "higher"} or None
        The better direction of the metric; without one, a difference is ``different``.
    rejected : bool
        Whether an exact test at the level of the interval rejects 0. The interval excludes 0 then even if it ends
        there, as it does with ties.
    """
    if low is None or high is None:
        return "undecided"
    if margin is not None and -margin <= low and high <= margin:
        return "equivalent"
    if low < 0 < high or (low <= 0 <= high and not (rejected and low < high)):
        return "undecided"
    if better is None:
        return "different"
    return "better" if (high > 0) == (better == "higher") else "worse"


class MetricSample(NamedTuple):
    """A compared sample without its values; the margin is on the working scale."""

    scale: Scale
    margin: float | None
    constant: bool
    reason: Reason | None


def conclude(
    sample: MetricSample,
    interval: Interval,
    better: Better | None,
    method: Method,
    p: float | None,
    adjusted: float | None = None,
    *,
    stepped: bool = False,
    rejected: bool = False,
) -> Finding:
    """Return the finding of an interval on the working scale.

    Differences that are all the same have the verdict of their value where there are too few for an interval.

    Parameters
    ----------
    stepped : bool
        Whether the interval is one of a step of Holm's method, which bears no equivalence.
    rejected : bool
        As of `judge`.
    """
    low, high = interval.low, interval.high
    margin = None if stepped else sample.margin
    if sample.constant and low is None:
        low = high = interval.estimate
    verdict: Verdict = judge(low, high, margin, better, rejected=rejected)
    if sample.constant and interval.estimate == 0:
        verdict = "equal"
    estimate, low, high, shown = (
        math.exp(value) if value is not None and sample.scale == "ratio" else value
        for value in (interval.estimate, interval.low, interval.high, sample.margin)
    )
    return Finding(
        verdict=verdict,
        estimate=estimate,
        low=low,
        high=high,
        level=interval.level,
        count=interval.count,
        p=p,
        adjusted=p if adjusted is None else adjusted,
        scale=sample.scale,
        margin=shown,
        constant=sample.constant,
        reason="too-few" if interval.low is None else sample.reason,
        method=method,
    )


Sides: TypeAlias = Literal["upper", "lower", "both"]


@dataclass(frozen=True, slots=True)
class Percentile:
    """A percentile and its bounds.

    Parameters
    ----------
    probability : float
        0.95 for the 95th percentile.
    estimate : float or None
        ``None`` if the sample does not bear the percentile.
    low, high : float or None
        Bounds; ``None`` for the side that was not asked for.
    level : float or None
        Coverage of the bounds, at least the requested one.
    count, needed : int
        Number of values, and how many the bounds need.
    reason : str or None
        ``too-few`` if the sample does not bear the percentile.
    method : Method
        Origin of the result.
    """

    probability: float
    estimate: float | None
    low: float | None
    high: float | None
    level: float | None
    count: int
    needed: int
    reason: Reason | None
    method: Method


def percentile(
    values: Sequence[float], probability: float, level: float = 0.95, sides: Sides | None = None
) -> Percentile:
    """Return a percentile with bounds by order statistics (Thompson 1936).

    Parameters
    ----------
    probability : float
        Above 0 and below 1.
    sides : {"upper", "lower", "both"}, optional
        The bounds; by default that towards the tail, ``lower`` below the median and ``upper`` else.

    Raises
    ------
    ValueError
        If the probability is not above 0 and below 1.
    """
    chosen = sides or _tail(probability)
    few, count, origin = needed(probability, level, chosen), len(values), method("order-statistics")
    if count < few:
        return Percentile(probability, None, None, None, None, count, few, "too-few", origin)
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    error = (1 - level) / (2 if chosen == "both" else 1)
    # P(at most k values are below the percentile), by the binomial distribution.
    below = np.cumsum(_binomial(count, probability))
    covered, low, high = 1.0, None, None
    if chosen != "upper":
        rank = int(np.searchsorted(below, error, side="right"))  # values below x(rank) are at most rank - 1
        low = float(ordered[rank - 1])
        covered -= float(below[rank - 1])
    if chosen != "lower":
        rank = int(np.searchsorted(below, 1 - error, side="left")) + 1
        high = float(ordered[rank - 1])
        covered -= 1 - float(below[rank - 1])
    estimate = float(np.quantile(ordered, probability))
    return Percentile(probability, estimate, low, high, covered, count, few, None, origin)


def needed(probability: float, level: float = 0.95, sides: Sides | None = None) -> int:
    """Return the smallest sample size that bounds a percentile.

    At 95 %, an upper bound of P90, P95 and P99 needs 29, 59 and 299 values.

    Raises
    ------
    ValueError
        If the probability is not above 0 and below 1.
    """
    if not 0 < probability < 1:
        raise ValueError(f"a probability of {probability:g} is not above 0 and below 1")
    chosen = sides or _tail(probability)
    error = (1 - level) / (2 if chosen == "both" else 1)
    # All values lie on one side of the percentile with probability q^n: the extreme is no bound then.
    most = max([probability] * (chosen != "lower") + [1 - probability] * (chosen != "upper"))
    return max(math.ceil(math.log(error) / math.log(most) - 1e-9), 1)


def _tail(probability: float) -> Sides:
    return "lower" if probability < 0.5 else "upper"


def _binomial(count: int, probability: float) -> NDArray[np.float64]:
    """Return the probabilities of 0 to n successes."""
    ks = np.arange(count + 1)
    logs = np.array([math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1) for k in ks])
    return np.asarray(np.exp(logs + ks * math.log(probability) + (count - ks) * math.log1p(-probability)))
