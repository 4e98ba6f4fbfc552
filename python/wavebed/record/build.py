"""A pattern of one direction from a recording.

Light and heavy load alternate, so each curve has gaps during the other load. Each half of a gap gets the mirrored curve
beside it. So measured values keep their distribution and their changes from step to step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from wavebed.errors import WavebedError
from wavebed.pattern.model import MAX_RATE_BPS, Pattern, steps
from wavebed.workload.record_curves import GRID_NS, PROBE_NS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.workload.record_curves import Curves

    Floats = NDArray[np.float64]

_LOSS_OF_NS = 10_000_000_000


@dataclass(frozen=True, slots=True)
class LightTrain:
    """What light load is: bytes of a train, and the idle time before it in seconds."""

    train_bytes: int
    idle_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Direction:
    """One direction of a recording in steps of `GRID_NS`, without gaps.

    Parameters
    ----------
    rate_bps, light_rate_bps, delay_ns, loss : float array, shape (steps,)
        Of a full queue, of a train, one way of a packet after an idle time, and of light load.
    known : float
        Share of the steps in which the rate of a full queue was measured.
    queue_bytes : int or None
        The limit of the queue; ``None`` if it was not filled.
    queue_is_full : bool
        Whether packets were lost at `queue_bytes`; otherwise the limit of the queue is higher.
    """

    rate_bps: Floats
    light_rate_bps: Floats
    delay_ns: Floats
    loss: Floats
    known: float
    queue_bytes: int | None
    queue_is_full: bool

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.rate_bps)


def direction(curves: Curves, name: str) -> Direction:
    """Return a direction without gaps.

    Raises
    ------
    WavebedError
        If no rate or no delay of it was measured.
    """
    count = len(curves.rate_bps)
    in_outage = np.zeros(count, dtype=np.bool_)
    for begin_ns, end_ns in curves.outages_ns.tolist():
        in_outage[begin_ns // GRID_NS + 1 : end_ns // GRID_NS] = True
    measured = np.where(in_outage, 0.0, curves.rate_bps)
    if np.isnan(measured).all():
        raise WavebedError(f"{name}: no rate was measured: the queue was never certainly filled")
    if not len(curves.delay_ns):
        raise WavebedError(f"{name}: no packet of light load arrived")
    rate = filled(measured)
    delay = filled(_on_grid(curves.delay_at_ns, curves.delay_ns, count, PROBE_NS // GRID_NS))
    light = rate
    if len(curves.train_bps):
        trains = filled(_on_grid(curves.train_at_ns, curves.train_bps, count, 1))
        light = np.minimum(trains, rate)  # a train that arrives at once had the full rate, whatever its dispersion
    return Direction(
        rate_bps=rate,
        light_rate_bps=light,
        delay_ns=delay,
        loss=_loss(curves, count),
        known=float((~np.isnan(curves.rate_bps)).mean()),
        queue_bytes=curves.queue_bytes or None,
        queue_is_full=curves.queue_is_full,
    )


def filled(values: Floats) -> Floats:
    """Return values whose gaps (not a number) have the values beside them, mirrored."""
    known = np.flatnonzero(~np.isnan(values))
    if len(known) == len(values) or not len(known):
        return values
    found = values.copy()
    gaps = np.flatnonzero(np.isnan(values))
    after = np.searchsorted(known, gaps)  # how many known values are before the gap's step
    starts = np.where(after > 0, known[np.maximum(after - 1, 0)], -1)
    ends = np.where(after < len(known), known[np.minimum(after, len(known) - 1)], len(values))
    from_start, from_end = gaps - starts - 1, ends - gaps - 1
    use_start = (after > 0) & ((from_start <= from_end) | (after == len(known)))
    back, forth = after - 1 - from_start % np.maximum(after, 1), after + from_end % np.maximum(len(known) - after, 1)
    found[gaps] = values[known[np.where(use_start, back, np.minimum(forth, len(known) - 1))]]
    return found


def _on_grid(at_ns: NDArray[np.int64], values: Floats, count: int, hold: int) -> Floats:
    """Return values on the grid; each holds for `hold` steps."""
    found = np.full(count, np.nan)
    order = np.argsort(at_ns, kind="stable")
    for at, value in zip((at_ns[order] // GRID_NS).tolist(), values[order].tolist(), strict=True):
        found[max(0, at) : at + hold] = value
    return found


def _loss(curves: Curves, count: int) -> Floats:
    """Return the share of light packets lost near each step: of ten seconds, as few are sent."""
    middle = (np.arange(count) + 0.5) * GRID_NS
    if not len(curves.loss_sent):
        return np.zeros(count)
    at = (curves.loss_at_ns + curves.loss_end_ns) / 2
    cuts = np.searchsorted(at, np.array([middle - _LOSS_OF_NS / 2, middle + _LOSS_OF_NS / 2]))
    sent, lost = (np.concatenate(([0], np.cumsum(each))) for each in (curves.loss_sent, curves.loss_lost))
    total, missing = sent[cuts[1]] - sent[cuts[0]], lost[cuts[1]] - lost[cuts[0]]
    share: Floats = np.where(total > 0, missing / np.maximum(total, 1), lost[-1] / max(1, sent[-1]))
    return share


def split_delays(down: Direction, up: Direction) -> float:
    """Return by how many ns the downlink's delays must grow, and the uplink's fall, to have one median."""
    return float((np.median(up.delay_ns) - np.median(down.delay_ns)) / 2)


def joined(parts: Sequence[Direction]) -> Direction:
    """Return recordings one after the other."""
    limits = [part for part in parts if part.queue_bytes is not None]
    longest = max((part.queue_bytes or 0 for part in limits), default=0)
    rate, light, delay, loss = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("rate_bps", "light_rate_bps", "delay_ns", "loss")
    )
    return Direction(
        rate_bps=rate,
        light_rate_bps=light,
        delay_ns=delay,
        loss=loss,
        known=float(np.average([part.known for part in parts], weights=[len(part) for part in parts])),
        queue_bytes=longest or None,
        queue_is_full=any(part.queue_is_full for part in limits),
    )


def pattern(part: Direction, load: LightTrain, header: Sequence[tuple[str, str]], shift_ns: float = 0.0) -> Pattern:
    """Return a direction as a pattern with the rates of heavy and of light load, delay and loss."""
    made = steps(
        _index(part),
        len(part) * GRID_NS,
        rate_bps=_whole(part.rate_bps),
        delay_ns=_rounded(np.maximum(part.delay_ns + shift_ns, 0)),
        loss=_some(part.loss),
        light_rate_bps=_whole(part.light_rate_bps),
        light_bytes=load.train_bytes,
        light_idle_ns=round(load.idle_s * 1e9),
    )
    return replace(made, header=tuple(header)).merged()


def saturating(part: Direction, header: Sequence[tuple[str, str]], shift_ns: float = 0.0) -> Pattern:
    """Return what a saturating measurement alone would have: the rate, and the least delay at all times."""
    least = np.full(len(part), max(0.0, float(part.delay_ns.min()) + shift_ns))
    made = steps(
        _index(part),
        len(part) * GRID_NS,
        rate_bps=_whole(part.rate_bps),
        delay_ns=_rounded(least),
        loss=_some(part.loss),
    )
    return replace(made, header=tuple(header)).merged()


def _index(part: Direction) -> NDArray[np.int64]:
    return np.arange(len(part), dtype=np.int64) * GRID_NS


def _rounded(delay_ns: Floats) -> NDArray[np.int64]:
    """Return delays in whole microseconds."""
    return np.rint(delay_ns / 1000).astype(np.int64) * 1000


def _some(loss: Floats) -> Floats | None:
    return np.round(loss, 6) if loss.any() else None


def _whole(rate_bps: Floats) -> NDArray[np.int64]:
    return np.rint(np.minimum(rate_bps, MAX_RATE_BPS)).astype(np.int64)
