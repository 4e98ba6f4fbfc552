"""How the cells of a table are written: missing values, decimal commas, and marks between thousands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wavebed.pattern.source import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.pattern.numbers import LineOf
    from wavebed.pattern.source import Source

__all__ = ["Spelling", "is_missing", "is_number"]

_MISSING = frozenset(("", "-", "--", "nan", "na", "n/a", "#n/a", "null", "none", "nil", "?"))
_SPACES = "'\u2019 \u00a0\u2009\u202f"
_MARKED = re.compile(rf"[,{_SPACES}]")
_SPACED = re.compile(rf"-?[1-9][0-9]{{0,2}}(?:[{_SPACES}][0-9]{{3}})+(?:[.,][0-9]*)?", re.ASCII)
_POINTS = re.compile(r"-?[1-9][0-9]{0,2}(?:\.[0-9]{3})+(?:,[0-9]*)?", re.ASCII)
_COMMAS = re.compile(r"-?[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]*)?", re.ASCII)
_DECIMAL_COMMA = re.compile(r"-?[0-9]+,[0-9]+(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)


def is_missing(cell: str) -> bool:
    """Tell whether a cell has no value: empty, ``-``, ``NaN``, ``N/A``, ``null`` and the like."""
    return cell.casefold() in _MISSING


def is_number(cell: str) -> bool:
    """Tell whether a cell looks like a number, however it is written."""
    return any(form.fullmatch(cell) for form in (_NUMBER, _DECIMAL_COMMA, _COMMAS, _POINTS, _SPACED))


class Spelling:
    """The decimal mark of a table, found from the first cells that show it.

    Parameters
    ----------
    semicolons : bool
        Whether semicolons separate the values: a lone comma is then a decimal comma.
    """

    def __init__(self, source: Source, *, semicolons: bool) -> None:
        self._source = source
        self._semicolons = semicolons
        self._mark = ""
        self._shown: set[str] = set()

    def plain(self, columns: Sequence[list[str]], line_of: LineOf) -> list[list[str]]:
        """Return the columns' numbers with a decimal point, and without marks between thousands.

        Raises
        ------
        UserError
            If a comma could be both, or cells disagree.
        """
        if not any(_MARKED.search("\n".join(cells)) for cells in columns):
            return list(columns)
        for cells in columns:
            for position, cell in enumerate(cells):
                self._learn(cell, line_of, position)
        return [[self._number(cell, line_of, position) for position, cell in enumerate(cells)] for cells in columns]

    def _learn(self, cell: str, line_of: LineOf, position: int) -> None:
        shown = _shown_mark(_without_spaces(cell))
        if not shown:
            return
        if self._mark and shown != self._mark:
            raise self._source.error(
                f"{quote(cell)} has another decimal mark than the numbers before; use decimal points only",
                line_of(position),
            )
        self._mark = shown

    def _number(self, cell: str, line_of: LineOf, position: int) -> str:
        if _MARKED.search(cell) is None and not (self._mark == "," and "." in cell):
            return cell
        mark, result = self._mark, _without_spaces(cell)
        if not mark and "," in cell and _COMMAS.fullmatch(cell):
            if not self._semicolons:
                plain, point = cell.replace(",", ""), cell.replace(",", ".")
                raise self._source.error(
                    f"{quote(cell)} may be {plain} or {point}; write {plain} or {point}", line_of(position)
                )
            mark = ","
        if mark == "," and _POINTS.fullmatch(result):
            result = result.replace(".", "")
        elif mark != "," and _COMMAS.fullmatch(result):
            result = result.replace(",", "")
        if mark == "," and _DECIMAL_COMMA.fullmatch(result):
            result = result.replace(",", ".")
        kind = "decimal comma" if "," in cell and mark == "," else "thousands"
        if result != cell and kind not in self._shown:
            self._shown.add(kind)
            self._source.note(f"numbers such as {quote(cell)} are read as {result}")
        return result


def _without_spaces(cell: str) -> str:
    """Return a number without spaces and apostrophes between its thousands."""
    return re.sub(f"[{_SPACES}]", "", cell) if _SPACED.fullmatch(cell) else cell


def _shown_mark(cell: str) -> str:
    """Return the decimal mark that a cell shows beyond doubt, or nothing."""
    if "," not in cell:
        return "" if "." not in cell or cell.count(".") == 1 else "," if _POINTS.fullmatch(cell) else ""
    if "." in cell:
        if _COMMAS.fullmatch(cell):
            return "."
        return "," if _POINTS.fullmatch(cell) else ""
    if cell.count(",") > 1:
        return "." if _COMMAS.fullmatch(cell) else ""
    if _DECIMAL_COMMA.fullmatch(cell) and _COMMAS.fullmatch(cell) is None:
        return ","
    return ""
