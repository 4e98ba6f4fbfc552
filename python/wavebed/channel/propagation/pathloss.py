"""Median path loss and the probability of a line of sight (TR 38.901 7.4.1 and 7.4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from wavebed.channel.propagation.atmosphere import gas_db_per_km

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.scene.tables import Propagation

__all__ = [
    "LIGHT_M_PER_S",
    "breakpoint_m",
    "free_space_db",
    "los_probability",
    "path_loss_db",
    "range_warnings",
    "rural_breakpoint_m",
]

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
