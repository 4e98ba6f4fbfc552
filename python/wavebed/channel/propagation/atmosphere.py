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


# Recommendation ITU-R P.838-3, Tables 1 to 4: k and its exponent, horizontal and vertical polarisation.
_LG_K_H = _Fit(
    (
        (-5.33980, -0.10008, 1.13098),
        (-0.35351, 1.26970, 0.45400),
        (-0.23789, 0.86036, 0.15354),
        (-0.94158, 0.64552, 0.16817),
    ),
    -0.18961,
    0.71147,
)
_LG_K_V = _Fit(
    (
        (-3.80595, 0.56934, 0.81061),
        (-3.44965, -0.22911, 0.51059),
        (-0.39902, 0.73042, 0.11899),
        (0.50167, 1.07319, 0.27195),
    ),
    -0.16398,
    0.63297,
)
_POWER_H = _Fit(
    (
        (-0.14318, 1.82442, -0.55187),
        (0.29591, 0.77564, 0.19822),
        (0.32177, 0.63773, 0.13164),
        (-5.37610, -0.96230, 1.47828),
        (16.1721, -3.29980, 3.43990),
    ),
    0.67849,
    -1.95537,
)
_POWER_V = _Fit(
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
    """Return the attenuation by rain in dB/km, 1 to 1000 GHz (ITU-R P.838-3, equations 1, 4 and 5).

    Lower frequencies count as 1 GHz, where rain takes less than 0.02 dB/km. The polarisation is slanted by 45°, as that
    of a base station's panel is.
    """
    if rain_mm_per_h <= 0:
        return 0.0
    lg_f = math.log10(max(frequency_hz / 1e9, 1.0))
    across, upright = math.pow(10, _LG_K_H.at(lg_f)), math.pow(10, _LG_K_V.at(lg_f))
    power = (across * _POWER_H.at(lg_f) + upright * _POWER_V.at(lg_f)) / (across + upright)
    return (across + upright) / 2 * math.pow(rain_mm_per_h, power)
