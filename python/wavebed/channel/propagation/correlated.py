"""Gaussian processes whose correlation falls exponentially over a distance (TR 38.901 7.4.4, eq. 7.4-5)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["gaussian", "normal_cdf", "walked_m"]

POINTS_PER_DISTANCE = 40
"""Points of the grid in one correlation distance. Between two of them the process is straight: the correlation of
places that are closer than D/40 is up to 0.0125 above the exponential."""
BLOCK = 512
"""Grid points that are summed at once: e^(512/40) = 3.6 · 10⁵ keeps all digits that matter."""

HIGHEST = 7.0
_STEPS = 8192
_CDF = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in np.linspace(-HIGHEST, HIGHEST, _STEPS + 1)])
_RISE = np.diff(_CDF)


def normal_cdf(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard normal distribution function, within 10⁻⁷."""
    place = np.clip((x + HIGHEST) * (_STEPS / (2 * HIGHEST)), 0, _STEPS - 1e-6)
    below = place.astype(np.intp)
    place -= below
    place *= np.take(_RISE, below)
    place += np.take(_CDF, below)
    return np.asarray(place)


def walked_m(position_m: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distance walked until each step, from positions of shape (n, 3)."""
    steps = np.sqrt((np.diff(position_m, axis=0) ** 2).sum(axis=1))
    return np.concatenate(([0.0], np.cumsum(steps)))


def gaussian(
    rngs: Sequence[np.random.Generator], distance_m: NDArray[np.float64], correlation_m: float
) -> NDArray[np.float64]:
    """Return a standard normal process over a distance, correlated by exp(-Δd/D); shape (seeds, n).

    The first-order autoregressive process is drawn on a grid of D/40 and interpolated, with the variance that
    interpolation takes away given back. Its value depends on the distance alone: not on the step, nor on how far the
    walk goes on.

    Parameters
    ----------
    rngs : sequence of numpy.random.Generator
        One for each seed.
    distance_m : (n,) float64
        Distance walked until each step; it never falls.
    correlation_m : float
        The correlation distance D.
    """
    place = (distance_m - distance_m[0]) * (POINTS_PER_DISTANCE / correlation_m)
    index = place.astype(np.intp)
    following = index + 1
    grid = _autoregressive(rngs, int(index[-1]) + 2)
    fraction = place - index
    bend = 2 * (1 - math.exp(-1 / POINTS_PER_DISTANCE))
    scale = 1 / np.sqrt(1 - bend * fraction * (1 - fraction))
    before, after = (1 - fraction) * scale, fraction * scale
    process = np.empty((len(rngs), index.size))
    other = np.empty(index.size)
    for own, points in zip(process, grid, strict=True):  # one seed at a time stays in the cache
        np.take(points, index, out=own, mode="clip")
        np.take(points, following, out=other, mode="clip")
        np.multiply(own, before, out=own)
        np.multiply(other, after, out=other)
        np.add(own, other, out=own)
    return process


def _autoregressive(rngs: Sequence[np.random.Generator], points: int) -> NDArray[np.float64]:
    """z₀ = w₀, zₖ = r·zₖ₋₁ + √(1 - r²)·wₖ with r = exp(-1/40), block by block with cumulative sums."""
    rho = math.exp(-1 / POINTS_PER_DISTANCE)
    white = np.stack([rng.standard_normal(points) for rng in rngs])
    white[:, 1:] *= math.sqrt(1 - rho * rho)
    powers = rho ** np.arange(BLOCK + 1)
    last = np.zeros((len(rngs), 1))
    for start in range(0, points, BLOCK):
        block = white[:, start : start + BLOCK]
        count = block.shape[1]
        block[:] = np.cumsum(block / powers[:count], axis=1) * powers[:count] + last * powers[1 : count + 1]
        last = block[:, -1:].copy()
    return white
