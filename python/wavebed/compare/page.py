"""The page that compares folders: a table of verdicts for each treatment beside its base."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from wavebed.compare.words import effect_text, p_text, reason_text, sections
from wavebed.report.document import document
from wavebed.report.numbers import MISSING, signed
from wavebed.report.table import interval_cell

if TYPE_CHECKING:
    from wavebed.compare.find import Answer, Comparison
    from wavebed.compare.samples import Sample
    from wavebed.compare.words import Section

MOST_ROWS = 2000
_WIDTHS = (17.0, 7.0, 12.0, 4.0, 12.0, 4.0, 8.0, 10.0, 12.0, 7.0, 7.0, 19.0)
_MARGIN = 6
_BOLD = ("better", "worse", "different")


def comparison_page(comparison: Comparison) -> str:
    """Return the page, which needs no network."""
    names = ", ".join(folder.name for folder in comparison.folders)
    head = (
        f'<header><h1>{len(comparison.folders)} folders compared</h1><p class="soft">{escape(names)}</p></header>'
        + "".join(f'<p class="warn">{escape(note)}.</p>' for note in comparison.notes)
    )
    how = (
        '<p class="soft">Median of the counted trials, with its 95 % interval below. Trials of two folders are'
        " independent samples: the difference, or ratio, is that of the medians, with its bootstrap interval; p is of"
        " the test of Mann and Whitney, of primary metrics adjusted by Holm; delta is Cliff's.</p>"
    )
    found, more = sections(comparison, MOST_ROWS)
    tables, before = [], ""
    for section in found:
        if section.column != before:
            tables.append(f"<h3>{escape(section.column)} beside {escape(section.base)}</h3>")
        before = section.column
        tables.append(f'<p class="soft">{escape(section.title)}.</p>{_table(section)}')
    if more:
        tables.append(f'<p class="soft">And {more} more comparisons: --csv and --json have all.</p>')
    return document(
        f"Compared: {names}", f'{head}<section id="results"><h2>Results</h2>{how}{"".join(tables)}</section>', ""
    )


def _table(section: Section) -> str:
    margin = [] if section.answers[0].question.goal is None else ["margin"]
    head = '<th scope=col class="name">metric</th>' + "".join(
        f"<th scope=col>{escape(each)}</th>"
        for each in ("unit", section.base, "n", section.column, "n", *margin, "verdict", "difference", "p", "delta", "")
    )
    widths = [width for place, width in enumerate(_WIDTHS) if margin or place != _MARGIN]
    columns = "".join(f'<col style="width:{100 * width / sum(widths):.1f}%">' for width in widths)
    rows = "".join(map(_row, section.answers))
    return (
        f'<div class="scroll"><table class="results" style="min-width:1000px"><colgroup>{columns}</colgroup>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(answer: Answer) -> str:
    question, finding = answer.question, answer.finding
    metric = question.metric
    name = f"{question.workload} {metric.name}"
    verdict = f"<b>{finding.verdict}</b>" if finding.verdict in _BOLD else finding.verdict
    plain = (p_text(finding.adjusted), MISSING if answer.delta is None else signed(answer.delta))
    cells = [
        f'<th scope=row class="name" title="{escape(metric.definition)}">{escape(name)}</th>',
        f'<td class="unit">{escape(metric.unit)}</td>',
        *_sample(question.a),
        *_sample(question.b),
        *([] if question.goal is None else [f"<td>{escape(question.goal.text)}</td>"]),
        f"<td>{verdict}</td>",
        _difference(answer),
        *(f"<td>{escape(each)}</td>" for each in plain),
        f'<td class="text" style="white-space:normal">{escape(reason_text(answer))}</td>',
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _sample(sample: Sample) -> list[str]:
    middle = sample.median
    return [interval_cell(middle) if middle.count else f"<td>{MISSING}</td>", f'<td class="n">{middle.count}</td>']


def _difference(answer: Answer) -> str:
    """Return a cell with a difference or ratio, and its interval below it."""
    estimate, _, interval = effect_text(answer).partition(" (")
    below = f'<span class="under">{escape(interval.removesuffix(")"))}</span>' if interval else ""
    return f"<td>{escape(estimate)}{below}</td>"
