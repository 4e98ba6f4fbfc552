"""Independent normal values that belong to places: whoever comes back to a place finds them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["place_normals"]

_ORIGIN = 1 << 31
"""Added to the index of a node of the lattice, so that the key of its generator is not negative."""


def place_normals(
    seed: int, stage: str, position_m: NDArray[np.float64], spacing_m: float, count: int
) -> NDArray[np.float64]:
    """Return `count` independent normal fields at each place, of shape (n, count).

    The values are drawn at the nodes of a square lattice and interpolated in the plane, with the variance that
    interpolation takes away given back. Places further apart than the spacing are almost independent (TR 38.901 7.6.3.1
    leaves the method of consistency open).

    Parameters
    ----------
    seed : int
        Not negative.
    stage : str
        What is drawn, such as ``clusters 0``.
    position_m : (n, 2) or (n, 3) float64
        The places; the height does not count.
    spacing_m : float
        Distance of the nodes: the correlation distance.
    count : int
        Number of fields.
    """
    place = position_m[:, :2] / spacing_m
    corner = np.floor(place).astype(np.int64)
    x, y = (place - corner).T
    total = np.zeros((len(position_m), count))
    power = np.zeros(len(position_m))
    for right in (0, 1):
        for up in (0, 1):
            weight = (x if right else 1 - x) * (y if up else 1 - y)
            total += weight[:, None] * _at_nodes(seed, stage, corner + np.array((right, up)), count)
            power += weight**2
    return np.asarray(total / np.sqrt(power)[:, None])


def _at_nodes(seed: int, stage: str, node: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    key = int.from_bytes(stage.encode(), "little")
    nodes, which = np.unique(node, axis=0, return_inverse=True)
    drawn = np.empty((len(nodes), count))
    for row, (x, y) in zip(drawn, (nodes + _ORIGIN).tolist(), strict=True):
        words = np.random.SeedSequence(seed, spawn_key=(key, x, y))
        row[:] = np.random.Generator(np.random.PCG64(words)).standard_normal(count)
    return drawn[which.ravel()]
