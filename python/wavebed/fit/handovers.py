"""Handovers in measurements: messages of a phone beside the transfer that they interrupted, and their distributions.

A folder has ``DAY-N-….events.csv`` (messages with the clocks of the phone and of its modem) and, for the same DAY and
N, ``DAY-…-N-….tcp.csv`` of the receiver and perhaps of the sender: one row of iperf3 each 100 ms.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from wavebed.errors import UserError
from wavebed.fit.judge import ks_distance
from wavebed.foreign import read_text
from wavebed.pattern.source import quote
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from wavebed.channel.placemap import Floats
    from wavebed.config.data import Json

    Effects: TypeAlias = Sequence["HandoverEffect"]

KINDS: Final = {
    "scg": "change of the NR cell",
    "lte": "LTE handover, the NR cell stays",
    "addition": "an NR cell is added",
    "release": "the NR cell is released",
}
LEAST_EVENTS: Final = 14
"""A kind with fewer events has figures, and no judgement."""
LEAST_OWN: Final = 8
"""A kind with fewer events has no distribution of its own."""
SEARCH_S: Final = 30.0
"""Clocks of the phone and of the transfer differ by at most this."""
_SHIFT_S: Final = 0.05
_RIVAL_S: Final = 0.5
"""Another peak of the alignment is at least so far away."""
ACCESS_S: Final = 1.0
"""Random access later than this after a command belongs to something else."""
BIN_S: Final = 0.1
"""Nominal length of a bin; the clocks of both ends are a millisecond off it, which must not count as a difference."""
BEFORE, DIP, SPIKE, AFTER = 10, 4, 8, slice(10, 20)
"""Bins: before the event; with the lowest goodput; with the highest RTT; of the goodput afterwards."""
LONGEST: Final = 40
"""Bins within which goodput recovers, or the event has no recovery time."""
LOW, RECOVERED = 0.5, 0.9
"""A dip is goodput below `LOW` of the reference; it is over at `RECOVERED`."""
STEPS: Final = 10
"""A distribution of lengths is written as its percentiles 0, 10, … 100."""
_DAY_S: Final = 86_400.0
_EVENTS = re.compile(r"(?P<day>\d{8})-(?P<number>\d+)-.*\.events\.csv")
_TRANSFER = re.compile(r"(?P<day>\d{8})-.*tcp-(?:recv-)?(?P<number>\d+)-.*\.tcp\.csv")
_COLUMNS = {"phone_time", "modem_time", "message", "details"}
_START = re.compile(r"start_s \(from ([^)]+)\)")
_RECONFIGURATION = "LTE rrcConnectionReconfiguration"


@dataclass(frozen=True, slots=True)
class HandoverEvent:
    """A handover as the messages have it.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    at_s : float
        When the command arrived, by the clock of the phone: seconds after midnight.
    completed_s, access_s : float
        From the command to the message that completes it, and to the success of random access; NaN: none.
    """

    kind: str
    at_s: float
    completed_s: float
    access_s: float


@dataclass(frozen=True, slots=True, eq=False)
class TransferBins:
    """One end of a transfer: a row each 100 ms.

    Parameters
    ----------
    start_s : float
        Seconds after midnight, UTC.
    at_s, goodput_bps : (n,) float64
        Start of each bin after `start_s`.
    retransmits, cwnd_bytes, rtt_ms : (n,) float64
        Of the sender: NaN for a receiver. The window and the smoothed RTT at the end of the bin.
    """

    start_s: float
    at_s: Floats
    goodput_bps: Floats
    retransmits: Floats
    cwnd_bytes: Floats
    rtt_ms: Floats

    @property
    def has_sender(self) -> bool:
        """Whether the sender wrote it."""
        return bool(np.isfinite(self.rtt_ms).any())


@dataclass(frozen=True, slots=True)
class ClockShift:
    """Shift of the events to the transfer.

    Parameters
    ----------
    shift_s : float
        Seconds to add to the phone's time, whole hours of its zone apart.
    score, rival : float
        Standard deviations of the mean dip below the shifts' average, at this shift and at the next best peak.
    """

    shift_s: float
    score: float
    rival: float


@dataclass(frozen=True, slots=True, eq=False)
class HandoverRecording:
    """Events and the transfer during them; `events` have the time of the transfer."""

    day: str
    name: str
    events: tuple[HandoverEvent, ...]
    received: TransferBins
    sent: TransferBins | None
    alignment: ClockShift


@dataclass(frozen=True, slots=True)
class HandoverEffect:
    """An event with its effect; NaN where the recording does not have it.

    Parameters
    ----------
    before_bps, after_bps : float
        Medians of the second before, and of the second that begins 1 s after the event. The reference is the lower one.
    depth : float
        Lowest goodput of `DIP` bins from the event on, over the goodput before.
    dip_s : float
        How long goodput stays below `LOW` of the reference, around the lowest bin: whole bins.
    lost_s : float
        Missing data of the same time and the bins beside it, over the reference: the interruption that explains it.
    recovery_s : float
        From the event to the first bin after the lowest with `RECOVERED` of the reference.
    spike_ms : float
        Highest smoothed RTT of `SPIKE` bins over the median of the second before.
    retransmits : float
        In the second after the event.
    cwnd_ratio : float
        Congestion window 1 s after the event over the window before it.
    """

    day: str
    event: HandoverEvent
    before_bps: float
    after_bps: float
    depth: float
    dip_s: float
    lost_s: float
    recovery_s: float
    spike_ms: float
    retransmits: float
    cwnd_ratio: float


# --- reading ---


def _clock_s(text: str, file: Path, line: int) -> float:
    found = re.fullmatch(r"(\d{1,2}):(\d{2}):(\d{2}(?:\.\d+)?)", text)
    if found is None:
        raise UserError(f"{file}: line {line}: {quote(text)} is no time of day: write 13:05:09.250")
    return int(found[1]) * 3600 + int(found[2]) * 60 + float(found[3])


def kind_of(message: str, details: str) -> str | None:
    """Return the kind of handover that a message commands; None: none."""
    if message != _RECONFIGURATION:
        return None
    if details.startswith("ENDC SN Release Request"):
        return "scg"
    if details.startswith("ENDC LTE HO Request"):
        return "lte" if "DiffLTE-SameNR" in details else "addition"
    if details.startswith("Split Bearer Config") and "Primary Path: MCG" in details:
        return "release"
    return None


def read_events(file: Path) -> tuple[HandoverEvent, ...]:
    """Read the handovers of a file of messages, in order.

    The phone logs a message some time after its modem had it. The modem's time with the shortest delay of all is
    therefore the phone's time of the message.

    Raises
    ------
    UserError
        If it is not such a file.
    """
    rows = list(csv.DictReader(io.StringIO(read_text(file, "name a file of events"))))
    if not rows or not set(rows[0]) >= _COLUMNS:
        raise UserError(f"{file}: has no columns {', '.join(sorted(_COLUMNS))}: name a file of events")
    phone, modem = (
        np.array([_clock_s(row[key] or "", file, line) for line, row in enumerate(rows, 2)])
        for key in ("phone_time", "modem_time")
    )
    delay = (phone - modem + _DAY_S / 2) % _DAY_S - _DAY_S / 2
    usual = np.abs(delay - np.median(delay)) < 2.0
    at_s = np.where(usual, modem + delay[usual].min(), phone)
    at_s += _DAY_S * np.cumsum(np.diff(at_s, prepend=at_s[0]) < -_DAY_S / 2)
    order = np.argsort(at_s, kind="stable")
    messages = [(float(at_s[row]), rows[row]["message"] or "", rows[row]["details"] or "") for row in order]
    return tuple(_events(messages))


def _events(messages: Sequence[tuple[float, str, str]]) -> Iterator[HandoverEvent]:
    for place, (at_s, message, details) in enumerate(messages):
        kind = kind_of(message, details)
        if kind is None:
            continue
        later = messages[place + 1 :]
        completed = next((t - at_s for t, name, _ in later if name == f"{_RECONFIGURATION}Complete"), np.nan)
        access = next(
            (t - at_s for t, name, what in later if name.endswith("RACH Attempt") and what == "SUCCESS"), np.nan
        )
        is_own = kind != "release" and access <= ACCESS_S
        yield HandoverEvent(kind, at_s, float(completed), float(access) if is_own else np.nan)


def read_transfer(file: Path) -> TransferBins:
    """Read one end of a transfer.

    Raises
    ------
    UserError
        If it is not such a file.
    """
    head, *rows = list(csv.reader(io.StringIO(read_text(file, "name a file of iperf3's intervals")))) or [[]]
    found = _START.fullmatch(head[0]) if head else None
    if found is None or head[1:6] != ["end_s", "bytes", "retransmits", "cwnd_bytes", "rtt_us"]:
        what = "start_s (from TIME), end_s, bytes, retransmits, cwnd_bytes, rtt_us"
        raise UserError(f"{file}: does not begin with the columns {what}: name a file of iperf3's intervals")
    try:
        began = dt.datetime.fromisoformat(found[1])
        table = np.array([[float(cell) if cell else np.nan for cell in row[:6]] for row in rows], dtype=np.float64)
    except ValueError as error:
        raise UserError(f"{file}: {error}: name a file of iperf3's intervals") from None
    if (
        table.ndim != 2
        or table.shape[1] != 6
        or not np.isfinite(table[:, :3]).all()
        or (table[:, 1] <= table[:, 0]).any()
    ):
        raise UserError(f"{file}: has rows without a start, a later end and bytes: name a file of iperf3's intervals")
    midnight = began.astimezone(dt.UTC)
    start_s = midnight.hour * 3600 + midnight.minute * 60 + midnight.second + midnight.microsecond / 1e6
    at_s, end_s, size, retransmits, cwnd, rtt = table.T
    return TransferBins(start_s, at_s, size * 8 / (end_s - at_s), retransmits, cwnd, rtt / 1e3)


def read_recordings(folder: Path) -> list[HandoverRecording]:
    """Read a folder, by name, and align each recording.

    Raises
    ------
    UserError
        If a file is wrong, or there is no file of events with a transfer.
    """
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    transfers: dict[tuple[str, str], list[TransferBins]] = {}
    for file in files:
        if found := _TRANSFER.fullmatch(file.name):
            transfers.setdefault((found["day"], found["number"]), []).append(read_transfer(file))
    recordings: list[HandoverRecording] = []
    for file in files:
        found = _EVENTS.fullmatch(file.name)
        ends = transfers.get((found["day"], found["number"]), []) if found else []
        received = next((end for end in ends if not end.has_sender), None)
        if found is None or received is None:
            continue
        sent = next((end for end in ends if end.has_sender), None)
        events, alignment = align(read_events(file), received)
        recordings.append(HandoverRecording(found["day"], found["number"], events, received, sent, alignment))
    if not recordings:
        raise UserError(f"{folder}: has no DAY-N-….events.csv with a DAY-…tcp-recv-N-….tcp.csv: name such a folder")
    return recordings


def align(events: Sequence[HandoverEvent], received: TransferBins) -> tuple[tuple[HandoverEvent, ...], ClockShift]:
    """Shift events to the transfer's time, where goodput dips most after them.

    The score of a shift is the mean logarithm of the lowest of 3 bins over the median of the second before, in standard
    deviations of all shifts. A whole number of hours is taken for the zone of the phone.
    """
    first_s = events[0].at_s if events else received.start_s
    zone_s = 3600 * round((received.start_s - first_s) / 3600)
    at_s = np.array([event.at_s for event in events]) + zone_s - received.start_s
    shifts = np.arange(-SEARCH_S, SEARCH_S + 1e-9, _SHIFT_S)
    rates = received.goodput_bps
    dip = np.zeros(len(rates) + 1)  # the last one is of events outside the transfer
    for bin_ in range(BEFORE, len(rates) - 2):
        usual = float(np.median(rates[bin_ - BEFORE : bin_]))
        dip[bin_] = np.log(np.clip(rates[bin_ : bin_ + 3].min() / usual, 0.05, 1.5)) if usual > 0 else 0.0
    bins = np.searchsorted(received.at_s, at_s + shifts[:, None], side="right") - 1
    score = dip[np.where(at_s + shifts[:, None] < _ends(received)[-1], bins, -1)].sum(axis=1) / max(len(events), 1)
    spread = score.std()
    score = (score - score.mean()) / spread if spread > 0 else score
    best = int(np.argmin(score))
    near = np.flatnonzero(score <= 0.9 * score[best])
    near = near[np.abs(shifts[near] - shifts[best]) < _RIVAL_S]
    shift_s = float((shifts[near[0]] + shifts[near[-1]]) / 2) if len(near) else 0.0
    rivals = score[np.abs(shifts - shifts[best]) >= _RIVAL_S]
    moved = tuple(
        HandoverEvent(each.kind, float(time_s + shift_s), each.completed_s, each.access_s)
        for each, time_s in zip(events, at_s, strict=True)
    )
    return moved, ClockShift(shift_s, float(-score[best]), float(-rivals.min()))


# --- effects ---


def effects(recording: HandoverRecording) -> list[HandoverEffect]:
    """Return the effect of each event that the transfer has 1 s before and 3 s after."""
    found = (effect(recording.day, event, recording.received, recording.sent) for event in recording.events)
    return [each for each in found if each is not None]


def effect(day: str, event: HandoverEvent, received: TransferBins, sent: TransferBins | None) -> HandoverEffect | None:
    """Return the effect of an event; None if the transfer does not have it, or nothing was sent before."""
    rates = received.goodput_bps
    start = int(np.searchsorted(received.at_s, event.at_s, side="right")) - 1
    if start < BEFORE or start + AFTER.stop + BEFORE > len(rates):
        return None
    before = float(np.median(rates[start - BEFORE : start]))
    after = float(np.median(rates[start + AFTER.start : start + AFTER.stop]))
    reference = min(before, after)
    if before <= 0:
        return None
    lowest = start + int(np.argmin(rates[start : start + DIP]))
    first = last = lowest
    dip_s = lost_s = 0.0
    if rates[lowest] < LOW * reference:
        while first > start and rates[first - 1] < LOW * reference:
            first -= 1
        while last + 1 < len(rates) and rates[last + 1] < LOW * reference:
            last += 1
        dip_s = (last + 1 - first) * BIN_S
    if reference > 0:
        around = slice(max(first - 1, start), last + 2)
        width = (_ends(received) - received.at_s)[around]
        lost_s = float((np.clip(1 - rates[around] / reference, 0, 1) * width).sum())
    again = np.flatnonzero(rates[lowest : lowest + LONGEST] >= RECOVERED * reference)
    recovery = float(received.at_s[lowest + again[0]] - event.at_s) if len(again) else np.nan
    values = {"spike_ms": np.nan, "retransmits": np.nan, "cwnd_ratio": np.nan}
    if sent is not None and start + BEFORE < len(sent.rtt_ms):
        usual = float(np.median(sent.rtt_ms[start - BEFORE : start]))
        values["spike_ms"] = float(sent.rtt_ms[start : start + SPIKE].max()) - usual
        values["retransmits"] = float(sent.retransmits[start : start + BEFORE].sum())
        values["cwnd_ratio"] = float(sent.cwnd_bytes[start + BEFORE] / max(sent.cwnd_bytes[start - 1], 1.0))
    depth = float(rates[lowest] / before)
    return HandoverEffect(day, event, before, after, depth, dip_s, lost_s, max(recovery, 0.0), **values)


def _ends(received: TransferBins) -> Floats:
    at_s = received.at_s
    return np.append(at_s[1:], at_s[-1] + (at_s[-1] - at_s[-2] if len(at_s) > 1 else 0.1))


def calm_events(recording: HandoverRecording, apart_s: float = 2.0) -> list[HandoverEvent]:
    """Return times without an event within `apart_s`: what goodput does there is no effect of handovers."""
    busy = np.array([event.at_s for event in recording.events])
    return [
        HandoverEvent("none", float(at_s), np.nan, np.nan)
        for at_s in np.arange(apart_s, recording.received.at_s[-1], apart_s)
        if not len(busy) or np.abs(busy - at_s).min() > apart_s
    ]


# --- what was learned, and how far it is from a day that was held out ---


def lengths_of(found: Effects) -> dict[str, tuple[float, ...]]:
    """Return the distribution of interruptions of each kind, seconds: percentiles from 0 to 100, in steps of 10.

    A kind with fewer than `LEAST_OWN` events has the distribution of all kinds with random access; `release` has none,
    and shares the distribution of all.
    """
    lengths: dict[str, tuple[float, ...]] = {}
    for kind in KINDS:
        own = [interruption_s(one) for one in found if one.event.kind == kind]
        alike = [interruption_s(one) for one in found if kind == "release" or one.event.kind != "release"]
        each = own if len(own) >= LEAST_OWN else alike
        if each:
            lengths[kind] = tuple(np.percentile(each, np.linspace(0, 100, STEPS + 1)).tolist())
    return lengths


def interruption_s(found: HandoverEffect) -> float:
    """Return the length of the interruption that explains the missing data.

    The phone has no link from the command to random access, so it is at least that long.
    """
    return float(np.fmax(found.lost_s, found.event.access_s))


METRICS: Final = {"dip": "dip_s", "RTT spike": "spike_ms", "recovery": "recovery_s"}
"""What is compared, by the attribute of an effect."""


@dataclass(frozen=True, slots=True)
class HandoverDistance:
    """Distances of one metric of one kind, means over the days, each held out once.

    Parameters
    ----------
    events, days : int
        That have the metric.
    between : float
        KS distance of the held-out day to each other day.
    modelled : float
        KS distance of the held-out day to the model of the other days.
    """

    kind: str
    metric: str
    events: int
    days: int
    between: float
    modelled: float

    @property
    def is_judged(self) -> bool:
        """Whether there are enough events for a judgement."""
        return self.events >= LEAST_EVENTS and self.days > 1

    @property
    def holds(self) -> bool:
        """Whether the model is at most `MARGIN` farther from a day than other days are."""
        return self.modelled <= self.between + MARGIN


MARGIN: Final = 0.1


def distances(measured: Effects, modelled: Effects | None = None) -> list[HandoverDistance]:
    """Compare each day with the other days, and with the model of these.

    Parameters
    ----------
    measured : sequence of HandoverEffect
        Of all days.
    modelled : sequence of HandoverEffect, optional
        Of trials; `day` is the day that was held out. Without them the model is the other days' distribution itself.
    """
    days = sorted({one.day for one in measured})
    found: list[HandoverDistance] = []
    for kind in KINDS:
        for metric, name in METRICS.items():
            by_day = {day: _values(measured, kind, name, day) for day in days}
            by_day = {day: values for day, values in by_day.items() if len(values)}
            between, model = [], []
            for day, values in by_day.items():
                others = [each for other, each in by_day.items() if other != day]
                between += [float(np.mean([ks_distance(each, values) for each in others]))] if others else []
                if modelled is not None:
                    drawn = _values(modelled, kind, name, day)
                else:
                    drawn = np.concatenate(others) if others else np.array([])
                model += [ks_distance(drawn, values)] if len(drawn) else []
            events = sum(len(values) for values in by_day.values())
            means = (float(np.mean(each)) if each else float("nan") for each in (between, model))
            found.append(HandoverDistance(kind, metric, events, len(by_day), *means))
    return found


def _values(found: Effects, kind: str, name: str, day: str) -> Floats:
    of_kind = [getattr(one, name) for one in found if one.event.kind == kind and one.day == day]
    values = np.array(of_kind, dtype=np.float64)
    return np.asarray(values[np.isfinite(values)])


@dataclass(frozen=True, slots=True)
class LearnedHandovers:
    """What ``wavebed fit --as handovers`` learned from a folder."""

    source: str
    recordings: tuple[HandoverRecording, ...]
    effects: tuple[HandoverEffect, ...]

    @property
    def lengths(self) -> dict[str, tuple[float, ...]]:
        """The distributions of interruptions, by kind."""
        return lengths_of(self.effects)

    def as_toml(self) -> str:
        """Return the timers of a scene."""
        lines = [f"# Interruptions by handovers, learned by wavebed fit from {self.source}.", "[timers]"]
        for kind, key in TIMERS.items():
            if kind in self.lengths:
                times = ", ".join(f'"{1e3 * each:.0f}ms"' for each in self.lengths[kind])
                count = sum(one.event.kind == kind for one in self.effects)
                what = f"{count} events" if count >= LEAST_OWN else f"{count} events are too few: kinds like it"
                lines += [f"# {KINDS[kind]}: {what}; percentiles 0, 10, … 100", f"{key} = [{times}]"]
        count = sum(event.kind == "lte" for each in self.recordings for event in each.events)
        if count:
            every_s = sum(float(each.received.at_s[-1]) for each in self.recordings) / count
            lines.append(f'anchor-every = "{every_s:.0f}s"')
        return "\n".join([*lines, ""])

    def as_text(self) -> str:
        """Return the tables of alignments, kinds and distances."""
        alignments = [("day", "number", "handovers", "with data", "shift, s", "score", "next score")]
        for each in self.recordings:
            usable = len(effects(each))
            found = each.alignment
            numbers = (f"{found.shift_s:+.2f}", f"{found.score:.1f}", f"{found.rival:.1f}")
            alignments.append((each.day, each.name, str(len(each.events)), str(usable), *numbers))
        return "\n\n".join(
            [
                table_text(alignments),
                table_text(kind_rows(self.effects)),
                table_text(distance_rows(distances(self.effects))),
                "Medians with percentiles 10 and 90. Distances: Kolmogorov-Smirnov, mean over the days held out.",
            ]
        )

    def as_json(self) -> dict[str, Json]:
        """Return what ``--json`` prints."""
        return {
            "method": "handovers",
            "recordings": [
                {
                    "day": each.day,
                    "number": each.name,
                    "count": len(each.events),
                    "shift_s": each.alignment.shift_s,
                    "score": each.alignment.score,
                    "next_score": each.alignment.rival,
                }
                for each in self.recordings
            ],
            "interruption_ms": {kind: [1e3 * each for each in times] for kind, times in self.lengths.items()},
            "distances": [
                {
                    "kind": each.kind,
                    "metric": each.metric,
                    "count": each.events,
                    "floor": None if np.isnan(each.between) else each.between,
                    "held_out": None if np.isnan(each.modelled) else each.modelled,
                    "holds": each.holds if each.is_judged else None,
                }
                for each in distances(self.effects)
            ],
        }


TIMERS: Final = {"scg": "handover", "release": "fallback", "addition": "return", "lte": "anchor"}
"""The key of a scene's timers for a kind."""


