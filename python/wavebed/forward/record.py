"""What the folder of a forwarding test holds: the names of its files, and the tables of its trials.

`run.json` has the findings; the trials that they name are rows of Parquet tables, so that they can be read without
wavebed. Together they are the whole record: what was written can be read back as it was, but for the sampled frames,
which are in a capture.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import pyarrow as pa

from wavebed.forward.findings import SCHEMA
from wavebed.forward.model import FrameCounters, InterfaceCounters, Latency, Sent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.forward.findings import DeviceResult

__all__ = [
    "FRAME_COUNTERS",
    "INTERFACE_COUNTERS",
    "KIND",
    "LATENCY",
    "LATENCY_TABLE",
    "RAW_FOLDER",
    "SAMPLE_FILE",
    "SCHEMAS",
    "SENT",
    "SERIES_FOLDER",
    "SIZES_TABLE",
    "TRIALS_TABLE",
    "ForwardRecord",
]

KIND = "forward"
"""The ``kind`` in `run.json`, by which a reader knows what it has."""
SERIES_FOLDER, RAW_FOLDER = "series", "raw"
SAMPLE_FILE = "sample.pcapng"
TRIALS_TABLE, LATENCY_TABLE, SIZES_TABLE = "trials", "latency", "sizes"

SENT = {item.name: pa.string() if item.name == "sender" else pa.int64() for item in fields(Sent)}
"""Columns ``send_NAME``."""
INTERFACE_COUNTERS = {
    item.name: pa.bool_() if item.name == "up" else pa.int64()
    for item in fields(InterfaceCounters)
    if item.name != "driver"
}
"""Columns ``tx_port_NAME`` and ``rx_port_NAME``."""
FRAME_COUNTERS = {
    item.name: pa.int64() for item in fields(FrameCounters) if item.name not in ("sizes", "latency", "sample")
}
"""Columns ``books_NAME``."""
LATENCY = {
    item.name: pa.int64() if item.name == "count" else pa.float64() for item in fields(Latency) if item.name != "counts"
}
"""Columns ``latency_NAME``."""
_REFUSALS = pa.list_(pa.struct([("code", pa.string()), ("reason", pa.string()), ("remedy", pa.string())]))
_COUNTS = pa.map_(pa.string(), pa.int64())


def _prefixed(prefix: str, columns: Mapping[str, pa.DataType]) -> list[tuple[str, pa.DataType]]:
    return [(f"{prefix}_{name}", kind) for name, kind in columns.items()]


def _schema(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema(columns, metadata={"wavebed_schema": str(SCHEMA), "wavebed_kind": KIND})


SCHEMAS: dict[str, pa.Schema] = {
    TRIALS_TABLE: _schema(
        ("trial", pa.int64()),
        ("purpose", pa.string()),
        ("sizes_bytes", pa.list_(pa.int64())),
        ("offered_pps", pa.float64()),
        ("duration_s", pa.float64()),
        ("sent", pa.int64()),
        ("received", pa.int64()),
        ("lost", pa.int64()),
        ("sent_pps", pa.float64()),
        ("received_pps", pa.float64()),
        ("took_s", pa.float64()),
        ("verdict", pa.string()),
        ("refusals", _REFUSALS),
        ("cpu", pa.map_(pa.string(), pa.float64())),
        *_prefixed("send", SENT),
        *_prefixed("counters", FRAME_COUNTERS),
        *_prefixed("latency", LATENCY),
        *_prefixed("tx_port", INTERFACE_COUNTERS),
        ("tx_port_driver", _COUNTS),
        *_prefixed("rx_port", INTERFACE_COUNTERS),
        ("rx_port_driver", _COUNTS),
    ),
    LATENCY_TABLE: _schema(
        ("trial", pa.int64()), ("from_s", pa.float64()), ("below_s", pa.float64()), ("frames", pa.int64())
    ),
    SIZES_TABLE: _schema(("trial", pa.int64()), ("size_bytes", pa.int64()), ("frames", pa.int64())),
}
"""The columns of each table, ``series/NAME.parquet``; the unit is in the name. ``trial`` counts from 0."""


@dataclass(frozen=True, slots=True)
class ForwardRecord:
    """A forwarding test as its folder keeps it.

    Parameters
    ----------
    result : DeviceResult
        What was found.
    command_line : tuple of str
        As typed.
    versions : mapping
        wavebed, kernel, Python, and every program that took part.
    """

    result: DeviceResult
    command_line: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
