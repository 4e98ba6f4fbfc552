"""Columns as frames of pandas and Polars, and small tables for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.extras import POLARS, absent, require
from wavebed.page.tables import Table, html_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import pandas as pd
    import polars as pl
    from numpy.typing import NDArray

    from wavebed.page.tables import TableCell

    Column = Sequence[TableCell] | NDArray[np.generic]

MOST_ROWS = 40
"""Rows of a table in a notebook; a frame has all."""


def pandas_frame(columns: Mapping[str, Column]) -> pd.DataFrame:
    """Return columns of the same length as a frame of pandas.

    Raises
    ------
    MissingPackageError
        If pandas is not installed.
    """
    require("report", "to_pandas()", ("pandas",))
    import pandas as pd

    return pd.DataFrame(dict(columns))


def polars_frame(columns: Mapping[str, Column]) -> pl.DataFrame:
    """Return columns of the same length as a frame of Polars; NaN becomes null.

    Raises
    ------
    MissingPackageError
        If Polars is not installed.
    """
    require("polars", "to_polars()", POLARS[:1])
    import polars as pl

    return pl.DataFrame(dict(columns)).fill_nan(None)


def notebook_table(caption: str, head: Sequence[str], rows: Sequence[Sequence[TableCell]]) -> str | None:
    """Return a heading and a table as HTML, for ``_repr_html_``; ``None``, for text instead, without Jinja2."""
    if absent(("jinja2",)):
        return None
    from wavebed.page.document import filled

    table = html_table(Table("", caption, head, rows), "wavebed", MOST_ROWS)
    more = len(rows) - MOST_ROWS
    return str(filled("page/tables.html.j2", "shortened", table, f"{more} more rows") if more > 0 else table)