def learn_handovers(folders: Sequence[Path]) -> LearnedHandovers:
    """Read folders, and learn from their handovers.

    Raises
    ------
    UserError
        If a folder has none, or no handover has its transfer.
    """
    recordings = tuple(each for folder in folders for each in read_recordings(folder))
    found = tuple(one for each in recordings for one in effects(each))
    if not found:
        raise UserError(f"{folders[0]}: no handover has 1 s of transfer before and 3 s after it: name longer transfers")
    return LearnedHandovers(", ".join(folder.name for folder in folders), recordings, found)


def kind_rows(found: Effects) -> list[tuple[str, ...]]:
    """Return the figures of each kind."""
    rows: list[tuple[str, ...]] = [
        ("kind", "events", "access, ms", "interruption, ms", "lowest rate", "dip, ms", "recovery, ms", "RTT spike, ms")
    ]
    for kind in dict.fromkeys([*KINDS, *(one.event.kind for one in found)]):
        of_kind = [one for one in found if one.event.kind == kind]
        if of_kind:
            columns = (
                [1e3 * one.event.access_s for one in of_kind],
                [1e3 * interruption_s(one) for one in of_kind],
                [100 * one.depth for one in of_kind],
                *([1e3 * getattr(one, name) for one in of_kind] for name in ("dip_s", "recovery_s")),
                [one.spike_ms for one in of_kind],
            )
            texts = [spread_text(column) for column in columns]
            texts[2] += " %" if texts[2] != "–" else ""
            rows.append((KINDS.get(kind, kind), str(len(of_kind)), *texts))
    return rows


def spread_text(values: Sequence[float]) -> str:
    """Return the median with the percentiles 10 and 90, of the values that there are."""
    there = [value for value in values if np.isfinite(value)]
    if not there:
        return "–"
    low, middle, high = np.percentile(there, (10, 50, 90))
    return f"{middle:.0f} ({low:.0f} to {high:.0f})"


def distance_rows(found: Iterable[HandoverDistance]) -> list[tuple[str, ...]]:
    """Return the table of distances."""
    rows: list[tuple[str, ...]] = [("kind", "figure", "events", "days", "between days", "held out", "verdict")]
    for each in found:
        verdict = "–" if not each.is_judged else "holds" if each.holds else "missed"
        if np.isfinite(each.between):
            numbers = (f"{each.between:.2f}", "–" if np.isnan(each.modelled) else f"{each.modelled:.2f}")
            rows.append((KINDS[each.kind], each.metric, str(each.events), str(each.days), *numbers, verdict))
    return rows
