"""The model beside measured traces: samples of both, and the distances between them."""

from __future__ import annotations

import csv
import json
import subprocess
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy.stats import ks_2samp

import wavebed
from wavebed.channel import ensemble
from wavebed.channel.adaptation import adapt
from wavebed.scene import load
from wavebed.scene.values import CellLoad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.scene.model import Mode, SceneModel

    Floats = NDArray[np.float64]

SEEDS: Final = range(1, 41)
ROOT: Final = Path(__file__).parents[2]
WALKING: Final = tuple(f"lumos5g_{number}_walking.txt" for number in (32, 100, 116))
DRIVING: Final = ("lumos5g_103_driving.txt",)
LTE: Final = ("ATT-LTE-driving-2016", "Verizon-LTE-short")
ILLUSTRATIVE: Final = ("street-canyon-bus", "corner-lte", "crowd-sub6")
STUDY_WALKS: Final = ("kau-e5g-1", "kau-e5g-3", "kau-e5g-4")
STUDY_DRIVE: Final = "kau-e5g-2"
LTE_SCENE: Final = "kau-e5g-lte"
MAST_500_M: Final = (-425.0, 0.0, 25.0)
"""Metres; the UE of `LTE_SCENE` is at x = 75."""
OPPORTUNITY_BITS: Final = 1500 * 8
CARRIER_SCENE: Final = "street-canyon-bus"
"""28 GHz, 400 MHz, two layers, as operators have it."""
MMWAVE_OUTAGE_MBPS: Final = 5.0
MMWAVE_LOST_MBPS: Final = 100.0
LTE_OUTAGE_MBPS: Final = 1.0
"""A time below is an outage: nothing useful passes; the mmWave link is gone; the same for LTE, which is slower."""
ON_MMWAVE_MBPS: Final = 200.0
"""LTE fallback of the measured walks stays below: the rates have two humps, about 0.1 and 1 Gbit/s."""


class Runs(NamedTuple):
    """Means of whole seconds, Mbit/s, of one or more walks; and what they are of."""

    name: str
    walks: tuple[Floats, ...]

    @property
    def rates(self) -> Floats:
        """All seconds of all walks."""
        return np.concatenate(self.walks)


class Outages(NamedTuple):
    """Lengths of the times below a threshold, seconds, and their fraction of all seconds."""

    lengths_s: Floats
    fraction: float


@dataclass(frozen=True)
class Pair:
    """A model beside a measurement."""

    model: Runs
    measured: Runs
    threshold_mbps: float = MMWAVE_OUTAGE_MBPS

    @property
    def distance(self) -> float:
        """Kolmogorov-Smirnov distance of the rates."""
        return ks_distance(self.model.rates, self.measured.rates)

    @property
    def shape_distance(self) -> float:
        """The same, each side divided by its own 95th percentile: what remains when peaks are the same."""
        return ks_distance(by_p95(self.model.rates), by_p95(self.measured.rates))

    @property
    def fast_distance(self) -> float | None:
        """The same for the seconds above `ON_MMWAVE_MBPS` alone; ``None`` where a side has none."""
        model, measured = (rates[rates > ON_MMWAVE_MBPS] for rates in (self.model.rates, self.measured.rates))
        return ks_distance(model, measured) if model.size and measured.size else None


class Efficiency(NamedTuple):
    """SINR (dB) and rate (Mbit/s) of every measured sample, and what the link adaptation makes of that SINR."""

    sinr_db: Floats
    measured: Floats
    model: Floats

    @property
    def shape_distance(self) -> float:
        """Kolmogorov-Smirnov distance of the rates, each side divided by its own 95th percentile."""
        return ks_distance(by_p95(self.model), by_p95(self.measured))


class Probes(NamedTuple):
    """Idle time before each probe (s), and its round trip (ms), measured and by the model."""

    idle_s: Floats
    measured_ms: Floats
    model_ms: Floats

    def between(self, low_s: float, high_s: float) -> Probes:
        """Keep the probes whose idle time is from `low_s` to below `high_s`."""
        kept = (self.idle_s >= low_s) & (self.idle_s < high_s)
        return Probes(self.idle_s[kept], self.measured_ms[kept], self.model_ms[kept])

    @property
    def distance(self) -> float:
        """Kolmogorov-Smirnov distance of the round trips."""
        return ks_distance(self.model_ms, self.measured_ms)


