"""Random generators that are keyed by seed and stage, so that no stage disturbs another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def generator(seed: int, stage: str) -> np.random.Generator:
    """Return the generator of one stage of one seed.

    Parameters
    ----------
    seed : int
        Not negative.
    stage : str
        What is drawn from it, such as ``shadowing``.
    """
    key = int.from_bytes(stage.encode(), "little")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(key,))))


def generators(seeds: Iterable[int], stage: str) -> list[np.random.Generator]:
    """Return one generator for each seed; an ensemble has the generators of its members."""
    return [generator(seed, stage) for seed in seeds]


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


_ORIGIN = 1 << 31
"""Added to the index of a node of the lattice, so that the key of its generator is not negative."""
_CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))


class Lattice(NamedTuple):
    """Places between the nodes of a square lattice: what all draws for the same places have in common.

    Parameters
    ----------
    position_m : (n, 2) or (n, 3) float64
        The places; the height does not count.
    nodes : (m, 2) int64
        The nodes around them, each once.
    corner : (4, n) intp
        Which of them each place lies between.
    weight : (4, n) float64
        How much each of these counts.
    scale : (n,) float64
        Standard deviation of the sum.
    """

    position_m: Floats
    nodes: NDArray[np.int64]
    corner: NDArray[np.intp]
    weight: Floats
    scale: Floats

    @classmethod
    def of(cls, position_m: Floats, spacing_m: float) -> Lattice:
        """Return the lattice of places; `spacing_m`, the distance of the nodes, is the correlation distance."""
        place = position_m[:, :2] / spacing_m
        low = np.floor(place).astype(np.int64)
        x, y = (place - low).T
        around = np.concatenate([low + np.array(corner) for corner in _CORNERS])
        nodes, which = np.unique(around, axis=0, return_inverse=True)
        weight = np.stack([(x if right else 1 - x) * (y if up else 1 - y) for right, up in _CORNERS])
        scale = np.sqrt((weight**2).sum(axis=0))
        return cls(position_m, nodes, which.reshape(len(_CORNERS), -1), weight, scale)


def place_normals(seed: int, stage: str, lattice: Lattice, count: int) -> Floats:
    """Return `count` independent normal fields at each place, of shape (n, count).

    The values are drawn at the nodes of the lattice and interpolated in the plane, with the variance that
    interpolation takes away given back. Places further apart than the spacing are almost independent (TR 38.901 7.6.3.1
    leaves the method of consistency open).

    Parameters
    ----------
    seed : int
        Not negative.
    stage : str
        What is drawn, such as ``clusters 0``.
    lattice : Lattice
        The places.
    count : int
        Number of fields.
    """
    key = int.from_bytes(stage.encode(), "little")
    drawn = np.empty((len(lattice.nodes), count))
    for row, (x, y) in zip(drawn, (lattice.nodes + _ORIGIN).tolist(), strict=True):
        words = np.random.SeedSequence(seed, spawn_key=(key, x, y))
        row[:] = np.random.Generator(np.random.PCG64(words)).standard_normal(count)
    total = np.zeros((len(lattice.position_m), count))
    for corner, weight in zip(lattice.corner, lattice.weight, strict=True):
        some = np.take(drawn, corner, axis=0)
        some *= weight[:, None]
        total += some
    total /= lattice.scale[:, None]
    return total
