"""Compare several runs: the median of each metric, and its difference to the first run.

Runs are independent samples even with equal seeds, because day, machine or version differ. So differences are of
medians, with a bootstrap interval and Cliff's delta, and not paired.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from wavebed.report.numbers import MISSING, signed
from wavebed.report.source import read_results
from wavebed.report.table import metric_rows
from wavebed.report.text import interval_text
from wavebed.stats.intervals import FEWEST, Difference, Interval, independent_difference, median_interval
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.report.source import Results
    from wavebed.workload.model import Metric

__all__ = ["Column", "Line", "RunComparison", "compare_runs", "runs_csv", "runs_json", "runs_text"]

_ONLY = "as-described"


@dataclass(frozen=True, slots=True)
class Column:
    """One treatment of one run.

    Parameters
    ----------
    base : str or None
        The column for comparison: the same treatment of the first run, or its only one.
    """

    name: str
    run: int
    treatment: str
    base: str | None


@dataclass(frozen=True, slots=True)
class Line:
    """One metric of one workload, by column."""

    workload: str
    metric: Metric
    values: dict[str, list[float]]

    def median(self, column: Column) -> Interval:
        """Return the median over the counted trials of a column."""
        return median_interval(self.values.get(column.name, []))

    def difference(self, column: Column) -> Difference | None:
        """Return the difference between a column and its base; ``None`` without values of either."""
        first = self.values.get(column.base or "", [])
        other = self.values.get(column.name, [])
        if not first or not other:
            return None
        count = min(len(first), len(other))
        if count < FEWEST:
            return Difference(Interval(median(other) - median(first), None, None, None, count), None)
        return independent_difference(first, other)


@dataclass(frozen=True, slots=True)
class RunComparison:
    """A comparison of runs.

    Parameters
    ----------
    runs : sequence of str
        Their names.
    notes : sequence of str
        Other differences between the runs, and columns without a comparison.
    """

    runs: Sequence[str]
    columns: Sequence[Column]
    lines: Sequence[Line]
    notes: Sequence[str]


def compare_runs(folders: Sequence[Path]) -> RunComparison:
    """Read and compare runs.

    Raises
    ------
    UserError
        If a folder has no run of a scenario.
    """
    read = [read_results(folder) for folder in folders]
    short = [folder.resolve().name for folder in folders]
    names = short if len(set(short)) == len(short) else [str(folder) for folder in folders]
    columns = list(_columns(names, read))
    lines: dict[tuple[str, str], Line] = {}
    for number, results in enumerate(read):
        named = {column.treatment: column.name for column in columns if column.run == number}
        for workload, rows in metric_rows(results).items():
            for row in rows:
                line = lines.setdefault((workload, row.metric.name), Line(workload, row.metric, {}))
                for treatment, pairs in row.values.items():
                    line.values[named[treatment]] = [value for _, value in pairs]
    measured = [line for line in lines.values() if any(line.values.values())]
    return RunComparison(names, columns, measured, list(_notes(names, read, columns)))


def _columns(names: Sequence[str], read: Sequence[Results]) -> Iterator[Column]:
    first = read[0].treatments
    for number, (name, results) in enumerate(zip(names, read, strict=True)):
        for treatment in results.treatments:
            base = None
            if number:
                base = treatment if treatment in first else first[0] if len(first) == 1 else None
            base_name = None if base is None else _name(names[0], base)
            yield Column(_name(name, treatment), number, treatment, base_name)


def _name(run: str, treatment: str) -> str:
    return run if treatment == _ONLY else f"{run}: {treatment}"


def _notes(names: Sequence[str], read: Sequence[Results], columns: Sequence[Column]) -> Iterator[str]:
    records = [results.run.record for results in read]
    facts = {
        "scenario": [record.title for record in records],
        "changes of the scenario": [", ".join(record.overrides) or "none" for record in records],
        "processor": [record.machine.get("processor", "not known") for record in records],
        "cores": [record.machine.get("cores", "not known") for record in records],
    }
    programs = sorted({name for record in records for name in record.versions})
    facts |= {name: [record.versions.get(name, "none") for record in records] for name in programs}
    for what, told in facts.items():
        if len(set(told)) > 1:
            yield f"{what} differs: " + ", ".join(
                f"{name} has {value}" for name, value in zip(names, told, strict=True)
            )
    for name, results in zip(names, read, strict=True):
        lost = len(results.run.record.trials) - len(results.counted)
        if lost:
            yield f"{name}: {lost} of {len(results.run.record.trials)} trials are not counted"
        if results.run.record.ended is None:
            yield f"{name}: the run has not ended"
    for column in columns:
        if column.run and column.base is None:
            yield f"{column.name}: {names[0]} has no treatment of this name, so there is no difference"


def runs_text(comparison: RunComparison) -> str:
    """Return a table for a terminal: a column for each treatment of each run, then the differences."""
    compared = [column for column in comparison.columns if column.base is not None]
    head = ("", *(column.name for column in comparison.columns), *(f"{one.name} − {one.base}" for one in compared))
    rows = [head]
    for line in comparison.lines:
        unit = f", {line.metric.unit}" if line.metric.unit else ""
        medians = (interval_text(line.median(column)) for column in comparison.columns)
        differences = (_difference_text(line.difference(column)) for column in compared)
        rows.append((f"{line.workload}: {line.metric.name}{unit}", *medians, *differences))
    return "\n".join([table_text(rows), "", *comparison.notes]).rstrip()


def _difference_text(found: Difference | None) -> str:
    return MISSING if found is None else interval_text(found.medians, signed)


def runs_json(comparison: RunComparison) -> dict[str, Json]:
    """Return the comparison as one object."""
    columns: list[Json] = [
        {"name": one.name, "run": comparison.runs[one.run], "treatment": one.treatment, "base": one.base}
        for one in comparison.columns
    ]
    metrics: list[Json] = []
    for line in comparison.lines:
        found: dict[str, Json] = {one.name: _cells(line, one) for one in comparison.columns}
        metric = line.metric
        metrics.append(
            {
                "workload": line.workload,
                "name": metric.name,
                "unit": metric.unit,
                "better": metric.better,
                "columns": found,
            }
        )
    return {"runs": list(comparison.runs), "columns": columns, "metrics": metrics, "notes": list(comparison.notes)}


def _cells(line: Line, column: Column) -> dict[str, Json]:
    middle, found = line.median(column), line.difference(column)
    apart = None if found is None else found.medians
    return {
        "count": middle.count,
        "median": middle.estimate,
        "low": middle.low,
        "high": middle.high,
        "difference": None if apart is None else apart.estimate,
        "difference_low": None if apart is None else apart.low,
        "difference_high": None if apart is None else apart.high,
        "cliffs_delta": None if found is None else found.cliffs_delta,
    }


def runs_csv(comparison: RunComparison) -> str:
    """Return a row for each metric and column; unknown values are empty."""
    target = io.StringIO()
    head = ["workload", "metric", "unit", "better", "run", "treatment", "compared_with"]
    writer = csv.writer(target, lineterminator="\n")
    written = False
    for line in comparison.lines:
        metric = line.metric
        for column in comparison.columns:
            cells = _cells(line, column)
            if not written:
                writer.writerow([*head, *cells])
                written = True
            name = (line.workload, metric.name, metric.unit, metric.better)
            writer.writerow([*name, comparison.runs[column.run], column.treatment, column.base, *cells.values()])
    return target.getvalue()
