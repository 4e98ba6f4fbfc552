"""Exploratory findings, clearly apart from the answers."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from wavebed.campaign.report.chosen import strength
from wavebed.campaign.report.tables import Table, html_table
from wavebed.campaign.text import effect_text
from wavebed.stats.family import holm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.campaign.report.chosen import Chosen
    from wavebed.campaign.report.tables import Cell

MOST_ROWS = 30


def explored_section(chosen: Chosen, link: str) -> str:
    """Return the section; `link` is the table of all findings as a file."""
    found = chosen.results.exploration
    if not found.total:
        return ""
    level = chosen.results.design.level
    outside = [answer for answer in found.answers if answer.finding.verdict in ("better", "worse", "different")]
    ranked = sorted(
        outside, key=lambda answer: (answer.finding.p if answer.finding.p is not None else 1.0, -strength(answer))
    )
    error = 1 - level
    text = (
        f"Exploratory: {found.total} comparisons in metrics that are not primary, each by itself at {100 * level:g} %."
        f" With {found.total} comparisons some are false alarms: about {error * found.total:.2g} are expected if"
        " nothing differs. They suggest questions for a new campaign; they answer none."
    )
    if len(found.answers) < found.total:
        text += (
            f" Only the {len(found.answers)} with the largest differences relative to their spread were computed, so"
            " that most of these stand out by selection."
        )
    survive = sum(
        p <= error
        for p in holm([answer.finding.p if answer.finding.p is not None else 1.0 for answer in found.answers])
    )
    text += f" Intervals that exclude no effect: {len(outside)}"
    text += (
        f"; {survive} would remain after Holm's adjustment over the computed ones."
        if len(found.answers) == found.total
        else "."
    )
    rows: list[Sequence[Cell]] = [
        [
            answer.question.values.title,
            answer.question.pair.cell,
            answer.question.pair.baseline,
            answer.finding.verdict,
            effect_text(answer),
            answer.finding.count,
            answer.finding.p,
        ]
        for answer in ranked
    ]
    head = ["metric", "cell", "against", "interval says", "effect", "pairs", "p"]
    table = html_table(Table("", "Exploratory findings", head, rows), "answers", MOST_ROWS) if rows else ""
    left = (
        f'<p class="soft">{MOST_ROWS} of {len(rows)}, those with the least p values.</p>'
        if len(rows) > MOST_ROWS
        else ""
    )
    return (
        f'<section id="explored"><h2>Exploratory findings</h2><p class="warn">{escape(text)}</p>'
        f'<p class="soft">{link}</p>'
        f"<details><summary>Findings: {len(outside)}</summary>{table}{left}</details></section>"
    )
