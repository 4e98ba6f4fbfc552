"""Export the tables and the metrics of a trial as CSV: a header, UTF-8, missing values empty."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import csv

from wavebed.beneath import make_folder
from wavebed.errors import UserError
from wavebed.output import FORMULA, csv_cell, write_output
from wavebed.result.names import LOG_TABLES, TABLES

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.export.trial import Trial

__all__ = ["METRICS", "NAMES", "export_csv", "table_csv"]

METRICS = "metrics"
NAMES = (METRICS, *TABLES, *LOG_TABLES)
"""The tables that can be exported."""


def export_csv(trial: Trial, folder: Path) -> list[str]:
    """Write every table of a trial as ``NAME.csv`` into a folder, which is made if it is missing.

    Returns
    -------
    list of str
        The names of the tables; those of a packet log only if the trial has one.

    Raises
    ------
    UserError
        If a table is damaged, or a file cannot be written.
    """
    names = [name for name in NAMES if name not in LOG_TABLES or trial.has_packet_log]
    try:
        make_folder(folder)
    except OSError as error:
        reason = (error.strerror or "cannot be made").lower()
        raise UserError(f"{folder}: {reason}: name another folder with -o") from None
    for name in names:
        write_output(folder / f"{name}.csv", table_csv(trial, name))
    return names


def table_csv(trial: Trial, name: str) -> bytes:
    """Return one of `NAMES` as CSV.

    Raises
    ------
    UserError
        If the trial has no such table.
    """
    table = _metrics(trial) if name == METRICS else trial.table(name)
    columns = [_plain(table.column(column)) for column in table.column_names]
    out = io.BytesIO()
    csv.write_csv(pa.table(columns, table.column_names), out, csv.WriteOptions(quoting_style="needed"))
    return out.getvalue()


def _metrics(trial: Trial) -> pa.Table:
    from wavebed.store.records import PATH_WORKLOAD

    record = trial.record
    groups = [(PATH_WORKLOAD, record.transport), *((each.name, each.outcome.metrics) for each in record.workloads)]
    rows = [
        (
            *(record.folder, record.block, record.treatment, record.seed, record.verdict, workload),
            *(metric.name, metric.value, metric.unit, metric.better, metric.definition),
        )
        for workload, metrics in groups
        for metric in metrics
    ]
    schema = pa.schema(
        [
            ("folder", pa.string()),
            ("block", pa.int64()),
            ("treatment", pa.string()),
            ("seed", pa.int64()),
            *((name, pa.string()) for name in ("verdict", "workload", "name")),
            ("value", pa.float64()),
            *((name, pa.string()) for name in ("unit", "better", "definition")),
        ]
    )
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Return a column as CSV can hold it: a list becomes text, its values separated by blanks; no text is a formula."""
    if pa.types.is_string(column.type):
        if not pc.any(pc.match_substring_regex(column, FORMULA)).as_py():
            return column
        return pa.array([None if text is None else csv_cell(text) for text in column.to_pylist()], pa.string())
    if not pa.types.is_list(column.type):
        return column
    texts = (None if not values else " ".join(map(str, values)) for values in column.to_pylist())
    return pa.array(texts, pa.string())
