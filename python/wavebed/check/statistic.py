"""Statistics of a metric over seeds, in which a seed may have failed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.check.requirement import Requirement

__all__ = ["fails_whatever", "holds", "statistic_of"]


def statistic_of(requirement: Requirement, values: Sequence[float]) -> float:
    """Return the statistic of a requirement.

    A percentile lies between two ordered values by linear interpolation (definition 7 of Hyndman and Fan 1996), as in
    NumPy. Of ``every`` the value farthest from holding is returned, without a direction the first that does not hold.

    Parameters
    ----------
    values : sequence of float
        At least one; that of a failed seed is `requirement.worst`, which stays the result wherever it takes part.
    """
    ordered = sorted(values)
    worst = requirement.worst
    match requirement.statistic:
        case "min":
            return ordered[0]
        case "max":
            return ordered[-1]
        case "mean":
            return worst if worst in ordered else math.fsum(ordered) / len(ordered)
        case "every":
            if requirement.comparison == "=":
                return next((value for value in values if value != requirement.value), values[0])
            return ordered[-1] if worst > 0 else ordered[0]
    assert requirement.percentile is not None, "the others are above"
    place = (len(ordered) - 1) * requirement.percentile / 100
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    endless = [each for each in (low, high) if math.isinf(each)]
    if endless:
        return worst if worst in endless else endless[0]
    return low + (place - math.floor(place)) * (high - low)


def holds(requirement: Requirement, values: Sequence[float], bound: float) -> bool:
    """Return whether a requirement holds for these values."""
    if requirement.comparison == "=":
        return all(value == bound for value in values)
    return requirement.holds(statistic_of(requirement, values), bound)


def fails_whatever(
    requirement: Requirement, values: Sequence[float], missing: int, bound: float, least: float = -math.inf
) -> bool:
    """Return whether a requirement fails whatever the values of the missing seeds are.

    Parameters
    ----------
    missing : int
        How many seeds have no value yet, or none that counts.
    least : float
        The smallest value that the metric can have.
    """
    if requirement.comparison == "=":
        return any(value != bound for value in values)
    best = max(-requirement.worst, least)
    every = [*values, *[best] * missing]
    return bool(every) and not requirement.holds(statistic_of(requirement, every), bound)
