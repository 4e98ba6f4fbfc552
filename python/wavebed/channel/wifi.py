"""IEEE 802.11ad: when a beam is lost, a sector sweep finds another; otherwise the beacon's sweep does.

A station that hears nothing for the beam link maintenance time takes its beam for lost (IEEE Std 802.11ad-2012 9.35.6)
and trains anew by a sector level sweep (9.35.2). The access point also sweeps in the header of every beacon interval,
after which the better beam is used without a gap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.channel.serving import BEAM_HYSTERESIS_DB, Link, Phase

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BEACON_S", "LOST_S", "follow_sectors", "sweep_s"]

BEACON_S = 0.1024
"""Beacon interval: 100 time units of 1024 us, the usual setting."""
LOST_S = 0.01
"""Beam link maintenance time. The field allows 32 us to 254 ms and has no default; 10 ms is ours."""
SWEEP_FRAME_S = 18.0e-6
SWEEP_FIXED_S = 49.1e-6
"""One SSW frame with its spacing; feedback and acknowledgement: measured by Steinmetzer et al., CoNEXT 2017."""
MOST_SECTORS = 64
"""Of one antenna: the Sector ID field has 6 bits (802.11ad-2012 8.4a.1)."""


def sweep_s(initiator_sectors: int, responder_sectors: int) -> float:
    """How long a sector level sweep of both sides takes, in seconds: 34 sectors each take 1.27 ms."""
    sectors = min(initiator_sectors, MOST_SECTORS) + min(responder_sectors, MOST_SECTORS)
    return sectors * SWEEP_FRAME_S + SWEEP_FIXED_S


def follow_sectors(
    sinr_db: NDArray[np.float64], period_s: float, needed_db: float, training_s: float
) -> tuple[Phase, ...]:
    """Follow the beams of one access point.

    Parameters
    ----------
    sinr_db : (beams, periods) float64
        SINR of each beam, mean over each period.
    period_s : float
        Length of a period.
    needed_db : float
        SINR below which no frame of the lowest data MCS arrives.
    training_s : float
        How long a sweep takes, see `sweep_s`.

    Returns
    -------
    tuple of Phase
        In order; the first starts at 0; the station is always 0.
    """
    lost = _lost(sinr_db < needed_db, max(1, round(LOST_S / period_s)))
    periods = sinr_db.shape[1]
    phases: list[Phase] = []

    def enter(start_s: float, link: Link, beam: int) -> None:
        if phases and phases[-1].start_s >= start_s:
            phases.pop()
        if not phases or phases[-1][1:] != (link, 0, beam):
            phases.append(Phase(start_s, link, 0, beam))

    def train(k: int, start_s: float) -> int:
        """Sweep; the best beam, or the old state of having none."""
        best = int(np.argmax(sinr_db[:, k]))
        enter(start_s, Link.OUTAGE, best)
        if sinr_db[best, k] < needed_db:
            return -1
        enter(start_s + training_s, Link.CONNECTED, best)
        return best

    beam = int(np.argmax(sinr_db[:, 0]))
    enter(0.0, Link.CONNECTED, beam)
    edges = np.append(np.arange(0, periods, BEACON_S / period_s).astype(int), periods)
    for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        best = int(np.argmax(sinr_db[:, first]))
        if beam < 0:
            beam = train(first, first * period_s) if sinr_db[best, first] >= needed_db else -1
        elif sinr_db[best, first] > sinr_db[beam, first] + BEAM_HYSTERESIS_DB and not lost[beam, first]:
            beam = best
            enter(first * period_s, Link.CONNECTED, beam)
        k = first
        while beam >= 0 and k < end and lost[beam, k:end].any():
            k += int(np.argmax(lost[beam, k:end]))
            beam = train(k, k * period_s)
            k += 1
    return tuple(phases)


def _lost(bad: NDArray[np.bool_], most: int) -> NDArray[np.bool_]:
    """Whether this and the periods before it, `most` in all, are bad."""
    count = np.cumsum(bad, axis=-1, dtype=np.int64)
    in_window = count.copy()
    in_window[:, most:] -= count[:, :-most]
    return np.asarray(in_window >= most, dtype=np.bool_)
