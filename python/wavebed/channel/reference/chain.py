"""The simulator of the study, on a scene, millisecond by millisecond."""

from __future__ import annotations

from math import erfc, sqrt
from typing import TYPE_CHECKING

import numpy as np

from wavebed.channel.realisation import Realisation
from wavebed.channel.reference.beams import INSTANCES, SUBBAND_HZ, SUBBANDS, gains
from wavebed.channel.reference.levels import mcs_numbers, needed_db, rates_bps
from wavebed.channel.reference.transition import blockage_db
from wavebed.errors import UserError
from wavebed.pattern.model import STATES
from wavebed.scene.geometry import intervals, positions
from wavebed.scene.model import Interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from wavebed.scene.model import Scene

    Floats = NDArray[np.float64]

__all__ = ["free_path_db", "realise_reference"]

REDRAW_S = 0.1
"""How often the small-scale gain is drawn anew."""

CQI_DELAY_S = 0.001
"""Age of the report that the scheduler uses."""

FALL_DB = 0.1
"""Standard deviation of the normal curve by which a block's errors fall with SINR: the normal approximation
(Polyanskiy, Poor, Verdú 2010) for blocks of 6144 bits gives 0.08 dB at rate 0.44, QPSK. At its threshold a level fails
in 10 %."""

STAGE = 1
"""Key of the draws of this mode; another number for each further kind of draw."""

_Z10 = 1.2816
_CODES = {"LOS": STATES.index("los"), "NLOS": STATES.index("nlos"), "OUTAGE": STATES.index("outage")}


def free_path_db(distance_m: Floats) -> Floats:
    """Path loss of the study: 61.4 + 20·lg d, d in metres, at 28 GHz with a free direct path."""
    return np.asarray(61.4 + 20 * np.log10(distance_m))


def realise_reference(scene: Scene, seeds: Sequence[int]) -> list[Realisation]:
    """Realise a scene as the study's simulator did.

    Parameters
    ----------
    scene : Scene
        A scene with a table ``[reference]``.
    seeds : sequence of int
        One realisation for each. Geometry and path loss are the same for all; the gain is drawn.

    Raises
    ------
    UserError
        If the scene has no table ``[reference]``.
    """
    if scene.reference is None:
        raise UserError(
            f"{scene.source or scene.name}: mode reference: the scene has no [reference] table: "
            "use mode 3gpp, or one of the kau-e5g scenes"
        )
    if scene.reference.constant_bps is not None:
        return [_constant(scene, seed, scene.reference.constant_bps) for seed in seeds]
    parts = intervals(scene, "reference")
    time_s, position_m = _walk(scene)
    losses = _losses_db(scene, parts, time_s, position_m)
    state = _state(parts, time_s)
    before_gain_db = _before_gain_db(scene, losses)
    return [_realise(scene, seed, parts, time_s, position_m, state, losses, before_gain_db) for seed in seeds]


def _walk(scene: Scene) -> tuple[Floats, Floats]:
    steps = max(round(scene.duration_s / scene.step_s), 1)
    time_s: Floats = np.arange(steps, dtype=np.float64) * scene.step_s
    return time_s, positions(scene.ue.trajectory, time_s)


def _losses_db(scene: Scene, parts: tuple[Interval, ...], time_s: Floats, position_m: Floats) -> dict[str, Floats]:
    distance_m = np.linalg.norm(position_m - np.asarray(scene.base_stations[0].position_m), axis=1)
    behind = [(part.start_s, part.end_s) for part in parts if part.state != "LOS"]
    return {"path loss": free_path_db(distance_m), "blockage": blockage_db(time_s, behind)}


def _state(parts: tuple[Interval, ...], time_s: Floats) -> NDArray[np.uint8]:
    starts = np.array([part.start_s for part in parts])
    codes = np.array([_CODES[part.state] for part in parts], dtype=np.uint8)
    return codes[np.maximum(np.searchsorted(starts, time_s, side="right") - 1, 0)]


def _before_gain_db(scene: Scene, losses: Mapping[str, Floats]) -> Floats:
    """SINR of a single path between single antennas: budget, less losses and thermal noise (-174 dBm/Hz)."""
    station = scene.base_stations[0]
    noise_dbm = -174 + 10 * np.log10(SUBBANDS * SUBBAND_HZ) + scene.ue.noise_figure_db
    return np.asarray(station.power_dbm - noise_dbm - losses["path loss"] - losses["blockage"])


