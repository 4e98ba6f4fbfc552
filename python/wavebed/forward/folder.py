"""The folder of a forwarding test, written and read.

`run.json` has the findings; the trials that they name are rows of Parquet tables, so that they can be read without
wavebed. The sampled frames of a trial are in a capture and are not read back. The record is replaced whole after each
part, so that the parts that have ended are kept. Parts are not stored one by one: doubts and refusals of the record
depend on several of them.
"""

from __future__ import annotations

import gzip
import json
import re
import struct
from dataclasses import dataclass
from functools import cached_property
from types import NoneType
from typing import TYPE_CHECKING, cast, get_args

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from wavebed.beneath import guard, make_folder, remove_tree
from wavebed.errors import UserError
from wavebed.foreign import read_json
from wavebed.formats import FORWARD, require_version
from wavebed.forward.model import (
    ForwardLatency,
    ForwardTrial,
    FrameCounters,
    InterfaceCounters,
    PlainValue,
    Sent,
    from_plain,
    to_plain,
)
from wavebed.forward.result import SCHEMA, DeviceResult, verdict_of
from wavebed.output import replace_file, replacing
from wavebed.result.names import INCOMPLETE, RUN_FILE
from wavebed.result.parquet import read_parquet
from wavebed.secret import redacted_json, redacted_line
from wavebed.store.disk import explained, make_new, sync

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from wavebed.config.data import Json
    from wavebed.forward.model import SampledFrame

KIND = "forward"
"""The ``kind`` in `run.json`: it says to a reader what the folder has."""


SERIES_FOLDER, RAW_FOLDER = "series", "raw"


SAMPLE_FILE = "sample.pcapng"


TRIALS_TABLE, LATENCY_TABLE, SIZES_TABLE = "trials", "latency", "sizes"


KEPT = "the parts that had ended can be read"
"""The end of an error of the disk."""


class ForwardRecord(PlainValue, frozen=True):
    """A forwarding test as its folder keeps it.

    Parameters
    ----------
    versions : mapping
        wavebed, kernel, Python, and every program that took part.
    """

    result: DeviceResult
    command_line: tuple[str, ...] = ()
    versions: Mapping[str, str] = msgspec.field(default_factory=dict)


def write_forward(folder: Path, record: ForwardRecord, raw: Mapping[str, bytes] | None = None) -> None:
    """Make the folder of a test and write its record.

    Parameters
    ----------
    raw : mapping of str to bytes, optional
        Outputs of other tools, by the names of their files; they are compressed.

    Raises
    ------
    UserError
        If the folder holds something, or cannot be made.
    WavebedError
        If it cannot be written, as on a full disk; nothing is left behind.
    """
    new = not folder.exists()
    make_new(folder)
    try:
        with explained(folder, "nothing was kept"):
            make_folder(folder / SERIES_FOLDER)
            make_folder(folder / RAW_FOLDER)
            _write(folder, record, raw or {})
    except BaseException:
        for made in (folder,) if new else folder.iterdir():
            remove_tree(made)
        raise


def rewrite_forward(folder: Path, record: ForwardRecord, raw: Mapping[str, bytes] | None = None) -> None:
    """Replace the record of a test that goes on by a later one, which has all that the earlier one has.

    Raises
    ------
    WavebedError
        If it cannot be written; the earlier record can be read.
    """
    with explained(folder, KEPT):
        _write(folder, record, raw or {})


def _write(folder: Path, record: ForwardRecord, raw: Mapping[str, bytes]) -> None:
    """Replace every file of the folder; `run.json` last, so that every trial it speaks of is in the tables."""
    for name, text in raw.items():
        replace_file(folder / RAW_FOLDER / f"{name}.gz", gzip.compress(text, mtime=0))
    trials = record.result.trials
    samples = shown_samples(trials)
    replace_file(folder / RAW_FOLDER / SAMPLE_FILE, capture(samples, record.result.receiver.interface))
    for name, table in tables_of(trials).items():
        with replacing(folder / SERIES_FOLDER / f"{name}.parquet") as stream:
            pq.write_table(table, stream, compression="zstd")
    replace_file(folder / RUN_FILE, run_json(record).encode())
    for place in (folder / SERIES_FOLDER, folder / RAW_FOLDER, folder):
        sync(place)


