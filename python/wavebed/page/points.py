"""Reduce points for drawing; keep extremes and gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Floats: TypeAlias = "NDArray[np.float64]"


@dataclass(frozen=True, slots=True, eq=False)
class ThinnedPoints:
    """Values over time in seconds, ascending; NaN is a gap."""

    time_s: Floats
    value: Floats

    def between(self, start_s: float, end_s: float) -> ThinnedPoints:
        """Return those from `start_s` to `end_s`."""
        keep = (self.time_s >= start_s) & (self.time_s <= end_s)
        return ThinnedPoints(self.time_s[keep], self.value[keep])

    def __len__(self) -> int:
        """Return the number of points, gaps included."""
        return len(self.time_s)


def thinned(points: ThinnedPoints, start_s: float, end_s: float, bins: int) -> ThinnedPoints:
    """Keep the lowest, the highest and one gap of each of `bins` equal intervals; few points are unchanged."""
    if len(points) <= 2 * bins:
        return points
    place = _places(points.time_s, start_s, end_s, bins)
    missing = np.isnan(points.value)
    keep = np.zeros(len(points), dtype=bool)
    for values in (np.where(missing, np.inf, points.value), np.where(missing, np.inf, -points.value)):
        order = np.lexsort((values, place))
        keep[order[_firsts(place[order])]] = True
    gaps = np.flatnonzero(missing)
    keep[gaps[_firsts(place[gaps])]] = True
    return ThinnedPoints(points.time_s[keep], points.value[keep])


def held(points: ThinnedPoints, moments_s: Floats) -> Floats:
    """Return the last value at or before each moment; NaN before the first."""
    place = np.searchsorted(points.time_s, moments_s, side="right") - 1
    out = np.full(len(moments_s), np.nan)
    out[place >= 0] = points.value[place[place >= 0]]
    return out


def summed(time_s: Floats, amount: Floats, step_s: float, end_s: float) -> ThinnedPoints:
    """Return the amount per second in steps from 0 to about `end_s`; what is outside is left out."""
    count = max(1, round(end_s / step_s))
    place = np.floor(time_s / step_s + 1e-9).astype(np.int64)
    inside = (place >= 0) & (place < count)
    total = np.bincount(place[inside], amount[inside], minlength=count) if inside.any() else np.zeros(count)
    return ThinnedPoints(middles(0.0, step_s, count), np.asarray(total / step_s, np.float64))


def middles(start_s: float, step_s: float, count: int) -> Floats:
    """Return the middle of each step of time."""
    return np.asarray(start_s + (np.arange(count) + 0.5) * step_s, np.float64)


def _places(time_s: Floats, start_s: float, end_s: float, bins: int) -> NDArray[np.int64]:
    width = max(end_s - start_s, 1e-9) / bins
    return np.clip(((time_s - start_s) / width).astype(np.int64), 0, bins - 1)


def _firsts(place: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which are the first of their place, in ascending places."""
    return np.asarray(np.diff(place, prepend=-1) != 0)
