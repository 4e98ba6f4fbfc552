"""Each packet on its way through a link as linked slices: queue, transport blocks, repetitions of HARQ, delivery."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from wavebed.export.trace_file import Lanes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.export.trace_file import TraceFile, Value
    from wavebed.export.trial import Window

__all__ = ["add_packets", "in_window"]

_SPAN = itemgetter(0, 1)
_FLOW_BITS = 40
"""Bits of the number of a row in the number of its flow."""


class _Packet(NamedTuple):
    """A row of the table ``packets``."""

    packet: int
    first: int
    segments: int
    bytes: int
    entered_ns: int
    dequeued_ns: int | None
    sent_ns: int | None
    released_ns: int | None
    delivered_ns: int | None
    dropped_ns: int | None
    drop_reason: str | None
    blocks: list[int]
    transmissions: int | None

    def arguments(self) -> dict[str, Value | None]:
        return {"packet": self.packet, "first segment": self.first, "segments": self.segments, "bytes": self.bytes}

    @property
    def was_queued(self) -> bool:
        """Whether it came to a queue: a link may have none."""
        return self.delivered_ns is None or self.dequeued_ns is not None or self.sent_ns is not None

    @property
    def is_linked(self) -> bool:
        """Whether it has more than one slice."""
        went_on = (self.dequeued_ns, self.sent_ns, self.dropped_ns)
        return self.was_queued and any(at_ns is not None for at_ns in went_on)

    def left_queue_ns(self, end_ns: int) -> int:
        """When it left the queue; `end_ns` if it never did."""
        times = (self.dequeued_ns, self.sent_ns, self.released_ns, self.dropped_ns)
        return next((at_ns for at_ns in times if at_ns is not None), end_ns)


class _Block(NamedTuple):
    """A row of the table ``blocks``."""

    number: int
    attempt: int
    slot_ns: int
    decoded_ns: int
    process: int
    carrier: int
    is_fallback: bool
    bytes: int
    failed: bool
    misheard: bool
    rate_bps: int
    sinr_db: float | None
    need_db: float | None

    def arguments(self) -> dict[str, Value | None]:
        found: dict[str, Value | None] = {
            "block": self.number,
            "transmission": self.attempt,
            "bytes": self.bytes,
            "HARQ process": self.process,
            "carrier": "fallback" if self.is_fallback else self.carrier,
            "channel rate (Mbit/s)": self.rate_bps / 1e6,
            "SINR (dB)": self.sinr_db,
            "SINR for 10 % errors (dB)": self.need_db,
        }
        return {**found, "feedback": "wrong"} if self.misheard else found


def in_window(packets: pa.Table, window: Window, end_ns: int) -> pa.Table:
    """Return the rows of ``packets`` that are in their link during the window; undelivered ones are until `end_ns`."""
    left = pc.coalesce(packets["delivered_ns"], packets["dropped_ns"], pa.scalar(end_ns, pa.int64()))
    inside = pc.and_(pc.less(packets["entered_ns"], window.end_ns), pc.greater_equal(left, window.start_ns))
    return packets.filter(inside)


def add_packets(
    trace: TraceFile, link: tuple[int, int], packets: pa.Table, blocks: pa.Table, window: Window, end_ns: int
) -> tuple[int, int]:
    """Add the packets that are in a link during the window, and its blocks; both whole, also outside the window.

    Parameters
    ----------
    link : (int, int)
        Its track, and a number that distinguishes its flows.
    packets, blocks : pyarrow.Table
        Tables ``packets`` and ``blocks``, of this link only.
    end_ns : int
        End of the trial, until which undelivered packets wait.

    Returns
    -------
    (int, int)
        Wire segments and transmissions of blocks that were added.

    Raises
    ------
    UserError
        If the file has too many events.
    """
    group, number = link
    rows = list(map(_Packet._make, _values(in_window(packets, window, end_ns), _Packet._fields)))
    base = (number << _FLOW_BITS) + 1
    flows = [[flow] if row.is_linked else [] for flow, row in enumerate(rows, base)]
    carried = {block for row in rows for block in row.blocks}
    sent = [
        block
        for block in map(_Block._make, _values(blocks, _Block._fields))
        if block.number in carried or window.start_ns <= block.slot_ns < window.end_ns
    ]
    _add_queue(trace, group, rows, flows, end_ns)
    if sent:
        _add_blocks(trace, group, sent, _flows_of_blocks(rows, flows))
        _add_order(trace, group, rows, flows, sent)
    else:
        _add_transmissions(trace, group, rows, flows)
    _add_ends(trace, group, rows, flows)
    return sum(row.segments for row in rows), len(sent)


def _values(table: pa.Table, columns: Sequence[str]) -> zip[tuple[object, ...]]:
    return zip(*(table[name].to_pylist() for name in columns), strict=True)


def _flows_of_blocks(rows: Sequence[_Packet], flows: Sequence[list[int]]) -> Mapping[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row, flow in zip(rows, flows, strict=True):
        for block in row.blocks:
            found.setdefault(block, []).extend(flow)
    return found


def _add_queue(trace: TraceFile, group: int, rows: Sequence[_Packet], flows: Sequence[list[int]], end_ns: int) -> None:
    lanes = Lanes(trace, "packets queued", group)
    for row, flow in zip(rows, flows, strict=True):
        if row.was_queued:
            lanes.slice((row.entered_ns, row.left_queue_ns(end_ns)), "queued", row.arguments(), flow)


def _add_blocks(trace: TraceFile, group: int, sent: Sequence[_Block], flows: Mapping[int, list[int]]) -> None:
    """Add every transmission; all those of a block are in the flows of its packets."""
    first, again = Lanes(trace, "transport blocks", group), Lanes(trace, "HARQ retransmissions", group)
    for block in sent:
        what = "transport block" if block.attempt == 1 else "retransmission"
        lanes = first if block.attempt == 1 else again
        name = f"{what}, failed" if block.failed else what
        span_ns = (block.slot_ns, block.decoded_ns)
        lanes.slice(span_ns, name, block.arguments(), flows.get(block.number, ()))


def _add_order(
    trace: TraceFile, group: int, rows: Sequence[_Packet], flows: Sequence[list[int]], sent: Sequence[_Block]
) -> None:
    """Add the wait of decoded packets for earlier ones."""
    decoded: dict[int, int] = {}
    for block in sent:
        if not block.failed:
            decoded.setdefault(block.number, block.decoded_ns)
    lanes = Lanes(trace, "in-order delivery", group)
    waits = []
    for row, flow in zip(rows, flows, strict=True):
        arrived_ns = max((decoded[block] for block in row.blocks if block in decoded), default=None)
        left_ns = row.released_ns if row.released_ns is not None else row.dropped_ns
        if arrived_ns is not None and left_ns is not None and left_ns > arrived_ns:
            waits.append((arrived_ns, left_ns, flow, row))
    for arrived_ns, left_ns, flow, row in sorted(waits, key=_SPAN):
        lanes.slice((arrived_ns, left_ns), "waits for earlier packets", row.arguments(), flow)


def _add_transmissions(trace: TraceFile, group: int, rows: Sequence[_Packet], flows: Sequence[list[int]]) -> None:
    """Add the time that the server of a link without blocks takes for each packet."""
    lanes = Lanes(trace, "transmission", group)
    served = [
        (row.dequeued_ns, row.released_ns, flow, row)
        for row, flow in zip(rows, flows, strict=True)
        if row.dequeued_ns is not None and row.released_ns is not None
    ]
    for begin_ns, end_ns, flow, row in sorted(served, key=_SPAN):
        lanes.slice((begin_ns, end_ns), "sent", row.arguments(), flow)


def _add_ends(trace: TraceFile, group: int, rows: Sequence[_Packet], flows: Sequence[list[int]]) -> None:
    """Add what ends each flow: the rest of the link up to the delivery, or the drop."""
    lanes, drops = Lanes(trace, "delivery", group), None
    ends = []
    for row, flow in zip(rows, flows, strict=True):
        if row.delivered_ns is not None:
            begin_ns = row.released_ns if row.released_ns is not None else row.entered_ns
            ends.append((begin_ns, row.delivered_ns, flow, row))
        elif row.dropped_ns is not None:
            ends.append((row.dropped_ns, row.dropped_ns, flow, row))
    for begin_ns, end_ns, flow, row in sorted(ends, key=_SPAN):
        if row.delivered_ns is not None:
            arguments = {**row.arguments(), "transmissions": row.transmissions}
            lanes.slice((begin_ns, end_ns), "delivery", arguments, (), flow)
        else:
            drops = trace.track("drops", group) if drops is None else drops
            trace.instant(drops, begin_ns, f"dropped: {row.drop_reason}", row.arguments(), flow)
