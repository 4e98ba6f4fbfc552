"""Fit the scenes of the Lumos5G loop to its walks, and judge them by walks held out.

``python docs/validation/fit_physics.py mmwave|lte SCENE.toml OUT.toml [--quarter N]`` starts from a scene, prints the
distances to fitted and held-out walks, and writes the fitted scene. Every fourth walk in the order of the numbers in
the files' names is held out; with ``--quarter`` the N-th quarter of the lap time of every walk is, instead. The traces
are read from the folder WAVEBED_TRACES, by default ../shared/traces beside the repository.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wavebed.fit.objective import LTE, MMWAVE
from wavebed.fit.physics import Settings, fit_physics, scene_text
from wavebed.output import write_output

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.fit.objective import Levels
    from wavebed.fit.physics import Distances, PhysicsFit

    Floats = NDArray[np.float64]

TRACES = Path(os.environ.get("WAVEBED_TRACES", Path(__file__).parents[3] / "shared" / "traces"))
WALKS: dict[str, tuple[str, Levels]] = {"mmwave": ("lumos-5g", MMWAVE), "lte": ("lumos-4g", LTE)}
KEYS = {
    "mmwave": (
        "base-station.*.power",
        "base-station.2.array.azimuth",
        "nlos-offset",
        "shadowing.spread",
        "carrier.evm",
        "cell-load.mean",
        "cell-load.time-constant",
        "timers.out-of-sync",
        "timers.in-sync",
        "timers.fallback",
        "timers.return-hysteresis",
        "fallback.base-station.power",
    ),
    "lte": (
        "base-station.*.power",
        "nlos-offset",
        "shadowing.spread",
        "shadowing.distance",
        "carrier.evm",
        "cell-load.mean",
        "cell-load.time-constant",
    ),
}
"""What is fitted: 12 and 7 values."""


def walks(kind: str) -> list[Floats]:
    """Return the rates of each walk, Mbit/s, in the natural order of the names."""
    files = sorted((TRACES / WALKS[kind][0]).glob("*walking*"), key=_natural)
    return [np.loadtxt(file, ndmin=2)[:, 1] for file in files]


def _natural(file: Path) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"([0-9]+)", file.name)]


def split(laps: list[Floats], quarter: int | None) -> tuple[list[Floats], list[Floats]]:
    """Return the walks to fit and those to judge by."""
    if quarter is None:
        return [lap for place, lap in enumerate(laps) if place % 4 != 3], laps[3::4]
    inside = [np.arange(lap.size) * 4 // lap.size + 1 == quarter for lap in laps]
    return (
        [np.where(hidden, np.nan, lap) for lap, hidden in zip(laps, inside, strict=True)],
        [np.where(hidden, lap, np.nan) for lap, hidden in zip(laps, inside, strict=True)],
    )


def _printed(name: str, found: Distances) -> None:
    print(name)
    for key, value in asdict(found).items():
        print(f"  {key}: {value if isinstance(value, tuple) else round(value, 3)}")


def _told(count: int, cost: float, _place: Floats) -> None:
    print(f"\r{count} realisations, the last at a cost of {cost:.2f}", end="", file=sys.stderr)


def fitted(kind: str, scene: Path, quarter: int | None = None, settings: Settings | None = None) -> PhysicsFit:
    """Fit a scene."""
    fit, held_out = split(walks(kind), quarter)
    document = tomllib.loads(scene.read_text(encoding="utf-8"))
    work = settings or Settings()
    return fit_physics(fit, document, held_out, keys=KEYS[kind], levels=WALKS[kind][1], settings=work, tell=_told)


def main() -> None:
    """Fit, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=WALKS)
    parser.add_argument("scene", type=Path)
    parser.add_argument("output")
    parser.add_argument("--quarter", type=int, choices=(1, 2, 3, 4))
    parser.add_argument("--seeds", type=int, default=Settings().seeds, help="realisations of each set of parameters")
    parser.add_argument("--first", type=int, default=Settings().first, help="places of the Latin hypercube")
    given = parser.parse_args()
    work = Settings(seeds=given.seeds, first=given.first)
    found = fitted(given.kind, given.scene, given.quarter, work)
    measured = f"{len(walks(given.kind))} walks, " + (
        "every fourth held out" if given.quarter is None else f"quarter {given.quarter} held out"
    )
    write_output(given.output, scene_text(found, measured), "OUT.toml")
    lines = [each.text() for each in found.parameters]
    print(f"cost {found.cost:.2f} after {found.evaluations} realisations", *lines, sep="\n")
    _printed("fitted walks", found.fitted)
    if found.held_out is not None:
        _printed("held-out walks", found.held_out)


if __name__ == "__main__":
    main()
