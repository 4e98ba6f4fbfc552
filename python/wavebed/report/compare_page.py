"""The page that compares runs: a table for each workload, and other differences between the runs."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from wavebed.report.document import document
from wavebed.report.numbers import MISSING
from wavebed.report.table import difference_cell, interval_cell
from wavebed.stats.intervals import FEWEST

if TYPE_CHECKING:
    from wavebed.report.compare import Line, RunComparison

__all__ = ["runs_page"]


def runs_page(comparison: RunComparison) -> str:
    """Return the page, which needs no network."""
    names = ", ".join(comparison.runs)
    head = (
        f'<header><h1>{len(comparison.runs)} runs compared</h1><p class="soft">{escape(names)}</p></header>'
        + "".join(f'<p class="warn">{escape(note)}.</p>' for note in comparison.notes)
    )
    how = (
        '<p class="soft">Median of the counted trials, with its 95 % interval below. Runs are independent samples: the'
        " difference is that of the medians, with its bootstrap interval, bold if that excludes 0. With fewer than"
        f" {FEWEST} trials of a run there is no interval (–).</p>"
    )
    workloads = dict.fromkeys(line.workload for line in comparison.lines)
    tables = "".join(_table(comparison, name) for name in workloads)
    return document(f"Runs: {names}", f'{head}<section id="results"><h2>Results</h2>{how}{tables}</section>', "")


def _table(comparison: RunComparison, workload: str) -> str:
    compared = [column for column in comparison.columns if column.base is not None]
    head = ['<th scope=col class="name">metric</th><th scope=col>unit</th>']
    head += [f"<th scope=col>{escape(column.name)}</th><th scope=col>n</th>" for column in comparison.columns]
    head += [f"<th scope=col>{escape(column.name)} − {escape(column.base or '')}</th>" for column in compared]
    rows = "".join(_row(comparison, line) for line in comparison.lines if line.workload == workload)
    return (
        f'<h3>{escape(workload)}</h3><div class="scroll"><table class="results">'
        f"<thead><tr>{''.join(head)}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(comparison: RunComparison, line: Line) -> str:
    metric = line.metric
    cells = [
        f'<th scope=row class="name" title="{escape(metric.definition)}">{escape(metric.name)}</th>',
        f'<td class="unit">{escape(metric.unit)}</td>',
    ]
    for column in comparison.columns:
        median = line.median(column)
        cells.append(interval_cell(median) if median.count else f"<td>{MISSING}</td>")
        cells.append(f'<td class="n">{median.count}</td>')
    for column in comparison.columns:
        if column.base is not None:
            found = line.difference(column)
            cells.append(difference_cell(None if found is None else found.medians))
    return f"<tr>{''.join(cells)}</tr>"
