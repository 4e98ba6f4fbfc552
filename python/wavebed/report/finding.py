"""The finding of a run in up to three sentences, from its metrics and their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.report.choose import headlines
from wavebed.report.numbers import figure
from wavebed.report.table import difference, metric_rows
from wavebed.stats.intervals import FEWEST

if TYPE_CHECKING:
    from wavebed.report.source import Results
    from wavebed.report.table import Row

__all__ = ["finding"]

MOST = 3
_ORDER = ("web", "video", "call", "voice", "download", "bulk", "latency")
"""Order of the kinds of workloads: user experience first."""


def finding(results: Results) -> list[str]:
    """Return a sentence on the main metric of each of the first workloads."""
    rows = metric_rows(results)
    parts = []
    order = sorted(headlines(results), key=lambda head: _place(dict(results.workloads)[head[0]]))
    for workload, name in order[:MOST]:
        row = next((row for row in rows.get(workload, ()) if row.metric.name == name), None)
        if row is not None:
            parts.append(_sentence(results, workload, row))
    if not parts:
        return ["No counted trial has a metric; the verdicts below have the reasons."]
    return parts


def _place(kind: str) -> int:
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)


def _sentence(results: Results, workload: str, row: Row) -> str:
    unit = f" {row.metric.unit}" if row.metric.unit else ""
    told = []
    counts = {len(row.values[treatment]) for treatment in results.treatments}
    for treatment in results.treatments:
        values = row.values[treatment]
        if not values:
            told.append(f"not measured with {treatment}")
            continue
        who = f" with {treatment}" if len(results.treatments) > 1 else ""
        told.append(f"{figure(row.median(treatment).estimate)}{unit}{who}{_of(len(values)) if len(counts) > 1 else ''}")
    of = _of(counts.pop(), each=len(told) > 1) if len(counts) == 1 else ""
    return f"{workload}: {row.metric.name} {', '.join(told)}{of}{_difference(results, row)}."


def _of(count: int, *, each: bool = False) -> str:
    return f" ({'one trial' if count == 1 else f'median of {count} trials'}{' each' if each else ''})"


def _difference(results: Results, row: Row) -> str:
    """Return text on the paired difference; treatments differ only if its interval excludes 0."""
    if len(results.treatments) != 2:
        return ""
    first, other = results.treatments
    interval = difference(row, first, other)
    if interval is None:
        return ""
    if interval.low is None or interval.high is None:
        return f"; not enough trials to compare ({interval.count} of at least {FEWEST} pairs)"
    bounds = f"95 % interval of the paired difference {figure(interval.low)} to {figure(interval.high)}"
    if interval.low > 0:
        return f"; higher with {other}, {bounds}"
    if interval.high < 0:
        return f"; lower with {other}, {bounds}"
    return f"; no significant difference, {bounds}"
