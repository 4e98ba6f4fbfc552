"""Records of an explanation: the columns of a packet log, dark times, transmissions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec
import numpy as np
import pyarrow.compute as pc

from wavebed.errors import UserError
from wavebed.prepared import prepared
from wavebed.spec.types import (
    BottleneckStage,
    CorruptStage,
    DelayStage,
    DuplicateStage,
    LossStage,
    Network,
    OpportunitiesRate,
    PacketsRate,
    RadioStage,
    ReorderStage,
    WifiStage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from wavebed.explain.model import Cause
    from wavebed.result.model import TrialRecord
    from wavebed.spec.types import RadioCell, Stage


Kind: TypeAlias = Literal["server", "opportunities", "ue", "radio", "wifi", "delay", "reorder"]
"""Kinds of stages that take time."""
_QUEUES = ("server", "opportunities", "ue", "wifi")


@dataclass(frozen=True)
class LinkLayout:
    """The stages of a link that take time.

    Parameters
    ----------
    name : str
        ``HOP.down`` or ``HOP.up``.
    stages : sequence of str
        Their kinds, in the order in which packets meet them.
    logged : int or None
        Place of the one whose queue is in the packet log: the radio, else the first with a queue.
    """

    name: str
    stages: Sequence[Kind]

    @property
    def logged(self) -> int | None:
        """Place of the stage whose queue is in the packet log."""
        if "radio" in self.stages:
            return self.stages.index("radio")
        return next((place for place, kind in enumerate(self.stages) if kind in _QUEUES), None)


@dataclass(frozen=True)
class LoggedDirection:
    """One direction between two hosts, ``server-client.down``, and its links in the order of the packets.

    Parameters
    ----------
    own : str or None
        The link of one device of a cell: only packets of that link take this direction. ``None``: all packets do.
    """

    name: str
    links: Sequence[LinkLayout]
    own: str | None = None


def network_of(record: TrialRecord, folder: Path) -> Network:
    """Return the emulated network of a trial, from its specification.

    Raises
    ------
    UserError
        If it has none.
    """
    given = record.resolved.get("network")
    if given is None or record.engine.get("backend") == "hosts":
        raise UserError(
            f"{folder}: has no emulated links: wavebed explain needs a trial in namespaces, with its spec.json"
        )
    try:
        return msgspec.convert(given, prepared(Network))
    except msgspec.ValidationError as error:
        raise UserError(f"{folder}: its network is not as documented ({error}): run the trial again") from None


def directions(network: Network) -> list[LoggedDirection]:
    """Return the directions of a network; each device of a cell has its own."""
    found: list[LoggedDirection] = []
    for leg in network.legs:
        name = f"{leg.start}-{leg.end}"
        down = [_layout(f"{hop.name}.down", hop.down) for hop in leg.hops]
        up = [_layout(f"{hop.name}.up", hop.up) for hop in reversed(leg.hops)]
        if network.cell is not None and leg is network.legs[-1]:
            found += _of_devices(leg.start, network.cell, down, up)
        else:
            found += [LoggedDirection(f"{name}.down", down), LoggedDirection(f"{name}.up", up)]
    return found


def _of_devices(
    start: str, cell: RadioCell, down: Sequence[LinkLayout], up: Sequence[LinkLayout]
) -> Iterator[LoggedDirection]:
    """Yield the directions of a leg with a cell: of the hops that its devices share, and of each device."""
    if down:
        yield LoggedDirection(f"{start}-{cell.name}.down", down)
        yield LoggedDirection(f"{start}-{cell.name}.up", up)
    for device in cell.devices:
        of_down = _layout(f"{cell.name}.{device.host}.down", device.down)
        of_up = _layout(f"{cell.name}.{device.host}.up", device.up)
        yield LoggedDirection(f"{start}-{device.host}.down", [*down, of_down], of_down.name)
        yield LoggedDirection(f"{start}-{device.host}.up", [of_up, *up], of_up.name)


def _layout(name: str, stages: Sequence[Stage]) -> LinkLayout:
    return LinkLayout(name, [kind for stage in stages if (kind := _kind(stage)) is not None])


def _kind(stage: Stage) -> Kind | None:
    match stage:
        case RadioStage():
            return "radio"
        case WifiStage():
            return "wifi"
        case BottleneckStage(rate=PacketsRate()):
            return "ue"
        case BottleneckStage(rate=OpportunitiesRate()):
            return "opportunities"
        case BottleneckStage():
            return "server"
        case DelayStage():
            return "delay"
        case ReorderStage():
            return "reorder"
        case LossStage() | DuplicateStage() | CorruptStage():
            return None


Ints: TypeAlias = "NDArray[np.int64]"
_HANDOVER = "handover"


@dataclass(frozen=True, eq=False)
class Dark:
    """Intervals without a rate, in order: from `starts` (ns) up to `ends`."""

    starts: Ints
    ends: Ints

    def within(self, begin: Ints, end: Ints) -> Ints:
        """Return how long it was dark between these times, nanoseconds."""
        return self._until(end) - self._until(begin)

    def _until(self, at: Ints) -> Ints:
        if not len(self.starts):
            return np.zeros_like(at)
        before = np.concatenate(([0], np.cumsum(self.ends - self.starts)))
        place = np.searchsorted(self.starts, at, side="right")
        last = np.maximum(place - 1, 0)
        inside = np.where(place > 0, np.minimum(at, self.ends[last]) - self.starts[last], 0)
        return before[last] + np.where(place > 0, inside, 0)


def dark_times(capacity: pa.Table, link: str) -> dict[Cause, Dark]:
    """Return the times of ``outage`` (a rate of zero) and of ``handover`` (its state) of a link.

    Parameters
    ----------
    capacity : pyarrow.Table
        The table ``capacity`` of the trial.
    """
    rows = capacity.filter(pc.equal(capacity["link"], link))
    rows = rows.take(np.argsort(rows["time_s"].to_numpy(), kind="stable"))
    at = np.round(rows["time_s"].to_numpy() * 1e9).astype(np.int64)
    rates, states = rows["rate_bps"].to_pylist(), rows["state"].to_pylist()
    ends = np.append(at[1:], np.iinfo(np.int64).max // 4)
    moves = np.array([state == _HANDOVER for state in states], bool)
    still = np.array([rate == 0 for rate in rates], bool) & ~moves
    return {"outage": Dark(at[still], ends[still]), "handover": Dark(at[moves], ends[moves])}


_NEVER = np.iinfo(np.int64).max // 4
_LONG_AGO = -_NEVER


class Transmissions:
    """For each row of ``packets``: when its data was on air for the first time, and when it had arrived.

    Parameters
    ----------
    blocks : pyarrow.Table
        The table ``blocks`` of the link.
    carried : pyarrow.ChunkedArray
        The numbers of the blocks of each row.
    """

    first_ns: Ints
    """The end of the first transmissions, had none failed."""
    harq_ns: Ints
    """The end of their retransmissions by HARQ: decoded, or given up."""
    arrived_ns: Ints
    """Decode time of the last block, RLC included; `harq_ns` if there was none."""
    awake_ns: Ints
    granted_ns: Ints
    """`awake_ns` and `granted_ns` of the first block; long ago without."""
    turn_ns: Ints
    turn_last_ns: Ints
    """Begin of the first and of the last slot that went to others before the first block; long ago without."""
    turn_of: Ints
    """The device that got most of them, as an index; -1 for none."""

    def __init__(self, blocks: pa.Table, carried: pa.ChunkedArray) -> None:
        self._starts = np.unique(_column(blocks, "slot_ns"))
        lists = carried.combine_chunks()
        offsets = lists.offsets.to_numpy().astype(np.int64)
        numbers = lists.values.to_numpy(zero_copy_only=False).astype(np.int64)
        numbers, offsets = numbers[offsets[0] :], offsets - offsets[0]
        known = _Blocks(blocks)
        of = known.places(numbers)
        has = of >= 0
        row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[has]
        of = of[has]
        count = len(offsets) - 1
        # A block that begins after an earlier one of the packet was given up has data that RLC sends again.
        given_up = np.full(count, _NEVER)
        np.minimum.at(given_up, row, np.where(known.good_ns[of] == _NEVER, known.last_ns[of], _NEVER))
        by_rlc = known.slot_ns[of] >= given_up[row]
        self.first_ns = _latest(count, row[~by_rlc], known.first_ns[of][~by_rlc])
        ended = np.where(known.good_ns[of] == _NEVER, known.last_ns[of], known.good_ns[of])
        self.harq_ns = _latest(count, row[~by_rlc], ended[~by_rlc])
        decoded = known.good_ns[of] != _NEVER
        self.arrived_ns = _latest(count, row[decoded], known.good_ns[of][decoded])
        self.awake_ns = np.full(count, _LONG_AGO)
        self.granted_ns = np.full(count, _LONG_AGO)
        first = np.unique(row, return_index=True)[1]
        self.awake_ns[row[first]] = known.awake_ns[of[first]]
        self.granted_ns[row[first]] = known.granted_ns[of[first]]
        self.turn_ns = np.full(count, _LONG_AGO)
        self.turn_last_ns = np.full(count, _LONG_AGO)
        self.turn_of = np.full(count, -1)
        waited = first[known.turn_ns[of[first]] > 0]
        self.turn_ns[row[waited]] = known.turn_ns[of[waited]]
        self.turn_last_ns[row[waited]] = known.turn_last_ns[of[waited]]
        self.turn_of[row[waited]] = known.turn_of[of[waited]]

    def slot_before(self, sent: Ints) -> Ints:
        """Return the begin of the last slot before each of these that this link used; long ago without one."""
        if not len(self._starts):
            return np.full(len(sent), _LONG_AGO)
        place = np.searchsorted(self._starts, sent, side="left") - 1
        return np.where(place >= 0, self._starts[np.maximum(place, 0)], _LONG_AGO)


class _Blocks:
    """The blocks of a link, each once."""

    def __init__(self, blocks: pa.Table) -> None:
        number = _column(blocks, "number")
        order = np.lexsort((_column(blocks, "attempt"), number))
        decoded = _column(blocks, "decoded_ns")[order]
        self._numbers, first, counts = np.unique(number[order], return_index=True, return_counts=True)
        last = first + counts - 1
        self.slot_ns = _column(blocks, "slot_ns")[order][first]
        self.first_ns = decoded[first]
        self.last_ns = decoded[last]
        self.awake_ns = _column(blocks, "awake_ns")[order][first]
        self.granted_ns = _column(blocks, "granted_ns")[order][first]
        self.turn_ns = _column(blocks, "turn_ns")[order][first]
        self.turn_last_ns = _column(blocks, "turn_last_ns")[order][first]
        self.turn_of = _column(blocks, "turn_of")[order][first]
        failed = blocks["failed"].combine_chunks().to_numpy(zero_copy_only=False).astype(bool)[order]
        self.good_ns = np.full(len(first), _NEVER)
        np.minimum.at(self.good_ns, np.repeat(np.arange(len(first)), counts), np.where(failed, _NEVER, decoded))

    def places(self, numbers: Ints) -> Ints:
        """Return the places of blocks by their numbers; -1 for those that are not in the log."""
        if not len(self._numbers):
            return np.full(len(numbers), -1)
        place = np.minimum(np.searchsorted(self._numbers, numbers), len(self._numbers) - 1)
        return np.where(self._numbers[place] == numbers, place, -1)


def _latest(count: int, row: Ints, at: Ints) -> Ints:
    found = np.full(count, _LONG_AGO)
    np.maximum.at(found, row, at)
    return found


def _column(table: pa.Table, name: str) -> Ints:
    """Return a column of integers; a result of an earlier version may lack it."""
    if name not in table.column_names:
        return np.full(len(table), _LONG_AGO)
    column = table.column(name).combine_chunks().fill_null(_LONG_AGO)
    found: Ints = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return found
