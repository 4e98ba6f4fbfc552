"""The trial that is exported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.result.names import LOG_TABLES, TRIAL_FILE
from wavebed.store.load import load_run

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from wavebed.result.model import TrialRecord
    from wavebed.store.load import Run

__all__ = ["Trial", "Window", "open_trial"]

_HEAD = ["folder", "block", "treatment"]


@dataclass(frozen=True)
class Window:
    """A part of a trial.

    Parameters
    ----------
    start_ns, end_ns : int
        Since time zero of the trial; the end is outside.
    """

    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Trial:
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
        return all((self.path / "series" / f"{name}.parquet").exists() for name in LOG_TABLES)

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

    def window(self, start_ns: int | None, end_ns: int | None) -> Window:
        """Return a part of the trial; without its ends, the trial from time zero to the end of the last workload.

        Raises
        ------
        UserError
            If it is empty.
        """
        found = Window(start_ns or 0, self.end_ns if end_ns is None else end_ns)
        if found.end_ns <= found.start_ns:
            start_s, end_s = found.start_ns / 1e9, found.end_ns / 1e9
            raise UserError(
                f"{self.path}: {start_s:g} s to {end_s:g} s is no part of the trial, which ends at"
                f" {self.end_ns / 1e9:g} s: choose other times by --from and --to"
            )
        return found


def open_trial(source: Path, name: str | None = None) -> Trial:
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
    return Trial(run, run.trial(name))
