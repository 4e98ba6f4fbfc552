"""Antenna elements and angles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from wavebed.scene.model import Array

__all__ = ["ELEMENTS", "Element", "angles_deg", "array_db", "turn_deg"]


class Element(NamedTuple):
    """One antenna element: gain at its normal in dBi, width between the half-power points, deepest loss.

    The pattern is that of TR 38.901 Table 7.3-1: 12·(angle/width)² dB of loss in each plane.
    """

    peak_dbi: float
    width_deg: float
    floor_db: float

    @property
    def peak(self) -> float:
        """Power gain at the normal."""
        return float(10 ** (self.peak_dbi / 10))

    def plane(self, angle_deg: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the power gain over that at the normal, at angles in one plane."""
        if math.isinf(self.width_deg):
            return np.ones_like(angle_deg)
        return np.asarray(10 ** (-np.minimum(12 * (angle_deg / self.width_deg) ** 2, self.floor_db) / 10))


ELEMENTS: Mapping[str, Element] = {
    "3gpp": Element(8.0, 65.0, 30.0),  # TR 38.901 Table 7.3-1
    "3gpp-ue": Element(5.0, 90.0, 25.0),  # TR 38.802 Table A.2.1-8
    "isotropic": Element(0.0, math.inf, 0.0),
}


def angles_deg(direction_m: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return azimuth (from +x towards +y) and elevation (from the horizon up) of vectors of shape (n, 3)."""
    x, y, z = direction_m[:, 0], direction_m[:, 1], direction_m[:, 2]
    return np.degrees(np.arctan2(y, x)), np.degrees(np.arctan2(z, np.hypot(x, y)))


def array_db(array: Array) -> float:
    """Return the gain of all elements together over one: 10·lg N."""
    return 10 * math.log10(array.rows * array.columns)


def turn_deg(angle_deg: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the same angle from -180 up to 180 degrees."""
    return np.asarray((angle_deg + 180.0) % 360.0 - 180.0)
