"""The table of hypotheses on the page of a study."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from wavebed.report.numbers import MISSING
from wavebed.reproduce.hypotheses import SAME
from wavebed.reproduce.study_tables import changes_table
from wavebed.reproduce.study_words import distance_text, moved_text, within_text

if TYPE_CHECKING:
    from wavebed.reproduce.hypotheses import Tried
    from wavebed.reproduce.study import PartResults

__all__ = ["hypotheses_section"]

_HEAD = ("hypothesis", "predicted", "fitted", "held out", "within", "moved", "expected", "found", "explains")
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
    head = "".join(f"<th scope=col class=text>{name}</th>" for name in _HEAD)
    rows = "".join(map(_row, part.tried))
    return (
        f"<section><h2>{escape(part.part.title)}: hypotheses</h2><p>{_RULE} Here {fitted} figures are fitted and"
        f" {held_out} held out.</p><p class='soft'>To run it again:"
        f" <code>wavebed campaign run {escape(part.part.campaign)}</code></p>"
        f'<div class="scroll" tabindex="0"><table class="answers sticky"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
        f"<details><summary>Each figure with each change</summary>{_changes(part)}</details></section>"
    )


def _changes(part: PartResults) -> str:
    table = changes_table(part)
    head = "".join(f"<th scope=col class=text>{escape(name)}</th>" for name in table.head)
    rows = "".join(
        f"<tr>{''.join(f'<td class=text>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in table.rows
    )
    return (
        f"<p class='soft'>{escape(table.caption)}</p><div class='scroll' tabindex='0'><table class='answers sticky'>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(tried: Tried) -> str:
    hypothesis = tried.hypothesis
    commit = f" <span class='soft'>({escape(hypothesis.commit)})</span>" if hypothesis.commit else ""
    cells = (
        f"<b>{escape(hypothesis.name or hypothesis.level)}</b>: {escape(hypothesis.claim)}",
        f"{escape(hypothesis.prediction) or MISSING}{commit}",
        distance_text(tried.fitted),
        distance_text(tried.held_out),
        within_text(tried),
        moved_text(tried),
        hypothesis.expected or MISSING,
        tried.found or MISSING,
        MISSING if tried.found is None else "yes" if tried.explains else "no",
    )
    wide = [' style="min-width:17em"', ' style="min-width:17em"', *[""] * (len(cells) - 2)]
    return f"<tr>{''.join(f'<td class=text{width}>{cell}</td>' for cell, width in zip(cells, wide, strict=True))}</tr>"
