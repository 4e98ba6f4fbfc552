"""Large-scale calibration of TR 38.901 7.8.1: coupling loss and geometry of UMi and UMa, beside the 3GPP results.

Usage: python docs/validation/large_scale.py

Prints the deciles of `standards.md`. The layout is that of Table 7.8-1, configuration 1: 19 sites of three sectors on
a hexagonal grid, users in the middle cell (which is what wrapping around gives every cell), eight of ten indoors on one
of up to eight floors. The path loss, the probability of LOS, the spread of shadowing, the loss into a building and the
element are those of wavebed; the layout, the ten elements of the vertical column and the choice of the server are here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from wavebed.channel.propagation.antenna import ELEMENTS, turn_deg
from wavebed.channel.propagation.pathloss import los_probability, path_loss_db, wall_db
from wavebed.channel.propagation.shadowing import SHADOWING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from wavebed.channel.propagation.pathloss import Wall
    from wavebed.scene.tables import Propagation

    Floats = NDArray[np.float64]

USERS: Final = 60_000
SEED: Final = 1
DECILES: Final = tuple(range(10, 100, 10))
INDOOR: Final = 0.8
ENTRY_SPREAD_DB: Final = {"low-loss": 4.4, "high-loss": 6.5}
INDOOR_SHADOW_DB: Final = 7.0
"""Shadow fading of O2I (Table 7.5-6)."""
ROWS, DOWNTILT_DEG, FLOOR_DB = 10, 12.0, 30.0
"""Table 7.8-1: ten elements half a wavelength apart as one port, steered to 102 degrees from the zenith."""


class Layout(NamedTuple):
    """Table 7.2-1: distance of the sites, height of the base stations, least distance of a user."""

    apart_m: float
    height_m: float
    nearest_m: float


LAYOUTS: Final[Mapping[Propagation, Layout]] = {"umi": Layout(200, 10, 10), "uma": Layout(500, 25, 35)}


class Found(NamedTuple):
    """Deciles of the coupling loss to the server, as a gain, and of the geometry without noise, in dB."""

    coupling_db: Floats
    geometry_db: Floats


def calibrated(scenario: Propagation, frequency_hz: float, users: int = USERS, seed: int = SEED) -> Found:
    """Return the deciles of a scenario.

    Parameters
    ----------
    scenario : {"umi", "uma"}
        The scenario.
    frequency_hz : float
        Carrier frequency.
    users, seed : int
        How many users are dropped, and what their places and draws are keyed by.
    """
    layout = LAYOUTS[scenario]
    rng = np.random.default_rng(seed)
    place, height, indoors = _users(layout, rng, users)
    ray = place[:, None] - _sites(layout.apart_m)
    plane = np.hypot(ray[..., 0], ray[..., 1])
    deep = np.where(indoors, 25 * rng.random((2, users)).min(axis=0), 0.0)
    outside = np.maximum(plane - deep[:, None], 1.0)
    los = rng.random(plane.shape) < los_probability(scenario, outside, height[:, None])
    loss = path_loss_db(scenario, los, plane, layout.height_m, height[:, None], frequency_hz)
    table = SHADOWING[scenario]
    spread = np.where(indoors[:, None], INDOOR_SHADOW_DB, np.where(los, table.los_db, table.nlos_db))
    loss = loss + spread * rng.standard_normal(plane.shape)
    loss += np.where(indoors, _entry_db(rng, users, frequency_hz) + 0.5 * deep, 0.0)[:, None]
    azimuth = np.degrees(np.arctan2(ray[..., 1], ray[..., 0]))
    below = np.degrees(np.arctan2(layout.height_m - height[:, None], plane))
    sectors = [_sector_db(turn_deg(azimuth - facing), below) - loss for facing in (30.0, 150.0, 270.0)]
    gain = np.concatenate(sectors, axis=1)
    power = 10 ** (gain / 10)
    best = power.max(axis=1)
    geometry = 10 * np.log10(best / (power.sum(axis=1) - best))
    return Found(np.percentile(gain.max(axis=1), DECILES), np.percentile(geometry, DECILES))


def _sites(apart_m: float) -> Floats:
    """Return the places of 19 sites: one in the middle of two rings."""
    steps = np.array([(a, b) for a in range(-2, 3) for b in range(-2, 3) if abs(a + b) <= 2])
    return np.asarray(apart_m * np.stack((steps[:, 0] + steps[:, 1] / 2, steps[:, 1] * np.sqrt(3) / 2), axis=1))


def _users(layout: Layout, rng: np.random.Generator, count: int) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return places in the middle cell, heights, and who is indoors."""
    sites = _sites(layout.apart_m)
    place = rng.uniform(-layout.apart_m, layout.apart_m, (count * 8, 2))
    away = np.hypot(*(place[:, None] - sites).transpose(2, 0, 1))
    own = np.hypot(*place.T)
    place = place[(own <= away.min(axis=1) + 1e-9) & (own >= layout.nearest_m)][:count]
    floors = rng.integers(4, 9, count)
    floor = rng.integers(1, floors + 1)
    indoors = rng.random(count) < INDOOR
    return place, np.where(indoors, 3.0 * (floor - 1) + 1.5, 1.5), indoors


