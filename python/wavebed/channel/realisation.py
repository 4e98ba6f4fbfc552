"""A realisation of a scene: arrays over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from wavebed.scene.model import Interval, Mode, Scene

__all__ = ["FallbackCarrier", "Realisation"]


class FallbackCarrier(NamedTuple):
    """The fallback carrier of one seed at all times; the arrays are those of the same name in `Realisation`."""

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
        Index of the serving base station.
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
    intervals : tuple of Interval
        States of the geometry, with exact edges (not rounded to steps).
    fallback : FallbackCarrier or None
        The fallback carrier at all times, with a split bearer.
    warnings : tuple of str
        One line each: where a model was used outside its range.
    """

    scene: Scene
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
    intervals: tuple[Interval, ...]
    warnings: tuple[str, ...] = ()
    data_db: NDArray[np.float64] | None = None
    need_db: NDArray[np.float64] | None = None
    up_data_db: NDArray[np.float64] | None = None
    up_need_db: NDArray[np.float64] | None = None
    fallback: FallbackCarrier | None = None
