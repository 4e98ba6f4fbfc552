"""Beams of a codebook: the gain of each towards an angle, for a direct ray and for the rays of a cluster.

The azimuth and the elevation of a panel's pattern are taken apart: the gain of a beam is the product of that of its
columns at the azimuth and that of its rows at the elevation.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from wavebed.channel.propagation.antenna import ELEMENTS
from wavebed.channel.propagation.clusters import RAY_OFFSETS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.scene.tables import Array

    Floats: TypeAlias = NDArray[np.float32]

__all__ = ["Patterns", "Toward", "beams_of", "bins", "patterns"]

OVERSAMPLING = 2
"""Beams of a row of n elements: 2n, 1/n apart in the sine of the angle. Between two of them 0.9 dB are lost."""
BINS_PER_DEG = 4
BINS = 360 * BINS_PER_DEG
SIDELOBE_FLOOR = 1e-3
"""Beams are this deep at most below their peak, 30 dB: the nulls are filled by errors of real arrays."""


class Toward(NamedTuple):
    """Gains of a panel towards angles: of all columns' and rows' beams, (*shape, beams), and the best product."""

    columns: Floats
    rows: Floats
    highest: Floats


class Patterns(NamedTuple):
    """Power gains of a panel: `columns` (azimuth bins, beams), `rows` (elevation bins, beams), and the best of a bin.

    Bin 0 is -180 degrees from the normal of the panel, and they wrap around. The bins of each kind of wave follow those
    of the kind before.
    """

    columns: Floats
    rows: Floats
    best_column: Floats
    best_row: Floats

    def towards(self, azimuth_deg: NDArray[np.float64], elevation_deg: NDArray[np.float64]) -> Toward:
        """Return the gains towards angles of one shape, of waves of the first kind."""
        return self.at(bins(azimuth_deg), bins(elevation_deg))

    def at(self, across: NDArray[np.intp], up: NDArray[np.intp]) -> Toward:
        """Return the gains in bins of the azimuth and of the elevation."""
        highest = np.take(self.best_column, across) * np.take(self.best_row, up)
        return Toward(np.take(self.columns, across, axis=0), np.take(self.rows, up, axis=0), highest)


def bins(angle_deg: NDArray[np.float64], kind: NDArray[np.intp] | int = 0) -> NDArray[np.intp]:
    """Return the bins of angles, of waves of a `kind`."""
    place = np.rint((angle_deg + 180.0) * BINS_PER_DEG).astype(np.intp)
    return np.asarray(place % BINS + np.asarray(kind) * BINS)


def beams_of(elements: int) -> NDArray[np.float64]:
    """Return the sines of the angles to which the beams of a row point."""
    if elements == 1:
        return np.zeros(1)
    count = OVERSAMPLING * elements
    return np.asarray((np.arange(count) - count // 2) / elements)


@lru_cache(maxsize=64)
def patterns(array: Array, rays_deg: tuple[tuple[float, float], ...] = ((0.0, 0.0),)) -> Patterns:
    """Return the gains of a panel's beams, the mean over the rays of a cluster.

    Parameters
    ----------
    array : Array
        Rows, columns and element.
    rays_deg : tuple of (float, float)
        Spread of the rays in azimuth and elevation for each kind of wave; 0 for a direct ray.
    """
    element = ELEMENTS[array.element]
    across, up = (_row(count) * element.plane(_angles()) for count in (array.columns, array.rows))
    columns = np.concatenate([_smeared(across, azimuth) for azimuth, _ in rays_deg], axis=1) * element.peak
    rows = np.concatenate([_smeared(up, elevation) for _, elevation in rays_deg], axis=1)
    return Patterns(
        np.ascontiguousarray(columns.T), np.ascontiguousarray(rows.T), columns.max(axis=0), rows.max(axis=0)
    )


def _angles() -> NDArray[np.float64]:
    return np.arange(BINS) / BINS_PER_DEG - 180.0


def _row(elements: int) -> NDArray[np.float64]:
    """Return the power of each beam of a row of elements half a wavelength apart, over one element's."""
    half = np.pi / 2 * (np.sin(np.radians(_angles()))[None, :] - beams_of(elements)[:, None])
    below = np.sin(half)
    straight = np.abs(below) < 1e-9
    power = np.where(straight, elements, np.sin(elements * half) ** 2 / (elements * np.where(straight, 1, below) ** 2))
    return np.asarray(np.maximum(power, elements * SIDELOBE_FLOOR))


def _smeared(table: NDArray[np.float64], spread_deg: float) -> Floats:
    if spread_deg == 0:
        return table.astype(np.float32)
    shifts = [round(side * offset * spread_deg * BINS_PER_DEG) for offset in RAY_OFFSETS for side in (1, -1)]
    return np.asarray(np.mean([np.roll(table, shift, axis=1) for shift in shifts], axis=0), dtype=np.float32)
