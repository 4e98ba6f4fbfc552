"""The packets of one direction of a voice flow: loss, lateness, jitter, rating."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from wavebed.workload.emodel import burst_ratio, rate
from wavebed.workload.latency_windows import LEAST_PROBES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.workload.emodel import Codec, Rating
    from wavebed.workload.latency_windows import Probe

__all__ = ["Packet", "best_rated", "direction_of", "jitter_ms", "rated"]

_GAIN = 1 / 16


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet.

    Parameters
    ----------
    sent_s : float
        Time of sending by the client (of the request, for an answer), seconds since time zero.
    delay_ms : float or None
        One-way delay, if known.
    lost, late : bool
        Whether it did not arrive, or arrived after its playout time.
    """

    sent_s: float
    delay_ms: float | None
    lost: bool
    late: bool


def direction_of(probes: Sequence[Probe], name: str, buffer_ms: float) -> list[Packet]:
    """Return the packets of a direction, ``up`` or ``down``.

    The server answers packets that arrive, so a packet lost upwards has none downwards. A packet lost in an unknown
    direction counts as lost upwards. A packet that arrived but has no answer has an unknown delay and counts as played.
    """
    if name == "up":
        taken = [(probe.sent_s, probe.up_ms, probe.lost in ("up", "somewhere")) for probe in probes]
    else:
        taken = [(probe.sent_s, probe.down_ms, probe.lost == "down") for probe in probes if probe.lost in ("", "down")]
    least_ms = min((delay_ms for _, delay_ms, _ in taken if delay_ms is not None), default=0.0)
    return [
        Packet(sent_s, delay_ms, lost, late=delay_ms is not None and delay_ms > least_ms + buffer_ms)
        for sent_s, delay_ms, lost in taken
    ]


def jitter_ms(packets: Sequence[Packet]) -> float | None:
    """Return the mean of J, RFC 3550, section 6.4.1, over the received packets: J += (|D| - J)/16."""
    delays = [packet.delay_ms for packet in packets if packet.delay_ms is not None]
    estimate, total = 0.0, 0.0
    for before_ms, now_ms in pairwise(delays):
        estimate += (abs(now_ms - before_ms) - estimate) * _GAIN
        total += estimate
    return total / (len(delays) - 1) if len(delays) > 1 else None


def rated(packets: Sequence[Packet], codec: Codec, ear_ms: float | None) -> Rating | None:
    """Rate packets with a mouth-to-ear delay of `ear_ms`; ``None`` for fewer than 20."""
    if len(packets) < LEAST_PROBES or ear_ms is None:
        return None
    return _rate(codec, ear_ms, np.array([packet.lost or packet.late for packet in packets]))


def best_rated(packets: Sequence[Packet], codec: Codec) -> Rating | None:
    """Rate packets with their best fixed playout delay, independent of the configured buffer.

    Every percentile of their delays is tried. An adaptive buffer can be better if the delay changes slowly.
    """
    lost = np.array([packet.lost for packet in packets], dtype=bool)
    delays = np.array([np.nan if packet.delay_ms is None else packet.delay_ms for packet in packets])
    if len(packets) < LEAST_PROBES or bool(np.isnan(delays).all()):
        return None
    playouts_ms = map(float, np.nanpercentile(delays, np.arange(101)))
    ratings = [_rate(codec, codec.delay_ms + ms, lost | (delays > ms)) for ms in playouts_ms]
    return max(ratings, key=lambda rating: rating.r)


def _rate(codec: Codec, ear_ms: float, gone: NDArray[np.bool_]) -> Rating:
    return rate(codec, ear_ms, 100 * float(gone.mean()), burst_ratio(gone))