def run_json(record: ForwardRecord) -> str:
    """Return the text of ``run.json``: everything but the trials, which are tables."""
    told = {
        "kind": KIND,
        "schema": SCHEMA,
        "command_line": list(record.command_line),
        "versions": dict(record.versions),
        "verdict": verdict_of(record.result),
        "result": replace(record.result, trials=()).to_plain(),
    }
    text = json.dumps(told, allow_nan=False, ensure_ascii=False)
    return msgspec.json.format(redacted_json(text.encode()), indent=1).decode() + "\n"


def shown_samples(trials: Sequence[ForwardTrial]) -> list[SampledFrame]:
    """Return the frames for the capture: of the first trial of each sizes that counts, and the first that does not."""
    chosen: dict[tuple[object, ...], Sequence[SampledFrame]] = {}
    for trial in trials:
        if trial.counters is not None and trial.counters.sample:
            chosen.setdefault((trial.sizes_bytes, trial.verdict), trial.counters.sample)
    return sorted((sample for samples in chosen.values() for sample in samples), key=lambda sample: sample.time_ns)


@dataclass(frozen=True)
class ForwardRun:
    """The results of a forwarding test.

    Parameters
    ----------
    record : ForwardRecord
        The content of ``run.json``; its result has no trials, see `result`.
    """

    folder: Path
    record: ForwardRecord

    @cached_property
    def result(self) -> DeviceResult:
        """The findings, with every trial; sampled frames are in ``raw/sample.pcapng``."""
        tables = {name: self.arrow(name) for name in SCHEMAS}
        try:
            return replace(self.record.result, trials=trials_of(tables))
        except UserError as error:
            raise UserError(f"{self.folder}: trials: {error}: {INCOMPLETE}") from None

    @property
    def trials(self) -> pd.DataFrame:
        """A row for every trial; the same as ``table("trials")``."""
        return self.table(TRIALS_TABLE)

    def table(self, name: str) -> pd.DataFrame:
        """Return a table: ``trials``, ``latency`` or ``sizes``.

        Raises
        ------
        UserError
            If there is no such table, or its file is damaged.
        """
        frame: pd.DataFrame = self.arrow(name).to_pandas()
        return frame

    def arrow(self, name: str) -> pa.Table:
        """Return the same as `table`, as a table of Arrow."""
        if name not in SCHEMAS:
            raise UserError(f"{self.folder}: no table {name!r}: it must be one of {', '.join(SCHEMAS)}")
        file = self.folder / SERIES_FOLDER / f"{name}.parquet"
        table = read_parquet(file)
        # In schema 1 the columns of the frame counters began with `books_`.
        table = table.rename_columns([re.sub("^books_", "counters_", column) for column in table.column_names])
        if table.schema.names != SCHEMAS[name].names:
            raise UserError(f"{file}: has other columns than documented: {INCOMPLETE}")
        return table


def read_forward(folder: Path) -> ForwardRun:
    """Open the results of a forwarding test.

    Raises
    ------
    UserError
        If the folder holds none, one of another schema, or one that is damaged.
    """
    guard(folder)
    file = folder / RUN_FILE
    if not file.exists():
        raise UserError(f"{folder}: holds no run.json: name a folder that wavebed forward wrote")
    data = read_json(file, INCOMPLETE)
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise UserError(f"{folder}: is not a forwarding test: name a folder that wavebed forward wrote")
    require_version(file, data.get("schema"), FORWARD, "schema")
    try:
        result = DeviceResult.from_plain(_object(data, "result"))
        command_line = tuple(redacted_line([str(word) for word in data["command_line"]]))
        versions = {name: str(version) for name, version in _object(data, "versions").items()}
    except UserError as error:
        raise UserError(f"{file}: is not as documented ({error}): {INCOMPLETE}") from None
    except (KeyError, TypeError) as error:
        raise UserError(f"{file}: is not as documented ({error!r}): {INCOMPLETE}") from None
    return ForwardRun(folder, ForwardRecord(result, command_line, versions))


def _object(data: Mapping[str, Json], key: str) -> dict[str, Json]:
    value = data[key]
    if not isinstance(value, dict):
        raise TypeError(f"{key} is a {type(value).__name__}")
    return value


_ARROW = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}


_REFUSALS = pa.list_(pa.struct([("code", pa.string()), ("reason", pa.string()), ("remedy", pa.string())]))


_DRIVER = {"driver": pa.map_(pa.string(), pa.int64())}


