"""A table as HTML, and as files: CSV with all rows and digits, Markdown and LaTeX for people."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.output import csv_rows
from wavebed.page.text import figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

MOST_LINES = 200
"""Rows of a table in Markdown and LaTeX; CSV has all."""
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "−": "$-$", "–": "--", "×": r"$\times$", "µ": r"$\mu$", "\u202f": r"\,", "\xa0": "~",
    "≤": r"$\leq$", "≥": r"$\geq$",
}  # fmt: skip
_MARKDOWN = re.compile(r"(`[^`|\n]+`)|([\\|`*_<>\[\]])")
"""Code, which stays as it is, or a mark."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~&])")

TableCell = str | float | int | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Parameters
    ----------
    name : str
        Of its files in ``tables``, without their endings.
    caption : str
        What it shows, with the units that its head does not name.
    head : sequence of str
        Names of the columns.
    rows : sequence of sequence
        Texts, numbers, or ``None`` for what is missing.
    """

    name: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[TableCell]]


def _shown(cell: TableCell) -> str:
    if isinstance(cell, str):
        return cell
    return str(cell) if isinstance(cell, int) else figure(cell)


def csv_text(table: Table) -> str:
    """Return all rows with all digits; what is missing is empty."""
    return csv_rows([table.head, *table.rows])


def markdown_text(table: Table) -> str:
    """Return the first rows with three digits, for a page or a pull request."""
    numeric = _numeric(table)
    lines = [table.caption, "", _line(table.head), "|" + "|".join("---:" if each else "---" for each in numeric) + "|"]
    lines += [_line([_shown(cell) for cell in row]) for row in table.rows[:MOST_LINES]]
    if len(table.rows) > MOST_LINES:
        lines += ["", f"{len(table.rows) - MOST_LINES} more rows: {table.name}.csv"]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_MARKDOWN.sub(_escaped, cell).replace("\n", " ") for cell in cells) + " |"


def _escaped(found: re.Match[str]) -> str:
    code, mark = found.groups()
    return code or f"\\{mark}"


def latex_text(table: Table) -> str:
    """Return the first rows with three digits as a plain ``tabular``, which needs no package."""
    columns = "".join("r" if each else "l" for each in _numeric(table))
    lines = [f"% {table.caption.replace(chr(10), ' ')}", rf"\begin{{tabular}}{{{columns}}}", r"\hline"]
    lines += [_latex_line(table.head), r"\hline"]
    lines += [_latex_line([_shown(cell) for cell in row]) for row in table.rows[:MOST_LINES]]
    lines += [r"\hline", r"\end{tabular}"]
    if len(table.rows) > MOST_LINES:
        lines.append(f"% {len(table.rows) - MOST_LINES} more rows: {table.name}.csv")
    return "\n".join(lines) + "\n"


def _latex_line(cells: Sequence[str]) -> str:
    texts = ["".join(_LATEX.get(letter, letter) for letter in cell.replace("\n", " ")) for cell in cells]
    return " & ".join(texts) + r" \\"


def _numeric(table: Table) -> list[bool]:
    """Return which columns have numbers only."""
    return [
        bool(table.rows) and all(not isinstance(row[place], str) for row in table.rows[:MOST_LINES])
        for place in range(len(table.head))
    ]


def html_table(table: Table, kind: str, most: int) -> Markup:
    """Return the first rows as HTML, in a table of this class."""
    from wavebed.page.document import filled

    rows = [[_shown(cell) for cell in row] for row in table.rows[:most]]
    return filled("page/tables.html.j2", "table", table, kind, rows, _numeric(table))


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown, for pull requests and summaries of jobs; its cells are Markdown."""
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def markdown_escaped(text: str) -> str:
    """Return a text as Markdown on one line, with nothing in it read as markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.splitlines()))
