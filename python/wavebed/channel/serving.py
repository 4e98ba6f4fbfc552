"""Radio link failure and beam failure: from SINR to indications, from indications to timers.

Radio link monitoring follows TS 38.133 8.1 (Q_out, Q_in and the evaluation periods) and TS 38.331 5.3.10 (N310, T310,
N311); beam failure detection follows TS 38.133 8.5 and TS 38.321 5.17.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from wavebed.scene.tables import Timers


EVALUATE_OUT_S = 0.2
"""T_Evaluate_out (TS 38.133 Table 8.1.2.2-1, no DRX): out of sync is judged by the SINR of at least this time."""
EVALUATE_IN_S = 0.1
"""T_Evaluate_in (same table): the same for in sync."""
EVALUATE_OUT_SAMPLES = 10
EVALUATE_IN_SAMPLES = 5
EVALUATE_BEAM_S = 0.05
"""T_Evaluate_BFD (TS 38.133 Table 8.5.2.2-1, no DRX)."""
EVALUATE_BEAM_SAMPLES = 5


@dataclass(frozen=True)
class Indications:
    """The indications of the physical layer for each beam, once per indication period.

    Each array has the shape (base stations, beams, periods).

    Parameters
    ----------
    sinr_db : float64
        Mean of this period.
    out_of_sync, in_sync : bool
        SINR over the evaluation period below Q_out, above Q_in; between the two there is no indication.
    beam_out : bool
        SINR over the evaluation period of beam failure detection below Q_out,LR, which is Q_out.
    """

    sinr_db: NDArray[np.float64]
    out_of_sync: NDArray[np.bool_]
    in_sync: NDArray[np.bool_]
    beam_out: NDArray[np.bool_]


def running_mean_db(sinr_db: NDArray[np.float64], periods: int) -> NDArray[np.float64]:
    """Mean of the last `periods` values along the last axis, as ratios, in dB; fewer at the beginning."""
    ratio = np.power(10.0, sinr_db / 10)
    total = np.cumsum(ratio, axis=-1)
    # Differences of a long sum lose what is 150 dB below its largest term; Q_out is nowhere near.
    total[..., periods:] -= total[..., :-periods].copy()
    count = np.minimum(np.arange(1, sinr_db.shape[-1] + 1), periods)
    return np.asarray(10 * np.log10(np.maximum(total / count, 1e-30)), dtype=np.float64)


def indications(sinr_db: NDArray[np.float64], timers: Timers) -> Indications:
    """Judge the SINR of each indication period.

    Parameters
    ----------
    sinr_db : (base stations, beams, periods) float64
        Mean SINR of each period of ``timers.indication_s``.
    timers : Timers
        Thresholds and the indication period.
    """

    def over(least_s: float, samples: int) -> NDArray[np.float64]:
        periods = max(samples, round(least_s / timers.indication_s))
        return running_mean_db(sinr_db, min(periods, sinr_db.shape[-1]))

    return Indications(
        sinr_db,
        out_of_sync=over(EVALUATE_OUT_S, EVALUATE_OUT_SAMPLES) < timers.out_of_sync_db,
        in_sync=over(EVALUATE_IN_S, EVALUATE_IN_SAMPLES) > timers.in_sync_db,
        beam_out=over(EVALUATE_BEAM_S, EVALUATE_BEAM_SAMPLES) < timers.out_of_sync_db,
    )


class LinkMonitor:
    """N310, T310 and N311 (TS 38.331 5.3.10.1 to 5.3.10.3)."""

    def __init__(self, timers: Timers) -> None:
        self.timers = timers
        self.reset()

    def reset(self) -> None:
        """Reset the counters: a new link."""
        self.out = 0
        self.back = 0
        self.expires_s: float | None = None

    def indicate(self, now_s: float, out_of_sync: bool, in_sync: bool) -> bool:
        """Take one indication and tell whether T310 has expired, which is a radio link failure."""
        if self.expires_s is None:
            if out_of_sync:
                self.out += 1
            elif in_sync:
                self.out = 0
            if self.out >= self.timers.n310:
                self.expires_s = now_s + self.timers.t310_s
                self.back = 0
            return False
        if in_sync:
            self.back += 1
        elif out_of_sync:
            self.back = 0
        if self.back >= self.timers.n311:
            self.reset()
            return False
        return now_s >= self.expires_s - 1e-9


class BeamMonitor:
    """BFI_COUNTER of TS 38.321 5.17: this many beam failure instances in a row are a beam failure."""

    def __init__(self, timers: Timers) -> None:
        self.most = timers.beam_failure_instances
        self.count = 0

    def reset(self) -> None:
        """Reset the counters: another beam."""
        self.count = 0

    def indicate(self, out: bool) -> bool:
        """Take one indication and tell whether the beam has failed; a good one is as long as the detection timer."""
        self.count = self.count + 1 if out else 0
        return 0 < self.most <= self.count


BEAM_HYSTERESIS_DB = 3.0
"""How much better another beam of the same base station is before it is used: the usual offset of a beam switch."""


class ServingLink(IntEnum):
    """The state of the link in a phase."""

    CONNECTED = 0
    OUTAGE = 1
    HANDOVER = 2
    FALLBACK = 3


def length_s(times_s: Sequence[float], draw: float) -> float:
    """Return the length of an interruption, seconds.

    Parameters
    ----------
    times_s : sequence of float
        Its only length, or its distribution: lengths at equal steps of probability, from the least to the greatest.
    draw : float
        Evenly distributed from 0 to 1.
    """
    return float(np.interp(draw, np.linspace(0, 1, len(times_s)), times_s))


class Phase(NamedTuple):
    """From `start_s` to the next phase: the state of the link, its base station and its beam."""

    start_s: float
    link: ServingLink
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
    draw: Callable[[int], float] = lambda _period: 0.5,
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
    draw : callable
        Return a number from 0 to 1 for an interruption that begins in this period; for lengths with a distribution.

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
    connection = _Connection(lists, timers, falls_back, timers.reestablish_s if setup_s is None else setup_s, draw)
    return connection.run(sinr_db.shape[-1])


class _Connection:
    def __init__(
        self, lists: _Lists, timers: Timers, falls_back: bool, setup_s: float, draw: Callable[[int], float]
    ) -> None:
        self.lists = lists
        self.timers = timers
        self.falls_back = falls_back
        self.setup_s = setup_s
        self.draw = draw
        self.monitor = LinkMonitor(timers)
        self.beams = BeamMonitor(timers)
        self.several = len(lists.sinr_db) > 1 or len(lists.sinr_db[0]) > 1
        self.station, self.beam = self._best(0)
        self.link = ServingLink.CONNECTED
        self.busy_until_s = 0.0
        self.failed_s = 0.0
        self.recovering_s: float | None = None
        self.better: tuple[int, float] | None = None
        self.good_since_s: float | None = None
        self.phases: list[Phase] = []

    def run(self, periods: int) -> tuple[Phase, ...]:
        """Take every indication in turn."""
        self._enter(0.0, ServingLink.CONNECTED)
        step = {
            ServingLink.CONNECTED: self._connected,
            ServingLink.OUTAGE: self._failed,
            ServingLink.FALLBACK: self._fallen_back,
        }
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
        return self.link is ServingLink.CONNECTED and not counting and self.recovering_s is None and self.better is None

    def _enter(self, start_s: float, link: ServingLink) -> None:
        self.link = link
        if self.phases and self.phases[-1].start_s >= start_s:
            self.phases.pop()
        if not self.phases or self.phases[-1][1:] != (link, self.station, self.beam):
            self.phases.append(Phase(start_s, link, self.station, self.beam))

    def _pass(self, now_s: float, through: ServingLink, length_s: float, to: ServingLink) -> None:
        """Spend a time in one state, then be in another."""
        self._enter(now_s, through)
        self.busy_until_s = now_s + length_s
        self._enter(self.busy_until_s, to)
        self.monitor.reset()
        self.beams.reset()
        self.recovering_s = self.better = self.good_since_s = None

    def _length_s(self, times_s: Sequence[float], k: int) -> float:
        """Return the length of an interruption that begins in a period."""
        return times_s[0] if len(times_s) == 1 else length_s(times_s, self.draw(k))

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
            self._fail(k, now_s)
        elif self.recovering_s is not None or self.beams.indicate(lists.beam_out[station][beam][k]):
            self._recover_beam(k, now_s)

    def _switch_beam(self, k: int, now_s: float) -> None:
        """Beam management of a live link (TS 38.214 5.2.1): no interruption."""
        best = self.lists.best_beam[self.station][k]
        beams = self.lists.sinr_db[self.station]
        if beams[best][k] > beams[self.beam][k] + BEAM_HYSTERESIS_DB:
            self.beam = best
            self.beams.reset()
            self._enter(now_s, ServingLink.CONNECTED)

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
        self._pass(now_s, ServingLink.HANDOVER, self._length_s(self.timers.handover_s, k), ServingLink.CONNECTED)
        return True

    def _recover_beam(self, k: int, now_s: float) -> None:
        """TS 38.321 5.17: random access on a beam of the base station above the threshold, while there is time."""
        if self.recovering_s is None:
            self.recovering_s = now_s
            self._enter(now_s, ServingLink.OUTAGE)
            self.link = ServingLink.CONNECTED  # nothing is sent, but radio link monitoring goes on
        best = self.lists.best_beam[self.station][k]
        if self.lists.sinr_db[self.station][best][k] > self.timers.in_sync_db:
            self.beam = best
            self._pass(now_s, ServingLink.OUTAGE, self.timers.beam_recovery_s, ServingLink.CONNECTED)
        elif now_s - self.recovering_s >= self.timers.beam_recovery_limit_s - 1e-9:
            self._fail(k, now_s)

    # --- failed ---

    def _fail(self, k: int, now_s: float) -> None:
        """Radio link failure: to the fallback carrier (SCG failure, TS 38.331 5.7.3), or search for a cell."""
        self.failed_s = now_s
        if self.falls_back:
            self._pass(now_s, ServingLink.HANDOVER, self._length_s(self.timers.fallback_s, k), ServingLink.FALLBACK)
        else:
            self._pass(now_s, ServingLink.OUTAGE, 0.0, ServingLink.OUTAGE)

    def _failed(self, k: int, now_s: float) -> None:
        """Re-establish once a cell is found within T311 (TS 38.331 5.3.7); after T311, set up a new connection."""
        station, beam = self._best(k)
        if self.lists.sinr_db[station][beam][k] <= self.timers.in_sync_db:
            return
        self.station, self.beam = station, beam
        in_time = now_s - self.failed_s <= self.timers.t311_s + 1e-9
        self._pass(
            now_s, ServingLink.OUTAGE, self.timers.reestablish_s if in_time else self.setup_s, ServingLink.CONNECTED
        )

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
            self._pass(now_s, ServingLink.HANDOVER, self._length_s(self.timers.return_s, k), ServingLink.CONNECTED)


def interrupted(phases: Sequence[Phase], gaps: Sequence[tuple[float, float]]) -> tuple[Phase, ...]:
    """Interrupt a connection where it is well; the phases go on meanwhile, and another interruption ends a gap.

    Parameters
    ----------
    phases : sequence of Phase
        In order.
    gaps : sequence of (float, float)
        Begin and end of each interruption, seconds, in order; one that begins in another one is left out.
    """
    found = list(phases)
    for begin_s, end_s in gaps:
        place = bisect_right(found, begin_s, key=lambda phase: phase.start_s) - 1
        if place < 0 or found[place].link is not ServingLink.CONNECTED:
            continue
        last = place
        while last + 1 < len(found) and found[last + 1].start_s < end_s:
            last += 1
            if found[last].link is not ServingLink.CONNECTED:
                break
        else:
            found.insert(last + 1, found[last]._replace(start_s=end_s))
            last += 1
        found[place + 1 : last] = [found[place]._replace(start_s=begin_s, link=ServingLink.HANDOVER)]
    return tuple(found)


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

    def enter(start_s: float, link: ServingLink, beam: int) -> None:
        if phases and phases[-1].start_s >= start_s:
            phases.pop()
        if not phases or phases[-1][1:] != (link, 0, beam):
            phases.append(Phase(start_s, link, 0, beam))

    def train(k: int, start_s: float) -> int:
        """Sweep; the best beam, or the old state of having none."""
        best = int(np.argmax(sinr_db[:, k]))
        enter(start_s, ServingLink.OUTAGE, best)
        if sinr_db[best, k] < needed_db:
            return -1
        enter(start_s + training_s, ServingLink.CONNECTED, best)
        return best

    beam = int(np.argmax(sinr_db[:, 0]))
    enter(0.0, ServingLink.CONNECTED, beam)
    edges = np.append(np.arange(0, periods, BEACON_S / period_s).astype(int), periods)
    for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        best = int(np.argmax(sinr_db[:, first]))
        if beam < 0:
            beam = train(first, first * period_s) if sinr_db[best, first] >= needed_db else -1
        elif sinr_db[best, first] > sinr_db[beam, first] + BEAM_HYSTERESIS_DB and not lost[beam, first]:
            beam = best
            enter(first * period_s, ServingLink.CONNECTED, beam)
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
