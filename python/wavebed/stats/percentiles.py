"""Percentiles, only where the sample bears them: bounds are values of the sample, without assumptions on its shape."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from wavebed.stats.methods import method

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.stats.methods import Method
    from wavebed.stats.verdict import Reason

__all__ = ["Percentile", "Sides", "needed", "percentile"]

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
    """Return the fewest values that bound a percentile: 29, 59 and 299 for an upper bound of P90, P95 and P99 at 95 %.

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
