"""The tables of a study: published figures beside ours, and hypotheses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.campaign.report.tables import Table
from wavebed.report.numbers import MISSING, figure
from wavebed.reproduce.published import read_published
from wavebed.reproduce.study_words import (
    again_text,
    counts_text,
    distance_text,
    explains_text,
    moved_text,
    ours_text,
    published_text,
    verdict_text,
    within_text,
)
from wavebed.reproduce.values import median_of, without_published

if TYPE_CHECKING:
    from wavebed.campaign.report.tables import Cell
    from wavebed.reproduce.judge import Beside
    from wavebed.reproduce.study import PartResults

__all__ = ["changes_table", "figures_table", "further_table", "hypotheses_table", "predictions_table"]


def figures_table(part: PartResults) -> Table:
    """Return each published figure and ours; ours alone if nothing was published."""
    if not part.beside:
        return _own_table(part)
    factors = list(part.beside[0].published.levels)
    rows: list[list[Cell]] = [
        [
            *(each.published.levels[name] for name in factors),
            f"{each.published.metric}, {each.published.unit}".removesuffix(", "),
            published_text(each.published),
            ours_text(each.ours),
            MISSING if each.ratio is None else f"{each.ratio:.2f}",
            each.ours.count,
            verdict_text(each),
        ]
        for each in part.beside
    ]
    head = [*factors, "metric", "published", "ours", "ratio", "n", "verdict"]
    return Table(f"{part.part.name}-figures", f"{counts_text(part.beside)}.", head, rows)


def _own_table(part: PartResults) -> Table:
    """Return our medians and their intervals: a row for each cell, a column for each metric of the part."""
    results = part.results
    measured = [
        matrix for name in part.part.metrics for (_, metric), matrix in results.matrices.items() if metric == name
    ]
    rows: list[list[Cell]] = []
    for place, cell in enumerate(results.cells):
        ours = [median_of(matrix.values[place]) for matrix in measured]
        trials = max((each.count for each in ours), default=0)
        rows.append([*results.levels[cell].values(), *map(ours_text, ours), trials])
    head = [*next(iter(results.levels.values())), *(matrix.title_with_unit for matrix in measured), "n"]
    return Table(f"{part.part.name}-figures", "Nothing was published. These are our medians.", head, rows)


def further_table(part: PartResults) -> Table:
    """Return our figures of cells of which no number was published; a part with hypotheses has none."""
    if not part.beside or part.tried:
        return Table(f"{part.part.name}-further", "", (), ())
    factors = list(part.beside[0].published.levels)
    _, published = read_published(part.part.figures or part.part.campaign)
    rows: list[list[Cell]] = [
        [
            *(levels[name] for name in factors),
            matrix.workload,
            f"{matrix.metric}, {matrix.unit}",
            ours_text(ours),
            ours.count,
        ]
        for levels, matrix, ours in without_published(part.results, [each.published for each in part.beside], published)
    ]
    return Table(f"{part.part.name}-further", "", [*factors, "workload", "metric", "ours", "n"], rows)


def hypotheses_table(part: PartResults) -> Table:
    """Return the hypotheses of a part and what their runs gave."""
    head = ("hypothesis", "fitted", "held out", "within", "moved", "expected", "found", "explains")
    rows = [
        [
            each.hypothesis.label,
            distance_text(each.fitted),
            distance_text(each.held_out),
            within_text(each),
            moved_text(each),
            each.hypothesis.expected or MISSING,
            each.found or MISSING,
            explains_text(each),
        ]
        for each in part.tried
    ]
    return Table(f"{part.part.name}-hypotheses", "", head, rows)


def predictions_table(part: PartResults) -> Table:
    """Return what each hypothesis says, and what was predicted in which commit."""
    rows = [
        [
            each.hypothesis.label,
            each.hypothesis.claim,
            each.hypothesis.prediction or MISSING,
            each.hypothesis.commit or MISSING,
            f"`{again_text(part.part, each.hypothesis)}`",
        ]
        for each in part.tried
    ]
    return Table(f"{part.part.name}-predictions", "", ("hypothesis", "claim", "prediction", "commit", "again"), rows)


def changes_table(part: PartResults) -> Table:
    """Return each published figure, and ours with each change; an asterisk: within the tolerance."""
    factors = list(part.beside[0].published.levels)
    head = [*factors, "metric", "published", *(each.hypothesis.label for each in part.tried)]
    rows: list[list[Cell]] = [
        [
            *(each.published.levels[name] for name in factors),
            each.published.metric,
            published_text(each.published),
            *(_marked(tried.beside[place]) for tried in part.tried),
        ]
        for place, each in enumerate(part.beside)
    ]
    caption = "Median with each change; an asterisk: within the tolerance of the published figure."
    return Table(f"{part.part.name}-changes", caption, head, rows)


def _marked(beside: Beside) -> str:
    return f"{figure(beside.ours.estimate)}{'*' if beside.within else ''}"
