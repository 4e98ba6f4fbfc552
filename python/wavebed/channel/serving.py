"""The serving base station and beam: handover, failure, recovery, fallback and return.

A state machine over indication periods. It is told the SINR of each base station's beams and answers with phases.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wavebed.channel.failure import BeamMonitor, LinkMonitor, indications

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.scene.model import Timers

__all__ = ["Link", "Phase", "follow"]

BEAM_HYSTERESIS_DB = 3.0
"""How much better another beam of the same base station is before it is used: the usual offset of a beam switch."""


class Link(IntEnum):
    """The state of the link in a phase."""

    CONNECTED = 0
    OUTAGE = 1
    HANDOVER = 2
    FALLBACK = 3


class Phase(NamedTuple):
    """From `start_s` to the next phase: the state of the link, its base station and its beam."""

    start_s: float
    link: Link
    station: int
    beam: int


@dataclass(frozen=True)
class _Lists:
    """The indications as plain lists, [station][beam][period]: quicker to read one by one.

    `level_db` decides which base station is better, `sinr_db` whether one is good enough.
    `best_beam` is [station][period], `best_station` is [period]; `eventful` are the periods in which a link that was
    well until then, by this base station and beam, has anything to decide.
    """

    sinr_db: list[list[list[float]]]
    level_db: list[list[list[float]]]
    out_of_sync: list[list[list[bool]]]
    in_sync: list[list[list[bool]]]
    beam_out: list[list[list[bool]]]
    best_beam: list[list[int]]
    best_station: list[int]
    eventful: list[list[list[int]]]


def follow(
    sinr_db: NDArray[np.float64],
    timers: Timers,
    *,
    level_db: NDArray[np.float64] | None = None,
    falls_back: bool = False,
    setup_s: float | None = None,
) -> tuple[Phase, ...]:
    """Follow a connection.

    Parameters
    ----------
    sinr_db : (base stations, beams, periods) float64
        SINR of each base station's beams, mean over each period of ``timers.indication_s``.
    timers : Timers
        Everything that decides.
    level_db : (base stations, beams, periods) float64, optional
        Received level of the same, over any common reference: the RSRP that event A3 compares (TS 38.331 5.5.4.4).
        Without interference it is the SINR.
    falls_back : bool
        Whether there is a carrier to fall back to.
    setup_s : float, optional
        How long a new connection takes after T311 has expired; ``timers.reestablish_s`` unless given.

    Returns
    -------
    tuple of Phase
        In order; the first starts at 0.
    """
    judged = indications(sinr_db, timers)
    level_db = sinr_db if level_db is None else level_db
    margin_db = min(BEAM_HYSTERESIS_DB, timers.handover_offset_db)
    rivalled = level_db.max(axis=(0, 1)) > level_db + margin_db
    eventful = judged.out_of_sync | judged.beam_out | rivalled
    lists = _Lists(
        sinr_db=sinr_db.tolist(),
        level_db=level_db.tolist(),
        out_of_sync=judged.out_of_sync.tolist(),
        in_sync=judged.in_sync.tolist(),
        beam_out=judged.beam_out.tolist(),
        best_beam=sinr_db.argmax(axis=1).tolist(),
        best_station=level_db.max(axis=1).argmax(axis=0).tolist(),
        eventful=[[np.flatnonzero(beam).tolist() for beam in station] for station in eventful],
    )
    connection = _Connection(lists, timers, falls_back, timers.reestablish_s if setup_s is None else setup_s)
    return connection.run(sinr_db.shape[-1])


class _Connection:
    def __init__(self, lists: _Lists, timers: Timers, falls_back: bool, setup_s: float) -> None:
        self.lists = lists
        self.timers = timers
        self.falls_back = falls_back
        self.setup_s = setup_s
        self.monitor = LinkMonitor(timers)
        self.beams = BeamMonitor(timers)
        self.several = len(lists.sinr_db) > 1 or len(lists.sinr_db[0]) > 1
        self.station, self.beam = self._best(0)
        self.link = Link.CONNECTED
        self.busy_until_s = 0.0
        self.failed_s = 0.0
        self.recovering_s: float | None = None
        self.better: tuple[int, float] | None = None
        self.good_since_s: float | None = None
        self.phases: list[Phase] = []

    def run(self, periods: int) -> tuple[Phase, ...]:
        """Take every indication in turn."""
        self._enter(0.0, Link.CONNECTED)
        step = {Link.CONNECTED: self._connected, Link.OUTAGE: self._failed, Link.FALLBACK: self._fallen_back}
        k = 0
        while k < periods:
            if self._calm():
                events = self.lists.eventful[self.station][self.beam]
                place = bisect_left(events, k)
                if place == len(events):
                    break
                k = events[place]
            now_s = k * self.timers.indication_s
            if now_s >= self.busy_until_s - 1e-9:
                step[self.link](k, now_s)
            k += 1
        return tuple(self.phases)

    def _calm(self) -> bool:
        """Whether nothing is counted or timed: periods without an event then change nothing."""
        counting = self.monitor.out or self.monitor.expires_s is not None or self.beams.count
        return self.link is Link.CONNECTED and not counting and self.recovering_s is None and self.better is None

    def _enter(self, start_s: float, link: Link) -> None:
        self.link = link
        if self.phases and self.phases[-1].start_s >= start_s:
            self.phases.pop()
        if not self.phases or self.phases[-1][1:] != (link, self.station, self.beam):
            self.phases.append(Phase(start_s, link, self.station, self.beam))

    def _pass(self, now_s: float, through: Link, length_s: float, to: Link) -> None:
        """Spend a time in one state, then be in another."""
        self._enter(now_s, through)
        self.busy_until_s = now_s + length_s
        self._enter(self.busy_until_s, to)
        self.monitor.reset()
        self.beams.reset()
        self.recovering_s = self.better = self.good_since_s = None

    def _best(self, k: int) -> tuple[int, int]:
        """Return the base station and the beam with the best level."""
        station = self.lists.best_station[k]
        return station, self.lists.best_beam[station][k]

    # --- connected ---

    def _connected(self, k: int, now_s: float) -> None:
        lists, station, beam = self.lists, self.station, self.beam
        if self.recovering_s is None and self.several and not lists.beam_out[station][beam][k]:
            if self._hands_over(k, now_s):
                return
            self._switch_beam(k, now_s)
            station, beam = self.station, self.beam
        if self.monitor.indicate(now_s, lists.out_of_sync[station][beam][k], lists.in_sync[station][beam][k]):
            self._fail(now_s)
        elif self.recovering_s is not None or self.beams.indicate(lists.beam_out[station][beam][k]):
            self._recover_beam(k, now_s)

    def _switch_beam(self, k: int, now_s: float) -> None:
        """Beam management of a live link (TS 38.214 5.2.1): no interruption."""
        best = self.lists.best_beam[self.station][k]
        beams = self.lists.sinr_db[self.station]
        if beams[best][k] > beams[self.beam][k] + BEAM_HYSTERESIS_DB:
            self.beam = best
            self.beams.reset()
            self._enter(now_s, Link.CONNECTED)

    def _hands_over(self, k: int, now_s: float) -> bool:
        """Event A3 (TS 38.331 5.5.4.4): another base station is better by an offset for the time to trigger."""
        station, beam = self._best(k)
        level = self.lists.level_db
        own = level[self.station][self.lists.best_beam[self.station][k]][k]
        if station == self.station or level[station][beam][k] <= own + self.timers.handover_offset_db:
            self.better = None
            return False
        if self.better is None or self.better[0] != station:
            self.better = (station, now_s)
        if now_s - self.better[1] < self.timers.time_to_trigger_s - 1e-9:
            return False
        self.station, self.beam = station, beam
        self._pass(now_s, Link.HANDOVER, self.timers.handover_s, Link.CONNECTED)
        return True

    def _recover_beam(self, k: int, now_s: float) -> None:
        """TS 38.321 5.17: random access on a beam of the base station above the threshold, while there is time."""
        if self.recovering_s is None:
            self.recovering_s = now_s
            self._enter(now_s, Link.OUTAGE)
            self.link = Link.CONNECTED  # nothing is sent, but radio link monitoring goes on
        best = self.lists.best_beam[self.station][k]
        if self.lists.sinr_db[self.station][best][k] > self.timers.in_sync_db:
            self.beam = best
            self._pass(now_s, Link.OUTAGE, self.timers.beam_recovery_s, Link.CONNECTED)
        elif now_s - self.recovering_s >= self.timers.beam_recovery_limit_s - 1e-9:
            self._fail(now_s)

    # --- failed ---

    def _fail(self, now_s: float) -> None:
        """Radio link failure: to the fallback carrier (SCG failure, TS 38.331 5.7.3), or search for a cell."""
        self.failed_s = now_s
        if self.falls_back:
            self._pass(now_s, Link.HANDOVER, self.timers.fallback_s, Link.FALLBACK)
        else:
            self._pass(now_s, Link.OUTAGE, 0.0, Link.OUTAGE)

    def _failed(self, k: int, now_s: float) -> None:
        """Re-establish once a cell is found within T311 (TS 38.331 5.3.7); after T311, set up a new connection."""
        station, beam = self._best(k)
        if self.lists.sinr_db[station][beam][k] <= self.timers.in_sync_db:
            return
        self.station, self.beam = station, beam
        in_time = now_s - self.failed_s <= self.timers.t311_s + 1e-9
        self._pass(now_s, Link.OUTAGE, self.timers.reestablish_s if in_time else self.setup_s, Link.CONNECTED)

    # --- on the fallback carrier ---

    def _fallen_back(self, k: int, now_s: float) -> None:
        """Return once the carrier has been good for the whole hysteresis (event B1, TS 38.331 5.5.4.8)."""
        station, beam = self._best(k)
        if self.lists.sinr_db[station][beam][k] <= self.timers.in_sync_db:
            self.good_since_s = None
            return
        if self.good_since_s is None:
            self.good_since_s = now_s
        if now_s - self.good_since_s >= self.timers.return_hysteresis_s - 1e-9:
            self.station, self.beam = station, beam
            self._pass(now_s, Link.HANDOVER, self.timers.return_s, Link.CONNECTED)
