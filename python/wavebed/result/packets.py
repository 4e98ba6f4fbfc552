"""The packet log of the engine as tables: wire segments with their times on a link, and transmissions of radio blocks.

The engine writes events of runs of wire segments. Segments of one packet that had the same events at the same times
become one row, so that a packet of 64 KB takes a few rows, not forty-five.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from wavebed.result.engine_csv import read_engine_csv
from wavebed.result.model import SCHEMA

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    _Pairs: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]

__all__ = ["LOG_SCHEMAS", "packet_tables"]

_METADATA = {"wavebed_schema": str(SCHEMA)}
_EVENTS = pa.schema(
    [
        ("time_ns", pa.int64()),
        ("event", pa.string()),
        ("packet", pa.int64()),
        ("is_copy", pa.int64()),
        ("first", pa.int64()),
        ("segments", pa.int64()),
        ("segment_bytes", pa.int64()),
        ("last_bytes", pa.int64()),
        ("flow", pa.int64()),
        ("block", pa.int64()),
    ]
)
_BLOCKS = pa.schema(
    [
        ("slot_ns", pa.int64()),
        ("decoded_ns", pa.int64()),
        ("number", pa.int64()),
        ("attempt", pa.int64()),
        ("process", pa.int64()),
        ("carrier", pa.int64()),
        ("is_fallback", pa.bool_()),
        ("bytes", pa.int64()),
        ("failed", pa.bool_()),
        ("misheard", pa.bool_()),
        ("awake_ns", pa.int64()),
        ("granted_ns", pa.int64()),
        ("rate_bps", pa.int64()),
        ("sinr_db", pa.float64()),
        ("need_db", pa.float64()),
    ]
)
_TIMES = ("entered_ns", "dequeued_ns", "sent_ns", "released_ns", "delivered_ns", "dropped_ns", "written_ns")
LOG_SCHEMAS: dict[str, pa.Schema] = {
    "packets": pa.schema(
        [
            ("link", pa.string()),
            ("packet", pa.int64()),
            ("is_copy", pa.bool_()),
            ("first", pa.int64()),
            ("segments", pa.int64()),
            ("bytes", pa.int64()),
            ("flow", pa.int64()),
            *((name, pa.int64()) for name in _TIMES),
            ("passed_ns", pa.list_(pa.int64())),
            ("drop_reason", pa.string()),
            ("blocks", pa.list_(pa.int64())),
            ("transmissions", pa.int64()),
        ],
        metadata=_METADATA,
    ),
    "blocks": pa.schema([pa.field("link", pa.string()), *_BLOCKS], metadata=_METADATA),
}
"""The columns of the tables that a trial has with ``packet-log``."""

_WORDS = {
    "dequeued": "dequeued", "sent": "sent", "released": "left", "delivered": "delivered", "written": "written",
}  # fmt: skip
"""The engine's word for each column of times."""
_DROPPED = "dropped_"
_PASSED = "passed_"
_INDEX_BITS = 16
"""A packet has less than 2^16 wire segments."""


def packet_tables(csv_folder: Path) -> dict[str, pa.Table]:
    """Return the tables ``packets`` and ``blocks``; none if the engine wrote no packet log.

    Parameters
    ----------
    csv_folder : pathlib.Path
        The folder of the engine, with ``packets/LINK.csv`` and ``blocks/LINK.csv``.

    Raises
    ------
    WavebedError
        If a file has other columns.
    """
    packets, blocks = csv_folder / "packets", csv_folder / "blocks"
    if not packets.is_dir() or not blocks.is_dir():
        return {}
    sent, moved = [], []
    for file in sorted(packets.glob("*.csv")):
        link = file.name.removesuffix(".csv")
        of_blocks = read_engine_csv(blocks / file.name, _BLOCKS).sort_by([("slot_ns", "ascending")])
        of_packets = _packets(read_engine_csv(file, _EVENTS), of_blocks)
        sent.append(_named(link, of_blocks, LOG_SCHEMAS["blocks"]))
        moved.append(_named(link, of_packets, LOG_SCHEMAS["packets"]))
    found = {"packets": moved, "blocks": sent}
    return {
        name: pa.concat_tables(parts) if parts else LOG_SCHEMAS[name].empty_table() for name, parts in found.items()
    }


