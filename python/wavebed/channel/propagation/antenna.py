"""Antenna gain: elements, arrays, and beams that follow the other end late and not quite rightly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.scene.model import Array

__all__ = ["angles_deg", "array_db", "beam_db", "element_db", "gain_db", "turn_deg"]

ELEMENT_PEAK_DBI = 8.0
ELEMENT_WIDTH_DEG = 65.0
ELEMENT_FLOOR_DB = 30.0
SIDELOBE_FLOOR_DB = 30.0
"""Beams are this deep at most below their peak: the nulls of the pattern are filled by errors of real arrays."""


def angles_deg(direction_m: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return azimuth (from +x towards +y) and elevation (from the horizon up) of vectors of shape (n, 3)."""
    x, y, z = direction_m[:, 0], direction_m[:, 1], direction_m[:, 2]
    return np.degrees(np.arctan2(y, x)), np.degrees(np.arctan2(z, np.hypot(x, y)))


def array_db(array: Array) -> float:
    """Return the gain of all elements together over one: 10·lg N."""
    return 10 * math.log10(array.rows * array.columns)


def element_db(azimuth_deg: NDArray[np.float64], elevation_deg: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the gain of a 3GPP element in dBi, from angles to the panel's normal (TR 38.901 Table 7.3-1)."""
    across = np.minimum(12 * (azimuth_deg / ELEMENT_WIDTH_DEG) ** 2, ELEMENT_FLOOR_DB)
    upright = np.minimum(12 * (elevation_deg / ELEMENT_WIDTH_DEG) ** 2, ELEMENT_FLOOR_DB)
    return np.asarray(ELEMENT_PEAK_DBI - np.minimum(across + upright, ELEMENT_FLOOR_DB))


def beam_db(
    array: Array, azimuth_error_deg: NDArray[np.float64], elevation_error_deg: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return what a beam loses that points past the other end (at most 0 dB).

    The pattern is that of an even row of N elements half a wavelength apart in each plane,
    (sin(N·ψ/2) / (N·sin(ψ/2)))² with ψ = π·sin(error), as seen when the beam is at right angles to the panel.
    """
    columns = _row_power(array.columns, azimuth_error_deg)
    rows = _row_power(array.rows, elevation_error_deg)
    return np.asarray(10 * np.log10(np.maximum(columns * rows, 10 ** (-SIDELOBE_FLOOR_DB / 10))))


def gain_db(
    array: Array, direction_m: NDArray[np.float64], time_s: NDArray[np.float64], rngs: Sequence[np.random.Generator]
) -> NDArray[np.float64]:
    """Return the gain towards the other end, in dBi, of shape (seeds, n): element, array and beam.

    The beam is chosen anew every `update_s`, with a normal error in each plane; until the next choice it points to
    where the other end was. A panel with an azimuth or elevation stays there, one without always faces the other end.

    Parameters
    ----------
    array : Array
        The antennas.
    direction_m : (n, 3) float64
        Vector to the other end at each step.
    time_s : (n,) float64
        Time of each step; it never falls.
    rngs : sequence of numpy.random.Generator
        One for each seed.
    """
    azimuth, elevation = angles_deg(direction_m)
    fixed = np.full(time_s.size, array_db(array))
    if array.element == "3gpp":
        aside = np.zeros_like(azimuth) if array.azimuth_deg is None else turn_deg(azimuth - array.azimuth_deg)
        above = np.zeros_like(elevation) if array.elevation_deg is None else elevation - array.elevation_deg
        fixed += element_db(aside, above)
    if array.rows * array.columns == 1:
        return np.tile(fixed, (len(rngs), 1))
    period = np.floor((time_s - time_s[0]) / array.update_s + 1e-9).astype(np.intp)
    chosen = np.searchsorted(period, period)  # the first step of the same period
    aside = turn_deg(azimuth - azimuth[chosen]) * np.cos(np.radians(elevation))
    above = elevation - elevation[chosen]
    if array.tracking_error_deg <= 0:
        return np.tile(fixed + beam_db(array, aside, above), (len(rngs), 1))
    gain = np.empty((len(rngs), time_s.size))
    for own, rng in zip(gain, rngs, strict=True):
        errors = array.tracking_error_deg * rng.standard_normal((int(period[-1]) + 1, 2))
        own[:] = fixed + beam_db(array, aside - errors[period, 0], above - errors[period, 1])
    return gain


def _row_power(elements: int, error_deg: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the power of an even row of elements, relative to its peak."""
    if elements == 1:
        return np.ones_like(error_deg)
    half = np.pi / 2 * np.sin(np.radians(error_deg))
    below = np.sin(half)
    straight = np.abs(below) < 1e-9
    return np.where(straight, 1.0, (np.sin(elements * half) / (elements * np.where(straight, 1.0, below))) ** 2)


def turn_deg(angle_deg: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the same angle from -180 up to 180 degrees."""
    return np.asarray((angle_deg + 180.0) % 360.0 - 180.0)
