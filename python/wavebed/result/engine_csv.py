"""Read the CSV files of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import csv

from wavebed.errors import WavebedError
from wavebed.result.model import SCHEMA

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_engine_csv"]


def read_engine_csv(file: Path, schema: pa.Schema, **constant: str) -> pa.Table:
    """Read a CSV file of the engine and add the columns of `constant`.

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
