"""Reading a forwarding test from its folder. Only what is asked for is read."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, cast

from wavebed.errors import UserError
from wavebed.foreign import read_json
from wavebed.forward.findings import SCHEMA, SCHEMAS_READ, DeviceResult
from wavebed.forward.model import FrameCounters, InterfaceCounters, Latency, Refusal, Sent, Trial
from wavebed.forward.record import (
    FRAME_COUNTERS,
    INTERFACE_COUNTERS,
    KIND,
    LATENCY,
    LATENCY_TABLE,
    SCHEMAS,
    SENT,
    SERIES_FOLDER,
    SIZES_TABLE,
    TRIALS_TABLE,
    ForwardRecord,
)
from wavebed.result.names import RUN_FILE
from wavebed.result.parquet import read_parquet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import pandas as pd
    import pyarrow as pa

    from wavebed.forward.plain import Plain

__all__ = ["ForwardRun", "read_forward"]

_Part = TypeVar("_Part", Sent, InterfaceCounters)


@dataclass(frozen=True)
class ForwardRun:
    """The results of a forwarding test.

    Parameters
    ----------
    folder : pathlib.Path
        Where they are.
    record : ForwardRecord
        What ``run.json`` says; its result has no trials, see `result`.
    """

    folder: Path
    record: ForwardRecord

    @cached_property
    def result(self) -> DeviceResult:
        """What was found, with every trial; sampled frames are in ``raw/sample.pcapng``."""
        return replace(self.record.result, trials=tuple(self._trials()))

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
            raise UserError(f"{file}: has other columns than documented: the results are not whole")
        return table

    def _trials(self) -> list[Trial]:
        sizes: dict[int, dict[int, int]] = {}
        for trial, size, frames in self._columns(SIZES_TABLE):
            sizes.setdefault(int(trial), {})[int(size)] = int(frames)
        counts: dict[int, list[tuple[float, float, int]]] = {}
        for trial, low, high, frames in self._columns(LATENCY_TABLE):
            counts.setdefault(int(trial), []).append((low, high, int(frames)))
        rows = self.arrow(TRIALS_TABLE).to_pylist()
        return [_trial(row, sizes.get(row["trial"], {}), counts.get(row["trial"], [])) for row in rows]

    def _columns(self, name: str) -> Iterator[tuple[float, ...]]:
        """Return the rows of a table of numbers; a histogram of every trial makes many."""
        return zip(*(column.to_pylist() for column in self.arrow(name).columns), strict=True)


def read_forward(folder: Path) -> ForwardRun:
    """Open the results of a forwarding test.

    Raises
    ------
    UserError
        If the folder holds none, one of another schema, or one that is damaged.
    """
    file = folder / RUN_FILE
    if not file.exists():
        raise UserError(f"{folder}: holds no run.json: name a folder that wavebed forward wrote")
    data = read_json(file, "the results are not whole")
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise UserError(f"{folder}: is not a forwarding test: name a folder that wavebed forward wrote")
    found = data.get("schema")
    if found not in SCHEMAS_READ:
        raise UserError(
            f"{file}: is of schema {found}; this wavebed reads schema {SCHEMA}: use the version that wrote it"
        )
    try:
        result = DeviceResult.from_plain(_object(data, "result"))
        command_line = tuple(str(word) for word in data["command_line"])
        versions = {name: str(version) for name, version in _object(data, "versions").items()}
    except UserError as error:
        raise UserError(f"{file}: is not as documented ({error}): the results are not whole") from None
    except (KeyError, TypeError) as error:
        raise UserError(f"{file}: is not as documented ({error!r}): the results are not whole") from None
    return ForwardRun(folder, ForwardRecord(result, command_line, versions))


def _object(data: Mapping[str, Plain], key: str) -> dict[str, Plain]:
    value = data[key]
    if not isinstance(value, dict):
        raise TypeError(f"{key} is a {type(value).__name__}")
    return value


Row = dict[str, object]


def _trial(row: Row, sizes: Mapping[int, int], counts: list[tuple[float, float, int]]) -> Trial:
    cells = cast("dict[str, float]", row)
    refusals = cast("list[dict[str, str]]", row["refusals"])
    return Trial(
        purpose=cast("str", row["purpose"]),
        sizes_bytes=tuple(cast("list[int]", row["sizes_bytes"])),
        offered_pps=cast("float | None", row["offered_pps"]),
        duration_s=cells["duration_s"],
        sent=int(cells["sent"]),
        received=int(cells["received"]),
        lost=int(cells["lost"]),
        sent_pps=cells["sent_pps"],
        received_pps=cells["received_pps"],
        took_s=cells["took_s"],
        tx=_port("tx_port", row),
        rx=_port("rx_port", row),
        send=_made(Sent, _cells("send", row, SENT)),
        counters=_counters(row, sizes, counts),
        refusals=tuple(Refusal(**refusal) for refusal in refusals),
        cpu=dict(cast("list[tuple[str, float]]", row["cpu"])),
    )


def _counters(row: Row, sizes: Mapping[int, int], counts: list[tuple[float, float, int]]) -> FrameCounters | None:
    found = _cells("counters", row, FRAME_COUNTERS)
    if found["unique"] is None:
        return None
    told = _cells("latency", row, LATENCY)
    latency = None if told["count"] is None else Latency(**told, counts=tuple(counts))  # type: ignore[arg-type]
    return FrameCounters(**found, sizes=dict(sizes), latency=latency)  # type: ignore[arg-type]


def _port(prefix: str, row: Row) -> InterfaceCounters | None:
    found = _cells(prefix, row, INTERFACE_COUNTERS)
    driver = dict(cast("list[tuple[str, int]]", row[f"{prefix}_driver"] or []))
    return _made(InterfaceCounters, {**found, "driver": driver})


def _made(kind: type[_Part], cells: Row) -> _Part | None:
    """Make a part of a trial; one that the trial has not is null in its columns."""
    return None if next(iter(cells.values())) is None else kind(**cells)  # type: ignore[arg-type]


def _cells(prefix: str, row: Row, names: Mapping[str, object]) -> Row:
    return {name: row[f"{prefix}_{name}"] for name in names}
