"""Attenuation by the gases of the air and by rain."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from wavebed.channel.propagation.correlated import generators
from wavebed.radio.carriers import concrete_db, glass_db, irr_glass_db

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.scene.model import Ue
    from wavebed.scene.tables import Propagation


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


Floats: TypeAlias = "NDArray[np.float64] | float"

LIGHT_M_PER_S = 299_792_458.0
NEAREST_M = 1.0
"""Ends that are closer than this count as this far apart: no formula below holds there."""
LOWEST_M = 1.5
"""Lower ends count as this high in the breakpoint distance, which would otherwise fall to nothing (Table 7.4.1-1)."""

RURAL_LOWEST_M = 1.0
"""The same for rural cells, whose range of heights begins here."""


def breakpoint_m(height_bs_m: Floats, height_ut_m: Floats, frequency_hz: float) -> NDArray[np.float64]:
    """Return d'BP = 4·h'BS·h'UT·f/c, with h' = h - 1 m (TR 38.901 Table 7.4.1-1, note 1)."""
    above_bs = np.maximum(height_bs_m, LOWEST_M) - 1.0
    above_ut = np.maximum(height_ut_m, LOWEST_M) - 1.0
    return np.asarray(4 * above_bs * above_ut * (frequency_hz / LIGHT_M_PER_S))


def rural_breakpoint_m(height_bs_m: Floats, height_ut_m: Floats, frequency_hz: float) -> NDArray[np.float64]:
    """Return dBP = 2π·hBS·hUT·f/c of rural cells (TR 38.901 Table 7.4.1-1, note 5)."""
    product = np.multiply(np.maximum(height_bs_m, RURAL_LOWEST_M), np.maximum(height_ut_m, RURAL_LOWEST_M))
    return np.asarray(2 * np.pi * product * (frequency_hz / LIGHT_M_PER_S))


def free_space_db(distance_m: Floats, frequency_hz: float) -> NDArray[np.float64]:
    """Return the basic transmission loss of ITU-R P.525 (eq. 4), with gas (P.676)."""
    distance = np.maximum(distance_m, NEAREST_M)
    per_m = gas_db_per_km(frequency_hz) / 1000
    return np.asarray(20 * np.log10(4 * np.pi * distance * (frequency_hz / LIGHT_M_PER_S)) + per_m * distance)


def path_loss_db(
    scenario: Propagation,
    los: NDArray[np.bool_] | bool,
    distance_2d_m: Floats,
    height_bs_m: Floats,
    height_ut_m: Floats,
    frequency_hz: float,
    street_m: float = 20.0,
    building_m: float = 5.0,
) -> NDArray[np.float64]:
    """Return the median path loss in dB (TR 38.901 Table 7.4.1-1; free space: ITU-R P.525 and P.676).

    Parameters
    ----------
    scenario : str
        ``umi`` (street canyon), ``uma``, ``rma`` (rural), ``inh`` and ``inh-open`` (offices, alike here),
        ``free-space`` (no NLOS).
    los : bool or array of bool
        Whether the line of sight is free of buildings.
    distance_2d_m, height_bs_m, height_ut_m : float or array
        Distance in the plane and heights above the ground. All arguments broadcast.
    frequency_hz : float
        Carrier frequency.
    street_m, building_m : float
        Rural cells: width of streets, height of buildings; the default values of the table.
    """
    rise = np.subtract(height_bs_m, height_ut_m)
    distance = np.maximum(np.hypot(distance_2d_m, rise), NEAREST_M)
    if scenario == "free-space":
        return free_space_db(distance, frequency_hz)
    lg_d = np.log10(distance)
    lg_f = float(np.log10(frequency_hz / 1e9))
    if scenario == "rma":
        bend = rural_breakpoint_m(height_bs_m, height_ut_m, frequency_hz)
        far = _rural_los_db(bend, lg_f, building_m) + 40 * np.log10(distance / bend)
        line = np.where(np.less_equal(distance_2d_m, bend), _rural_los_db(distance, lg_f, building_m), far)
        behind = _rural_nlos_db(lg_d, height_bs_m, height_ut_m, lg_f, street_m, building_m)
        return np.where(los, line, np.maximum(line, behind))
    if scenario in {"inh", "inh-open"}:
        line = 32.4 + 17.3 * lg_d + 20 * lg_f
        behind = 17.3 + 38.3 * lg_d + 24.9 * lg_f
    else:
        bend = breakpoint_m(height_bs_m, height_ut_m, frequency_hz)
        lg_bend = np.log10(bend**2 + rise**2)
        if scenario == "umi":
            near, far = 32.4 + 21 * lg_d, 32.4 + 40 * lg_d - 9.5 * lg_bend
            behind = 22.4 + 35.3 * lg_d + 21.3 * lg_f - 0.3 * np.subtract(height_ut_m, 1.5)
        else:
            near, far = 28.0 + 22 * lg_d, 28.0 + 40 * lg_d - 9 * lg_bend
            behind = 13.54 + 39.08 * lg_d + 20 * lg_f - 0.6 * np.subtract(height_ut_m, 1.5)
        line = np.where(np.less_equal(distance_2d_m, bend), near, far) + 20 * lg_f
    return np.where(los, line, np.maximum(line, behind))


def _rural_los_db(distance_m: NDArray[np.float64], lg_f: float, building_m: float) -> NDArray[np.float64]:
    """Return PL1 of rural cells in LOS."""
    power = building_m**1.72
    near = 20 * (np.log10(40 * np.pi / 3 * distance_m) + lg_f) + min(0.03 * power, 10.0) * np.log10(distance_m)
    return np.asarray(near - min(0.044 * power, 14.77) + 0.002 * np.log10(building_m) * distance_m)


def _rural_nlos_db(
    lg_d: NDArray[np.float64],
    height_bs_m: Floats,
    height_ut_m: Floats,
    lg_f: float,
    street_m: float,
    building_m: float,
) -> NDArray[np.float64]:
    """Return PL' of rural cells in NLOS."""
    height = np.maximum(height_bs_m, RURAL_LOWEST_M)
    lg_h = np.log10(height)
    roofs = -7.1 * np.log10(street_m) + 7.5 * np.log10(building_m) - (24.37 - 3.7 * (building_m / height) ** 2) * lg_h
    low = 3.2 * np.log10(11.75 * np.maximum(height_ut_m, RURAL_LOWEST_M)) ** 2 - 4.97
    return np.asarray(161.04 + roofs + (43.42 - 3.1 * lg_h) * (lg_d - 3) + 20 * lg_f - low)


