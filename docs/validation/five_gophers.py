"""Distance, orientation and a person in the way, beside 5Gophers: print the rows of `standards.md`.

Usage: python docs/validation/five_gophers.py
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from wavebed.channel import ensemble
from wavebed.scene import load

SEEDS: Final = range(1, 41)
DATA_OF_BYTES: Final = 1448 / 1510
"""TCP data in IP packets with the headers of layer 2."""
SCENE: Final = """
title = "5Gophers: a UE on the street before a pole"
anchor = "A. Narayanan et al., A First Look at Commercial 5G Performance on Smartphones, WWW 2020"
duration = "4s"
step = "2ms"
propagation = "{propagation}"

[carrier]
technology = "nr"
frequency = "28ghz"
bandwidth = "400mhz"
numerology = 3
frame = "DDDSU"
layers = 2

[[base-station]]
name = "pole"
at = [0, 0, 8]
power = "{power_dbm}dbm"
noise-figure = "7db"
array = {{ rows = 8, columns = 16, element = "3gpp", azimuth = "0deg", elevation = "0deg" }}

[ue]
start = [{x:.3f}, {y:.3f}, 1.2]
power = "23dbm"
noise-figure = "10db"
heading = "{heading:.1f}deg"
array = {{ rows = 1, columns = 4, element = "3gpp-ue", panels = 2 }}
"""
PERSON: Final = """
[[obstacle]]
name = "person"
kind = "person"
at = [{x:.3f}, 0]
"""
POWER_DBM: Final = 18


class Place(NamedTuple):
    """Where a UE stands: distance, angle from the panel's normal, distance of a person before it, surroundings."""

    distance_m: float
    angle_deg: float = 0.0
    person_m: float | None = None
    propagation: str = "umi"


def median_mbps(place: Place, power_dbm: float = POWER_DBM) -> float:
    """Return the median rate of TCP data over time and seeds, in a cell without other users."""
    turn = math.radians(place.angle_deg)
    text = SCENE.format(
        propagation=place.propagation, power_dbm=power_dbm, heading=place.angle_deg - 180,
        x=place.distance_m * math.cos(turn), y=place.distance_m * math.sin(turn),
    )  # fmt: skip
    if place.person_m is not None:
        text += PERSON.format(x=place.distance_m - place.person_m)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scene.toml"
        file.write_text(text, encoding="utf-8")
        scene = load(str(file))
    rates = np.concatenate([one.rate_bps * (1 - one.bler) for one in ensemble(scene, seeds=SEEDS)])
    return float(np.median(rates)) * DATA_OF_BYTES / 1e6


class Pair(NamedTuple):
    """Two places of one experiment: the first one's published median gives the cell load, the other is predicted."""

    near: Place
    far: Place
    near_mbps: float
    far_mbps: float

    def predicted_mbps(self, power_dbm: float = POWER_DBM) -> float:
        """Return the median of the second place, by that of the first."""
        return self.near_mbps * median_mbps(self.far, power_dbm) / median_mbps(self.near, power_dbm)


NEAR: Final = Place(25)
PAIRS: Final = {
    "distance": Pair(NEAR, Place(160), 1575, 1248),
    "orientation": Pair(NEAR, Place(25, angle_deg=90), 2034, 1237),
}


def retained(distance_m: float, person_m: float, propagation: str) -> float:
    """Return the fraction of the rate that is left behind a person."""
    free = Place(distance_m, propagation=propagation)
    return median_mbps(free._replace(person_m=person_m)) / median_mbps(free)


def main() -> None:
    """Print the rows."""
    for name, pair in PAIRS.items():
        found = [pair.predicted_mbps(power) for power in (15, POWER_DBM, 21)]
        print(f"| {name} | {pair.near_mbps} | {pair.far_mbps} | " + " | ".join(f"{each:.0f}" for each in found) + " |")
    for distance_m in (25, 50, 75, 100):
        cells = [f"{retained(distance_m, 1, kind):.0%}" for kind in ("umi", "free-space")]
        print(f"| {distance_m} m | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
