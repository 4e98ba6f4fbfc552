"""The tables of a trial: their columns, and the engine's CSV files and packet log as tables."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from wavebed.beneath import make_folders, open_beneath
from wavebed.errors import WavebedError
from wavebed.lab.protocol import FLOW_TEXTS, FLOWS
from wavebed.result.model import SCHEMA
from wavebed.result.names import AIR, TABLES
from wavebed.secret import redacted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from wavebed.workload.model import Event, Series


def read_engine_csv(file: Path, schema: pa.Schema, **constant: str) -> pa.Table:
    """Read a CSV file of the engine and add the columns of `constant`; a link without a radio has no column `AIR`.

    Raises
    ------
    WavebedError
        If it has other columns than `schema` without `constant`.
    """
    data = file.read_bytes()
    # After a crash the last line can be incomplete, and its last number truncated.
    end = data.rfind(b"\n") + 1
    if end == 0:
        return schema.empty_table()
    wanted = [name for name in schema.names if name not in constant]
    found = data[: data.index(b"\n")].decode("ascii", "replace").split(",")
    if AIR in wanted and AIR not in found:
        wanted.remove(AIR)
        schema = schema.remove(schema.get_field_index(AIR))
    if found != wanted:
        differ = sorted(set(found) ^ set(wanted))
        what = f"column {differ[0]!r}" if differ else "order of its columns"
        raise WavebedError(
            f"{file}: the {what} is not that of schema {SCHEMA}: install engine and package of one version"
        )
    body = csv.read_csv(
        pa.BufferReader(pa.py_buffer(data).slice(0, end)),
        convert_options=csv.ConvertOptions(
            column_types={name: schema.field(name).type for name in wanted}, null_values=[""], strings_can_be_null=True
        ),
    )
    columns = {name: pa.repeat(pa.scalar(value, pa.string()), len(body)) for name, value in constant.items()}
    columns |= {name: body.column(name) for name in wanted}
    return pa.table([columns[name] for name in schema.names], schema=schema)


_REASONS = (
    "overflow",
    "aqm",
    "loss",
    "outage",
    "ended",
    "block",
    "discard",
    "late",
    "handover",
    "corrupted_header",
    "malformed",
    "packet_memory",
)
_LINKS = (
    "time_ms",
    "offered_segments",
    "offered_bytes",
    "delivered_segments",
    "delivered_bytes",
    "duplicated_segments",
    "marked_segments",
    "corrupted_segments",
    *(f"dropped_{reason}_segments" for reason in _REASONS),
    "blocks_sent",
    "blocks_failed",
    "link_failures",
    "queue_bytes",
    "queue_peak_bytes",
    "sojourn_mean_ns",
    "sojourn_max_ns",
    "l4s_marked_segments",
    "l4s_dropped_segments",
    "l4s_sojourn_mean_ns",
    "l4s_sojourn_max_ns",
    AIR,
)
_DEPARTURES = ("time_ms", "packets", "segments", "bytes", "late_max_ns", "refused_segments")


def _flow_type(name: str) -> pa.DataType:
    if name in FLOW_TEXTS:
        return pa.string()
    if name == "delivery_app_limited":
        return pa.bool_()
    return pa.uint64() if name == "cookie" else pa.int64()


def _schema(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema(columns, metadata={"wavebed_schema": str(SCHEMA)})


SCHEMAS: dict[str, pa.Schema] = {
    "links": _schema(("time_ms", pa.int64()), ("link", pa.string()), *((name, pa.int64()) for name in _LINKS[1:])),
    "departures": _schema(
        ("time_ms", pa.int64()), ("direction", pa.string()), *((name, pa.int64()) for name in _DEPARTURES[1:])
    ),
    "capacity": _schema(
        ("time_s", pa.float64()), ("link", pa.string()), ("rate_bps", pa.int64()), ("state", pa.string())
    ),
    "flows": _schema(*((name, _flow_type(name)) for name in FLOWS)),
    "cpu": _schema(("time_ns", pa.int64()), ("core", pa.int64()), ("busy", pa.float64()), ("softirq", pa.float64())),
    "samples": _schema(
        ("time_s", pa.float64()),
        ("workload", pa.string()),
        ("series", pa.string()),
        ("unit", pa.string()),
        ("value", pa.float64()),
    ),
    "events": _schema(
        ("time_s", pa.float64()),
        ("end_s", pa.float64()),
        ("workload", pa.string()),
        ("name", pa.string()),
        ("text", pa.string()),
        ("value", pa.float64()),
    ),
}
"""The columns of each table, with their units in the names."""
assert tuple(SCHEMAS) == TABLES, "every table has its schema"


def write_tables(
    folder: Path,
    csv_folder: Path | None,
    *,
    capacity: Iterable[tuple[float, str, int | None, str | None]],
    samples: Mapping[str, Sequence[Series]],
    events: Mapping[str, Sequence[Event]],
) -> dict[str, pa.Table]:
    """Write every table of a trial, and return them.

    Parameters
    ----------
    folder : pathlib.Path
        Folder for ``NAME.parquet``; made if missing.
    csv_folder : pathlib.Path or None
        Folder of the engine (``--log``); a missing file gives an empty table.
    capacity : iterable of (float, str, int or None, str or None)
        Time (s), link, rate (bit/s) and state, from `wavebed.run.checks.Steps.rows`.
    samples, events : mapping
        By name of the workload, or of the radio link for its states.

    Raises
    ------
    WavebedError
        If a file of the engine has other columns.
    """
    tables = engine_tables(csv_folder)
    tables["capacity"] = capacity_table(capacity)
    tables["samples"] = samples_table(samples)
    tables["events"] = events_table(events)
    if csv_folder is not None:
        tables |= packet_tables(csv_folder) | cell_tables(csv_folder)
    make_folders(folder)
    for name, table in tables.items():
        texts = [column.name for column in table.schema if pa.types.is_string(column.type)]
        new = open_beneath(folder / f"{name}.parquet", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(new, "wb") as stream:
            pq.write_table(table, stream, compression="zstd", use_dictionary=texts)
    return tables


def engine_tables(csv_folder: Path | None) -> dict[str, pa.Table]:
    """Return the tables of the engine's CSV files.

    Raises
    ------
    WavebedError
        If a file has other columns.
    """
    links, departures = [], []
    files = [] if csv_folder is None else sorted(csv_folder.glob("*.csv"))
    alone = {}
    for file in files:
        name = file.name.removesuffix(".csv")
        if name in ("flows", "cpu"):
            alone[name] = read_engine_csv(file, SCHEMAS[name])
        elif name.startswith("departures."):
            departures.append(read_engine_csv(file, SCHEMAS["departures"], direction=name.removeprefix("departures.")))
        else:
            links.append(read_engine_csv(file, SCHEMAS["links"], link=name))
    return {
        "links": _joined(links) if links else SCHEMAS["links"].empty_table(),
        "departures": pa.concat_tables(departures) if departures else SCHEMAS["departures"].empty_table(),
        "flows": alone.get("flows", SCHEMAS["flows"].empty_table()),
        "cpu": alone.get("cpu", SCHEMAS["cpu"].empty_table()),
    }


def _joined(links: Sequence[pa.Table]) -> pa.Table:
    """Return one table; a link without a radio has no values of `AIR`."""
    if not any(AIR in table.column_names for table in links):
        return pa.concat_tables(links)
    schema = SCHEMAS["links"]
    return pa.concat_tables(
        table if AIR in table.column_names else table.append_column(schema.field(AIR), pa.nulls(len(table), pa.int64()))
        for table in links
    ).cast(schema)


def capacity_table(rows: Iterable[tuple[float, str, int | None, str | None]]) -> pa.Table:
    """Return the table of time (s), link, rate (bit/s) and state."""
    return _of_rows(SCHEMAS["capacity"], rows)


def samples_table(samples: Mapping[str, Sequence[Series]]) -> pa.Table:
    """Return the table of the series of each workload, by its name."""
    parts = []
    for workload, all_series in samples.items():
        for series in all_series:
            count = len(series.time_s)
            texts = (pa.repeat(pa.scalar(text, pa.string()), count) for text in (workload, series.name, series.unit))
            values = pa.array([_finite(value) for value in series.value], pa.float64())
            times = pa.array(series.time_s, pa.float64())
            parts.append(pa.table([times, *texts, values], schema=SCHEMAS["samples"]))
    return pa.concat_tables(parts) if parts else SCHEMAS["samples"].empty_table()


def events_table(events: Mapping[str, Sequence[Event]]) -> pa.Table:
    """Return the table of the events of each workload, by its name, in order of time."""
    found = [(workload, event) for workload, of_workload in events.items() for event in of_workload]
    found.sort(key=lambda item: item[1].time_s)
    rows = (
        (event.time_s, _finite(event.end_s), workload, event.name, redacted(event.text), _finite(event.value))
        for workload, event in found
    )
    return _of_rows(SCHEMAS["events"], rows)


def _of_rows(schema: pa.Schema, rows: Iterable[tuple[object, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    _Pairs: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]


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
        ("turn_ns", pa.int64()),
        ("turn_last_ns", pa.int64()),
        ("turn_of", pa.int64()),
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
CELL_SCHEMAS: dict[str, pa.Schema] = {
    "cells": _schema(
        ("time_ms", pa.int64()), ("cell", pa.string()), ("slots_ns", pa.int64()), ("control_ns", pa.int64())
    ),
    "users": _schema(
        ("time_ms", pa.int64()),
        ("cell", pa.string()),
        ("user", pa.string()),
        ("air_ns", pa.int64()),
        ("served_bytes", pa.int64()),
    ),
    "files": _schema(
        ("cell", pa.string()), ("user", pa.string()), ("requested_ns", pa.int64()), ("ended_ns", pa.int64())
    ),
}
"""The columns of the tables that a trial has with a cell; ``cell`` is a direction of it: ``radio.down``."""
ALL_SCHEMAS = {**SCHEMAS, **LOG_SCHEMAS, **CELL_SCHEMAS}


def cell_tables(csv_folder: Path) -> dict[str, pa.Table]:
    """Return the tables of `CELL_SCHEMAS`; none if the engine wrote none, because no cell was shared.

    Raises
    ------
    WavebedError
        If a file has other columns.
    """
    found = {}
    for name, schema in CELL_SCHEMAS.items():
        files = sorted((csv_folder / name).glob("*.csv"))
        if files:
            of_files = [read_engine_csv(file, schema, cell=file.name.removesuffix(".csv")) for file in files]
            found[name] = pa.concat_tables(of_files)
    return found


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
