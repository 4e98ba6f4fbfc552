"""The comparison with a study as text and JSON."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from wavebed.report.numbers import MISSING, figure

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wavebed.config.data import Json
    from wavebed.reproduce.hypotheses import Tried
    from wavebed.reproduce.judge import Beside
    from wavebed.reproduce.study import PartResults

__all__ = ["counts_text", "distance_text", "moved_text", "ours_text", "study_json", "study_text", "verdict_text"]


def ours_text(beside: Beside) -> str:
    """Return our median with its interval, if there is one."""
    ours = beside.ours
    if ours.estimate is None:
        return MISSING
    if ours.low is None or ours.high is None:
        return figure(ours.estimate)
    return f"{figure(ours.estimate)} ({figure(ours.low)} to {figure(ours.high)})"


def counts_text(found: Sequence[Beside]) -> str:
    """Return how many figures, and how many ratios, have which verdict."""
    figures = [each for each in found if not each.published.is_ratio]
    ratios = [each for each in found if each.published.is_ratio]
    told = [f"{len(figures)} published figures: {_verdicts(figures)}"] if figures else []
    if ratios:
        orders = _counted(each.order for each in ratios)
        told.append(f"{len(ratios)} published ratios: {_verdicts(ratios)}; {orders}")
    return ". ".join(told)


def _verdicts(found: Sequence[Beside]) -> str:
    near = sum(each.within for each in found)
    return f"{_counted(each.verdict for each in found)}; the median is within the tolerance in {near}"


def _counted(words: Iterable[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in Counter(words).most_common())


def verdict_text(beside: Beside) -> str:
    """Return the verdict, with the order of a ratio."""
    return f"{beside.verdict}, {beside.order}" if beside.order else beside.verdict


def distance_text(distance: float | None) -> str:
    """Return a mean ``|ln ratio|`` with its factor: 0.69 is a factor of 2."""
    return MISSING if distance is None else f"{distance:.2f}"


def moved_text(tried: Tried) -> str:
    """Return how many held-out figures a change moves inside the tolerance and out of it."""
    return MISSING if tried.found is None else f"{tried.inside} in, {tried.outside} out"


def study_text(parts: Sequence[PartResults]) -> str:
    """Return a table for each part, how many figures have which verdict, and the hypotheses."""
    blocks = []
    for part in parts:
        factors = list(part.beside[0].published.levels)
        head = [*factors, "metric", "published", "ours", "ratio", "n", "verdict"]
        rows = [
            [
                *(each.published.levels[name] for name in factors),
                f"{each.published.metric}, {each.published.unit}",
                figure(each.published.value),
                ours_text(each),
                MISSING if each.ratio is None else f"{each.ratio:.2f}",
                str(each.ours.count),
                verdict_text(each),
            ]
            for each in part.beside
        ]
        blocks.append("\n".join([part.part.title, "", *_lines(head, rows), "", counts_text(part.beside)]))
        if part.tried:
            blocks.append("\n".join([f"{part.part.title}: hypotheses", "", *_lines(_TRIED, _tried(part.tried))]))
    return "\n\n".join(blocks)


_TRIED = ("hypothesis", "fitted", "held out", "moved", "expected", "found", "explains")


def _tried(tried: Sequence[Tried]) -> list[list[str]]:
    return [
        [
            each.hypothesis.name or each.hypothesis.level,
            distance_text(each.fitted),
            distance_text(each.held_out),
            moved_text(each),
            each.hypothesis.expected or MISSING,
            each.found or MISSING,
            MISSING if each.found is None else "yes" if each.explains else "no",
        ]
        for each in tried
    ]


def _lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *rows))
    return [line.rstrip() for line in lines]


def study_json(parts: Sequence[PartResults]) -> dict[str, Json]:
    """Return the comparison of each part, and its hypotheses."""
    found: dict[str, Json] = {part.part.name: [_figure_json(each) for each in part.beside] for part in parts}
    hypotheses: dict[str, Json] = {
        part.part.name: [_tried_json(each) for each in part.tried] for part in parts if part.tried
    }
    return {**found, "hypotheses": hypotheses} if hypotheses else found


def _figure_json(each: Beside) -> dict[str, Json]:
    return {
        **each.published.levels,
        "workload": each.published.workload,
        "metric": each.published.metric,
        "unit": each.published.unit,
        "figure": each.published.figure,
        "published": each.published.value,
        "reading_error": each.published.error,
        "ours": each.ours.estimate,
        "low": each.ours.low,
        "high": each.ours.high,
        "level": each.ours.level,
        "trials": each.ours.count,
        "ratio": each.ratio,
        "verdict": each.verdict,
        "order": each.order,
    }


def _tried_json(each: Tried) -> dict[str, Json]:
    return {
        "hypothesis": each.hypothesis.name or each.hypothesis.level,
        "claim": each.hypothesis.claim,
        "distance_fitted": each.fitted,
        "distance_held_out": each.held_out,
        "inside": each.inside,
        "outside": each.outside,
        "prediction": each.hypothesis.prediction,
        "expected": each.hypothesis.expected,
        "found": each.found,
        "commit": each.hypothesis.commit,
        "figures": [_figure_json(figure) for figure in each.beside],
    }
