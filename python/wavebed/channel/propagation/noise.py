"""Thermal noise and interference."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["noise_dbm", "noise_rise_db"]

Floats: TypeAlias = "NDArray[np.float64] | float"

THERMAL_DBM_PER_HZ = -174.0
"""k·T at 290 K is -173.98 dBm/Hz; the rounded figure is that of 3GPP (TR 38.803)."""


def noise_dbm(bandwidth_hz: float, noise_figure_db: float) -> float:
    """Return the noise of a receiver: -174 + 10·lg B + NF, in dBm."""
    return float(THERMAL_DBM_PER_HZ + 10 * np.log10(bandwidth_hz) + noise_figure_db)


def noise_rise_db(noise_level_dbm: float, interference_dbm: Floats) -> NDArray[np.float64]:
    """Return how much noise and interference are above noise alone: 10·lg((N + I)/N)."""
    return np.asarray(10 * np.log10(1 + np.power(10.0, np.subtract(interference_dbm, noise_level_dbm) / 10)))
