"""The table of results: metrics with units, medians with intervals, paired differences, and all values as dots."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from wavebed.report.names import breakable, longest_word
from wavebed.report.numbers import MISSING, figure, signed
from wavebed.stats.intervals import Interval, median_interval, paired_difference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.report.source import Results
    from wavebed.workload.model import Metric

__all__ = ["PATH", "Row", "difference", "difference_cell", "interval_cell", "metric_rows", "results_section"]

PATH = "path"
"""The workload name of the transport metrics."""
FIRST_ROWS = 8
"""Metrics of a workload that are always shown; the others are folded."""
MOST_COLUMNS = 4
"""With more treatments each has a row."""
_LETTER_REM = 0.54
"""Width of a letter of the head."""
_ARROWS = {"higher": "↑", "lower": "↓", "neither": ""}
_DOTS_WIDE = 150
_DOTS_ROW = 11


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one workload.

    Parameters
    ----------
    metric : Metric
        Its name, unit and definition; its value is that of one trial.
    values : dict
        By treatment: block and value of each counted trial with a value.
    absent : dict
        By treatment: number of counted trials without a value.
    """

    metric: Metric
    values: dict[str, list[tuple[int, float]]]
    absent: dict[str, int]

    def median(self, treatment: str) -> Interval:
        """Return the median over the trials of a treatment, with its interval."""
        return median_interval([value for _, value in self.values[treatment]])


def metric_rows(results: Results) -> dict[str, list[Row]]:
    """Return the rows of each workload, and of the path under `PATH`, in the order of the trials' records."""
    rows: dict[str, dict[str, Row]] = {}
    for trial in results.counted:
        groups: list[tuple[str, Sequence[Metric]]] = [
            (workload.name, workload.outcome.metrics) for workload in trial.record.workloads
        ]
        for name, metrics in [*groups, (PATH, trial.record.transport)]:
            for metric in metrics:
                blank = Row(metric, {each: [] for each in results.treatments}, dict.fromkeys(results.treatments, 0))
                row = rows.setdefault(name, {}).setdefault(metric.name, blank)
                if metric.value is None:
                    row.absent[trial.line.treatment] += 1
                else:
                    row.values[trial.line.treatment].append((trial.line.block, metric.value))
    order = [name for name, _ in results.workloads] + [PATH]
    return {name: list(rows[name].values()) for name in order if name in rows}


def difference(row: Row, first: str, other: str) -> Interval | None:
    """Return the difference of two treatments paired by seed (Hodges and Lehmann); ``None`` without pairs."""
    base = dict(row.values[first])
    pairs = [(base[block], value) for block, value in row.values[other] if block in base]
    return paired_difference([a for a, _ in pairs], [b for _, b in pairs]) if pairs else None


def results_section(results: Results) -> str:
    """Return the section with a table for each workload."""
    groups = metric_rows(results)
    if not groups:
        return '<section id="results"><h2>Results</h2><p>There are no results: no trial counts.</p></section>'
    notes: dict[str, int] = {}
    kinds = dict(results.workloads)
    tables = []
    for name, rows in groups.items():
        what = (
            "path and transport" if name == PATH else f"{name}" + (f" ({kinds[name]})" if kinds[name] != name else "")
        )
        measured = [row for row in rows if any(row.values.values())]
        never = [row.metric.name for row in rows if not any(row.values.values())]
        tables.append(f"<h3>{escape(what)}</h3>")
        if measured:
            tables.append(_table(results, measured[:FIRST_ROWS], notes, what))
        if measured[FIRST_ROWS:]:
            more = f"{len(measured) - FIRST_ROWS} more metrics of {what}"
            body = _table(results, measured[FIRST_ROWS:], notes, more)
            tables.append(f"<details><summary>{escape(more)}</summary>{body}</details>")
        if never:
            tables.append(f'<p class="soft">Not measured in any counted trial: {escape(", ".join(never))}.</p>')
    return (
        f'<section id="results"><h2>Results</h2>{_how_to_read(results)}{"".join(tables)}{_footnotes(notes)}</section>'
    )