IDLE_GROUPS: Final = (
    ("awake", 0.0, 0.1),
    ("connected, asleep", 0.1, 10.2),
    ("about the release", 10.2, 12.0),
    ("idle", 12.0, 20.0),
)
"""Name and bounds of the idle time, seconds."""


def ks_distance(one: Floats, other: Floats) -> float:
    """Return the two-sample Kolmogorov-Smirnov distance: the greatest between two empirical distributions."""
    if one.size == 0 or other.size == 0:
        raise ValueError("a distribution needs samples")
    return float(ks_2samp(one, other, method="asymp").statistic)


def by_p95(rates: Floats) -> Floats:
    """Divide by the 95th percentile."""
    return rates / np.percentile(rates, 95)


def outages(runs: Runs, threshold_mbps: float) -> Outages:
    """Return the times of consecutive whole seconds below a threshold; a walk's end ends them too."""
    lengths = [
        len(list(some)) for walk in runs.walks for below, some in groupby((walk < threshold_mbps).tolist()) if below
    ]
    return Outages(np.array(lengths, dtype=float), float((runs.rates < threshold_mbps).mean()))


def scene_runs(scene: SceneModel, name: str = "", mode: Mode = "3gpp", *, uplink: bool = False) -> Runs:
    """Realise a scene with each of `SEEDS`: the rate that first transmissions carry, second by second."""
    per_second = round(1 / scene.step_s)
    walks = []
    for walk in ensemble(scene, mode, SEEDS):
        rate_bps, bler = (walk.up_rate_bps, walk.up_bler) if uplink else (walk.rate_bps, walk.bler)
        goodput = rate_bps * (1 - bler) / 1e6
        seconds = goodput.size // per_second
        walks.append(goodput[: seconds * per_second].reshape(seconds, per_second).mean(axis=1))
    return Runs(name or scene.name, tuple(walks))


def lumos(folder: Path, title: str, names: Sequence[str]) -> Runs:
    """Read traces of `seconds Mbit/s` lines."""
    return Runs(title, tuple(np.loadtxt(folder / name, usecols=1) for name in names))


