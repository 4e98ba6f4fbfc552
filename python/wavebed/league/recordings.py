"""The recordings of a league: read, cut to one length, written as the input of each emulator, and served exactly.

A recording is a pattern for each direction, a delay and a drop-tail queue: all that every emulator can play.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wavebed.config.problems import Problem, at
from wavebed.config.units import parse_rate
from wavebed.errors import UserError
from wavebed.foreign import open_foreign
from wavebed.pattern.formats import read_trace, render
from wavebed.pattern.formats.base import WriteOptions
from wavebed.pattern.model import Pattern, cut, steps
from wavebed.pattern.resample import rate_steps, window_rates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LENGTH_S = 60
"""Each recording is played from its start for at most this long."""
SHIPPED_SCENE = "street-canyon-bus"
CONSTANT = ("1mbit", "100mbit", "1gbit", "10gbit")
DEFAULT = (*CONSTANT, SHIPPED_SCENE)
"""Recordings that need no file of the user."""
DELAY_MS = 10
"""One way, each direction, where no live measurement says another."""
NS_PER_S, NS_PER_MS = 10**9, 10**6
SEGMENT_BYTES, PACKET_BYTES, SMALL_BYTES = 1448, 1500, 200
RATTAN_LEAST_BPS = 1000
_QUEUE_S = 0.1
_LEAST_QUEUE_BYTES = 64_000
_LEAST_UP_BPS = 20_000_000
_UP_SHARE = 10
_LIVE_COLUMNS = ("start_s", "end_s", "bytes")
_RTT_COLUMN = "rtt_us"


@dataclass(frozen=True)
class LiveMeasurement:
    """The live measurement of a recording: round trips of its sender, ms, by the seconds of the recording."""

    time_s: Floats
    rtt_ms: Floats


@dataclass(frozen=True)
class LeagueRecording:
    """What every emulator plays.

    Parameters
    ----------
    name, source : str
        For tables; where it is from.
    down, up : Pattern
        Steps of a rate, or opportunities.
    delay_ms : int
        One way.
    down_queue_bytes, up_queue_bytes : int
        Limits of the drop-tail queues.
    live : LiveMeasurement, optional
        The live measurement.
    """

    name: str
    source: str
    down: Pattern
    up: Pattern
    delay_ms: int
    down_queue_bytes: int
    up_queue_bytes: int
    live: LiveMeasurement | None = None

    def offered_mbit(self, start_s: float, end_s: float) -> float:
        """Return the mean rate of the downlink in a part of the recording, Mbit/s of IP packets."""
        whole = delivered_bits(self.down, np.array([start_s, end_s]))
        return float(whole[1] - whole[0]) / (end_s - start_s) / 1e6


def find(given: str) -> LeagueRecording:
    """Return a recording by what a user writes: a rate, a shipped scene, a trace, or ``RECEIVER+SENDER`` of iperf3.

    Raises
    ------
    UserError
        If it is none of these, or a file cannot be read.
    """
    if re.fullmatch(r"[0-9.]+[kmg]bit", given):
        rate_bps = at(f"--recordings {given}", parse_rate, given)
        if not rate_bps:
            raise Problem("has a rate of 0: write 1mbit, for example", f"--recordings {given}")
        return _recording(given, "constant rate", _constant(rate_bps))
    if "+" in given and all(Path(part).exists() for part in given.split("+", 1)):
        return _measured(*map(Path, given.split("+", 1)))
    path = Path(given)
    if not path.exists():
        return _of_scene(given)
    uplink = path.with_suffix(".up") if path.suffix == ".down" else None
    up = _cut(read_trace(uplink)) if uplink is not None and uplink.exists() else None
    return _recording(path.name, path.name, _cut(read_trace(path)), up)


def _of_scene(name: str) -> LeagueRecording:
    from wavebed.channel.modes import realise
    from wavebed.channel.realisation import to_pattern
    from wavebed.conditions.lookup import load_scene

    try:
        scene = load_scene(name)
    except UserError:
        raise UserError(
            f"--recordings {name}: is no file, rate or scene: write a trace, 100mbit, or a name of `wavebed scenes`"
        ) from None
    made = realise(scene)
    down, up = (_cut(_rate_only(to_pattern(made, direction))) for direction in ("down", "up"))
    return _recording(name, "a shipped scene, seed 1", down, up)


def _rate_only(pattern: Pattern) -> Pattern:
    if pattern.rate_bps is None:
        raise UserError("the pattern has no rate")
    return steps(pattern.index, pattern.period, rate_bps=pattern.rate_bps)


def _constant(rate_bps: int) -> Pattern:
    return steps(np.zeros(1, dtype=np.int64), NS_PER_S, rate_bps=np.array([rate_bps], dtype=np.int64))


def _cut(pattern: Pattern) -> Pattern:
    if pattern.kind == "packets" or (pattern.rate_bps is None and pattern.size_bytes is None):
        raise UserError("--recordings: the trace has no rate over time: choose another")
    shorter = cut(pattern, 0, min(pattern.period, LENGTH_S * NS_PER_S))
    return shorter if shorter.size_bytes is not None else _rate_only(shorter)


def _recording(
    name: str, source: str, down: Pattern, up: Pattern | None = None, *, delay_ms: int = DELAY_MS,
    live: LiveMeasurement | None = None, queue_bytes: int | None = None,
) -> LeagueRecording:  # fmt: skip
    mean = mean_bps(down)
    if not mean:
        raise UserError(f"{name}: has a rate of 0 for its first {LENGTH_S} s: choose another recording")
    up = up or _constant(max(_LEAST_UP_BPS, int(mean) // _UP_SHARE))
    least = [max(_LEAST_QUEUE_BYTES, round(mean_bps(each) / 8 * _QUEUE_S)) for each in (down, up)]
    return LeagueRecording(name, source, down, up, delay_ms, queue_bytes or least[0], least[1], live)


def _measured(receiver: Path, sender: Path) -> LeagueRecording:
    """Return the goodput of an iperf3 receiver as the rate, and its sender's round trips as the live measurement."""
    got, sent = _columns(receiver), _columns(sender)
    if _RTT_COLUMN not in sent:
        raise UserError(f"{sender}: has no column {_RTT_COLUMN}: name the sender's file after the receiver's")
    length = np.maximum(got["end_s"] - got["start_s"], 1e-9)
    rate = got["bytes"] * 8 / length * PACKET_BYTES / SEGMENT_BYTES
    index = np.round(got["start_s"] * NS_PER_S).astype(np.int64)
    down = _cut(steps(index - index[0], round(got["end_s"][-1] * NS_PER_S), rate_bps=np.round(rate).astype(np.int64)))
    rtt = sent[_RTT_COLUMN] / 1e3
    live = LiveMeasurement(sent["end_s"], rtt)
    inside = rtt[(sent["end_s"] < LENGTH_S) & (rtt > 0)]
    if not len(inside):
        raise UserError(f"{sender}: has no round trip in its first {LENGTH_S} s")
    delay_ms = max(1, round(float(inside.min()) / 2))
    queue_s = (float(np.percentile(inside, 99)) - float(inside.min())) / 1e3
    queue = max(_LEAST_QUEUE_BYTES, round(queue_s * mean_bps(down) / 8))
    source = f"goodput of {receiver.name}, round trips of {sender.name}"
    return _recording(receiver.name, source, down, delay_ms=delay_ms, live=live, queue_bytes=queue)