def _realise(
    scene: Scene,
    seed: int,
    parts: tuple[Interval, ...],
    time_s: Floats,
    position_m: Floats,
    state: NDArray[np.uint8],
    losses: Mapping[str, Floats],
    before_gain_db: Floats,
) -> Realisation:
    arrays = _arrays(scene)
    drawn = _drawn(seed, time_s)
    gain_db = (10 * np.log10(gains(*arrays).mean(axis=1)))[drawn]
    gone = state == _CODES["OUTAGE"]
    level, margin_db = _adapted(needed_db(*arrays), drawn, before_gain_db, max(round(CQI_DELAY_S / scene.step_s), 0))
    level = np.where(gone, 0, level)
    bler = np.where(level > 0, _block_errors(margin_db), 0.0)
    rate_bps = rates_bps()[level]
    sinr_db = np.where(gone, np.nan, before_gain_db + gain_db)
    shown = dict(losses)
    shown["gain"] = gain_db
    return Realisation(
        scene=scene,
        mode="reference",
        seed=seed,
        time_s=time_s,
        position_m=position_m,
        serving=np.zeros(len(time_s), dtype=np.int16),
        los=state == _CODES["LOS"],
        state=state,
        sinr_db=sinr_db,
        mcs=mcs_numbers()[level],
        rate_bps=rate_bps,
        bler=bler,
        up_rate_bps=rate_bps,
        up_bler=bler,
        losses_db=shown,
        intervals=parts,
        warnings=_warnings(scene),
    )


def _arrays(scene: Scene) -> tuple[tuple[int, int], tuple[int, int]]:
    station, ue = scene.base_stations[0].array, scene.ue.array
    return (station.rows, station.columns), (ue.rows, ue.columns)


def _drawn(seed: int, time_s: Floats) -> NDArray[np.int64]:
    """Which channel instance holds at each step."""
    period = np.floor(time_s / REDRAW_S + 1e-9).astype(np.int64)
    draws = np.random.default_rng((seed, STAGE)).integers(0, INSTANCES, int(period[-1]) + 1)
    return np.asarray(draws[period])


def _adapted(
    needed: Floats, drawn: NDArray[np.int64], before_gain_db: Floats, delay: int
) -> tuple[NDArray[np.int64], Floats]:
    """Return the level that an old report chooses, and the dB by which the channel of now exceeds its needs."""
    allowed = (before_gain_db[:, np.newaxis] >= needed[drawn]).sum(axis=1)
    level = np.concatenate((allowed[:1].repeat(delay), allowed))[: len(allowed)]
    return level, before_gain_db - needed[drawn, np.maximum(level, 1) - 1]


def _block_errors(margin_db: Floats) -> Floats:
    """Share of first transmissions that fail: 10 % at no margin, less by a normal curve."""
    grid = np.linspace(-1.0, 1.0, 201)
    curve = [0.5 * erfc((margin / FALL_DB + _Z10) / sqrt(2)) for margin in grid]
    return np.interp(margin_db, grid, curve)


def _constant(scene: Scene, seed: int, rate_bps: float) -> Realisation:
    """Make a realisation of a rate that the study set by hand; nothing of a channel stands behind it."""
    time_s, position_m = _walk(scene)
    steps = len(time_s)
    rate = np.full(steps, round(rate_bps), dtype=np.int64)
    nothing = np.zeros(steps)
    return Realisation(
        scene=scene,
        mode="reference",
        seed=seed,
        time_s=time_s,
        position_m=position_m,
        serving=np.zeros(steps, dtype=np.int16),
        los=np.ones(steps, dtype=np.bool_),
        state=np.full(steps, _CODES["LOS"], dtype=np.uint8),
        sinr_db=np.full(steps, np.nan),
        mcs=np.full(steps, -1, dtype=np.int16),
        rate_bps=rate,
        bler=nothing,
        up_rate_bps=rate,
        up_bler=nothing,
        losses_db={},
        intervals=(Interval("LOS", 0.0, scene.duration_s),),
        warnings=("mode reference: this rate is a constant of the study's script; no channel was simulated",),
    )


def _warnings(scene: Scene) -> tuple[str, ...]:
    carrier = scene.carrier
    found = []
    if carrier.frequency_hz != 28e9:
        found.append(f"mode reference: its path loss holds at 28 GHz, the scene has {carrier.frequency_hz / 1e9:g} GHz")
    if carrier.bandwidth_hz != 1e9:
        found.append(f"mode reference: its frame has 1 GHz, the scene has {carrier.bandwidth_hz / 1e6:g} MHz")
    if len(scene.base_stations) > 1:
        found.append(f"mode reference: it has one base station; only {scene.base_stations[0].name} is used")
    return tuple(found)
