"""Thermal noise and the link budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["noise_dbm", "sinr_db"]

Floats: TypeAlias = "NDArray[np.float64] | float"

THERMAL_DBM_PER_HZ = -174.0
"""k·T at 290 K is -173.98 dBm/Hz; the rounded figure is that of 3GPP (TR 38.803)."""


def noise_dbm(bandwidth_hz: float, noise_figure_db: float) -> float:
    """Return the noise of a receiver: -174 + 10·lg B + NF, in dBm."""
    return float(THERMAL_DBM_PER_HZ + 10 * np.log10(bandwidth_hz) + noise_figure_db)


def sinr_db(
    power_dbm: float,
    gains_db: Floats,
    losses_db: Floats,
    noise_level_dbm: float,
    interference_dbm: Floats | None = None,
) -> NDArray[np.float64]:
    """Return received power over noise and interference: P + gains - losses - 10·lg(N + I), in dB."""
    floor: Floats = noise_level_dbm
    if interference_dbm is not None:
        floor = 10 * np.log10(10 ** (noise_level_dbm / 10) + np.power(10.0, np.divide(interference_dbm, 10)))
    return np.asarray(power_dbm + np.asarray(gains_db) - losses_db - floor)
