"""The results of a run as text for a terminal, and as a JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.report.numbers import figure
from wavebed.report.source import read_results
from wavebed.report.table import metric_rows
from wavebed.result.model import COUNTED
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.report.table import Row
    from wavebed.result.model import TrialLine
    from wavebed.stats.intervals import Interval

__all__ = ["interval_text", "summary_json", "summary_text"]


def summary_text(run_dir: Path) -> str:
    """Return a table with a row for every measured metric and a column for every treatment, then the verdicts.

    A cell is the median of the counted trials; with six or more, its 95 % interval is in brackets.

    Raises
    ------
    UserError
        If the folder has no results.
    """
    results = read_results(run_dir)
    lines: list[tuple[str, ...]] = [("", *results.treatments)]
    for workload, rows in metric_rows(results).items():
        measured = [row for row in rows if any(row.values.values())]
        lines.extend(
            (f"{workload}: {_named(row)}", *(interval_text(row.median(treatment)) for treatment in results.treatments))
            for row in measured
        )
    return "\n".join([table_text(lines), "", *_verdicts(results.run.record.trials)])


def _named(row: Row) -> str:
    return f"{row.metric.name}, {row.metric.unit}" if row.metric.unit else row.metric.name


def interval_text(interval: Interval, write: Callable[[float | None], str] = figure) -> str:
    """Return an estimate, and its interval, if any, in brackets."""
    if interval.low is None or interval.high is None:
        return write(interval.estimate)
    return f"{write(interval.estimate)} [{write(interval.low)}, {write(interval.high)}]"


def _verdicts(trials: Sequence[TrialLine]) -> list[str]:
    counts: dict[tuple[str, str], int] = {}
    for line in trials:
        key = (line.treatment, line.verdict)
        counts[key] = counts.get(key, 0) + 1
    return [
        f"{treatment}: {count} {verdict}{'' if verdict in COUNTED else ', left out'}"
        for (treatment, verdict), count in counts.items()
    ]


def summary_json(run_dir: Path, report: Path | None) -> dict[str, Json]:
    """Return what ``wavebed run --json`` prints: the medians with intervals by workload, metric and treatment.

    Parameters
    ----------
    report : pathlib.Path or None
        Its report; ``None`` if there is none.

    Raises
    ------
    UserError
        If the folder has no results.
    """
    results = read_results(run_dir)
    metrics: list[Json] = []
    for workload, rows in metric_rows(results).items():
        for row in rows:
            by_treatment: dict[str, Json] = {}
            for treatment in results.treatments:
                interval = row.median(treatment)
                by_treatment[treatment] = {
                    "median": interval.estimate,
                    "low": interval.low,
                    "high": interval.high,
                    "level": interval.level,
                    "count": interval.count,
                }
            metrics.append(
                {"workload": workload, "name": row.metric.name, "unit": row.metric.unit, "treatments": by_treatment}
            )
    trials = results.run.record.trials
    verdicts: dict[str, Json] = {}
    for verdict in dict.fromkeys(line.verdict for line in trials):
        verdicts[verdict] = sum(line.verdict == verdict for line in trials)
    return {
        "folder": str(run_dir),
        "trials": len(trials),
        "verdicts": verdicts,
        "metrics": metrics,
        "report": None if report is None else str(report),
    }
