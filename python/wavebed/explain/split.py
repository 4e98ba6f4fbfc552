"""The time of each packet on one link, split by cause.

The split follows the times in the packet log from one to the next, so that the causes of a packet sum to its time on
the link, to the nanosecond. Time between two known events with a missing one in between is ``unexplained``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow.compute as pc

from wavebed.explain.model import CAUSES, PLACE
from wavebed.explain.records import Transmissions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from wavebed.explain.model import Cause
    from wavebed.explain.records import Dark, Ints, LinkLayout

    Flags: TypeAlias = NDArray[np.bool_]

MISSING = -1
"""A time that is not in the log."""
_INDEX_BITS = 16
"""A packet has less than 2^16 wire segments."""
_LUMPS: dict[str, Cause] = {"ue": "ue", "server": "queue", "opportunities": "queue", "wifi": "queue"}
"""Causes of the whole time in a stage whose queue is not in the log."""


@dataclass(frozen=True, eq=False)
class LinkSplit:
    """The rows of the table ``packets`` of a link, without copies, in the order of packet and segment.

    Parameters
    ----------
    start, end : int64 array
        The wire segments of the row: packet and segment in the bits of one number; the end is outside.
    entered_ns, delivered_ns, dropped_ns, written_ns : int64 array
        Times; -1 for none.
    reason : object array
        Drop reason, or ``None``.
    ns : int64 array, rows by causes
        Time by cause, of delivered rows; 0 of the others.
    turn_of : int64 array
        The device that was served during the cause `turn`, as an index; -1 for none.
    """

    start: Ints
    end: Ints
    entered_ns: Ints
    delivered_ns: Ints
    dropped_ns: Ints
    written_ns: Ints
    reason: NDArray[np.object_]
    ns: Ints
    turn_of: Ints


def split_link(layout: LinkLayout, packets: pa.Table, blocks: pa.Table, dark: Mapping[Cause, Dark]) -> LinkSplit:
    """Split the times of the packets of a link.

    Parameters
    ----------
    packets, blocks : pyarrow.Table
        Tables ``packets`` and ``blocks``, of this link only.
    dark : mapping
        The times of ``outage`` and ``handover``.
    """
    packets = packets.filter(_not(packets["is_copy"]))
    start = (_ints(packets, "packet") << _INDEX_BITS) + _ints(packets, "first")
    order = np.argsort(start, kind="stable")
    packets, start = packets.take(order), start[order]
    rows = _Rows(layout, packets, blocks, dark)
    rows.split()
    return LinkSplit(
        start=start,
        end=start + _ints(packets, "segments"),
        entered_ns=rows.entered_ns,
        delivered_ns=rows.delivered_ns,
        dropped_ns=_ints(packets, "dropped_ns"),
        written_ns=_ints(packets, "written_ns"),
        reason=packets["drop_reason"].to_numpy(),
        ns=rows.ns,
        turn_of=rows.turn_of,
    )


class _Rows:
    """The rows of a link while they are split."""

    def __init__(self, layout: LinkLayout, packets: pa.Table, blocks: pa.Table, dark: Mapping[Cause, Dark]) -> None:
        self._layout = layout
        self._packets = packets
        self._blocks = blocks
        self._dark = dark
        self.entered_ns = _ints(packets, "entered_ns")
        self.delivered_ns = _ints(packets, "delivered_ns")
        self._there = self.delivered_ns != MISSING
        self.ns = np.zeros((len(packets), len(CAUSES)), np.int64)
        self.turn_of = np.full(len(packets), MISSING)

    def split(self) -> None:
        """Split every delivered row, stage by stage."""
        at = self.entered_ns.copy()
        gap = np.zeros(len(at), bool)
        for place, kind in enumerate(self._layout.stages):
            end = self._end_of(place)
            known = self._there & (end != MISSING)
            self._add("unexplained", at, end, known & gap)
            where = known & ~gap
            if place == self._layout.logged:
                self._add_logged(kind, at, end, where)
            elif kind == "delay":
                self._add_delay(at, end, where)
            elif kind == "reorder":
                self._add("jitter", at, end, where)
            else:
                self._add_lit(_LUMPS[kind], at, end, where)
            at = np.where(known, end, at)
            gap = ~known
        # A link without stages that take time has none to explain.
        self._add("unexplained", at, self.delivered_ns, self._there)

    def _end_of(self, place: int) -> Ints:
        """Return when the rows left a stage."""
        if place == len(self._layout.stages) - 1:
            return self.delivered_ns
        if place == self._layout.logged:
            return _ints(self._packets, "released_ns")
        passed = [each for each in range(len(self._layout.stages) - 1) if each != self._layout.logged]
        return _listed(self._packets, passed.index(place))

    def _add(self, cause: Cause, begin: Ints, end: Ints, where: Flags) -> None:
        self.ns[:, PLACE[cause]] += np.where(where, np.maximum(end - begin, 0), 0)

    def _add_lit(self, cause: Cause, begin: Ints, end: Ints, where: Flags) -> Ints:
        """Add a time, but those parts of it in which the link has no rate to their own causes; return the rest."""
        end = np.where(where, np.maximum(end, begin), begin)
        left = end - begin
        for name, times in self._dark.items():
            dark = times.within(begin, end)
            self.ns[:, PLACE[name]] += dark
            left -= dark
        self.ns[:, PLACE[cause]] += left
        return left

    def _add_delay(self, begin: Ints, end: Ints, where: Flags) -> None:
        """Add the time in a delay stage: the shortest one is the base delay, the rest is jitter."""
        if not where.any():
            return
        least = int((end - begin)[where].min())
        self._add("propagation", begin, begin + least, where)
        self._add("jitter", begin + least, end, where)

    def _add_logged(self, kind: str, begin: Ints, end: Ints, where: Flags) -> None:
        """Add the time in the stage whose queue is in the log."""
        dequeued = _ints(self._packets, "dequeued_ns")
        known = where & (dequeued != MISSING)
        if kind == "radio":
            known &= _ints(self._packets, "sent_ns") != MISSING
        self._add("unexplained", begin, end, where & ~known)
        dequeued = np.clip(dequeued, begin, np.maximum(end, begin))
        if kind == "radio":
            self._add_radio(begin, dequeued, end, known)
            return
        own: Cause = "ue" if kind == "ue" else "transmission"
        first = begin
        if kind in ("opportunities", "wifi"):
            first = self._first_in_queue(begin, dequeued)
            self._add_lit("queue", begin, first, known)
            self._add_lit("slot", first, dequeued, known)
        else:
            self._add_lit("ue" if kind == "ue" else "queue", first, dequeued, known)
        self._add_lit(own, dequeued, end, known)

    def _first_in_queue(self, begin: Ints, dequeued: Ints) -> Ints:
        """Return since when the rows were first: when those before them had left, or when they came."""
        released = np.unique(_ints(self._packets, "released_ns"))
        place = np.searchsorted(released, dequeued, side="left") - 1
        before = np.where(place >= 0, released[np.maximum(place, 0)], MISSING) if len(released) else begin
        return np.clip(before, begin, dequeued)

    def _add_radio(self, begin: Ints, dequeued: Ints, end: Ints, where: Flags) -> None:
        """Add the time in a radio: queue, wait for slot and turn, first transmissions, HARQ, RLC, order."""
        sent = np.clip(_ints(self._packets, "sent_ns"), dequeued, np.maximum(end, dequeued))
        air = Transmissions(self._blocks, self._packets["blocks"])
        # A block is built this long before its slot: the slot before was built as early.
        first = np.clip(air.slot_before(sent) - (sent - dequeued), begin, dequeued)
        self._add_lit("queue", begin, first, where)
        awake = np.clip(air.awake_ns, first, sent)
        self._add_lit("connection", first, awake, where)
        granted = np.clip(air.granted_ns, awake, sent)
        self._add_lit("grant", awake, granted, where)
        # Data that was there when the last slot was given to others waited for its turn since the first one.
        ready = np.maximum(first, awake)
        waited = (air.turn_last_ns - (sent - dequeued) > ready) & (air.turn_last_ns >= air.granted_ns)
        turn = np.where(waited, np.clip(air.turn_ns, granted, sent), sent)
        self._add_lit("slot", granted, turn, where)
        in_turn = self._add_lit("turn", turn, sent, where)
        self.turn_of = np.where(in_turn > 0, air.turn_of, self.turn_of)
        last = np.maximum(end, sent)
        received = np.clip(air.first_ns, sent, last)
        repeated = np.clip(air.harq_ns, received, last)
        arrived = np.clip(air.arrived_ns, repeated, last)
        self._add_lit("transmission", sent, received, where)
        self._add_lit("harq", received, repeated, where)
        self._add_lit("rlc", repeated, arrived, where)
        self._add_lit("reordering", arrived, last, where)


def _ints(table: pa.Table, name: str) -> Ints:
    """Return a column of times or counts; a result of an earlier version may lack it."""
    if name not in table.column_names:
        return np.full(len(table), MISSING, np.int64)
    column = table.column(name).combine_chunks()
    found: Ints = column.fill_null(MISSING).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _listed(table: pa.Table, place: int) -> Ints:
    """Return an item of the lists of ``passed_ns``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if "passed_ns" not in table.column_names or not len(table):
        return np.full(len(table), MISSING, np.int64)
    column = table.column("passed_ns").combine_chunks()
    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    if not (lengths > place).all():
        return np.full(len(table), MISSING, np.int64)
    items = pc.list_element(column, place)
    found: Ints = pc.fill_null(items, pa.scalar(MISSING, pa.int64())).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _not(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    return pc.invert(column)


@dataclass(frozen=True, eq=False)
class Fates:
    """Segments of a direction and what became of them; segments of one packet with the same times are one row.

    Parameters
    ----------
    at_ns : int64 array
        When they entered the first link. Of `worst` rows of the series only, about when they did.
    segments : int64 array
        How many.
    total_ns : int64 array
        One-way delay: until they were written to the device, or left the last link; -1 if they did neither.
    ns : int64 array, rows by causes
        The delay by cause.
    lost_link, lost_reason : object array
        Link and reason of the drop, or ``None``.
    turn_of : int64 array
        The device that was served during the cause `turn`, as an index; -1 for none.
    """

    at_ns: Ints
    segments: Ints
    total_ns: Ints
    ns: Ints
    lost_link: NDArray[np.object_]
    lost_reason: NDArray[np.object_]
    turn_of: Ints

    def of(self, keep: NDArray[np.bool_]) -> Fates:
        """Return some of the rows."""
        return Fates(
            self.at_ns[keep],
            self.segments[keep],
            self.total_ns[keep],
            self.ns[keep],
            self.lost_link[keep],
            self.lost_reason[keep],
            self.turn_of[keep],
        )

    @property
    def late_ns(self) -> Ints:
        """The delay above the base delay; 0 of what was not delivered."""
        late: Ints = self.ns.sum(axis=1) - self.ns[:, PLACE["propagation"]]
        return late


def follow(names: Sequence[str], links: Sequence[LinkSplit]) -> Fates:
    """Join the rows of the links of a direction, and account for every nanosecond of the delay of each packet.

    Parameters
    ----------
    names : sequence of str
        The names of the links, in the order in which packets pass them.
    links : sequence of LinkSplit
        Their rows.
    """
    cuts = np.unique(np.concatenate([part for link in links for part in (link.start, link.end)]))
    rows = [_row_at(link, cuts) for link in links]
    there = rows[0] != MISSING
    cuts, segments = cuts[there], np.diff(cuts, append=cuts[-1:])[there]
    rows = [row[there] for row in rows]
    at_ns = links[0].entered_ns[rows[0]]
    ns = np.zeros((len(cuts), len(CAUSES)), np.int64)
    turn_of = np.full(len(cuts), MISSING)
    lost_link, lost_reason = np.full(len(cuts), None, object), np.full(len(cuts), None, object)
    for name, link, row in zip(names, links, rows, strict=True):
        has = row != MISSING
        ns[has] += link.ns[row[has]]
        turn_of = np.maximum(turn_of, _taken(link.turn_of, row))
        lost = has & (_taken(link.dropped_ns, row) != MISSING)
        lost_link[lost] = name
        lost_reason[lost] = link.reason[row[lost]]
    left_ns, written_ns = _taken(links[-1].delivered_ns, rows[-1]), _taken(links[-1].written_ns, rows[-1])
    arrived = left_ns != MISSING
    written = arrived & (written_ns != MISSING)
    ns[:, PLACE["host"]] += np.where(written, written_ns - left_ns, 0)
    total_ns = np.where(written, written_ns, left_ns) - at_ns
    total_ns[~arrived] = MISSING
    ns[~arrived] = 0
    ns[:, PLACE["unexplained"]] += np.where(arrived, total_ns - ns.sum(axis=1), 0)
    return Fates(at_ns, segments, total_ns, ns, lost_link, lost_reason, turn_of)


def _row_at(link: LinkSplit, cuts: Ints) -> Ints:
    """Return the row of a link that covers each place; -1 for none."""
    if not len(link.start):
        return np.full(len(cuts), MISSING)
    row = np.maximum(np.searchsorted(link.start, cuts, side="right") - 1, 0)
    return np.where((link.start[row] <= cuts) & (cuts < link.end[row]), row, MISSING)


def _taken(values: Ints, row: Ints) -> Ints:
    if not len(values):
        return np.full(len(row), MISSING)
    return np.where(row != MISSING, values[np.maximum(row, 0)], MISSING)


_MS_NS = 1_000_000
_COUNTS = ("blocks_sent", "blocks_failed", "link_failures")
_PREFIX, _SUFFIX = "dropped_", "_segments"


def link_counts(rows: pa.Table, span: tuple[int, int]) -> dict[str, int]:
    """Return the sums of a link over a time: segments, delivered segments, blocks and failures.

    Parameters
    ----------
    rows : pyarrow.Table
        The table ``links``, of this link only.
    """
    inside = _inside(rows, span)
    known = [name for name in _COUNTS if name in inside.column_names]  # link_failures came later
    found = dict.fromkeys(_COUNTS, 0) | {name: int(pc.sum(inside[name]).as_py() or 0) for name in known}
    found["segments"] = int(pc.sum(inside["offered_segments"]).as_py() or 0)
    found["delivered_segments"] = int(pc.sum(inside["delivered_segments"]).as_py() or 0)
    return found


def coarse_fates(link: str, rows: pa.Table, dark: Mapping[Cause, Dark], span: tuple[int, int]) -> Fates:
    """Return what is known of the segments of a link: the time in its queue, and the drops, of each millisecond.

    The time in the queue, except for the parts in which the link had no rate, is `queue`. Each millisecond is a row
    with the mean of the packets that left the queue, which weighs as many segments as were delivered, and one without
    weight with the longest time.
    """
    inside = _inside(rows, span)
    at = inside["time_ms"].to_numpy() * _MS_NS
    weights = np.maximum(inside["delivered_segments"].to_numpy(), 1)
    parts = [
        _waits(at, inside["sojourn_mean_ns"], weights, dark),
        _waits(at, inside["sojourn_max_ns"], np.zeros(len(at), np.int64), dark),
    ]
    for column in rows.column_names:
        if column.startswith(_PREFIX):
            dropped = inside[column].to_numpy()
            reason = column.removeprefix(_PREFIX).removesuffix(_SUFFIX)
            parts.append(_drops(at[dropped > 0], dropped[dropped > 0], link, reason))
    joined = (np.concatenate([getattr(part, name) for part in parts]) for name in Fates.__dataclass_fields__)
    return Fates(*joined)


def _inside(rows: pa.Table, span: tuple[int, int]) -> pa.Table:
    at = pc.multiply(rows["time_ms"], _MS_NS)
    return rows.filter(pc.and_(pc.greater_equal(at, span[0]), pc.less(at, span[1])))


def _waits(at: Ints, column: pa.ChunkedArray, weights: Ints, dark: Mapping[Cause, Dark]) -> Fates:
    known = column.is_valid().to_numpy()
    at, waited = at[known], column.drop_null().to_numpy().astype(np.int64)
    ns = np.zeros((len(at), len(CAUSES)), np.int64)
    left = waited.copy()
    for cause, times in dark.items():
        ns[:, PLACE[cause]] = times.within(at - waited, at)
        left -= ns[:, PLACE[cause]]
    ns[:, PLACE["queue"]] = left
    nothing = np.full(len(at), None, object)
    return Fates(at, weights[known], waited, ns, nothing, nothing, np.full(len(at), MISSING))


def _drops(at: Ints, segments: Ints, link: str, reason: str) -> Fates:
    count = len(at)
    return Fates(
        at,
        segments.astype(np.int64),
        np.full(count, MISSING),
        np.zeros((count, len(CAUSES)), np.int64),
        np.full(count, link, object),
        np.full(count, reason, object),
        np.full(count, MISSING),
    )
