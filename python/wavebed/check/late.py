"""The first packet that breaks a requirement, from the packet log of a trial; and whether a repetition is the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wavebed.check.requirement import in_unit, parse_requirement
from wavebed.config.problems import Problem
from wavebed.errors import UserError
from wavebed.foreign import is_file
from wavebed.result.parquet import read_parquet
from wavebed.run.stopped import STATE_FILE, read_state

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from wavebed.check.requirement import Requirement
    from wavebed.spec.types import Network

_TIMES = ("entered_ns", "dequeued_ns", "sent_ns", "released_ns", "delivered_ns", "dropped_ns", "written_ns")
_KEPT = ("link", "packet", "is_copy", "first", "segments", "bytes", "flow", "drop_reason", *_TIMES)
_ROUND_TRIPS = ("rtt", "round trip")
_DELAYS = ("delay", "latency")


@dataclass(frozen=True, slots=True)
class LatePacket:
    """A packet, and the moment when it was late or lost.

    Parameters
    ----------
    at_ns : int
        The moment, since time zero.
    link : str
        Where it was lost, or the last link of its way.
    entered_ns : int
        When it entered the path.
    why : str
        What happened to it.
    """

    at_ns: int
    link: str
    packet: int
    flow: int
    bytes: int
    entered_ns: int
    why: str

    def text(self) -> str:
        """Return it for people."""
        way = "towards the client" if self.link.endswith(".down") else "from the client"
        return (
            f"packet: {self.bytes} bytes {way}, number {self.packet} on {self.link}, flow {self.flow:08x},"
            f" entered at {self.entered_ns / 1e9:.6f} s: {self.why}"
        )


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a repetition is stopped, and the packet log of the first run."""

    late: LatePacket
    packets: pa.Table

    def compare(self, again: Path) -> Stopped:
        """Return the state in which the repetition in the folder `again` was stopped, and whether it is exact.

        Raises
        ------
        UserError
            If it has no such state: its trial ended before.
        """
        at_s = self.late.at_ns / 1e9
        state = read_state(again / "raw" / f"{STATE_FILE}.gz")
        rows, unlike = first_unlike(self.packets, read_packets(again), self.late.at_ns)
        told = f"exact: {rows} rows of the packet log up to there are those of the first run"
        lines = [f"stopped at {at_s:.6f} s of virtual time", self.late.text(), *state.lines(at_s)]
        return Stopped("\n".join([*lines, f"not exact: {unlike}" if unlike else told]), not unlike)


@dataclass(frozen=True, slots=True)
class Stopped:
    """The state in which a repetition was stopped, and whether it is the same as the first run up to there."""

    text: str
    is_exact: bool


def find_stop(trial: Path, network: Network, requirements: Sequence[str]) -> Stop:
    """Return where the repetition of a trial is stopped, as `first_late`.

    Raises
    ------
    UserError
        If the trial has no packet log, or the log no packet.
    """
    packets = read_packets(trial)
    return Stop(first_late(packets, network, requirements), packets)


def read_packets(trial: Path) -> pa.Table:
    """Return the packet log of a trial.

    Raises
    ------
    UserError
        If it has none.
    """
    file = trial / "series" / "packets.parquet"
    if not is_file(file):
        raise UserError(f"{trial}: has no packet log: run it with --set path.packet-log=true, check with --packet-log")
    return read_parquet(file, _KEPT)


def first_late(packets: pa.Table, network: Network, requirements: Sequence[str]) -> LatePacket:
    """Return the first late or lost packet.

    A requirement on a delay or a round trip bounds the way of each packet, of a round trip less the shortest way back.
    Without such a requirement it is the first packet that was dropped, and if none was, the one with the longest way.

    Raises
    ------
    UserError
        If the log has no packet.
    """
    found = [_late(packets, network, bound) for bound in filter(None, map(_bound, requirements))]
    late = min(filter(None, found), key=lambda each: each.at_ns, default=None)
    first = late or _dropped(packets) or _slowest(packets, network)
    if first is None:
        raise UserError("the packet log has no packet: nothing was late or lost")
    return first


@dataclass(frozen=True, slots=True)
class _Bound:
    text: str
    limit_ns: int
    both_ways: bool


def _bound(text: str) -> _Bound | None:
    """Return the longest time that a requirement gives a packet; ``None`` if it gives none."""
    try:
        requirement: Requirement = parse_requirement(text)
        limit_ns = round(in_unit(requirement.value, requirement.unit, "s") * 1e9)
    except Problem:
        return None
    name = requirement.name.lower()
    both_ways = any(word in name for word in _ROUND_TRIPS)
    if requirement.comparison not in ("<", "<=") or not (both_ways or any(word in name for word in _DELAYS)):
        return None
    return _Bound(text, limit_ns, both_ways)


@dataclass(frozen=True, slots=True)
class _Way:
    """The packets of one direction between two hosts: when they entered it, and left it."""

    links: list[str]
    packet: NDArray[np.int64]
    entered_ns: NDArray[np.int64]
    left_ns: NDArray[np.int64]

    def of(self, packets: pa.Table) -> pa.Table:
        """Return the rows of its links."""
        return packets.filter(pc.is_in(packets["link"], pa.array(self.links)))


_NEVER = np.iinfo(np.int64).max