def _columns(file: Path) -> dict[str, Floats]:
    with open_foreign(file, "name a CSV file of iperf3") as stream:
        lines = stream.read().decode("utf-8", "replace").splitlines()
    rows = [line for line in csv.reader(lines) if line]
    names = [name.split(" ", 1)[0] for name in rows[0]] if rows else []
    if not set(_LIVE_COLUMNS) <= set(names):
        raise UserError(f"{file}: is no table of iperf3's intervals: it needs the columns {', '.join(_LIVE_COLUMNS)}")
    found = {}
    for place, name in enumerate(names):
        try:
            found[name] = np.array([float(row[place] or "nan") for row in rows[1:]])
        except (ValueError, IndexError):
            raise UserError(f"{file}: the column {name} has a cell that is no number") from None
    whole = np.logical_and.reduce([np.isfinite(found[name]) for name in _LIVE_COLUMNS])
    if not whole.any():
        raise UserError(f"{file}: has no whole row")
    return {name: np.nan_to_num(values[whole]) for name, values in found.items()}


def mean_bps(pattern: Pattern) -> float:
    """Return the mean rate, bits per second."""
    return float(delivered_bits(pattern, np.array([pattern.period / NS_PER_S]))[0]) / (pattern.period / NS_PER_S)


def peak_bps(pattern: Pattern) -> float:
    """Return the highest rate in any 100 ms, bits per second."""
    rates = window_rates(pattern, min(100 * NS_PER_MS, pattern.period)).rate_bps
    assert rates is not None, "windows have a rate"
    return float(rates.max())


def is_constant(pattern: Pattern) -> bool:
    """Whether the rate never changes."""
    return pattern.rate_bps is not None and len(pattern) == 1


def delivered_bits(pattern: Pattern, times_s: Floats) -> Floats:
    """Return the bits that a link with this pattern can have delivered at these times; the pattern repeats."""
    period = pattern.period
    times = np.asarray(times_s, dtype=np.float64) * NS_PER_S
    rounds, rest = np.divmod(times, period)
    if pattern.size_bytes is not None:
        sums = np.concatenate(([0.0], np.cumsum(pattern.size_bytes * 8.0)))
        return np.asarray(rounds * sums[-1] + sums[np.searchsorted(pattern.index, rest, side="right")])
    assert pattern.rate_bps is not None, "a recording has a rate or opportunities"
    edges = np.append(pattern.index, period).astype(np.float64)
    sums = np.concatenate(([0.0], np.cumsum(pattern.rate_bps * np.diff(edges) / NS_PER_S)))
    return np.asarray(rounds * sums[-1] + np.interp(rest, edges, sums))


