"""What a prober received, as arrays; ``crates/wavebed-probe/src/window.rs`` describes its lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wavebed.errors import WavebedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

_VERSION = 1
_HEAVY = ("d", "u", "f", "g")
_FILLING = ("f", "g")
_FIELDS = {"start": 3, "p": 7, "b": 10, "sent": 4}


@dataclass(frozen=True, slots=True, eq=False)
class LightLoad:
    """Light packets in the order of arrival; times in ns since the start, each on the clock of its end.

    Parameters
    ----------
    arrival_ns, send_ns : int64 array
        Of each packet.
    number : int64 array
        Its number among all light packets of its sender.
    size_bytes : int64 array
        Its payload.
    index, count : int64 array
        Its place in its train, and the train's packets; 0 and 1: a single probe.
    """

    arrival_ns: Integers
    number: Integers
    send_ns: Integers
    size_bytes: Integers
    index: Integers
    count: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Heavy:
    """Heavy load in milliseconds with arrivals, in order; times as in `LightLoad`.

    Parameters
    ----------
    fills : bool array
        Whether the queue was being filled.
    size_bytes, packets, lost : int64 array
        Payload and packets that arrived, and packets lost before the last of them.
    first_ns, last_ns, first_send_ns, last_send_ns, longest_ns : int64 array
        First and last arrival, sending of these, greatest delay.
    """

    fills: NDArray[np.bool_]
    size_bytes: Integers
    packets: Integers
    lost: Integers
    first_ns: Integers
    last_ns: Integers
    first_send_ns: Integers
    last_send_ns: Integers
    longest_ns: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Received:
    """What one end received, and what it sent itself.

    Parameters
    ----------
    sent_light, sent_heavy, refused : int
        Packets that this end sent, and calls that its own interface refused.
    """

    light: LightLoad
    heavy: Heavy
    sent_light: int
    sent_heavy: int
    refused: int


def read_received(text: str, name: str) -> Received:
    """Return what a prober wrote.

    Raises
    ------
    WavebedError
        If it is not complete, or has a line of another form.
    """
    rows: dict[str, list[list[str]]] = {kind: [] for kind in _FIELDS}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split(",")
        if len(words) != _FIELDS.get(words[0]):
            raise WavebedError(f"{name}: line {number} of its recording is none of a prober")
        rows[words[0]].append(words[1:])
    if len(rows["start"]) != 1 or len(rows["sent"]) != 1:
        raise WavebedError(f"{name}: its recording is not complete")
    if rows["start"][0][0] != str(_VERSION):
        raise WavebedError(f"{name}: its recording has version {rows['start'][0][0]}, not {_VERSION}")
    try:
        light = LightLoad(*_columns(rows["p"], 6))
        heavy_rows = [row for row in rows["b"] if row[0] in _HEAVY]
        fills = np.array([row[0] in _FILLING for row in heavy_rows], dtype=np.bool_)
        heavy = Heavy(fills, *_columns([row[1:] for row in heavy_rows], 8))
        sent = [int(word) for word in rows["sent"][0]]
    except ValueError:
        raise WavebedError(f"{name}: its recording has a value that is no whole number") from None
    return Received(light, heavy, *sent)


def _columns(rows: Sequence[Sequence[str]], width: int) -> list[Integers]:
    table = np.array([[int(word) for word in row] for row in rows], dtype=np.int64).reshape(-1, width)
    return [table[:, column].copy() for column in range(width)]


GRID_NS = 5_000_000
"""Steps of the rate of heavy load."""
PROBE_NS = 20_000_000
"""Interval of the packets of light load."""
OUTAGE_NS = 5 * PROBE_NS
"""Light load without an arrival for this long met an outage: five probes."""
_MARGIN_NS = 500_000
"""The queue was certainly filled if a packet waited this long before the one ahead of it arrived."""
_BASE_OF_NS = 5_000_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Clocks:
    """The lead of the server's clock beyond that known at the start, and the error of one-way delays.

    Parameters
    ----------
    time_ns, drift_ns : float array
        Since the start, and the change of the lead.
    error_ns : float
        The largest error of one-way delays.
    """

    time_ns: Floats
    drift_ns: Floats
    error_ns: float

    @classmethod
    def of(cls, samples: Sequence[Sequence[float]], start_s: float, lead_s: float) -> Clocks | None:
        """Return them from times, leads and errors in seconds, and the lead that was known at the start.

        ``None`` without a sample. The start was one moment by the lead that was known then; what it lacked is drift.
        """
        table = np.array(samples, dtype=np.float64).reshape(-1, 3)
        if not len(table):
            return None
        return cls((table[:, 0] - start_s) * 1e9, (table[:, 1] - lead_s) * 1e9, float(1e9 * table[:, 2].max()))

    def ahead_ns(self, at_ns: Integers) -> Floats:
        """Return the drift at times."""
        return np.interp(at_ns, self.time_ns, self.drift_ns)


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """One direction of a recording; times in ns since its start, on the sender's clock for light load.

    Parameters
    ----------
    delay_at_ns, delay_ns : arrays
        Sending and one-way delay of packets that found an idle access; without those that an outage held.
    train_at_ns, train_ns, train_bps : arrays
        Sending of trains, time from the first to the last arrival, and the rate of the packets after the first, bits of
        IP packets per second: a train that arrives at once has no limit.
    loss_at_ns, loss_end_ns, loss_sent, loss_lost : int64 arrays
        Spans of light load without outages, packets sent and lost in them.
    outages_ns : int64 array of shape (N, 2)
        Outages that light load met.
    rate_bps : float array
        Rate of a full queue in steps of `GRID_NS`; not a number where the queue was not certainly filled.
    heavy_ns, busy_ns : int
        Time with heavy load between its arrivals, and the part with a certainly filled queue.
    queue_ns, queue_bytes, queue_is_full : float, int, bool
        Longest queueing delay while the queue was filled, IP bytes that waited then, and whether packets were lost. 0:
        not filled.
    """

    delay_at_ns: Integers
    delay_ns: Floats
    train_at_ns: Integers
    train_ns: Integers
    train_bps: Floats
    loss_at_ns: Integers
    loss_end_ns: Integers
    loss_sent: Integers
    loss_lost: Integers
    outages_ns: Integers
    rate_bps: Floats
    heavy_ns: int
    busy_ns: int
    queue_ns: float
    queue_bytes: int
    queue_is_full: bool


def curves(
    received: Received, *, sign: int, clocks: Clocks, duration_ns: int, pause_ns: int, header_bytes: int
) -> Curves:
    """Return the curves of a direction.

    Parameters
    ----------
    received : Received
        At its receiver.
    sign : int
        1 for the downlink, whose sender's clock is ahead by `clocks`; -1 for the uplink.
    pause_ns : int
        Least time between two phases of heavy load of this direction.
    header_bytes : int
        IP and UDP, beside the payload of each packet.
    """
    light, heavy = received.light, received.heavy
    delay_ns = light.arrival_ns - light.send_ns + sign * clocks.ahead_ns(light.send_ns)
    outages, held = _outages(light, delay_ns)
    first = (light.index == 0) & ~held
    base_at, base = light.send_ns[first], delay_ns[first]
    trains = _trains(light, header_bytes, held)
    spans = _losses(light, outages)
    rate, heavy_ns, busy_ns = _rates(heavy, base_at, base, sign, clocks, duration_ns, pause_ns, header_bytes)
    queue = _queue(heavy, base, sign, clocks, header_bytes)
    return Curves(base_at, base, *trains, *spans, outages, rate, heavy_ns, busy_ns, *queue)


def _outages(light: LightLoad, delay_ns: Floats) -> tuple[Integers, Flags]:
    """Return the times without an arrival during light load, and the packets that arrived only at their ends."""
    held = np.zeros(len(light.send_ns), dtype=np.bool_)
    found: list[tuple[int, int]] = []
    if len(held) < 2:
        return np.empty((0, 2), dtype=np.int64), held
    usual_ns = float(np.median(delay_ns))
    # A packet that was held was sent during the outage; a gap between two light phases has no such packet.
    gaps = np.flatnonzero(np.diff(light.arrival_ns) >= OUTAGE_NS) + 1
    for row in gaps.tolist():
        end_ns = int(light.arrival_ns[row])
        late = (light.arrival_ns >= end_ns) & (light.send_ns + usual_ns < end_ns)
        late &= light.send_ns >= light.arrival_ns[row - 1] - usual_ns
        lost = light.number[row] - light.number[row - 1] - 1
        if (delay_ns[late] > usual_ns + OUTAGE_NS / 2).any() or lost >= OUTAGE_NS // PROBE_NS:
            held |= late
            found.append((int(light.arrival_ns[row - 1]), end_ns))
    return np.array(found, dtype=np.int64).reshape(-1, 2), held


def _trains(light: LightLoad, header_bytes: int, held: Flags) -> tuple[Integers, Integers, Floats]:
    """Return sending, spread and rate of the trains that arrived whole and in order."""
    heads = np.flatnonzero((light.index == 0) & (light.count > 1) & ~held)
    at: list[int] = []
    spread: list[int] = []
    bits: list[int] = []
    for head in heads.tolist():
        count = int(light.count[head])
        part = slice(head, head + count)
        if len(light.index[part]) == count and np.array_equal(light.index[part], np.arange(count)):
            at.append(int(light.send_ns[head]))
            spread.append(int(light.arrival_ns[part][-1] - light.arrival_ns[head]))
            bits.append(8 * int(light.size_bytes[part][1:].sum() + (count - 1) * header_bytes))
    spread_ns = np.array(spread, dtype=np.int64)
    return np.array(at, dtype=np.int64), spread_ns, np.array(bits) * 1e9 / np.maximum(spread_ns, 1)


def _losses(light: LightLoad, outages: Integers) -> tuple[Integers, Integers, Integers, Integers]:
    """Return begin and end of the spans between neighbouring arrivals of one second, packets sent and lost in them."""
    if len(light.number) < 2:
        none = np.empty(0, dtype=np.int64)
        return none, none, none, none
    order = np.argsort(light.number)
    number, send = light.number[order], light.send_ns[order]
    missing = np.diff(number) - 1
    in_outage = np.zeros(len(missing), dtype=np.bool_)
    for begin_ns, end_ns in outages.tolist():
        in_outage |= (send[:-1] < end_ns) & (send[1:] > begin_ns - OUTAGE_NS)
    second = send[:-1] // 1_000_000_000
    keep = ~in_outage
    seconds = np.unique(second[keep])
    rows = [(second == each) & keep for each in seconds]
    return (
        seconds * 1_000_000_000,
        (seconds + 1) * 1_000_000_000,
        np.array([int(row.sum() + missing[row].sum()) for row in rows], dtype=np.int64),
        np.array([int(missing[row].sum()) for row in rows], dtype=np.int64),
    )


def _base_at(at_ns: Integers, base_at: Integers, base: Floats) -> Floats:
    """Return the median delay of light load near each time."""
    if not len(base):
        return np.zeros(len(at_ns))
    order = np.argsort(base_at)
    times, delays = base_at[order], base[order]
    knots = np.arange(0, int(max(at_ns.max(), times[-1])) + _BASE_OF_NS, _BASE_OF_NS)
    cuts = np.searchsorted(times, np.array([knots - _BASE_OF_NS, knots + _BASE_OF_NS]))
    middle = [float(np.median(delays[a:b])) if b > a else np.nan for a, b in cuts.T.tolist()]
    known = ~np.isnan(middle)
    found: Floats = np.interp(at_ns, knots[known], np.array(middle)[known])
    return found


def _rates(
    heavy: Heavy,
    base_at: Integers,
    base: Floats,
    sign: int,
    clocks: Clocks,
    duration_ns: int,
    pause_ns: int,
    header_bytes: int,
) -> tuple[Floats, int, int]:
    """Return the rate on the grid, the time between arrivals, and the part of it with a certainly filled queue."""
    steps = -(-duration_ns // GRID_NS)
    bits, covered = np.zeros(steps), np.zeros(steps)
    use = np.flatnonzero(~heavy.fills)
    if len(use) < 2:
        return np.full(steps, np.nan), 0, 0
    first, last, size = heavy.first_ns[use], heavy.last_ns[use], heavy.size_bytes[use]
    size = size + heavy.packets[use] * header_bytes
    reached = heavy.first_send_ns[use] + _base_at(heavy.first_send_ns[use], base_at, base)
    reached -= sign * clocks.ahead_ns(heavy.first_send_ns[use])
    # In an outage the sender asks again and again: a pause in sending is one between phases.
    together = heavy.first_send_ns[use][1:] - heavy.last_send_ns[use][:-1] < pause_ns * 0.9
    filled = (reached[1:] + _MARGIN_NS <= last[:-1]) & together
    for row in np.flatnonzero(filled).tolist():
        begin_ns, end_ns = int(last[row]), int(last[row + 1])
        # What arrives after a pause was not delivered during it.
        if first[row + 1] - begin_ns > 4 * GRID_NS:
            _cover(covered, begin_ns, int(first[row + 1]) - 1_000_000)
            begin_ns = int(first[row + 1]) - 1_000_000
        _cover(covered, begin_ns, end_ns)
        _spread(bits, begin_ns, end_ns, 8.0 * float(size[row + 1]))
    # A step counts if at least half of it is known.
    known = covered >= GRID_NS / 2
    rate = np.where(known, bits * 1e9 / np.maximum(covered, 1), np.nan)
    spans = np.diff(last)
    return rate, int(spans[together].sum()), int(spans[filled].sum())


def _cover(covered: Floats, begin_ns: int, end_ns: int) -> None:
    _spread(covered, begin_ns, end_ns, float(max(0, end_ns - begin_ns)))


def _spread(onto: Floats, begin_ns: int, end_ns: int, amount: float) -> None:
    """Add an amount evenly to the steps between two times."""
    first, last = begin_ns // GRID_NS, max(begin_ns, end_ns - 1) // GRID_NS
    if first >= len(onto):
        return
    if first == last or end_ns <= begin_ns:
        onto[first] += amount
        return
    per_ns = amount / (end_ns - begin_ns)
    last = min(last, len(onto) - 1)
    onto[first] += per_ns * ((first + 1) * GRID_NS - begin_ns)
    onto[first + 1 : last] += per_ns * GRID_NS
    onto[last] += per_ns * (min(end_ns, (last + 1) * GRID_NS) - last * GRID_NS)


def _queue(heavy: Heavy, base: Floats, sign: int, clocks: Clocks, header_bytes: int) -> tuple[float, int, bool]:
    """Return the longest queueing delay while the queue was filled, the bytes in it, and whether packets were lost."""
    use = np.flatnonzero(heavy.fills)
    if not len(use) or not len(base):
        return 0.0, 0, False
    usual = float(np.median(base))
    drift = sign * clocks.ahead_ns(heavy.first_ns[use])
    waits = heavy.first_ns[use] - heavy.first_send_ns[use] + drift - usual
    longest = int(np.argmax(waits))
    # When the packet that waited longest came to the queue, it held what arrived from then until that packet.
    came_ns = heavy.first_ns[use][longest] - waits[longest]
    size = heavy.size_bytes[use] + heavy.packets[use] * header_bytes
    ahead = (heavy.last_ns[use] > came_ns) & (np.arange(len(use)) < longest)
    return float(waits[longest]), int(size[ahead].sum()), bool(heavy.lost[use].sum() > 0)
