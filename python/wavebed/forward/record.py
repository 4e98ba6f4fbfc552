"""The record of a forwarding test: the names of its files, and its trials as rows of tables.

`run.json` has the findings; the trials that they name are rows of Parquet tables, so that they can be read without
wavebed. The sampled frames of a trial are in a capture and are not read back.
"""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, cast, get_args

import msgspec
import pyarrow as pa

from wavebed.forward.findings import SCHEMA, DeviceResult
from wavebed.forward.model import FrameCounters, InterfaceCounters, Latency, Sent, Trial
from wavebed.forward.plain import Value, from_plain, to_plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "KIND",
    "RAW_FOLDER",
    "SAMPLE_FILE",
    "SCHEMAS",
    "SERIES_FOLDER",
    "TRIALS_TABLE",
    "ForwardRecord",
    "tables_of",
    "trials_of",
]

KIND = "forward"
"""The ``kind`` in `run.json`, by which a reader knows what it has."""
SERIES_FOLDER, RAW_FOLDER = "series", "raw"
SAMPLE_FILE = "sample.pcapng"
TRIALS_TABLE, LATENCY_TABLE, SIZES_TABLE = "trials", "latency", "sizes"

_ARROW = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
_REFUSALS = pa.list_(pa.struct([("code", pa.string()), ("reason", pa.string()), ("remedy", pa.string())]))
_DRIVER = {"driver": pa.map_(pa.string(), pa.int64())}


def _columns(kind: type[Value], *others: str) -> dict[str, pa.DataType]:
    """Return the fields of a type as columns, without those that have no column."""
    kinds = {one.name: set(get_args(one.type)) or {one.type} for one in msgspec.structs.fields(kind)}
    return {name: _ARROW[(kinds[name] - {NoneType}).pop()] for name in kinds if name not in others}


_OWN = _columns(Trial, "sizes_bytes", "tx", "rx", "send", "counters", "refusals", "cpu")
_PARTS = {
    "send": _columns(Sent),
    "counters": _columns(FrameCounters, "sizes", "latency", "sample"),
    "latency": _columns(Latency, "counts"),
    "tx_port": _columns(InterfaceCounters, "driver") | _DRIVER,
    "rx_port": _columns(InterfaceCounters, "driver") | _DRIVER,
}
"""Columns ``PART_NAME``; those of a part that a trial has not are null."""


def _schema(columns: Mapping[str, pa.DataType]) -> pa.Schema:
    return pa.schema(list(columns.items()), metadata={"wavebed_schema": str(SCHEMA), "wavebed_kind": KIND})


SCHEMAS: dict[str, pa.Schema] = {
    TRIALS_TABLE: _schema(
        {"trial": pa.int64(), "purpose": pa.string(), "sizes_bytes": pa.list_(pa.int64())}
        | _OWN
        | {"verdict": pa.string(), "refusals": _REFUSALS, "cpu": pa.map_(pa.string(), pa.float64())}
        | {f"{part}_{name}": kind for part, columns in _PARTS.items() for name, kind in columns.items()}
    ),
    LATENCY_TABLE: _schema(
        {"trial": pa.int64(), "from_s": pa.float64(), "below_s": pa.float64(), "frames": pa.int64()}
    ),
    SIZES_TABLE: _schema({"trial": pa.int64(), "size_bytes": pa.int64(), "frames": pa.int64()}),
}
"""The columns of each table, ``series/NAME.parquet``; the unit is in the name. ``trial`` counts from 0."""


class ForwardRecord(Value, frozen=True):
    """A forwarding test as its folder keeps it.

    Parameters
    ----------
    result : DeviceResult
        The findings.
    command_line : tuple of str
        As typed.
    versions : mapping
        wavebed, kernel, Python, and every program that took part.
    """

    result: DeviceResult
    command_line: tuple[str, ...] = ()
    versions: Mapping[str, str] = msgspec.field(default_factory=dict)


def tables_of(trials: Sequence[Trial]) -> dict[str, pa.Table]:
    """Return the tables of the trials."""
    counted = [(place, trial.counters) for place, trial in enumerate(trials) if trial.counters is not None]
    rows: dict[str, list[dict[str, object]]] = {
        TRIALS_TABLE: [_row(place, trial) for place, trial in enumerate(trials)],
        LATENCY_TABLE: [
            {"trial": place, "from_s": low, "below_s": high, "frames": frames}
            for place, counters in counted
            for low, high, frames in (counters.latency.counts if counters.latency else ())
        ],
        SIZES_TABLE: [
            {"trial": place, "size_bytes": size, "frames": frames}
            for place, counters in counted
            for size, frames in sorted(counters.sizes.items())
        ],
    }
    return {name: pa.Table.from_pylist(found, schema=SCHEMAS[name]) for name, found in rows.items()}


def _row(place: int, trial: Trial) -> dict[str, object]:
    latency = None if trial.counters is None else trial.counters.latency
    ports = {"tx_port": trial.tx, "rx_port": trial.rx}
    parts = {"send": trial.send, "counters": trial.counters, "latency": latency, **ports}
    row = {name: getattr(trial, name) for name in (*_OWN, "sizes_bytes", "verdict")}
    row |= {"trial": place, "refusals": [to_plain(one) for one in trial.refusals], "cpu": list(trial.cpu.items())}
    for part, columns in _PARTS.items():
        row |= {f"{part}_{name}": getattr(parts[part], name, None) for name in columns}
    return row | {f"{name}_driver": None if port is None else list(port.driver.items()) for name, port in ports.items()}


def trials_of(tables: Mapping[str, pa.Table]) -> tuple[Trial, ...]:
    """Return the trials that the tables hold.

    Raises
    ------
    UserError
        If a row is none.
    """
    sizes: dict[int, dict[int, int]] = {}
    for trial, size, frames in _rows(tables[SIZES_TABLE]):
        sizes.setdefault(trial, {})[size] = frames
    counts: dict[int, list[tuple[float, float, int]]] = {}
    for trial, low, high, frames in _rows(tables[LATENCY_TABLE]):
        counts.setdefault(trial, []).append((low, high, frames))
    rows = tables[TRIALS_TABLE].to_pylist()
    return tuple(_trial(row, sizes.get(row["trial"], {}), counts.get(row["trial"], [])) for row in rows)


def _rows(table: pa.Table) -> zip[tuple[int, ...]]:
    """Return the rows of a table of numbers; a histogram of every trial makes many."""
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _trial(row: dict[str, object], sizes: dict[int, int], counts: list[tuple[float, float, int]]) -> Trial:
    parts = {part: {name: row[f"{part}_{name}"] for name in columns} for part, columns in _PARTS.items()}
    for port in ("tx_port", "rx_port"):
        parts[port]["driver"] = dict(cast("list[tuple[str, int]]", row[f"{port}_driver"] or ()))
    there = {part: None if next(iter(found.values())) is None else found for part, found in parts.items()}
    latency, counters = there["latency"], there["counters"]
    if latency is not None:
        latency["counts"] = counts
    if counters is not None:
        counters |= {"sizes": sizes, "latency": latency}
    own = {name: row[name] for name in (*_OWN, "sizes_bytes", "refusals")}
    own["cpu"] = dict(cast("list[tuple[str, float]]", row["cpu"] or ()))
    ports = {"tx": there["tx_port"], "rx": there["rx_port"]}
    return from_plain(Trial, {**own, **ports, "send": there["send"], "counters": counters})