def los_probability(
    scenario: Propagation, distance_2d_m: Floats, height_ut_m: Floats = LOWEST_M
) -> NDArray[np.float64]:
    """Return the probability of a line of sight (TR 38.901 Table 7.4.2-1); 1 in free space."""
    d = np.asarray(distance_2d_m, dtype=np.float64)
    if scenario == "free-space":
        return np.ones_like(d)
    if scenario == "inh":
        near = np.exp(-(d - 1.2) / 4.7)
        far = 0.32 * np.exp(-(d - 6.5) / 32.6)
        return np.where(d <= 1.2, 1.0, np.where(d < 6.5, near, far))
    if scenario == "inh-open":
        near = np.exp(-(d - 5) / 70.8)
        far = 0.54 * np.exp(-(d - 49) / 211.7)
        return np.where(d <= 5, 1.0, np.where(d <= 49, near, far))
    if scenario == "rma":
        return np.asarray(np.exp(-(np.maximum(d, 10.0) - 10) / 1000))
    d = np.maximum(d, 18.0)
    if scenario == "umi":
        return np.asarray(18 / d + np.exp(-d / 36) * (1 - 18 / d))
    above = (np.clip(height_ut_m, 13.0, 23.0) - 13) / 10
    lift = 1 + above**1.5 * 1.25 * (d / 100) ** 3 * np.exp(-d / 150)
    return np.asarray((18 / d + np.exp(-d / 63) * (1 - 18 / d)) * lift)


def range_warnings(
    scenario: Propagation,
    distance_2d_m: Floats,
    height_bs_m: Floats,
    height_ut_m: Floats,
    frequency_hz: float,
) -> tuple[str, ...]:
    """Return one line for each way in which a link leaves the range in which its path loss is valid."""
    found: list[str] = []
    table = "TR 38.901 Table 7.4.1-1"
    if scenario == "free-space":
        table = "ITU-R P.676 as tabulated"
    ghz = frequency_hz / 1e9
    highest = 30 if scenario == "rma" else 100
    if not 0.5 <= ghz <= highest:
        found.append(f"frequency {ghz:g} GHz is outside 0.5 to {highest} GHz ({table})")
    plane = np.asarray(distance_2d_m, dtype=np.float64)
    space = np.hypot(plane, np.subtract(height_bs_m, height_ut_m))
    if scenario == "free-space":
        _outside(found, "distance", space, NEAREST_M, np.inf, "1 m counts as nearest")
        return tuple(found)
    if scenario in {"inh", "inh-open"}:
        _outside(found, "distance", space, 1.0, 150.0, table)
        return tuple(found)
    if scenario == "rma":
        _outside(found, "distance in the plane", plane, 10.0, 10_000.0, table)
        if np.max(plane) > 5000:
            found.append(f"distance in the plane above 5000 m: NLOS is outside its range ({table})")
        _outside(found, "height of the base station", np.asarray(height_bs_m), 10.0, 150.0, table)
        _outside(found, "height of the UE", np.asarray(height_ut_m), 1.0, 10.0, table)
        return tuple(found)
    _outside(found, "distance in the plane", plane, 10.0, 5000.0, table)
    high = 10.0 if scenario == "umi" else 25.0
    _outside(found, "height of the base station", np.asarray(height_bs_m), high, high, table)
    _outside(found, "height of the UE", np.asarray(height_ut_m), 1.5, 22.5, table)
    if scenario == "uma" and np.any(np.greater(height_ut_m, 13.0)):
        found.append(f"UE above 13 m: the environment's height is taken as 1 m, not drawn ({table}, note 1)")
    return tuple(found)


