"""Read the results of a run; each file on its first use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from wavebed.errors import MachineError, UserError
from wavebed.result.names import AIR, CELL_TABLES, INCOMPLETE, LOG_TABLES, TABLES, TRIALS_FOLDER
from wavebed.result.parquet import read_parquet
from wavebed.store.records import metrics_of, read_run, read_trial

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from wavebed.result.model import RunRecord, TrialLine, TrialRecord

_TRIAL_COLUMNS = ["folder", "block", "treatment", "seed", "verdict"]
_L4S = ("marked_segments", "dropped_segments", "sojourn_mean_ns", "sojourn_max_ns")
_NEW = ("link_failures", AIR, *(f"l4s_{name}" for name in _L4S))
"""Columns that tables of earlier versions lack."""
_METRIC_COLUMNS = [*_TRIAL_COLUMNS, "workload", "name", "value", "unit", "better", "definition"]


def load_run(folder: Path) -> Run:
    """Open the results of a run.

    Raises
    ------
    UserError
        If the folder has no run, or one of another schema.
    """
    return Run(folder, read_run(folder))


@dataclass(frozen=True)
class Run:
    """The results of a run.

    Parameters
    ----------
    folder : pathlib.Path
        Folder of the results.
    record : RunRecord
        Content of ``run.json``.
    """

    folder: Path
    record: RunRecord

    @cached_property
    def trials(self) -> pd.DataFrame:
        """A row for every trial: `folder`, `block`, `treatment`, `seed`, `verdict`, `reasons`."""
        import pandas as pd

        rows = [
            (line.folder, line.block, line.treatment, line.seed, line.verdict, list(line.reasons))
            for line in self.record.trials
        ]
        return pd.DataFrame(rows, columns=[*_TRIAL_COLUMNS, "reasons"])

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """A row for every metric of every trial of any verdict; a missing value is NaN.

        Columns: `folder`, `block`, `treatment`, `seed`, `verdict`, `workload` (``path`` for the metrics of the
        transport), `name`, `value`, `unit`, `better`, `definition`.
        """
        import pandas as pd

        rows = []
        for line in self.record.trials:
            record = self.trial(line.folder)
            head = (line.folder, line.block, line.treatment, line.seed, line.verdict)
            rows += [
                (*head, workload, metric.name, metric.value, metric.unit, metric.better, metric.definition)
                for workload, metrics in metrics_of(record)
                for metric in metrics
            ]
        return pd.DataFrame(rows, columns=_METRIC_COLUMNS).astype({"value": "float64"})

    def trial(self, folder: str) -> TrialRecord:
        """Return the content of a trial's ``trial.json``.

        Raises
        ------
        UserError
            If the run has no such trial, or its files are damaged.
        """
        return read_trial(self.path(folder))

    def path(self, folder: str) -> Path:
        """Return the folder of a trial.

        Raises
        ------
        UserError
            If the run has no such trial.
        """
        self._line(folder)
        return self.folder / TRIALS_FOLDER / folder

    def table(self, name: str, *, trial: str | None = None, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Return a table of one trial, or of all trials.

        Parameters
        ----------
        name : str
            ``links``, ``departures``, ``capacity``, ``flows``, ``cpu``, ``samples`` or ``events``; of trials with
            ``packet-log`` also ``packets`` and ``blocks``.
        trial : str, optional
            Folder of the trial; by default all.
        columns : sequence of str, optional
            Columns to read; by default all.

        Returns
        -------
        pandas.DataFrame
            The table, with the columns `folder`, `block` and `treatment` before its own.

        Raises
        ------
        UserError
            If there is no such table, trial or column, or a file is damaged.
        """
        frame: pd.DataFrame = self.arrow(name, trial=trial, columns=columns).to_pandas()
        return frame

    def polars(self, name: str, *, trial: str | None = None, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the same as `table`, as a frame of Polars.

        Raises
        ------
        MachineError
            If Polars is not installed.
        """
        try:
            import polars as pl
        except ImportError:
            raise MachineError("Polars is not installed: pip install polars, or use table() for pandas") from None
        frame = pl.from_arrow(self.arrow(name, trial=trial, columns=columns))
        assert isinstance(frame, pl.DataFrame), "a table becomes a frame"
        return frame

    def arrow(self, name: str, *, trial: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the same as `table`, as a table of Arrow."""
        import pyarrow as pa

        known = (*TABLES, *LOG_TABLES, *CELL_TABLES)
        if name not in known:
            raise UserError(f"{self.folder}: no table {name!r}: it must be one of {', '.join(known)}")
        lines = self.record.trials if trial is None else [self._line(trial)]
        parts = [self._part(line, name, columns) for line in lines]
        if parts:
            return pa.concat_tables(parts, promote_options="default")
        from wavebed.result.tables import ALL_SCHEMAS

        return _headed(ALL_SCHEMAS[name].empty_table(), "", 0, "")

    def _part(self, line: TrialLine, name: str, columns: Sequence[str] | None) -> pa.Table:
        file = self.folder / TRIALS_FOLDER / line.folder / "series" / f"{name}.parquet"
        if name in LOG_TABLES and not file.exists():
            raise UserError(f"{file}: the trial has no packet log: run it with --set path.packet-log=true")
        if name in CELL_TABLES and not file.exists():
            raise UserError(f"{file}: the trial has no cell that several users share: run it with [[device]]")
        body = read_parquet(file, columns)
        _check_columns(file, name, body, whole=columns is None)
        return _headed(body, line.folder, line.block, line.treatment)

    def _line(self, folder: str) -> TrialLine:
        for line in self.record.trials:
            if line.folder == folder:
                return line
        known = ", ".join(line.folder for line in self.record.trials[:8]) or "none yet"
        raise UserError(f"{self.folder}: no trial {folder!r}: it has {known}")


def _check_columns(file: Path, name: str, body: pa.Table, *, whole: bool) -> None:
    """Check that a table has the columns of its kind; a `whole` one lacks only columns that are new."""
    from wavebed.result.tables import ALL_SCHEMAS, SCHEMAS

    for field in ALL_SCHEMAS[name]:
        if field.name not in body.column_names:
            if whole and name in SCHEMAS and field.name not in _NEW:
                raise UserError(f"{file}: has no column {field.name!r}: {INCOMPLETE}")
        elif (found := body.schema.field(field.name).type) != field.type:
            raise UserError(f"{file}: column {field.name!r} has values of type {found}, not {field.type}: {INCOMPLETE}")


def _headed(body: pa.Table, folder: str, block: int, treatment: str) -> pa.Table:
    import pyarrow as pa

    count = len(body)
    head = [
        pa.repeat(pa.scalar(folder, pa.string()), count),
        pa.repeat(pa.scalar(block, pa.int64()), count),
        pa.repeat(pa.scalar(treatment, pa.string()), count),
    ]
    return pa.table([*head, *body.columns], names=["folder", "block", "treatment", *body.column_names])