def _columns(kind: type[PlainValue], *others: str) -> dict[str, pa.DataType]:
    """Return the columns of the fields of a type; `others` are fields without a column."""
    kinds = {one.name: set(get_args(one.type)) or {one.type} for one in msgspec.structs.fields(kind)}
    return {name: _ARROW[(kinds[name] - {NoneType}).pop()] for name in kinds if name not in others}


_OWN = _columns(ForwardTrial, "sizes_bytes", "tx", "rx", "send", "counters", "refusals", "cpu")


_PARTS = {
    "send": _columns(Sent),
    "counters": _columns(FrameCounters, "sizes", "latency", "sample"),
    "latency": _columns(ForwardLatency, "counts"),
    "tx_port": _columns(InterfaceCounters, "driver") | _DRIVER,
    "rx_port": _columns(InterfaceCounters, "driver") | _DRIVER,
}
"""Columns ``PART_NAME``; the columns of a part that a trial has not are null."""


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


def tables_of(trials: Sequence[ForwardTrial]) -> dict[str, pa.Table]:
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


def _row(place: int, trial: ForwardTrial) -> dict[str, object]:
    latency = None if trial.counters is None else trial.counters.latency
    ports = {"tx_port": trial.tx, "rx_port": trial.rx}
    parts = {"send": trial.send, "counters": trial.counters, "latency": latency, **ports}
    row = {name: getattr(trial, name) for name in (*_OWN, "sizes_bytes", "verdict")}
    row |= {"trial": place, "refusals": [to_plain(one) for one in trial.refusals], "cpu": list(trial.cpu.items())}
    for part, columns in _PARTS.items():
        row |= {f"{part}_{name}": getattr(parts[part], name, None) for name in columns}
    return row | {f"{name}_driver": None if port is None else list(port.driver.items()) for name, port in ports.items()}


def trials_of(tables: Mapping[str, pa.Table]) -> tuple[ForwardTrial, ...]:
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


def _trial(row: dict[str, object], sizes: dict[int, int], counts: list[tuple[float, float, int]]) -> ForwardTrial:
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
    return from_plain(ForwardTrial, {**own, **ports, "send": there["send"], "counters": counters})


_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6


_BYTE_ORDER = 0x1A2B3C4D


_ETHERNET = 1


_UNKNOWN_LENGTH = -1


_END, _COMMENT, _APPLICATION, _NAME, _RESOLUTION, _FCS_LENGTH = 0, 1, 4, 2, 9, 13


_NANOSECONDS = 9
"""Resolution as a negative power of ten."""


_NO_LIMIT = 0


def capture(samples: Sequence[SampledFrame], interface: str) -> bytes:
    """Return the capture of one interface.

    Parameters
    ----------
    samples : sequence of Sample
        Frames without FCS; of one whose `data` are shorter than its `length`, only the first bytes are in the file.
    interface : str
        Its name. Time stamps are from its machine's monotonic clock: seconds since it started, about.
    """
    comment = "The FCS (4 bytes) is not captured. Time is the port's monotonic clock, not that of day."
    section = struct.pack("<IHHq", _BYTE_ORDER, 1, 0, _UNKNOWN_LENGTH) + _options([(_APPLICATION, b"wavebed forward")])
    described = struct.pack("<HHI", _ETHERNET, 0, _NO_LIMIT) + _options(
        [
            (_NAME, interface.encode()),
            (_RESOLUTION, bytes([_NANOSECONDS])),
            (_FCS_LENGTH, bytes([0])),
            (_COMMENT, comment.encode()),
        ]
    )
    blocks = [_block(_SECTION, section), _block(_INTERFACE, described)]
    blocks += [_block(_PACKET, _packet(sample)) for sample in samples]
    return b"".join(blocks)


def _packet(sample: SampledFrame) -> bytes:
    high, low = divmod(sample.time_ns, 1 << 32)
    length = max(sample.length, len(sample.data))
    return struct.pack("<IIIII", 0, high, low, len(sample.data), length) + _padded(sample.data)


def _options(options: Iterable[tuple[int, bytes]]) -> bytes:
    written = b"".join(struct.pack("<HH", code, len(value)) + _padded(value) for code, value in options)
    return written + struct.pack("<HH", _END, 0)


def _block(kind: int, body: bytes) -> bytes:
    length = len(body) + 12
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


def _padded(data: bytes) -> bytes:
    """Fill up to a multiple of four bytes."""
    return data + bytes(-len(data) % 4)
