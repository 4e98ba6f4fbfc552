"""Best beam pairs and spreads of our clusters, against those of Sionna for the same place and arrays.

The other side is in docs/validation/array-gain.json, which docs/validation/array_gain_sionna.py writes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from wavebed.channel import ensemble
from wavebed.channel.propagation.antenna import bins, patterns
from wavebed.channel.propagation.fading import (
    CLUSTERS,
    RAY_OFFSETS,
    Clusters,
    cluster_places,
    delay_spread_s,
    draw_clusters,
)
from wavebed.scene import load
from wavebed.scene.tables import Array

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "docs/validation/array-gain.json").read_text(encoding="utf-8")
)
SETTING = RECORDED["setting"]
OFFSETS = np.array([side * offset for offset in RAY_OFFSETS for side in (1, -1)])
DRAWS = 1000


class Drawn(NamedTuple):
    """The best pair's gain in dB and the circular spreads in degrees, one for each draw."""

    gain_db: np.ndarray
    spreads_deg: dict[str, np.ndarray]


def drawn(state: str) -> Drawn:
    table = CLUSTERS["umi"].los if state == "los" else CLUSTERS["umi"].nlos
    place = np.array([SETTING["ue_m"]])
    ray = place[0] - np.array(SETTING["station_m"])
    straight = np.degrees([np.arctan2(ray[1], ray[0]), np.arctan2(ray[2], np.hypot(*ray[:2]))])
    places = cluster_places("umi", place, los=state == "los")
    rng = np.random.default_rng(1)
    gains, spreads = [], []
    for seed in range(DRAWS):
        k_db = 9 + 5 * rng.standard_normal(1) if state == "los" else None  # Table 7.5-6
        ratio = 0.0 if k_db is None else 10 ** (k_db[0] / 10)
        waves = draw_clusters(seed, "test", "umi", k_db, SETTING["station_m"], places, SETTING["frequency_hz"])
        weight = np.append(waves.power[0], ratio) / (1 + ratio)
        parts = ends(waves, straight, table.ray_departure, table.ray_arrival, table.ray_zenith)
        out, back = (beams(name, *parts[name]) for name in ("station", "ue"))
        gains.append(10 * np.log10(((out * weight[:, None]).T @ back).max()))
        spreads.append([spread for name in ("station", "ue") for spread in spreads_deg(weight, *parts[name])])
    return Drawn(np.array(gains), dict(zip(("aod", "zod", "aoa", "zoa"), np.transpose(spreads), strict=True)))


def ends(waves: Clusters, straight: np.ndarray, departure: float, arrival: float, zenith: float) -> dict[str, Any]:
    """Angles from the straight line and spreads of the rays, azimuth and elevation; the direct ray is last."""
    azimuth, elevation = straight
    return {
        "station": (
            np.append(waves.departure_azimuth - azimuth, 0.0),
            np.append(waves.departure_elevation - elevation, 0.0),
            (departure, 0.0),
        ),
        "ue": (
            np.append(waves.arrival_azimuth - azimuth - 180, 0.0),
            np.append(waves.arrival_elevation + elevation, 0.0),
            (arrival, zenith),
        ),
    }


def beams(end: str, azimuth: np.ndarray, elevation: np.ndarray, rays: tuple[float, float]) -> np.ndarray:
    """Gain of each beam towards each wave: (waves, beams)."""
    kind = np.zeros(azimuth.size, dtype=np.intp)
    kind[-1] = 1
    seen = patterns(Array(*SETTING["arrays"][end]), (rays, (0.0, 0.0))).at(bins(azimuth, kind), bins(elevation, kind))
    return (seen.columns[:, :, None] * seen.rows[:, None, :]).reshape(azimuth.size, -1)


def spreads_deg(weight: np.ndarray, azimuth: np.ndarray, elevation: np.ndarray, rays: tuple[float, float]) -> Any:
    """Circular spreads over the 20 rays of each cluster (TR 38.901 annex A)."""
    share = np.append(np.repeat(weight[:-1], 20) / 20, weight[-1])
    for angle, spread in ((azimuth, rays[0]), (elevation, rays[1])):
        each = np.append((angle[:-1, None] + spread * OFFSETS).ravel(), angle[-1])
        direction = abs((share * np.exp(1j * np.radians(each))).sum())
        yield np.degrees(np.sqrt(-2 * np.log(min(1.0, direction))))


@pytest.fixture(scope="module")
def ours() -> dict[str, Drawn]:
    return {state: drawn(state) for state in ("nlos", "los")}


def test_the_recorded_arrays_are_those_of_kau_e5g() -> None:
    scene = load("kau-e5g-1")
    for array, name in ((scene.base_stations[0].array, "station"), (scene.ue.array, "ue")):
        assert [array.rows, array.columns] == SETTING["arrays"][name]
        assert array.element == "isotropic"
    assert scene.carrier.frequency_hz == SETTING["frequency_hz"]


@pytest.mark.parametrize("state", ["nlos", "los"])
def test_the_best_pair_gains_what_sionna_finds_within_half_a_decibel(ours: dict[str, Drawn], state: str) -> None:
    """The median and every other decile."""
    deciles = np.percentile(ours[state].gain_db, range(10, 100, 10))
    assert np.abs(deciles - RECORDED[state]["rays"]["gain_db"]).max() < 0.5


@pytest.mark.parametrize("state", ["nlos", "los"])
def test_the_spreads_are_those_of_sionna(ours: dict[str, Drawn], state: str) -> None:
    """Medians. In LOS ours are independent of the K factor; Table 7.5-6 correlates them, which makes them narrower."""
    recorded = RECORDED[state]["rays"]["spreads"]
    for name, spread in ours[state].spreads_deg.items():
        assert np.median(spread) == pytest.approx(recorded[name][4], rel=0.2), name
    assert delay_spread_s("umi", state == "los", SETTING["frequency_hz"]) == pytest.approx(
        RECORDED[state]["rays"]["delay_spread_drawn_s"], rel=0.1
    )


def test_the_walk_of_kau_e5g_gains_in_nlos_up_to_a_decibel_less() -> None:
    """One end after the other is searched, not all pairs; and a pair is held until the next measurement."""
    walks = list(ensemble(load("kau-e5g-1"), seeds=range(1, 61)))
    behind = [np.median(walk.losses_db["gain"][5000:20_000]) for walk in walks]
    assert -1.2 < np.median(behind) - RECORDED["nlos"]["rays"]["gain_db"][4] < 0.3