def _entry_db(rng: np.random.Generator, count: int, frequency_hz: float) -> Floats:
    """Return the loss through the wall: half of the buildings have walls of low loss, half of high loss."""
    walls: tuple[Wall, Wall] = ("low-loss", "high-loss")
    low, high = (wall_db(wall, frequency_hz) + ENTRY_SPREAD_DB[wall] * rng.standard_normal(count) for wall in walls)
    return np.where(rng.random(count) < 0.5, low, high)


def _sector_db(azimuth_deg: Floats, below_deg: Floats) -> Floats:
    """Return the gain of a sector's column of elements: the pattern of Table 7.3-1 and the array factor."""
    element = ELEMENTS["3gpp"]
    planes = 10 * np.log10(element.plane(azimuth_deg) * element.plane(below_deg))
    half = np.pi / 2 * (np.sin(np.radians(below_deg)) - np.sin(np.radians(DOWNTILT_DEG)))
    half = np.where(np.abs(half) < 1e-9, 1e-9, half)
    array = 10 * np.log10(np.maximum(np.sin(ROWS * half) ** 2 / (ROWS * np.sin(half) ** 2), 1e-12))
    return np.asarray(element.peak_dbi + np.maximum(planes, -FLOOR_DB) + array)


def reference() -> dict[tuple[str, float, str], Floats]:
    """Return the deciles of the 3GPP results by scenario, frequency in GHz and quantity."""
    lines = Path(__file__).with_name("large-scale.csv").read_text(encoding="utf-8").splitlines()
    rows = [line.split(",") for line in lines if not line.startswith("#")][1:]
    return {(row[0], float(row[1]), row[2]): np.array([float(value) for value in row[3:]]) for row in rows}


def main() -> None:
    """Print the rows of the table: ours, and how far it is above the 3GPP results."""
    for (scenario, ghz), (coupling, geometry) in compared().items():
        for name, (ours, expected) in (("coupling", coupling), ("geometry", geometry)):
            cells = " | ".join(
                f"{mine:.1f} ({mine - theirs:+.1f})" for mine, theirs in zip(ours, expected, strict=True)
            )
            print(f"| {scenario}, {ghz:g} GHz | {name} | {cells} |")


def compared(users: int = USERS) -> dict[tuple[Propagation, float], tuple[tuple[Floats, Floats], ...]]:
    """Return for each scenario and frequency our deciles and those of 3GPP, of the coupling and of the geometry."""
    expected = reference()
    result: dict[tuple[Propagation, float], tuple[tuple[Floats, Floats], ...]] = {}
    for scenario in LAYOUTS:
        for ghz in (6.0, 30.0, 70.0):
            found = calibrated(scenario, ghz * 1e9, users)
            pairs = zip(found, (expected[scenario, ghz, name] for name in ("coupling", "geometry")), strict=True)
            result[scenario, ghz] = tuple(pairs)
    return result


if __name__ == "__main__":
    main()