def _named(link: str, body: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = {"link": pa.repeat(pa.scalar(link, pa.string()), len(body))}
    columns |= {name: body.column(name) for name in body.column_names}
    return pa.table([columns[name] for name in schema.names], schema=schema)


class _Stretches:
    """The events of one link, spread over stretches: segments of one packet that have the same events.

    Parameters
    ----------
    events : pyarrow.Table
        As the engine wrote them.
    """

    def __init__(self, events: pa.Table) -> None:
        names = events.column("event").combine_chunks().dictionary_encode()
        self.names: list[str] = names.dictionary.to_pylist()
        self.code: NDArray[np.int32] = names.indices.to_numpy()
        self.time_ns = _ints(events, "time_ns")
        self.block = _ints(events, "block")
        packet = _ints(events, "packet") << 1 | _ints(events, "is_copy")
        self._from = (packet << _INDEX_BITS) + _ints(events, "first")
        self._to = self._from + _ints(events, "segments")
        cuts = np.unique(np.concatenate([self._from, self._to]))
        differs = self._differs(cuts)
        self.cuts = cuts[differs]
        """Where stretches begin and end: packet, whether it is a copy, and segment, in the bits of one number."""
        self.bytes = np.bincount(np.cumsum(differs) - 1, self._bytes(events, cuts), len(self.cuts)).astype(np.int64)

    def _differs(self, cuts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether other events cover a place than the place before it."""
        first = np.searchsorted(cuts, self._from)
        last = np.searchsorted(cuts, self._to)
        signs = _mixed(self.code, self.time_ns, self.block)
        mark = np.zeros(len(cuts), np.uint64)
        np.add.at(mark, first, signs)
        np.subtract.at(mark, last, signs)
        differs = np.array(mark != 0)
        differs[1:] |= cuts[1:] >> _INDEX_BITS != cuts[:-1] >> _INDEX_BITS
        differs[:1] = True
        return differs

    def _bytes(self, events: pa.Table, cuts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bytes between neighbouring places, of segments that entered the link."""
        found = np.zeros(len(cuts), np.int64)
        place, event = self._pairs(self.of("entered"), cuts)
        end = cuts[place + 1]
        each, last = (_ints(events, name)[event] for name in ("segment_bytes", "last_bytes"))
        found[place] = (end - cuts[place]) * each + np.where(end == self._to[event], last - each, 0)
        return found

    def _pairs(self, events: NDArray[np.int64], cuts: NDArray[np.int64]) -> _Pairs:
        first = np.searchsorted(cuts, self._from[events])
        count = np.searchsorted(cuts, self._to[events]) - first
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        return np.repeat(first, count) + within, np.repeat(events, count)

    def covered(self, events: NDArray[np.int64]) -> _Pairs:
        """Return the pairs of a stretch and an event that covers it, in the order of the events."""
        return self._pairs(events, self.cuts)

    def of(self, *names: str) -> NDArray[np.int64]:
        """Return the events of these names, the latest first."""
        codes = [self.names.index(name) for name in names if name in self.names]
        found = np.flatnonzero(np.isin(self.code, codes))
        return found[np.argsort(-self.time_ns[found], kind="stable")]

    def first(self, *names: str) -> NDArray[np.int64]:
        """Return the first event of these names for each stretch; -1 for none."""
        found = np.full(len(self.cuts), -1, np.int64)
        place, event = self.covered(self.of(*names))
        found[place] = event
        return found


def _packets(events: pa.Table, blocks: pa.Table) -> pa.Table:
    """Return the rows of a link in the order of arrival."""
    if not len(events):
        return LOG_SCHEMAS["packets"].empty_table()
    found = _Stretches(events)
    entered = found.first("entered")
    keep = np.flatnonzero(entered >= 0)
    keep = keep[np.lexsort((found.cuts[keep], found.time_ns[entered[keep]]))]
    drops = [name for name in found.names if name.startswith(_DROPPED)]
    by_time = {"entered": entered, "dropped": found.first(*drops)}
    by_time |= {name: found.first(word) for name, word in _WORDS.items()}
    dropped = by_time["dropped"][keep]
    reasons = np.array([name.removeprefix(_DROPPED) for name in found.names], object)
    start = found.cuts[keep]
    carried, transmissions = _carried(found, keep, blocks)
    return pa.table(
        {
            "packet": start >> _INDEX_BITS + 1,
            "is_copy": (start >> _INDEX_BITS & 1).astype(bool),
            "first": start & (1 << _INDEX_BITS) - 1,
            "segments": found.cuts[keep + 1] - start,
            "bytes": found.bytes[keep],
            "flow": _ints(events, "flow")[entered[keep]],
            **{
                f"{name}_ns": pa.array(found.time_ns[event[keep]], mask=event[keep] < 0)
                for name, event in by_time.items()
            },
            "passed_ns": _passed(found, keep),
            "drop_reason": pa.array(reasons[found.code[dropped]], pa.string(), mask=dropped < 0),
            "blocks": carried,
            "transmissions": transmissions,
        }
    )


def _passed(found: _Stretches, keep: NDArray[np.int64]) -> pa.ListArray:
    """Return for each row the times at which it left further stages, in their order; null where it did not."""
    names = sorted(
        (name for name in found.names if name.startswith(_PASSED)), key=lambda name: int(name.removeprefix(_PASSED))
    )
    events = np.stack([found.first(name)[keep] for name in names], axis=1) if names else np.empty((len(keep), 0), int)
    times = pa.array(found.time_ns[events].ravel(), pa.int64(), mask=(events < 0).ravel())
    offsets = np.arange(len(keep) + 1, dtype=np.int32) * len(names)
    return pa.ListArray.from_arrays(pa.array(offsets), times)


def _carried(found: _Stretches, keep: NDArray[np.int64], blocks: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Return the blocks of each row in order, and how many transmissions these had."""
    row = np.full(len(found.cuts), -1, np.int64)
    row[keep] = np.arange(len(keep))
    sending = found.of("sent")
    place, event = found.covered(sending[np.argsort(found.time_ns[sending], kind="stable")])
    order = np.argsort(row[place], kind="stable")
    order = order[row[place[order]] >= 0]
    rows, sent = row[place[order]], found.block[event[order]]
    fresh = np.ones(len(rows), bool)
    fresh[1:] = (np.diff(rows) != 0) | (np.diff(sent) != 0)
    rows, sent = rows[fresh], sent[fresh]
    known, attempts = np.unique(_ints(blocks, "number"), return_counts=True)
    at = np.searchsorted(known, sent)
    is_known = at < len(known)
    is_known[is_known] = known[at[is_known]] == sent[is_known]
    made = np.zeros(len(sent))
    made[is_known] = attempts[at[is_known]]
    count = np.bincount(rows, made, len(keep)).astype(np.int64)
    offsets = np.searchsorted(rows, np.arange(len(keep) + 1))
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(sent, pa.int64()))
    return lists, pa.array(count, mask=np.diff(offsets) == 0)


def _ints(table: pa.Table, name: str) -> NDArray[np.int64]:
    column = table.column(name).combine_chunks()
    found: NDArray[np.int64] = column.fill_null(-1).to_numpy(zero_copy_only=False)
    return found


def _mixed(*columns: NDArray[np.signedinteger]) -> NDArray[np.uint64]:
    """Return a hash of each row (the finalizer of SplitMix64; Steele, Lea, Flood 2014)."""
    found = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        found = found * np.uint64(0x9E3779B97F4A7C15) + column.astype(np.int64).view(np.uint64)
        found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        found ^= found >> np.uint64(31)
    return found