def _outside(found: list[str], what: str, values: NDArray[np.float64], low: float, high: float, clause: str) -> None:
    """Add a line if some values are outside low to high metres."""
    least, most = float(np.min(values)), float(np.max(values))
    if least >= low and most <= high:
        return
    seen = f"{least:g} m" if least == most else f"{least:g} to {most:g} m"
    if low == high:
        rule = f"is not {low:g} m"
    elif high == np.inf:
        rule = f"is below {low:g} m"
    else:
        rule = f"is outside {low:g} to {high:g} m"
    found.append(f"{what} {seen} {rule} ({clause})")


THERMAL_DBM_PER_HZ = -174.0
"""k·T at 290 K is -173.98 dBm/Hz; 3GPP rounds it so (TR 38.803)."""


def noise_dbm(bandwidth_hz: float, noise_figure_db: float) -> float:
    """Return the noise of a receiver: -174 + 10·lg B + NF, in dBm."""
    return float(THERMAL_DBM_PER_HZ + 10 * np.log10(bandwidth_hz) + noise_figure_db)


Wall: TypeAlias = Literal["low-loss", "high-loss"]

_SPREAD_DB = {"low-loss": 4.4, "high-loss": 6.5}
_INDOOR_DB_PER_M = 0.5
_DEEPEST_M = 25.0
_DEEPEST_RURAL_M = 10.0


def wall_db(wall: Wall, frequency_hz: float) -> float:
    """Return the median loss PL_tw of an outer wall (Table 7.4.3-2): glass or IRR glass, and concrete."""
    if wall == "low-loss":
        parts = ((0.3, glass_db(frequency_hz)), (0.7, concrete_db(frequency_hz)))
    else:
        parts = ((0.7, irr_glass_db(frequency_hz)), (0.3, concrete_db(frequency_hz)))
    return 5 - 10 * math.log10(sum(fraction * 10 ** (-loss / 10) for fraction, loss in parts))


def building_entry_db(
    rngs: Sequence[np.random.Generator], wall: Wall, indoor_m: NDArray[np.float64] | float, frequency_hz: float
) -> NDArray[np.float64]:
    """Return the loss into a building for each seed: wall, 0.5 dB per metre indoors, and a normal part (eq. 7.4-2)."""
    median = wall_db(wall, frequency_hz) + _INDOOR_DB_PER_M * indoor_m
    return median + _SPREAD_DB[wall] * np.array([rng.standard_normal() for rng in rngs])


def car_entry_db(rngs: Sequence[np.random.Generator], *, metallised: bool = False) -> NDArray[np.float64]:
    """Return the loss into a car for each seed: N(9, 5) dB, N(20, 5) dB with metallised windows (7.4.3.2)."""
    return (20.0 if metallised else 9.0) + 5.0 * np.array([rng.standard_normal() for rng in rngs])


def drawn_depth_m(rngs: Sequence[np.random.Generator], scenario: Propagation) -> NDArray[np.float64]:
    """Return a distance indoors for each seed: the lesser of two uniform ones, up to 25 m, 10 m in rural cells."""
    deepest_m = _DEEPEST_RURAL_M if scenario == "rma" else _DEEPEST_M
    return deepest_m * np.array([rng.random(2).min() for rng in rngs])


def entry_db(
    seeds: Sequence[int], ue: Ue, scenario: Propagation, frequency_hz: float, time_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the loss of what is around a UE at each step, of shape (seeds, n), or (1, 1) if nothing is.

    The draws belong to the UE: they are the same for every base station and both carriers. The base stations of an
    office are inside with the UE.

    Parameters
    ----------
    seeds : sequence of int
        One row each.
    ue : Ue
        The UE.
    scenario : str
        The propagation scenario.
    frequency_hz : float
        Carrier frequency.
    time_s : (n,) float64
        Time of each step.
    """
    total = np.zeros((1, 1))
    if scenario in {"inh", "inh-open"}:
        return total
    if ue.indoor is not None:
        depth_m = ue.indoor.depth_m
        inside_m = (
            drawn_depth_m(generators(seeds, f"depth indoors{ue.stream}"), scenario) if depth_m is None else depth_m
        )
        walls = building_entry_db(
            generators(seeds, f"building entry{ue.stream}"), ue.indoor.wall, inside_m, frequency_hz
        )
        total = total + walls[:, None] * _during(ue.indoor.during_s, time_s)
    if ue.in_car is not None:
        car = car_entry_db(generators(seeds, f"car entry{ue.stream}"), metallised=ue.in_car.windows == "metallised")
        total = total + car[:, None] * _during(ue.in_car.during_s, time_s)
    return total


def _during(periods_s: Sequence[tuple[float, float]], time_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 at the times within some periods, otherwise 0; no periods are always."""
    if not periods_s:
        return np.ones(time_s.size)
    there = [(start <= time_s) & (time_s < end) for start, end in periods_s]
    return np.asarray(np.logical_or.reduce(there), dtype=np.float64)
