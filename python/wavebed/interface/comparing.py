"""Compare results from Python: ``wavebed.compare``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from wavebed.errors import UserError
from wavebed.extras import TABLES, require
from wavebed.interface.results import RunResults, chosen_metric
from wavebed.kinds import kind_at
from wavebed.store.records import PATH_WORKLOAD

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import pandas as pd
    import polars as pl

    from wavebed.compare.find import ComparedAnswer, RunComparison
    from wavebed.page.charts import Axes, Picture
    from wavebed.page.frames import Column
    from wavebed.page.tables import TableCell

_HARM = ("workload", "metric", "baseline", "cell", "harm", "low", "high", "pairs")
_HEAD = ("metric", "before", "after", "verdict", "difference")


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """Results beside the first ones: a verdict on each metric.

    Parameters
    ----------
    comparison : RunComparison
        The folders, the answers and the notes.
    """

    comparison: RunComparison

    def to_pandas(self) -> pd.DataFrame:
        """Return a row for each compared metric as a frame of pandas.

        Returns
        -------
        pandas.DataFrame
            Columns ``run`` and ``base`` (the two that are compared), ``workload``, ``metric``, ``unit``, ``role``
            (``primary`` or ``exploratory``), ``base_median``, ``median``, ``verdict``, ``scale`` (``difference`` or
            ``ratio``), ``estimate``, ``low``, ``high`` and ``p``.
        """
        from wavebed.page.frames import pandas_frame

        return pandas_frame(self._columns())

    def to_polars(self) -> pl.DataFrame:
        """Return the same as `to_pandas`, as a frame of Polars.

        Raises
        ------
        MissingPackageError
            If Polars is not installed.
        """
        from wavebed.page.frames import polars_frame

        return polars_frame(self._columns())

    def harm(self) -> pd.DataFrame:
        """Return what each device of a cell loses of its main result, the one that loses most first.

        Returns
        -------
        pandas.DataFrame
            Columns ``workload``, ``metric``, ``baseline``, ``cell``, ``harm`` (a part of the result: 1 is all, below 0
            it gains), ``low``, ``high`` and ``pairs``; no row without a cell.
        """
        from wavebed.campaign.harm import harm_json
        from wavebed.compare.find import harms
        from wavebed.page.frames import pandas_frame

        rows = cast("list[dict[str, TableCell]]", harm_json(harms(self.comparison)))
        return pandas_frame({name: [row[name] for row in rows] for name in _HARM})

    def plot(self, metric: str | None = None) -> Picture:
        """Draw the values of one metric, a row for each treatment of each run.

        Parameters
        ----------
        metric : str, optional
            ``METRIC`` or ``WORKLOAD.METRIC``; by default the first primary metric, else the first that was compared.

        Raises
        ------
        UserError
            If no run has the metric; the message lists those that they have.
        MissingPackageError
            If Matplotlib is not installed.
        """
        require("report", "plot()", ("matplotlib",))
        from wavebed.page.charts import picture, value_rows

        series = {f"{workload}.{name}": (workload, name) for workload, name in self._keys()}
        key = series[chosen_metric(metric, list(series), "", "wavebed.compare")]
        folders = self.comparison.folders
        unit = next(folder.series[key].metric.unit for folder in folders if key in folder.series)
        rows = [
            (column.name, sample.values)
            for column in self.comparison.columns
            if len(sample := folders[column.folder].sample(key, column.treatment))
        ]
        across = f"{key[0]}: {key[1]}{f', {unit}' if unit else ''}"

        def draw(axes: Axes) -> None:
            value_rows(axes, rows, across)

        return picture(draw, across, 0.9 + 0.4 * len(rows))

    def _keys(self) -> list[tuple[str, str]]:
        answers = sorted(self.comparison.answers, key=lambda each: each.question.goal is None)
        asked = ((each.question.workload, each.question.metric.name) for each in answers)
        return list(dict.fromkeys([*asked, *(key for folder in self.comparison.folders for key in folder.series)]))

    def _columns(self) -> dict[str, Column]:
        import numpy as np

        rows = [_row(answer) for answer in self.comparison.answers]
        columns: dict[str, Column] = {}
        for place, name in enumerate(_NAMES):
            values = [row[place] for row in rows]
            columns[name] = np.array(values, dtype=np.float64) if name in _NUMBERS else values
        return columns

    def __repr__(self) -> str:
        """Return the table of the primary metrics; without any, of the metrics of the workloads."""
        from wavebed.compare.text import comparison_text

        answers = self.comparison.answers
        shown = self.comparison.primaries or [each for each in answers if each.question.workload != PATH_WORKLOAD]
        text = comparison_text(replace(self.comparison, answers=shown))
        left = len(answers) - len(shown)
        return f"{text}\n{left} more metrics: to_pandas() has all" if left else text

    def _repr_html_(self) -> str | None:
        from wavebed.compare.words import effect_text, sample_text, sections
        from wavebed.page.frames import MOST_ROWS, notebook_table

        tables = [
            notebook_table(
                f"{each.column} beside {each.base}. {each.title}",
                _HEAD,
                [
                    (
                        answer.question.name,
                        sample_text(answer.question.a),
                        sample_text(answer.question.b),
                        answer.finding.verdict,
                        effect_text(answer),
                    )
                    for answer in each.answers
                ],
            )
            for each in sections(self.comparison, MOST_ROWS)[0]
        ]
        whole = "".join(each for each in tables if each is not None)
        return whole or None


def _row(answer: ComparedAnswer) -> tuple[TableCell, ...]:
    question, finding = answer.question, answer.finding
    return (
        question.column.name,
        question.base,
        question.workload,
        question.metric.name,
        question.metric.unit,
        "exploratory" if question.goal is None else "primary",
        question.a.median.estimate,
        question.b.median.estimate,
        finding.verdict,
        finding.scale,
        finding.estimate,
        finding.low,
        finding.high,
        finding.p,
    )


_NUMBERS = ("base_median", "median", "estimate", "low", "high", "p")
_NAMES = (
    *("run", "base", "workload", "metric", "unit", "role"),
    *("base_median", "median", "verdict", "scale", "estimate", "low", "high", "p"),
)


def compare(
    *results: str | os.PathLike[str] | RunResults, margins: Mapping[str, str] | Sequence[str] = ()
) -> Comparison:
    """Compare results with the first of them: a verdict on each metric.

    Parameters
    ----------
    *results : path or RunResults
        Folders of results, or what `wavebed.run` returned; two at least.
    margins : mapping or sequence of str
        The largest difference that does not matter, by ``WORKLOAD.METRIC``: ``{"bulk.goodput": "5%"}``. These metrics
        are primary: their false alarms are held together. The other metrics are compared too, each by itself.

    Raises
    ------
    UserError
        If there are fewer than two, a folder has no results, two are of different kinds, or a margin is wrong.
    MissingPackageError
        If pandas, PyArrow or SciPy is not installed.

    Examples
    --------
    >>> before = wavebed.run("demo", trials=6)
    >>> wavebed.compare(before, wavebed.run("demo", trials=6, queue="codel"), margins={"bulk.goodput": "5%"})
    """
    require("report", "wavebed.compare", ("jinja2", "scipy", *TABLES))
    if len(results) < 2:
        raise UserError(f"wavebed.compare: there are {len(results)} results: give two or more")
    given = [each.folder if isinstance(each, RunResults) else Path(each) for each in results]
    folders = [part for folder in given for part in kind_at(folder).parts(folder)]
    kinds = [kind_at(folder) for folder in folders]
    for folder, kind in zip(folders, kinds, strict=True):
        if type(kind) is not type(kinds[0]):
            raise UserError(
                f"{folder}: holds {kind.title}, and {folders[0]} {kinds[0].title}: compare folders of one kind"
            )
    asked = [f"{name}={margin}" for name, margin in margins.items()] if isinstance(margins, Mapping) else list(margins)
    return Comparison(kinds[0].compare_metrics(folders, asked))
