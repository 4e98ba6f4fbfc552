"""Thermal noise."""

from __future__ import annotations

import numpy as np

__all__ = ["noise_dbm"]

THERMAL_DBM_PER_HZ = -174.0
"""k·T at 290 K is -173.98 dBm/Hz; the rounded figure is that of 3GPP (TR 38.803)."""


def noise_dbm(bandwidth_hz: float, noise_figure_db: float) -> float:
    """Return the noise of a receiver: -174 + 10·lg B + NF, in dBm."""
    return float(THERMAL_DBM_PER_HZ + 10 * np.log10(bandwidth_hz) + noise_figure_db)
