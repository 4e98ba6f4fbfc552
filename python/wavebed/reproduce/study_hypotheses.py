"""The table of hypotheses on the page of a study."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from wavebed.campaign.report.tables import MOST_LINES, html_table
from wavebed.report.numbers import MISSING
from wavebed.reproduce.hypotheses import SAME
from wavebed.reproduce.study_tables import changes_table, hypotheses_table
from wavebed.reproduce.study_words import again_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.campaign.report.tables import Cell
    from wavebed.reproduce.hypotheses import Tried
    from wavebed.reproduce.studies import Part
    from wavebed.reproduce.study import PartResults

__all__ = ["hypotheses_section"]

_RULE = (
    "Each line changes one thing. The distance is the mean of |ln(ours / published)|: 0.69 is a factor of 2. Figures to"
    " which a change was fitted are counted apart from those that were held out. <i>Within</i>: fitted and held-out"
    " figures whose median is within the tolerance. <i>Moved</i>: held-out figures whose median comes inside it, or"
    " leaves it. A change explains the difference if it alone moves some inside and none out, and all held-out figures"
    " closer on average. The prediction is that of the commit, which had no result of it; <i>expected</i> and"
    f" <i>found</i> are of the held-out distance, where less than {SAME:g} is no change."
)


def hypotheses_section(part: PartResults) -> str:
    """Return the section; empty for a part without hypotheses."""
    if not part.tried:
        return ""
    fitted, held_out = part.tried[0].counts
    table, changes = hypotheses_table(part), changes_table(part)
    name, *others = table.head
    head = "".join(f"<th scope=col class=text>{each}</th>" for each in (name, "predicted", *others))
    rows = "".join(_row(part.part, each, told[1:]) for each, told in zip(part.tried, table.rows, strict=True))
    return (
        f"<section><h2>{escape(part.part.title)}: hypotheses</h2><p>{_RULE} Here {fitted} figures are fitted and"
        f" {held_out} held out.</p>"
        f'<div class="scroll" tabindex="0"><table class="answers sticky"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
        f"<details><summary>Each figure with each change</summary><p class='soft'>{escape(changes.caption)}</p>"
        f"{html_table(changes, 'answers', MOST_LINES)}</details></section>"
    )


def _row(part: Part, tried: Tried, told: Sequence[Cell]) -> str:
    hypothesis = tried.hypothesis
    commit = f" <span class='soft'>({escape(hypothesis.commit)})</span>" if hypothesis.commit else ""
    again = escape(again_text(part, hypothesis))
    wide = (
        f"<b>{escape(hypothesis.label)}</b>: {escape(hypothesis.claim)} <code>{again}</code>",
        f"{escape(hypothesis.prediction) or MISSING}{commit}",
    )
    cells = "".join(f'<td class=text style="min-width:17em">{cell}</td>' for cell in wide)
    return f"<tr>{cells}{''.join(f'<td class=text>{cell}</td>' for cell in told)}</tr>"
