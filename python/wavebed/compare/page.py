"""The page that compares folders: a table of verdicts for each treatment beside its base."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from wavebed.compare.words import EXPLORATORY, effect_text, p_text, primary_title, reason_text
from wavebed.report.document import document
from wavebed.report.numbers import MISSING, signed
from wavebed.report.table import interval_cell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.compare.find import Answer, Comparison
    from wavebed.compare.samples import Sample

__all__ = ["comparison_page"]

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
    bases = {column.treatment: column.name for column in comparison.columns if not column.folder}
    columns = {column.name: column for column in comparison.columns}
    tables = []
    for name, answers in comparison.by_column.items():
        base = bases[columns[name].base or ""]
        tables.append(f"<h3>{escape(name)} beside {escape(base)}</h3>")
        for title, is_primary in ((primary_title(comparison), True), (EXPLORATORY, False)):
            mine = [answer for answer in answers if (answer.question.goal is not None) == is_primary]
            if mine:
                tables.append(f'<p class="soft">{escape(title)}.</p>{_table(base, name, mine)}')
    return document(
        f"Compared: {names}", f'{head}<section id="results"><h2>Results</h2>{how}{"".join(tables)}</section>', ""
    )


def _table(base: str, name: str, answers: Sequence[Answer]) -> str:
    margin = [] if answers[0].question.goal is None else ["margin"]
    head = '<th scope=col class="name">metric</th>' + "".join(
        f"<th scope=col>{escape(each)}</th>"
        for each in ("unit", base, "n", name, "n", *margin, "verdict", "difference", "p", "delta", "")
    )
    rows = "".join(map(_row, answers))
    return (
        f'<div class="scroll"><table class="results"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
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
        f"<td>{escape(effect_text(answer))}</td>",
        *(f"<td>{escape(each)}</td>" for each in plain),
        f'<td class="name">{escape(reason_text(answer))}</td>',
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _sample(sample: Sample) -> list[str]:
    middle = sample.median
    return [interval_cell(middle) if middle.count else f"<td>{MISSING}</td>", f'<td class="n">{middle.count}</td>']
