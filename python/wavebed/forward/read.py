"""Reading a forwarding test from its folder; each table is read when it is asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from wavebed.beneath import guard
from wavebed.errors import UserError
from wavebed.foreign import read_json
from wavebed.formats import FORWARD, require_version
from wavebed.forward.findings import DeviceResult
from wavebed.forward.record import KIND, SCHEMAS, SERIES_FOLDER, TRIALS_TABLE, ForwardRecord, trials_of
from wavebed.result.names import INCOMPLETE, RUN_FILE
from wavebed.result.parquet import read_parquet
from wavebed.secret import redacted_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pandas as pd
    import pyarrow as pa

    from wavebed.config.data import Json

__all__ = ["ForwardRun", "read_forward"]


@dataclass(frozen=True)
class ForwardRun:
    """The results of a forwarding test.

    Parameters
    ----------
    folder : pathlib.Path
        Where they are.
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
