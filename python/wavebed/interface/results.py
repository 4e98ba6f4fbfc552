"""Results of a run from Python: short on a prompt, a table in a notebook, frames, a picture, a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from wavebed.errors import MissingPackageError, UserError
from wavebed.extras import TABLES, absent, require
from wavebed.kinds import kind_at
from wavebed.result.model import COUNTED
from wavebed.store.load import Run

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import pandas as pd
    import polars as pl

    from wavebed.forward.folder import ForwardRun
    from wavebed.page.charts import Axes, Picture
    from wavebed.report.metrics import Row


class RunResults(Run):
    """The results of a run: what `wavebed.run` returns, and `wavebed.load` of its folder.

    Parameters
    ----------
    folder : pathlib.Path
        Folder of the results.
    record : RunRecord
        Content of ``run.json``.
    """

    def to_pandas(self) -> pd.DataFrame:
        """Return the metrics as a frame of pandas, a row for each metric of each trial: the same as `metrics`.

        Returns
        -------
        pandas.DataFrame
            Columns ``folder``, ``block``, ``treatment``, ``seed``, ``verdict``, ``workload``, ``name``, ``value``,
            ``unit``, ``better`` and ``definition``. Trials of every verdict are there.
        """
        return self.metrics.copy()

    def to_polars(self) -> pl.DataFrame:
        """Return the same as `to_pandas`, as a frame of Polars; a missing value is null.

        Raises
        ------
        MissingPackageError
            If Polars is not installed.
        """
        from wavebed.page.frames import polars_frame

        columns = {str(name): column for name, column in self.metrics.items()}
        return polars_frame(
            {name: each.to_numpy() if name == "value" else each.tolist() for name, each in columns.items()}
        )

    def plot(self, metric: str | None = None) -> Picture:
        """Draw the values of one metric: a row for each treatment, a mark for each counted trial, the median in bold.

        Parameters
        ----------
        metric : str, optional
            ``METRIC`` or ``WORKLOAD.METRIC``, such as ``"goodput"``; by default the metric that the scenario
            asks for, else the main metric of the first workload.

        Raises
        ------
        UserError
            If no counted trial has the metric; the message lists those that they have.
        MissingPackageError
            If Matplotlib is not installed.
        """
        require("report", "plot()", ("jinja2", "matplotlib"))
        import numpy as np

        from wavebed.page.charts import picture, value_rows

        workload, row = self._chosen(metric)
        rows = [(name, np.array([value for _, value in values])) for name, values in row.values.items() if values]
        across = f"{workload}: {row.metric.name}{f', {row.metric.unit}' if row.metric.unit else ''}"

        def draw(axes: Axes) -> None:
            value_rows(axes, rows, across)

        return picture(draw, f"{self.record.title}: {across}", 0.9 + 0.4 * len(rows))

    def report(self) -> Path:
        """Write the report, ``report.html`` in the folder, and return its path.

        Raises
        ------
        MissingPackageError
            If a package of the extra ``report`` is not installed.
        """
        require("report", "report()", ("jinja2", "matplotlib", *TABLES))
        return kind_at(self.folder).write_report(self.folder, None)

    def _chosen(self, metric: str | None) -> tuple[str, Row]:
        from wavebed.report.first import primary_of
        from wavebed.report.metrics import metric_rows
        from wavebed.report.source import read_results

        results = read_results(self.folder)
        rows = {
            f"{workload}.{row.metric.name}": (workload, row)
            for workload, of_workload in metric_rows(results).items()
            for row in of_workload
            if any(row.values.values())
        }
        primary = primary_of(results)
        default = "" if primary is None else f"{primary.workload}.{primary.metric.name}"
        return rows[chosen_metric(metric, list(rows), default, str(self.folder))]

    def _verdicts(self) -> str:
        lines = self.record.trials
        good = sum(line.verdict in COUNTED for line in lines)
        return f"{len(lines)} trial{'' if len(lines) == 1 else 's'}, {good} counted"

    def __repr__(self) -> str:
        """Return question, answer, effect and timing, as a run prints them at its end, and the folder."""
        rows = self._closing() or [("question", self.record.title), ("timing", self._verdicts())]
        return "\n".join(f"{name:10}{text}" for name, text in (*rows, ("folder", str(self.folder))))

    def _closing(self) -> list[tuple[str, str]]:
        """Return the rows of the end of a run; none without the packages of reports, or of damaged results."""
        if absent(("jinja2", "markupsafe")):
            return []
        try:
            if self.record.campaign is not None:
                from wavebed.campaign.report.build import closing_rows as of_campaign

                return of_campaign(self.folder)[0]
            from wavebed.report.first import closing_rows
            from wavebed.report.source import read_results

            return closing_rows(read_results(self.folder))
        except (MissingPackageError, UserError):  # a prompt shows what there is
            return []

    def _repr_html_(self) -> str | None:
        """Return a table with a row for each metric of the workloads and a column for each treatment."""
        from wavebed.page.frames import notebook_table
        from wavebed.report.metrics import PATH, interval_text, metric_rows
        from wavebed.report.source import read_results

        results = read_results(self.folder)
        rows = [
            (
                workload,
                row.metric.name,
                *(interval_text(row.median(each)) for each in results.treatments),
                row.metric.unit,
            )
            for workload, of_workload in metric_rows(results).items()
            if workload != PATH
            for row in of_workload
            if any(row.values.values())
        ]
        head = ("workload", "metric", *results.treatments, "unit")
        return notebook_table(f"{self.record.title}: {self._verdicts()}, medians", head, rows)


def chosen_metric(asked: str | None, known: Sequence[str], default: str, place: str) -> str:
    """Return ``WORKLOAD.METRIC`` of a metric that was asked for, with or without its workload.

    Raises
    ------
    UserError
        If there is no such metric.
    """
    if not known:
        raise UserError(f"{place}: has no metric: no trial counts")
    if asked is None:
        return default if default in known else known[0]
    from wavebed.result.devices import worst_of

    found = next((name for name in known if asked in (name, worst_of(name), name.partition(".")[2])), None)
    if found is not None:
        return found
    from difflib import get_close_matches

    bare = {name.partition(".")[2]: name for name in reversed(known)}
    near = [bare.get(name, name) for name in get_close_matches(asked, [*bare, *known], 3, 0.5)]
    hint = (
        f"did you mean {' or '.join(map(repr, dict.fromkeys(near)))}?" if near else f"it has {', '.join(known[:6])}, …"
    )
    raise UserError(f"{place}: no metric {asked!r}: {hint}")


def load(folder: str | os.PathLike[str]) -> RunResults | ForwardRun:
    """Open the results of a run, of a campaign, or of a forwarding test.

    Parameters
    ----------
    folder : path
        What ``wavebed run -o`` or ``wavebed forward -o`` named.

    Raises
    ------
    UserError
        If it has no such results, or results of another schema.
    MissingPackageError
        If pandas or PyArrow is not installed.
    """
    require("report", "a folder of results", TABLES)
    path = Path(folder)
    found = kind_at(path).load(path)
    return RunResults(found.folder, found.record) if isinstance(found, Run) else cast("ForwardRun", found)
