"""A realisation of a scene: arrays over time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from wavebed.pattern.model import STATES, steps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from wavebed.pattern.model import Pattern
    from wavebed.scene.model import Mode, SceneInterval, SceneModel


class FallbackCarrier(NamedTuple):
    """The fallback carrier of one seed at all times; `Realisation` describes the arrays of the same names."""

    rate_bps: NDArray[np.int64]
    up_rate_bps: NDArray[np.int64]
    data_db: NDArray[np.float64]
    need_db: NDArray[np.float64]
    up_data_db: NDArray[np.float64]
    up_need_db: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Realisation:
    """One seed of a scene; every array has one value for each step, `n` of them.

    Parameters
    ----------
    scene, mode, seed
        The scene.
    time_s : (n,) float64
        Beginning of each step.
    position_m : (n, 3) float64
        Where the UE is.
    serving : (n,) int16
        Index of the serving base station; on the fallback carrier, of the last one that served.
    los : (n,) bool
        Whether no building stands in the direct path.
    state : (n,) uint8
        Index into `wavebed.pattern.model.STATES`.
    sinr_db : (n,) float64
        Downlink SINR after beamforming, wideband effective.
    mcs : (n,) int16
        Downlink modulation and coding scheme; -1 where nothing is sent.
    rate_bps, bler : (n,) int64, (n,) float64
        Downlink: bits of transport blocks per second that are the user's, averaged over the duplex frame; fraction of
        first transmissions that fail.
    up_rate_bps, up_bler : (n,) int64, (n,) float64
        Uplink.
    data_db, need_db, up_data_db, up_need_db : (n,) float64 or None
        Effective SINR of the data in both directions, and that at which a tenth of the blocks of its MCS fails;
        ``None`` where a study's method has no such values, or the technology has no HARQ.
    losses_db : mapping of str to (n,) float64
        The parts of the link budget, for pictures: ``path loss``, ``shadowing``, ``blockage``, ``gain``, ``fading``,
        ``interference``.
    intervals : tuple of SceneInterval
        States of the geometry, with exact edges (not rounded to steps).
    fallback : FallbackCarrier or None
        The fallback carrier at all times, with a split bearer.
    warnings : tuple of str
        One line each: where a model was used outside its range.
    """

    scene: SceneModel
    mode: Mode
    seed: int
    time_s: NDArray[np.float64]
    position_m: NDArray[np.float64]
    serving: NDArray[np.int16]
    los: NDArray[np.bool_]
    state: NDArray[np.uint8]
    sinr_db: NDArray[np.float64]
    mcs: NDArray[np.int16]
    rate_bps: NDArray[np.int64]
    bler: NDArray[np.float64]
    up_rate_bps: NDArray[np.int64]
    up_bler: NDArray[np.float64]
    losses_db: Mapping[str, NDArray[np.float64]]
    intervals: tuple[SceneInterval, ...]
    warnings: tuple[str, ...] = ()
    data_db: NDArray[np.float64] | None = None
    need_db: NDArray[np.float64] | None = None
    up_data_db: NDArray[np.float64] | None = None
    up_need_db: NDArray[np.float64] | None = None
    fallback: FallbackCarrier | None = None


Direction: TypeAlias = Literal["down", "up"]

AMPLE_DB = 20.0
"""This far above what it needs, no block fails."""
IDLE_DB = 0.0
"""What stands where nothing is sent."""
LIMIT_DB = 100.0
STEP_DB = 0.01

BLER_DECIMALS = 4
"""Block error rates are tables fitted to simulations; more digits say nothing and make more rows."""


def to_pattern(realisation: Realisation, direction: Direction, *, cells: bool | None = None) -> Pattern:
    """Return the pattern of one direction; equal neighbouring steps are one row.

    Parameters
    ----------
    realisation : Realisation
        The realisation.
    direction : {"down", "up"}
        Towards the UE or away from it.
    cells : bool, optional
        Whether the pattern says which base station serves; by default in a scene with several devices. The base station
        of the fallback carrier comes after the others. There is no such column where only one can serve.
    """
    down = direction == "down"
    rate_bps = realisation.rate_bps if down else realisation.up_rate_bps
    bler = np.round(realisation.bler if down else realisation.up_bler, BLER_DECIMALS)
    sinr_db = realisation.data_db if down else realisation.up_data_db
    need_db = realisation.need_db if down else realisation.up_need_db
    sinr_mdb, need_mdb = _sinr_columns(sinr_db, need_db, rate_bps > 0)
    other_bps, other_sinr_mdb, other_need_mdb = _fallback_columns(realisation.fallback, down=down)
    pattern = steps(
        np.rint(realisation.time_s * 1e9).astype(np.int64),
        round(realisation.scene.duration_s * 1e9),
        rate_bps=rate_bps.copy(),
        bler=np.where(rate_bps > 0, bler, 0.0),
        state=realisation.state.copy(),
        cell=_cells(realisation) if (bool(realisation.scene.devices) if cells is None else cells) else None,
        sinr_mdb=sinr_mdb,
        need_mdb=need_mdb,
        fallback_rate_bps=other_bps,
        fallback_sinr_mdb=other_sinr_mdb,
        fallback_need_mdb=other_need_mdb,
    )
    return replace(pattern.merged(), header=_header(realisation, direction))


def _cells(realisation: Realisation) -> NDArray[np.int64] | None:
    """Return the index of the serving base station, where several can serve."""
    scene = realisation.scene
    count = len(scene.base_stations)
    if count == 1 and scene.fallback is None:
        return None
    away = realisation.state == STATES.index("fallback")
    return np.where(away, np.int64(count), realisation.serving.astype(np.int64))


def _fallback_columns(
    carrier: FallbackCarrier | None, *, down: bool
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """Return rate, SINR and need of the fallback carrier."""
    if carrier is None:
        return None, None, None
    rate_bps = carrier.rate_bps if down else carrier.up_rate_bps
    sinr_db, need_db = (carrier.data_db, carrier.need_db) if down else (carrier.up_data_db, carrier.up_need_db)
    return rate_bps.copy(), *_sinr_columns(sinr_db, need_db, rate_bps > 0)


def _sinr_columns(
    sinr_db: NDArray[np.float64] | None, need_db: NDArray[np.float64] | None, sends: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | tuple[None, None]:
    """Return the SINR of the data and what it needs, in thousandths of a decibel."""
    if sinr_db is None or need_db is None:
        return None, None
    useful_db = np.minimum(sinr_db, need_db + AMPLE_DB)
    return _thousandths(np.where(sends, useful_db, IDLE_DB)), _thousandths(np.where(sends, need_db, IDLE_DB))


def _thousandths(values_db: NDArray[np.float64]) -> NDArray[np.int64]:
    return (np.rint(np.clip(values_db, -LIMIT_DB, LIMIT_DB) / STEP_DB) * round(1000 * STEP_DB)).astype(np.int64)


def _header(realisation: Realisation, direction: Direction) -> tuple[tuple[str, str], ...]:
    scene = realisation.scene
    lines = [
        ("title", scene.title),
        ("source", f"scene {scene.name}: {scene.anchor}"),
        ("mode", realisation.mode),
        ("seed", str(realisation.seed)),
        ("radio", scene.radio.preset),
        ("direction", direction),
    ]
    if scene.devices:
        lines.insert(1, ("device", scene.ue.name))
    lines += [(f"warning-{k}", warning) for k, warning in enumerate(realisation.warnings, start=1)]
    return tuple(lines)