def mahimahi(folder: Path, name: str) -> Runs:
    """Read a trace of delivery opportunities, whole seconds of it."""
    at_ms = np.loadtxt(folder / name, dtype=int)
    seconds = int(at_ms[-1]) // 1000
    counts = np.bincount(at_ms // 1000, minlength=seconds)[:seconds]
    return Runs(name, (counts * OPPORTUNITY_BITS / 1e6,))


def rate_pairs(folder: Path) -> list[Pair]:
    """Return every pair of rates that the page compares."""
    walking, driving = lumos(folder, "Lumos5G walking", WALKING), lumos(folder, "Lumos5G driving", DRIVING)
    walks = [scene_runs(load(name)) for name in (*ILLUSTRATIVE, *STUDY_WALKS)]
    walks += [scene_runs(load(name), f"{name}, reference", "reference") for name in STUDY_WALKS]
    drives = [scene_runs(load(STUDY_DRIVE)), scene_runs(load(STUDY_DRIVE), f"{STUDY_DRIVE}, reference", "reference")]
    pairs = [Pair(runs, walking, MMWAVE_OUTAGE_MBPS) for runs in walks]
    pairs += [Pair(runs, driving, MMWAVE_OUTAGE_MBPS) for runs in drives]
    down, up = scene_runs(load(LTE_SCENE)), scene_runs(load(LTE_SCENE), f"{LTE_SCENE}, up", uplink=True)
    for name in LTE:
        pairs.append(Pair(down, mahimahi(folder, f"{name}.down"), LTE_OUTAGE_MBPS))
        pairs.append(Pair(up, mahimahi(folder, f"{name}.up"), LTE_OUTAGE_MBPS))
    return pairs


def changed_pairs(folder: Path) -> list[Pair]:
    """Return scenes with one thing changed after the other, beside what they were compared with.

    The changes are round values that an operator's cell may have. They were not chosen for their distance.
    """
    walking = lumos(folder, "Lumos5G walking", WALKING)
    study, corner, lte = load("kau-e5g-1"), load("corner-lte"), load(LTE_SCENE)
    narrow = _with_400_mhz(study)
    masts = tuple(replace(mast, position_m=MAST_500_M) for mast in lte.base_stations)
    far = replace(lte, propagation="uma", draws_los=True, base_stations=masts)
    walks = [
        (study, "kau-e5g-1"),
        (narrow, "… with 400 MHz"),
        (replace(narrow, cell_load=(CellLoad(0.0, 0.5),)), "… and half of the cell for others"),
        (corner, "corner-lte"),
        (_with_400_mhz(corner), "… with 400 MHz"),
    ]
    drives = [
        (lte, LTE_SCENE),
        (replace(lte, cell_load=(CellLoad(0.0, 0.9),)), "… with 90 % of the cell for others"),
        (far, "… empty, 500 m from a mast of 25 m in a town"),
    ]
    pairs = [Pair(scene_runs(scene, name), walking, MMWAVE_OUTAGE_MBPS) for scene, name in walks]
    for trace in LTE:
        measured = mahimahi(folder, f"{trace}.down")
        pairs += [Pair(scene_runs(scene, name), measured, LTE_OUTAGE_MBPS) for scene, name in drives]
    return pairs


def _with_400_mhz(scene: SceneModel) -> SceneModel:
    # 264 resource blocks: TS 38.101-2 Table 5.3.2-1, 120 kHz.
    return replace(scene, carrier=replace(scene.carrier, bandwidth_hz=400e6, resource_blocks=264))


def adapted_mbps(sinr_db: Floats) -> Floats:
    """Return what link adaptation settles at for constant SINR, less what fails."""
    carrier = load(CARRIER_SCENE).carrier
    steady = adapt(np.repeat(sinr_db[:, None], 2000, axis=1), 1e-3, carrier, "down")
    goodput: Floats = (steady.rate_bps * (1 - steady.bler))[:, 1000:].mean(axis=1) / 1e6
    return goodput


def efficiency(folder: Path) -> Efficiency:
    """Read the samples of SINR and rate, and put every SINR through the link adaptation."""
    with (folder / "mmwave_sinr_throughput.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["nrStatus"] == "CONNECTED"]
    sinr_db = np.array([float(row["nr_ssSinr"]) for row in rows])
    levels_db, place = np.unique(sinr_db, return_inverse=True)
    measured = np.array([float(row["downlink_Mbps"]) for row in rows])
    return Efficiency(sinr_db, measured, adapted_mbps(levels_db)[place])


def probes(folder: Path) -> Probes:
    """Read the probes in the order in which they were made, and make the same ones of the radio stage."""
    with (folder / "rrc_probe_verizon_nsa_mmwave.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    idle_s = np.array([float(row["interval"]) for row in rows])
    measured_ms = np.array([float(row["RTT1"]) for row in rows])
    kept = np.array([row["KeepOrDrop"] == "YEP" for row in rows])
    awake_ms = float(np.median(measured_ms[kept & (idle_s == 0)]))
    own_ms = float(np.median(probe(np.zeros(100), 0.0)))
    model_ms = probe(idle_s, (awake_ms - own_ms) / 2)
    return Probes(idle_s[kept], measured_ms[kept], model_ms[kept])


def probe(idle_s: Floats, wire_ms: float) -> Floats:
    """Return the round trips (ms) of probes after idle gaps, through the radio stage in virtual time."""
    radio = {"preset": "nr-120khz", "drx": "on", "rrc": "on"}
    laboratory = json.loads(json.dumps(wavebed.Path.of(radio=radio, rate="100mbit").laboratory()))
    segment = laboratory["network"]["legs"][0]["hops"][0]
    question = {
        "down": segment["down"],
        "up": segment["up"],
        "wire_ns": round(wire_ms * 1e6),
        "gaps_ns": np.rint(idle_s * 1e9).astype(int).tolist(),
    }
    command = ["cargo", "run", "--quiet", "--package", "wavebed-link", "--example", "idle_probe"]
    done = subprocess.run(command, cwd=ROOT, input=json.dumps(question), stdout=subprocess.PIPE, text=True, check=True)
    return np.array(json.loads(done.stdout)) / 1e6
