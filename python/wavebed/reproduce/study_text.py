"""The comparison with a study as text and JSON."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from wavebed.report.numbers import MISSING, figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.config.data import Json
    from wavebed.reproduce.judge import Beside
    from wavebed.reproduce.study import PartResults

__all__ = ["counts_text", "ours_text", "study_json", "study_text"]


def ours_text(beside: Beside) -> str:
    """Return our median with its interval, if there is one."""
    ours = beside.ours
    if ours.estimate is None:
        return MISSING
    if ours.low is None or ours.high is None:
        return figure(ours.estimate)
    return f"{figure(ours.estimate)} ({figure(ours.low)} to {figure(ours.high)})"


def counts_text(found: Sequence[Beside]) -> str:
    """Return how many figures have which verdict."""
    counts = Counter(each.verdict for each in found)
    near = sum(each.within for each in found)
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    return f"{len(found)} published figures: {verdicts}; the median is within the tolerance in {near}"


def study_text(parts: Sequence[PartResults]) -> str:
    """Return a table for each part, and how many figures have which verdict."""
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
                each.verdict,
            ]
            for each in part.beside
        ]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *rows)]
        told = [part.part.title, "", *(line.rstrip() for line in lines), "", counts_text(part.beside)]
        blocks.append("\n".join(told))
    return "\n\n".join(blocks)


def study_json(parts: Sequence[PartResults]) -> dict[str, Json]:
    """Return the comparison of each part."""
    return {
        part.part.name: [
            {
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
            }
            for each in part.beside
        ]
        for part in parts
    }