def _ways(packets: pa.Table, network: Network) -> dict[tuple[int, str], _Way]:
    """Return the packets by leg and direction; what was dropped, or was on its way at the end, has left never."""
    found = {}
    for number, leg in enumerate(network.legs):
        for direction in ("down", "up"):
            links = [f"{hop.name}.{direction}" for hop in leg.hops]
            links = links if direction == "down" else links[::-1]
            begun, ended = (packets.filter(pc.equal(packets["link"], link)) for link in (links[0], links[-1]))
            keys, at = np.unique(_ints(begun, "packet"), return_index=True)
            left = np.full(len(keys), _NEVER)
            known = _ints(ended, "packet")
            times = np.maximum(_ints(ended, "delivered_ns"), _ints(ended, "written_ns"))
            place = np.searchsorted(keys, known)
            here = (place < len(keys)) & (times >= 0)
            here[here] = keys[place[here]] == known[here]
            order = np.argsort(times[here], kind="stable")  # of a packet in pieces the last one counts
            left[place[here][order]] = times[here][order]
            found[number, direction] = _Way(links, keys, _ints(begun, "entered_ns")[at], left)
    return found


def _late(packets: pa.Table, network: Network, bound: _Bound) -> LatePacket | None:
    ways = _ways(packets, network)
    end_ns = max((int(_ints(packets, name).max(initial=0)) for name in _TIMES), default=0)
    late = []
    for (leg, direction), way in ways.items():
        back = ways[leg, "up" if direction == "down" else "down"]
        arrived = back.left_ns < _NEVER
        least = int((back.left_ns - back.entered_ns)[arrived].min(initial=_NEVER)) if bound.both_ways else 0
        limit_ns = bound.limit_ns - (0 if least == _NEVER else least)
        due_ns = way.entered_ns + limit_ns
        is_lost = np.isin(way.packet, _ints(_lost(way.of(packets)), "packet"))
        slow = np.flatnonzero((way.left_ns > due_ns) & (due_ns < end_ns) & ~is_lost)
        if len(slow):
            first = slow[np.argmin(way.entered_ns[slow])]
            told = f"still on its way {limit_ns / 1e6:g} ms later, which breaks {bound.text!r}"
            late.append(_packet(packets, way, int(first), int(due_ns[first]), told))
    return min(late, key=lambda each: each.at_ns, default=None)


def _lost(packets: pa.Table) -> pa.Table:
    return packets.filter(pc.is_valid(packets["dropped_ns"]))


def _dropped(packets: pa.Table) -> LatePacket | None:
    lost = _lost(packets)
    if not len(lost):
        return None
    row = lost.slice(int(np.argmin(_ints(lost, "dropped_ns"))), 1).to_pylist()[0]
    told = f"dropped at {row['link']}: {row['drop_reason']}"
    return LatePacket(row["dropped_ns"], row["link"], row["packet"], row["flow"], row["bytes"], row["entered_ns"], told)


def _slowest(packets: pa.Table, network: Network) -> LatePacket | None:
    found = []
    for way in _ways(packets, network).values():
        took = np.where(way.left_ns < _NEVER, way.left_ns - way.entered_ns, -1)
        if len(took) and took.max() >= 0:
            slowest = int(np.argmax(took))
            told = f"arrived after {took[slowest] / 1e6:.3f} ms: the longest way of all, since none was dropped"
            found.append((int(took[slowest]), _packet(packets, way, slowest, int(way.left_ns[slowest]), told)))
    return max(found, key=lambda each: each[0], default=(0, None))[1]


def _packet(packets: pa.Table, way: _Way, place: int, at_ns: int, told: str) -> LatePacket:
    number, own = int(way.packet[place]), way.of(packets)
    own = own.filter(pc.and_(pc.equal(own["packet"], number), pc.equal(own["entered_ns"], int(way.entered_ns[place]))))
    row = own.slice(0, 1).to_pylist()[0]
    return LatePacket(at_ns, way.links[-1], number, row["flow"], row["bytes"], row["entered_ns"], told)


def first_unlike(first: pa.Table, second: pa.Table, until_ns: int) -> tuple[int, str]:
    """Compare two packet logs up to a moment; return how many rows were compared, and the first difference, if any."""
    one, other = (_before(each, until_ns) for each in (first, second))
    if one.equals(other):
        return len(one), ""
    for number, (old, new) in enumerate(zip(one.to_pylist(), other.to_pylist(), strict=False), 1):
        for name in _KEPT:
            if old[name] != new[name]:
                return number, f"row {number} of {old['link']}: {name} {new[name]} here, {old[name]} there"
    return min(len(one), len(other)), f"{len(other)} rows here, {len(one)} there"


def _before(packets: pa.Table, until_ns: int) -> pa.Table:
    """Return the packets whose way over their link had ended."""
    latest = np.max([_ints(packets, name) for name in _TIMES], axis=0)
    ended = np.maximum(_ints(packets, "delivered_ns"), _ints(packets, "dropped_ns")) >= 0
    return packets.select(_KEPT).filter(pa.array(ended & (latest <= until_ns))).combine_chunks()


def _ints(table: pa.Table, name: str) -> NDArray[np.int64]:
    """Return a column of integers, -1 for null."""
    found: NDArray[np.int64] = table[name].combine_chunks().fill_null(-1).to_numpy(zero_copy_only=False)
    return found
