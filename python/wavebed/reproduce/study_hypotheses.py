"""The table of hypotheses on the page of a study."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from wavebed.campaign.report.tables import MOST_LINES, html_table
from wavebed.report.numbers import MISSING
from wavebed.reproduce.hypotheses import SAME
from wavebed.reproduce.study_tables import changes_table, hypotheses_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.campaign.report.tables import Cell
    from wavebed.reproduce.hypotheses import Tried
    from wavebed.reproduce.study import PartResults

__all__ = ["hypotheses_section"]

_RULE = (
    "Each line changes one thing. The distance is the mean of |ln(ours / published)|: 0.69 is a factor of 2. Figures to"
    " which a change was fitted are counted apart from those that were held out. <i>Within</i>: fitted and held-out"
    " figures whose median is within the tolerance. <i>Moved</i>: held-out figures whose median comes inside it, or"
    " leaves it. A change explains the difference if it alone moves some inside"
    " and none out. The prediction is that of the commit, which had no result of it; <i>expected</i> and <i>found</i>"
    f" are of the held-out distance, where less than {SAME:g} is no change."
)


def hypotheses_section(part: PartResults) -> str:
    """Return the section; empty for a part without hypotheses."""
    if not part.tried:
        return ""
    fitted, held_out = part.tried[0].counts
    table, changes = hypotheses_table(part), changes_table(part)
    name, *others = table.head
    head = "".join(f"<th scope=col class=text>{each}</th>" for each in (name, "predicted", *others))
    rows = "".join(_row(each, told[1:]) for each, told in zip(part.tried, table.rows, strict=True))
    return (
        f"<section><h2>{escape(part.part.title)}: hypotheses</h2><p>{_RULE} Here {fitted} figures are fitted and"
        f" {held_out} held out.</p><p class='soft'>To run it again:"
        f" <code>wavebed campaign run {escape(part.part.campaign)}</code></p>"
        f'<div class="scroll" tabindex="0"><table class="answers sticky"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
        f"<details><summary>Each figure with each change</summary><p class='soft'>{escape(changes.caption)}</p>"
        f"{html_table(changes, 'answers', MOST_LINES)}</details></section>"
    )


def _row(tried: Tried, told: Sequence[Cell]) -> str:
    hypothesis = tried.hypothesis
    commit = f" <span class='soft'>({escape(hypothesis.commit)})</span>" if hypothesis.commit else ""
    wide = (
        f"<b>{escape(hypothesis.label)}</b>: {escape(hypothesis.claim)}",
        f"{escape(hypothesis.prediction) or MISSING}{commit}",
    )
    cells = "".join(f'<td class=text style="min-width:17em">{cell}</td>' for cell in wide)
    return f"<tr>{cells}{''.join(f'<td class=text>{cell}</td>' for cell in told)}</tr>"
