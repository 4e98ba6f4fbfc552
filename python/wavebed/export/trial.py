"""The trial that is exported."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import csv

from wavebed.beneath import make_folder
from wavebed.errors import UserError
from wavebed.output import FORMULA, csv_cell, write_output
from wavebed.result.names import CELL_TABLES, LOG_TABLES, TABLES, TRIAL_FILE
from wavebed.store.load import load_run

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.result.model import TrialRecord
    from wavebed.store.load import Run


_HEAD = ["folder", "block", "treatment"]


@dataclass(frozen=True)
class TimeWindow:
    """A part of a trial.

    Parameters
    ----------
    start_ns, end_ns : int
        Since time zero of the trial; the end is outside.
    """

    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class ExportedTrial:
    """A trial of a run, with its tables."""

    run: Run
    record: TrialRecord

    @property
    def path(self) -> Path:
        """Its folder."""
        return self.run.path(self.record.folder)

    @property
    def has_packet_log(self) -> bool:
        """Whether the times of its packets were recorded."""
        return all(map(self.has_table, LOG_TABLES))

    def has_table(self, name: str) -> bool:
        """Whether it has the table of this name."""
        return (self.path / "series" / f"{name}.parquet").exists()

    def table(self, name: str) -> pa.Table:
        """Return a table of the trial, without the columns that name the trial.

        Raises
        ------
        UserError
            If there is no such table, or its file is damaged.
        """
        return self.run.arrow(name, trial=self.record.folder).drop_columns(_HEAD)

    @property
    def end_ns(self) -> int:
        """The end of the last workload."""
        spans = [each.span.end_s for each in self.record.workloads if each.span is not None]
        return round(max(spans, default=0.0) * 1e9)

    def window(self, start_ns: int | None, end_ns: int | None) -> TimeWindow:
        """Return a part of the trial; without its ends, the trial from time zero to the end of the last workload.

        Raises
        ------
        UserError
            If it is empty.
        """
        found = TimeWindow(start_ns or 0, self.end_ns if end_ns is None else end_ns)
        if found.end_ns <= found.start_ns:
            start_s, end_s = found.start_ns / 1e9, found.end_ns / 1e9
            raise UserError(
                f"{self.path}: {start_s:g} s to {end_s:g} s is no part of the trial, which ends at"
                f" {self.end_ns / 1e9:g} s: choose other times by --from and --to"
            )
        return found


def open_trial(source: Path, name: str | None = None) -> ExportedTrial:
    """Open a trial.

    Parameters
    ----------
    source : pathlib.Path
        The folder of a run, or of one of its trials.
    name : str, optional
        Folder of the trial, where the run has several.

    Raises
    ------
    UserError
        If it is not clear which trial is meant, or its files are damaged.
    """
    if (source / TRIAL_FILE).is_file():
        source, name = source.resolve().parent.parent, source.resolve().name
    run = load_run(source)
    folders = [line.folder for line in run.record.trials]
    if name is None:
        if len(folders) != 1:
            raise UserError(f"{source}: has {len(folders)} trials: name one by --trial ({', '.join(folders[:8])})")
        name = folders[0]
    return ExportedTrial(run, run.trial(name))


METRICS = "metrics"
NAMES = (METRICS, *TABLES, *LOG_TABLES, *CELL_TABLES)
"""The tables that can be exported."""


def export_csv(trial: ExportedTrial, folder: Path) -> list[str]:
    """Write every table of a trial as ``NAME.csv`` into a folder, which is made if it is missing.

    Returns
    -------
    list of str
        The names of the tables; tables of a packet log and of a cell only if the trial has one.

    Raises
    ------
    UserError
        If a table is damaged, or a file cannot be written.
    """
    names = [name for name in NAMES if name not in LOG_TABLES or trial.has_packet_log]
    names = [name for name in names if name not in CELL_TABLES or trial.has_table(name)]
    try:
        make_folder(folder)
    except OSError as error:
        reason = (error.strerror or "cannot be made").lower()
        raise UserError(f"{folder}: {reason}: name another folder with -o") from None
    for name in names:
        write_output(folder / f"{name}.csv", table_csv(trial, name))
    return names


def table_csv(trial: ExportedTrial, name: str) -> bytes:
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


def _metrics(trial: ExportedTrial) -> pa.Table:
    from wavebed.store.records import metrics_of

    record = trial.record
    rows = [
        (
            *(record.folder, record.block, record.treatment, record.seed, record.verdict, workload),
            *(metric.name, metric.value, metric.unit, metric.better, metric.definition),
        )
        for workload, metrics in metrics_of(record)
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
    """Return a column for CSV: lists become text separated by blanks; an apostrophe guards text that is a formula."""
    if pa.types.is_string(column.type):
        if not pc.any(pc.match_substring_regex(column, FORMULA)).as_py():
            return column
        return pa.array([None if text is None else csv_cell(text) for text in column.to_pylist()], pa.string())
    if not pa.types.is_list(column.type):
        return column
    texts = (None if not values else " ".join(map(str, values)) for values in column.to_pylist())
    return pa.array(texts, pa.string())
