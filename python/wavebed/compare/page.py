"""The page that compares folders: a table of verdicts for each treatment beside its base."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.compare.words import effect_text, p_text, reason_text, sections
from wavebed.page.document import document, filled
from wavebed.page.text import MISSING, signed

if TYPE_CHECKING:
    from wavebed.compare.find import ComparedAnswer, RunComparison
    from wavebed.compare.words import Section

MOST_ROWS = 2000
_WIDTHS = (17.0, 7.0, 12.0, 4.0, 12.0, 4.0, 8.0, 10.0, 12.0, 7.0, 7.0, 19.0)
_MARGIN = 6


def comparison_page(comparison: RunComparison) -> str:
    """Return the page, which needs no network."""
    names = ", ".join(folder.name for folder in comparison.folders)
    found, more = sections(comparison, MOST_ROWS)
    tables = [(section, _widths(section), [_row(answer) for answer in section.answers]) for section in found]
    return document(f"Compared: {names}", filled("compare/page.html.j2", "body", comparison, names, tables, more))


def _widths(section: Section) -> list[str]:
    """Return the widths of the columns, percent; without a goal there is no margin."""
    has_margin = section.answers[0].question.goal is not None
    widths = [width for place, width in enumerate(_WIDTHS) if has_margin or place != _MARGIN]
    return [f"{100 * width / sum(widths):.1f}" for width in widths]


def _row(answer: ComparedAnswer) -> tuple[ComparedAnswer, str, str, tuple[str, str], str]:
    """Return an answer, its difference or ratio, the interval of that, p and delta, and the reason."""
    estimate, _, interval = effect_text(answer).partition(" (")
    plain = (p_text(answer.finding.adjusted), MISSING if answer.delta is None else signed(answer.delta))
    return answer, estimate, interval.removesuffix(")"), plain, reason_text(answer)
