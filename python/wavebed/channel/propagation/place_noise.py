"""Independent normal values that belong to places: whoever comes back to a place finds them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["Lattice", "place_normals"]

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
