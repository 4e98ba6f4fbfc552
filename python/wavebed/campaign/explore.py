"""Exploratory findings: all comparisons in all metrics that are not primary, or the largest of too many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wavebed.campaign.decide import Answer, Question, Values, answer_of
from wavebed.stats.family import Primary, explore
from wavebed.stats.verdict import Margin

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from wavebed.campaign.matrix import Matrix
    from wavebed.result.campaign import Comparison
    from wavebed.stats.paired import Design

__all__ = ["MOST_EXPLORED", "Exploration", "exploration"]

MOST_EXPLORED = 2000
"""More findings than this cost seconds, and nobody reads them."""


@dataclass(frozen=True, slots=True)
class Exploration:
    """Findings on metrics that are not primary, each by itself.

    Parameters
    ----------
    total : int
        Number of comparisons in all these metrics that have a value.
    answers : sequence of Answer
        The findings, by metric and comparison; if there are more than `MOST_EXPLORED`, those of the largest differences
        relative to their spread over the blocks.
    """

    total: int
    answers: Sequence[Answer]


def exploration(
    metrics: Iterable[Matrix], pairs: Sequence[Comparison], cells: Sequence[str], blocks: Sequence[int], design: Design
) -> Exploration:
    """Return findings on metrics, each by itself: with many of them, some are false alarms.

    Parameters
    ----------
    metrics : iterable of Matrix
        Those that are not primary.
    cells, blocks : sequence
        Rows and columns of the matrices.
    """
    places = {cell: place for place, cell in enumerate(cells)}
    first = np.array([places[pair.baseline] for pair in pairs], np.intp)
    other = np.array([places[pair.cell] for pair in pairs], np.intp)
    each = list(metrics)
    sizes = np.array([_relative_size(one.values[other] - one.values[first]) for one in each]).reshape(
        len(each), len(pairs)
    )
    chosen = np.flatnonzero(np.isfinite(sizes))
    total = len(chosen)
    if total > MOST_EXPLORED:
        largest = np.argsort(-sizes.ravel()[chosen], kind="stable")[:MOST_EXPLORED]
        chosen = np.sort(chosen[largest])
    asked = []
    for place in chosen.tolist():
        metric, pair = each[place // len(pairs)], pairs[place % len(pairs)]
        two = {name: _by_block(metric.values[places[name]], blocks) for name in (pair.baseline, pair.cell)}
        values = Values(metric.workload, metric.metric, metric.unit, metric.better, two)
        asked.append(Question(pair, values, Margin(0.0), ""))
    findings = explore([_primary(question) for question in asked], design)
    found = [answer_of(question, finding, blocks, design) for question, finding in zip(asked, findings, strict=True)]
    return Exploration(total, found)


def _by_block(values: NDArray[np.float64], blocks: Sequence[int]) -> dict[int, float]:
    return {block: value for block, value in zip(blocks, values.tolist(), strict=True) if np.isfinite(value)}


def _primary(question: Question) -> Primary:
    first, other = (question.values.by_cell[name] for name in (question.pair.baseline, question.pair.cell))
    both = [block for block in first if block in other]
    a, b = [first[block] for block in both], [other[block] for block in both]
    return Primary(a, b, question.margin, question.values.direction)


def _relative_size(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean difference of each comparison in standard errors; NaN without a pair, 0 if all are 0."""
    known = np.isfinite(differences)
    count = known.sum(axis=1)
    values = np.where(known, differences, 0.0)
    mean = values.sum(axis=1) / np.maximum(count, 1)
    spread = np.sqrt((np.where(known, differences - mean[:, None], 0.0) ** 2).sum(axis=1) / np.maximum(count - 1, 1))
    error = np.maximum(spread, 1e-12 * np.abs(mean)) / np.sqrt(np.maximum(count, 1))
    sizes = np.divide(np.abs(mean), error, out=np.zeros_like(mean), where=error > 0)
    return np.asarray(np.where(count > 0, sizes, np.nan))