def _how_to_read(results: Results) -> str:
    verdicts = [trial.line.treatment for trial in results.counted]
    most = max((verdicts.count(treatment) for treatment in results.treatments), default=0)
    text = "Median of the counted trials, with its 95 % interval from order statistics (Thompson 1936) below."
    if most and median_interval([0.0] * most).low is None:
        text += " With fewer than 6 trials there is no interval (–)."
    if len(results.treatments) > 1:
        text += (
            f" Differences to {results.treatments[0]} are paired by seed (same channel): Hodges and Lehmann's estimate"
            " with Wilcoxon's interval, bold if that excludes 0."
        )
    return f'<p class="soft">{escape(text)} ↑ higher is better, ↓ lower is better. A dot is a trial.</p>'


def _table(results: Results, rows: Sequence[Row], notes: dict[str, int], caption: str) -> str:
    if len(results.treatments) > MOST_COLUMNS:
        return _long_table(results, rows, notes, caption)
    several = len(results.treatments) > 1
    head = ['<th scope=col class="name">metric</th>', "<th scope=col>unit</th>"]
    for treatment in results.treatments:
        key = f'<span class="key {results.style(treatment)}"></span>' if several else ""
        head.append(f'<th scope=col>{key}{breakable(treatment)}<span class="under">median, 95 %</span></th>')
        head.append("<th scope=col>n</th>")
    under = '<span class="under">paired, 95 %</span>'
    first = results.treatments[0]
    for treatment in results.treatments[1:]:
        head += [f"<th scope=col>{breakable(treatment)} − {breakable(first)}{under}</th>"]
    head.append("<th scope=col>each trial</th>")
    body = "".join(_row(results, row, notes) for row in rows)
    wide, columns = _columns(results.treatments)
    return (
        f'<div class="scroll" tabindex="0"><table class="results" style="min-width:{wide:.1f}rem">'
        f'<caption class="hidden">{escape(caption)}</caption>{columns}<thead><tr>{"".join(head)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _columns(treatments: Sequence[str]) -> tuple[float, str]:
    """Return the least width of a table, rem, and its columns, with room for the longest word of each name.

    The columns are the same in all tables.
    """
    words = [_LETTER_REM * longest_word(treatment) for treatment in treatments]
    widths = [10.0, 4.6]
    for word in words:
        widths += [max(6.8, word + 2.6), 2.7]
    widths += [max(7.4, max(word, words[0]) + 1.4) for word in words[1:]]
    widths.append(11.0)
    columns = "".join(f'<col style="width:{100 * width / sum(widths):.1f}%">' for width in widths)
    return sum(widths), f"<colgroup>{columns}</colgroup>"


def _long_table(results: Results, rows: Sequence[Row], notes: dict[str, int], caption: str) -> str:
    """Return a table with a row for each treatment, where columns for each would not fit."""
    first = results.treatments[0]
    head = (
        '<th scope=col class="name">metric and treatment</th><th scope=col>median<span class="under">95 %</span></th>'
        f'<th scope=col>n</th><th scope=col>difference<span class="under">to {breakable(first)}, 95 %</span></th>'
        "<th scope=col>each trial</th>"
    )
    bodies = []
    for row in rows:
        values = [value for pairs in row.values.values() for _, value in pairs]
        unit = f', <span class="unit">{escape(row.metric.unit)}</span>' if row.metric.unit else ""
        named = f"<b>{escape(row.metric.name)}</b>{unit}{_note(row.metric, notes)}"
        lines = []
        for treatment in results.treatments:
            key = f'<span class="key {results.style(treatment)}"></span>'
            cell = "<td>baseline</td>" if treatment == first else difference_cell(difference(row, first, treatment))
            dots = _dots(results, row, [treatment], values)
            lines.append(
                f'<tr><th scope=row class="name">{key}{breakable(treatment)}</th>{_median_cells(row, treatment)}{cell}'
                f'<td class="dots">{dots}</td></tr>'
            )
        ends = f'<span class="under">{escape(_ends(values))}</span>'
        bodies.append(
            f'<tbody><tr class="metric"><th scope=rowgroup colspan=4>{named}</th><td class="dots">{ends}</td></tr>'
            f"{''.join(lines)}</tbody>"
        )
    return (
        f'<div class="scroll" tabindex="0"><table class="results long">'
        f'<caption class="hidden">{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead>{''.join(bodies)}</table></div>"
    )


def _row(results: Results, row: Row, notes: dict[str, int]) -> str:
    metric = row.metric
    cells = [
        f'<th scope=row class="name">{escape(metric.name)}{_note(metric, notes)}</th>',
        f'<td class="unit">{escape(metric.unit)}</td>',
        *(_median_cells(row, treatment) for treatment in results.treatments),
    ]
    for treatment in results.treatments[1:]:
        cells += [difference_cell(difference(row, results.treatments[0], treatment))]
    values = [value for pairs in row.values.values() for _, value in pairs]
    ends = f'<span class="under">{escape(_ends(values))}</span>'
    cells.append(f'<td class="dots">{_dots(results, row, results.treatments, values)}{ends}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _note(metric: Metric, notes: dict[str, int]) -> str:
    """Return the number of the definition of a metric, and which direction is better."""
    note = ""
    if metric.definition:
        number = notes.setdefault(metric.definition, len(notes) + 1)
        note = f'<sup><a href="#note-{number}" title="{escape(metric.definition)}">{number}</a></sup>'
    arrow = _ARROWS.get(metric.better, "")
    return note + (f' <span class="arrow" title="{metric.better} is better">{arrow}</span>' if arrow else "")


def _median_cells(row: Row, treatment: str) -> str:
    absent, count = row.absent[treatment], len(row.values[treatment])
    title = f' title="not measured in {absent} more"' if absent else ""
    median = interval_cell(row.median(treatment)) if count else f"<td>{MISSING}</td>"
    return f'{median}<td class="n"{title}>{count}{"*" if absent else ""}</td>'


def interval_cell(interval: Interval) -> str:
    """Return a cell with an estimate, and its interval below it."""
    return f"<td>{figure(interval.estimate)}{_bounds(interval, figure)}</td>"


def _bounds(interval: Interval, write: object) -> str:
    assert callable(write), "a writer of numbers"
    if interval.low is None or interval.high is None:
        return f'<span class="under" title="too few trials for an interval">{MISSING}</span>'
    return f'<span class="under">{write(interval.low)} to {write(interval.high)}</span>'


def difference_cell(interval: Interval | None) -> str:
    """Return a cell with a difference, bold if its interval excludes 0."""
    if interval is None:
        return f'<td title="no seed has a value of both treatments">{MISSING}</td>'
    clear = interval.low is not None and interval.high is not None and (interval.low > 0 or interval.high < 0)
    text = signed(interval.estimate)
    return f"<td>{f'<b>{text}</b>' if clear else text}{_bounds(interval, signed)}</td>"


def _dots(results: Results, row: Row, treatments: Sequence[str], values: Sequence[float]) -> str:
    """Draw the values of treatments as dots on the scale of all `values`, a row for each treatment."""
    low, high = min(values), max(values)
    width = high - low or 1.0
    high_px = _DOTS_ROW * len(treatments)
    dots = []
    for place, treatment in enumerate(treatments):
        y = _DOTS_ROW * (place + 0.5)
        dots += [
            f'<circle class="dot {results.style(treatment)}" cx="{5 + (value - low) / width * (_DOTS_WIDE - 10):.1f}"'
            f' cy="{y:g}" r="3"/>'
            for _, value in row.values[treatment]
        ]
    size = f'viewBox="0 0 {_DOTS_WIDE} {high_px}" width="{_DOTS_WIDE}" height="{high_px}"'
    label = f"{len(dots)} values, scale {_ends(values)}"
    return f'<svg class="strip-plot" {size} role="img" aria-label="{escape(label)}">{"".join(dots)}</svg>'


def _ends(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{figure(low)} to {figure(high)}" if high > low else f"all {figure(low)}"


def _footnotes(notes: dict[str, int]) -> str:
    if not notes:
        return ""
    lines = "".join(f'<li id="note-{number}">{escape(text)}</li>' for text, number in notes.items())
    return f'<details class="notes"><summary>Definitions</summary><ol>{lines}</ol></details>'
