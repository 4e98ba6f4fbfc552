"""The finding in a sentence or two, composed from the figures and careful about what they show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.report.choose import headlines
from wavebed.report.numbers import figure
from wavebed.report.table import difference, metric_rows

if TYPE_CHECKING:
    from wavebed.report.source import Results
    from wavebed.report.table import Row

__all__ = ["finding"]

MOST = 3


def finding(results: Results) -> str:
    """Return what was measured of the first workloads that tell most."""
    rows = metric_rows(results)
    parts = []
    for workload, name in list(headlines(results))[:MOST]:
        row = next((row for row in rows.get(workload, ()) if row.metric.name == name), None)
        if row is not None:
            parts.append(_sentence(results, workload, row))
    if not parts:
        return "No trial gave a figure that counts; the verdicts below say why."
    return " ".join(parts)


def _sentence(results: Results, workload: str, row: Row) -> str:
    unit = f" {row.metric.unit}" if row.metric.unit else ""
    told = []
    for treatment in results.treatments:
        values = row.values[treatment]
        if not values:
            told.append(f"not measured with {treatment}")
            continue
        who = f" with {treatment}" if len(results.treatments) > 1 else ""
        told.append(f"{figure(row.median(treatment).median)}{unit}{who}{_of(len(values))}")
    return f"{workload}: {row.metric.name} {', '.join(told)}{_difference(results, row)}."


def _of(count: int) -> str:
    return " (one trial)" if count == 1 else f" (median of {count} trials)"


def _difference(results: Results, row: Row) -> str:
    """Say that treatments differ only where the interval of the paired difference leaves out 0."""
    if len(results.treatments) != 2:
        return ""
    first, other = results.treatments
    interval = difference(row, first, other)
    if interval is None:
        return ""
    if interval.low is None or interval.high is None:
        return "; too few pairs of trials to say whether they differ"
    bounds = f"95 % interval of the paired difference {figure(interval.low)} to {figure(interval.high)}"
    if interval.low > 0:
        return f"; higher with {other}, {bounds}"
    if interval.high < 0:
        return f"; lower with {other}, {bounds}"
    return f"; no difference is shown, {bounds}"
