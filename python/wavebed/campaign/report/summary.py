"""The summary of each cell: number of values, median with its interval, range, and the percentiles that it bears."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from wavebed.campaign.report.tables import Table, html_table
from wavebed.stats.verdict import needed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.campaign.report.chosen import Chosen
    from wavebed.campaign.report.tables import Cell
    from wavebed.campaign.results import Matrix

MOST_ROWS = 60
MOST_FILED = 100_000
"""Rows of the table of all metrics; with more it has the primary metrics only."""
_UPPER = (0.9, 0.95, 0.99)


def summary_table(chosen: Chosen) -> Table:
    """Return a row for each cell and metric; of all metrics, or of the primary ones if that is too many."""
    every = list(chosen.results.matrices.values())
    metrics = every if len(every) * len(chosen.results.cells) <= MOST_FILED else chosen.metrics
    first = [metric.key for metric in chosen.metrics]
    ordered = [*chosen.metrics, *(metric for metric in metrics if metric.key not in first)]
    rows: list[Sequence[Cell]] = []
    shares = _borne(ordered)
    for metric in ordered:
        rows += _rows(chosen, metric, chosen.results.cells, shares)
    caption = "Values of each cell over the blocks: median with its 95 % interval by order statistics."
    return Table("summary", caption, _head(shares), rows)


def _head(shares: Sequence[float]) -> list[str]:
    head = ["metric", "unit", "cell", "n", "median", "low", "high", "least", "largest"]
    return head + [text for share in shares for text in (_named(share), f"{_named(share)} bound")]


def _named(share: float) -> str:
    return f"tail {100 * share:g} %"


def _borne(metrics: Sequence[Matrix]) -> list[float]:
    """Return the tails that at least one cell has values enough for."""
    most = max((int(metric.counts.max(initial=0)) for metric in metrics), default=0)
    return [share for share in _UPPER if most >= needed(share)]


def _rows(chosen: Chosen, metric: Matrix, cells: Sequence[str], shares: Sequence[float]) -> list[Sequence[Cell]]:
    measured = metric.counts > 0
    medians = metric.medians()
    filled = np.where(np.isfinite(metric.values), metric.values, np.nan)
    least = np.min(np.where(np.isnan(filled), np.inf, filled), axis=1, initial=np.inf)
    largest = np.max(np.where(np.isnan(filled), -np.inf, filled), axis=1, initial=-np.inf)
    columns = [medians.estimate, medians.low, medians.high, least, largest]
    for share in shares:
        # The tail that matters: large values, but small ones where more is better.
        found = metric.percentiles(1 - share if metric.better == "higher" else share)
        columns += [found.estimate, found.low if metric.better == "higher" else found.high]
    numbers = np.column_stack(columns)
    counts = metric.counts.tolist()
    return [
        [metric.title, metric.unit, cell, counts[row], *(_known(value) for value in numbers[row].tolist())]
        for cell in cells
        if measured[row := chosen.row(cell)]
    ]


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None


def summary_section(chosen: Chosen, link: str) -> str:
    """Return the section; `link` is the table as a file."""
    shares = _borne(chosen.metrics)
    parts = []
    for metric in chosen.metrics:
        cells = chosen.cells(metric, MOST_ROWS)
        rows = [row[2:] for row in _rows(chosen, metric, cells, shares)]
        table = Table("", metric.title, _head(shares)[2:], rows)
        left = ""
        if len(cells) < int((metric.counts > 0).sum()):
            left = (
                f'<p class="soft">{len(cells)} of {len(chosen.results.cells)} cells, those of the largest effects.</p>'
            )
        told = f'<p class="soft">{escape(metric.definition)}</p>' if metric.definition else ""
        unit = f', <span class="unit">{escape(metric.unit)}</span>' if metric.unit else ""
        parts.append(f"<h3>{escape(metric.title)}{unit}</h3>{told}{html_table(table, 'summary', MOST_ROWS)}{left}")
    few = (
        f"The tail of 90 % is given from {needed(0.9)} values, of 95 % from {needed(0.95)}, of 99 % from"
        f" {needed(0.99)}: with fewer, no value of the sample bounds it."
    )
    text = (
        f"Counted trials. Low and high: 95 % interval of the median by order statistics (Thompson 1936), from 6 values."
        f" {few} Of metrics of which more is better, the tail is the low one. {link}"
    )
    return f'<section id="cells"><h2>Cells</h2><p class="soft">{text}</p>{"".join(parts)}</section>'
