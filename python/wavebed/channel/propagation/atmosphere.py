"""Attenuation by the gases of the air and by rain."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

__all__ = ["gas_db_per_km", "rain_db_per_km"]

# Specific attenuation in dB/km by frequency in GHz, computed line by line by Recommendation ITU-R P.676 Annex 1
# (equations 1 to 8 with its tables of spectroscopic lines) at sea level: 1013.25 hPa dry air, 15 °C, 7.5 g/m³ of water
# vapour. Straight lines between these points are within 12 % of the sum over the lines from 0.5 to 100 GHz.
_GAS = np.array(
    [
        (0.5, 0.00304), (1, 0.00544), (2, 0.00692), (3.5, 0.00781), (5, 0.00871), (7, 0.0103), (10, 0.0142),
        (15, 0.029), (18, 0.0575), (20, 0.109), (21, 0.15), (22.2, 0.192), (23, 0.194), (24, 0.173), (26, 0.125),
        (28, 0.102), (32, 0.0935), (36, 0.106), (40, 0.131), (44, 0.176), (48, 0.274), (50, 0.388), (52, 0.737),
        (53, 1.25), (54, 2.34), (55, 4.32), (56, 7.19), (57, 10.2), (58, 12.5), (59, 13.8), (60, 14.8), (61, 15.2),
        (62, 14.2), (63, 11.0), (64, 7.02), (65, 3.99), (66, 2.15), (67, 1.23), (68, 0.805), (70, 0.514), (73, 0.393),
        (76, 0.353), (80, 0.342), (85, 0.354), (90, 0.38), (95, 0.415), (100, 0.457),
    ]
)  # fmt: skip


class _Fit(NamedTuple):
    """A curve of P.838-3: Σ a·exp(-((lg f - b)/c)²) + m·lg f + c₀."""

    terms: tuple[tuple[float, float, float], ...]
    slope: float
    offset: float

    def at(self, lg_f: float) -> float:
        peaks = sum(a * math.exp(-(((lg_f - b) / c) ** 2)) for a, b, c in self.terms)
        return peaks + self.slope * lg_f + self.offset


# Recommendation ITU-R P.838-3, Tables 2 and 4 (vertical polarisation).
_LG_K = _Fit(
    (
        (-3.80595, 0.56934, 0.81061),
        (-3.44965, -0.22911, 0.51059),
        (-0.39902, 0.73042, 0.11899),
        (0.50167, 1.07319, 0.27195),
    ),
    -0.16398,
    0.63297,
)
_ALPHA = _Fit(
    (
        (-0.07771, 2.33840, -0.76284),
        (0.56727, 0.95545, 0.54039),
        (-0.20238, 1.14520, 0.26809),
        (-48.2991, 0.791669, 0.116226),
        (48.5833, 0.791459, 0.116479),
    ),
    -0.053739,
    0.83433,
)


def gas_db_per_km(frequency_hz: float) -> float:
    """Return the attenuation by oxygen and water vapour at sea level (ITU-R P.676), 0.5 to 100 GHz, in dB/km."""
    return float(np.interp(frequency_hz / 1e9, _GAS[:, 0], _GAS[:, 1]))


def rain_db_per_km(frequency_hz: float, rain_mm_per_h: float) -> float:
    """Return the attenuation by rain, vertical polarisation (ITU-R P.838-3, eq. 1), 1 to 1000 GHz, in dB/km."""
    if rain_mm_per_h <= 0:
        return 0.0
    lg_f = math.log10(frequency_hz / 1e9)
    return float(10 ** _LG_K.at(lg_f) * rain_mm_per_h ** _ALPHA.at(lg_f))
