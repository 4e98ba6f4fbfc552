"""Read a table of a folder of results from any source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.foreign import open_foreign
from wavebed.result.names import INCOMPLETE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

__all__ = ["read_parquet"]

_MOST_CELLS = 1 << 28
"""A few bytes of Parquet can encode any number of equal rows."""
_THREADED_CELLS = 1 << 22
"""Threads help with larger tables. A process that ends while Arrow starts them is aborted now and then."""


def read_parquet(file: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Return a table, or some of its columns.

    Raises
    ------
    UserError
        If it is missing, damaged, too large, or has no such column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not file.exists():
        raise UserError(f"{file}: is missing: {INCOMPLETE}")
    try:
        with open_foreign(file, INCOMPLETE) as stream, pq.ParquetFile(stream) as source:
            known = source.schema_arrow.names
            unknown = [column for column in columns or () if column not in known]
            if unknown:
                raise UserError(f"{file}: no column {unknown[0]!r}: it must be one of {', '.join(known)}")
            cells = source.metadata.num_rows * source.metadata.num_columns
            if cells > _MOST_CELLS:
                raise UserError(f"{file}: has more than {_MOST_CELLS} values: {INCOMPLETE}")
            wanted = None if columns is None else list(columns)
            return source.read(columns=wanted, use_threads=cells > _THREADED_CELLS)
    except (OSError, pa.ArrowInvalid) as error:
        raise UserError(f"{file}: cannot be read ({error}): {INCOMPLETE}") from None