def served_s(pattern: Pattern, arrivals_s: Sequence[float], size_bytes: int) -> list[float]:
    """Return when each of some equal packets leaves an empty link with this pattern, by first come, first served.

    A rate serves bits one after the other. An opportunity delivers what waits, as far as it fits; its rest is lost.
    """
    if pattern.size_bytes is not None:
        return _by_opportunities(pattern, arrivals_s, size_bytes)
    end_s = max(arrivals_s, default=0.0) + LENGTH_S
    rounds = int(end_s * NS_PER_S // pattern.period) + 2
    edges = np.concatenate([pattern.index / NS_PER_S + turn * pattern.period / NS_PER_S for turn in range(rounds)])
    sums = delivered_bits(pattern, edges)
    done, left = 0.0, []
    for arrival in arrivals_s:
        done = max(done, float(delivered_bits(pattern, np.array([arrival]))[0])) + size_bytes * 8
        # The first time at which so much was served: an outage is a flat part of the sum.
        place = int(np.searchsorted(sums, done, side="left"))
        if place >= len(sums):
            left.append(float("nan"))
            continue
        begin, over = (edges[place - 1], sums[place - 1]) if place else (0.0, 0.0)
        share = (done - over) / max(sums[place] - over, 1e-9)
        left.append(float(begin + share * (edges[place] - begin)))
    return left


def _by_opportunities(pattern: Pattern, arrivals_s: Sequence[float], size_bytes: int) -> list[float]:
    """Serve by mahimahi's rules: a packet may be divided; what arrives at the time of an opportunity is too late."""
    assert pattern.size_bytes is not None, "the caller looked"
    left: list[float] = []
    place, turn, room, time_s = 0, 0, 0, -1.0
    for arrival in arrivals_s:
        need = size_bytes
        while need:
            if not room or time_s <= arrival:
                time_s = (float(pattern.index[place]) + turn * pattern.period) / NS_PER_S
                room = int(pattern.size_bytes[place])
                place += 1
                if place == len(pattern):
                    place, turn = 0, turn + 1
            if time_s > arrival:
                taken = min(need, room)
                need, room = need - taken, room - taken
        left.append(time_s)
    return left


def write_inputs(recording: LeagueRecording, folder: Path) -> list[str]:
    """Write a recording as each emulator reads it; return what was changed to do so, a line each.

    ``down.csv``: wavebed. ``down.mahimahi``: mahimahi. ``down.json``: Rattan, with opportunities as the rate of each
    millisecond. The same for ``up``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    notes = []
    for name, pattern in (("down", recording.down), ("up", recording.up)):
        for suffix, form in ((".csv", "native"), (".mahimahi", "mahimahi"), (".json", "netem-trace")):
            options, given = WriteOptions(), pattern
            if form == "netem-trace":
                given = _never_zero(pattern, options.notes)
            (folder / f"{name}{suffix}").write_text(render(given, form, options), encoding="utf-8")
            notes += [f"{name}, {form}: {note}" for note in options.notes]
    return notes


def _never_zero(pattern: Pattern, notes: list[str]) -> Pattern:
    """Return steps of a rate that is never 0."""
    steady = rate_steps(pattern, WriteOptions(notes=notes), NS_PER_MS)
    assert steady.rate_bps is not None, "steps of a recording have a rate"
    if steady.rate_bps.all():
        return steady
    notes.append(f"a rate of 0 is {RATTAN_LEAST_BPS} bit/s, as Rattan 0.1.1 ends at 0")
    return steps(steady.index, steady.period, rate_bps=np.maximum(steady.rate_bps, RATTAN_LEAST_BPS))


def tc_schedule(pattern: Pattern, until_s: float, step_ms: int = 100) -> list[tuple[float, int]]:
    """Return the rates that ``tc`` sets: seconds and bit/s; an outage is one small packet a step, as tbf has no 0."""
    windows = window_rates(pattern, step_ms * NS_PER_MS) if not is_constant(pattern) else pattern
    assert windows.rate_bps is not None, "windows have a rate"
    least = SMALL_BYTES * 8 * 1000 // step_ms
    found: list[tuple[float, int]] = []
    turn = 0
    while True:
        for time_ns, rate in zip(windows.index.tolist(), windows.rate_bps.tolist(), strict=True):
            time_s = (time_ns + turn * windows.period) / NS_PER_S
            if time_s >= until_s:
                return found
            if not found or found[-1][1] != max(rate, least):
                found.append((time_s, max(rate, least)))
        turn += 1
