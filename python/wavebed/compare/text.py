"""A comparison as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.compare.words import counts_text, effect_text, p_text, reason_text, sample_text, sections
from wavebed.page.text import MISSING, signed
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wavebed.compare.find import Comparison
    from wavebed.compare.words import Section

MOST_ROWS = 600


def comparison_text(comparison: Comparison) -> str:
    """Return a table for each column beside its base, of primary and of other metrics, and the notes."""
    return "\n".join([*_tables(comparison), *comparison.notes]).rstrip()


def _tables(comparison: Comparison) -> Iterator[str]:
    if not comparison.answers:
        yield "no metric was measured by two folders"
    found, more = sections(comparison, MOST_ROWS)
    before = ""
    for section in found:
        if section.column != before:
            yield f"{section.column} beside {section.base}"
        before = section.column
        yield from (f"{section.title}:", table_text(_rows(section)), "")
    if more:
        yield f"and {more} more comparisons: --csv and --json have all"


def _rows(section: Section) -> list[tuple[str, ...]]:
    margin = ("margin",) if section.answers[0].question.goal is not None else ()
    rows = [("metric", section.base, section.column, *margin, "verdict", "difference", "p", "delta", "n", "")]
    for answer in section.answers:
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
