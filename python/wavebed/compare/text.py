"""A comparison as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.compare.words import (
    EXPLORATORY,
    counts_text,
    effect_text,
    p_text,
    primary_title,
    reason_text,
    sample_text,
)
from wavebed.report.numbers import MISSING, signed
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wavebed.compare.find import Answer, Comparison

__all__ = ["comparison_text"]

MOST_ROWS = 600


def comparison_text(comparison: Comparison) -> str:
    """Return a table for each column beside its base, of primary and of other metrics, and the notes."""
    return "\n".join([*_tables(comparison), *comparison.notes]).rstrip()


def _tables(comparison: Comparison) -> Iterator[str]:
    columns = {column.name: column for column in comparison.columns}
    left = MOST_ROWS
    cut = 0
    for name, answers in comparison.by_column.items():
        column = columns[name]
        base = next(one.name for one in comparison.columns if not one.folder and one.treatment == column.base)
        primary = [answer for answer in answers if answer.question.goal is not None]
        others = [answer for answer in answers if answer.question.goal is None]
        shown, more = primary[:left], others[: max(left - len(primary), 0)]
        left -= len(shown) + len(more)
        cut += len(answers) - len(shown) - len(more)
        if shown or more:
            yield f"{name} beside {base}"
        for title, mine in ((primary_title(comparison), shown), (EXPLORATORY, more)):
            if mine:
                yield from (f"{title}:", table_text(_rows(base, name, mine)), "")
    if cut:
        yield f"and {cut} more comparisons: --csv and --json have all"
    if not comparison.answers:
        yield "no metric was measured by two folders"


def _rows(base: str, name: str, answers: Sequence[Answer]) -> list[tuple[str, ...]]:
    margin = ("margin",) if answers[0].question.goal is not None else ()
    rows = [("metric", base, name, *margin, "verdict", "difference", "p", "delta", "n", "")]
    for answer in answers:
        question, finding = answer.question, answer.finding
        rows.append(
            (
                question.name,
                sample_text(question.a),
                sample_text(question.b),
                *(() if question.goal is None else (question.goal.text,)),
                finding.verdict,
                effect_text(answer),
                p_text(finding.adjusted),
                MISSING if answer.delta is None else signed(answer.delta),
                counts_text(answer),
                reason_text(answer),
            )
        )
    return rows
