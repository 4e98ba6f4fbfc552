"""The Parquet tables of a trial: their columns, and the conversion of the engine's CSV files."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from wavebed.beneath import make_folders, open_beneath
from wavebed.lab.sample_columns import FLOW_TEXTS, FLOWS
from wavebed.result.engine_csv import read_engine_csv
from wavebed.result.model import SCHEMA
from wavebed.result.names import TABLES
from wavebed.result.packets import packet_tables
from wavebed.secret import redacted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from wavebed.workload.model import Event, Series

__all__ = ["SCHEMAS", "capacity_table", "engine_tables", "events_table", "samples_table", "write_tables"]

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
        Time (s), link, rate (bit/s) and state, from `wavebed.run.capacity.Steps.rows`.
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
        tables |= packet_tables(csv_folder)
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
        "links": pa.concat_tables(links) if links else SCHEMAS["links"].empty_table(),
        "departures": pa.concat_tables(departures) if departures else SCHEMAS["departures"].empty_table(),
        "flows": alone.get("flows", SCHEMAS["flows"].empty_table()),
        "cpu": alone.get("cpu", SCHEMAS["cpu"].empty_table()),
    }


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
