"""The interface of a trace format."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from wavebed.pattern.model import MAX_NS
from wavebed.pattern.source import format_scaled, plural, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

    from wavebed.pattern.model import Pattern
    from wavebed.pattern.source import LineOf, TraceSource


AS_TABLE = (
    "write its times and rates as a table with the header time_s,rate_mbit and read it with "
    "--columns time=time_s:s rate=rate_mbit:mbit"
)
"""Remedy for a file that no format fits."""


@dataclass(frozen=True)
class ReadOptions:
    """The options of a reader.

    Parameters
    ----------
    columns : tuple of str
        ``NAME=COLUMN:UNIT`` items, for the format ``csv``.
    window_ns : int
        The time over which transport blocks become a rate, for the format ``ns3-mmwave``.
    duration_ns : int, optional
        The duration, for formats that do not hold it.
    run : int, optional
        The run that is read, for files that hold several.
    """

    columns: tuple[str, ...] = ()
    window_ns: int = 1_000_000
    duration_ns: int | None = None
    run: int | None = None


@dataclass(frozen=True)
class WriteOptions:
    """The options of a writer.

    Parameters
    ----------
    window_ns : int, optional
        The time over which opportunities become a rate; each format has its own default.
    notes : list of str
        The writer adds a note for the data that the format cannot hold.
    """

    window_ns: int | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class TraceFormat:
    """One trace format.

    Parameters
    ----------
    name : str
        As ``--format`` and ``--to`` take it.
    title : str
        One line of description.
    sniff : callable
        Whether the beginning of a file looks like this format; a wrong file may still look right.
    read : callable
        Read the whole file strictly.
    write : callable or None
        Write a pattern; the options' notes name the data that is lost.
    suffixes : tuple of str
        Ends of file names: `convert` chooses the format by them, and they decide for a file that fits two formats.
    """

    name: str
    title: str
    sniff: Callable[[TraceSource], bool]
    read: Callable[[TraceSource, ReadOptions], Pattern]
    write: Callable[[Pattern, WriteOptions], str] | None
    suffixes: tuple[str, ...] = ()


def note_lost_columns(pattern: Pattern, options: WriteOptions, held: Collection[str] = ("rate",)) -> None:
    """Say which columns a format does not hold, where the pattern has them.

    Parameters
    ----------
    held : collection of str
        The columns of the format, by the names below.
    """
    columns = (
        ("rate", pattern.rate_bps),
        ("delay", pattern.delay_ns),
        ("loss", pattern.loss),
        ("bler", pattern.bler),
        ("sinr", pattern.sinr_mdb),
        ("state", pattern.state),
        ("cell", pattern.cell),
        ("fallback rate", pattern.fallback_rate_bps),
        ("light rate", pattern.light_rate_bps),
    )
    lost = [name for name, column in columns if column is not None and name not in held]
    if lost:
        said = " and ".join(filter(None, (", ".join(lost[:-1]), lost[-1])))
        options.notes.append(f"{said} cannot be written in this format")


def is_json(source: TraceSource) -> bool:
    """Tell whether the file begins as JSON."""
    return next((line.lstrip()[:1] for line in source.head if line.strip()), "") in {"{", "["}


def begins_with_keys(source: TraceSource, *keys: str) -> bool:
    """Tell whether the beginning of a JSON file has all these keys."""
    if not is_json(source):
        return False
    text = "\n".join(source.head)
    return all(f'"{key}"' in text for key in keys)


def load(source: TraceSource, hook: Callable[[dict[str, object]], object] | None = None) -> object:
    """Return the content of a JSON file.

    Parameters
    ----------
    hook : callable, optional
        Replaces each object while it is read.

    Raises
    ------
    UserError
        With the line, if it is not JSON.
    """
    try:
        document: object = json.loads(source.text, object_hook=hook)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise source.error(f"has several JSON values, one after another; {AS_TABLE}", error.lineno) from None
        raise source.error(f"is not JSON: {error.msg.lower()} (column {error.colno}); mend it", error.lineno) from None
    except (RecursionError, ValueError):
        raise source.error("is not JSON that can be read: it is nested too deep or has a number too long") from None
    return document


EXAMPLE_CLOCK = "2024-05-01T10:00:00.5Z"
EPOCH_NS = MAX_NS * 9 // 10
LATEST_NS = 100 * MAX_NS
"""Times since 1970 are between these: from 1998 on, and before the year 5000."""
GAP_STEPS = 3
"""A step this many times the usual one is a gap."""

_DAY_NS = 86_400 * 10**9
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LEAP_YEAR = 2000
"""Stands for a year that is not written; has all 366 days."""
_ZONE = r"(?P<zone>\s*(?:Z|UTC|GMT|[ECMP][SD]T|[+-][0-9]{2}(?::?[0-9]{2})?))?"
_HOURS_WEST = {"E": 5, "C": 6, "M": 7, "P": 8}
"""Of the zones that RFC 5322 names, as EST; one less in summer, as EDT."""
_TIME = (
    r"(?P<h>[0-9]{1,2})(?P<sep>[:.])(?P<m>[0-9]{2})(?P=sep)(?P<s>[0-9]{2})(?:[.,](?P<f>[0-9]{1,9}))?"
    r"(?P<half>\s*[AaPp]\.?[Mm]\.?)?" + _ZONE
)
_JOIN = r"(?:[T_,:]\s*|\s+)"
_COMPACT = (
    r"(?P<y>[0-9]{4})(?P<mo>[0-9]{2})(?P<d>[0-9]{2})[T_ -]?(?P<h>[0-9]{2})(?P<m>[0-9]{2})(?P<s>[0-9]{2})"
    r"(?:\.(?P<f>[0-9]{1,9}))?" + _ZONE
)
_FORMS = tuple(
    re.compile(form, re.ASCII)
    for form in (
        _TIME,
        rf"(?P<y>[0-9]{{4}})(?P<mark>[-/.])(?P<mo>[0-9]{{1,2}})(?P=mark)(?P<d>[0-9]{{1,2}}){_JOIN}{_TIME}",
        rf"(?P<y>[0-9]{{4}})(?P<mo>[0-9]{{2}})(?P<d>[0-9]{{2}}){_JOIN}{_TIME}",
        rf"(?P<a>[0-9]{{1,2}})(?P<mark>[-/.])(?P<b>[0-9]{{1,2}})(?P=mark)(?P<y>[0-9]{{4}}){_JOIN}{_TIME}",
        rf"(?P<d>[0-9]{{1,2}})[-/ ](?P<month>[A-Za-z]{{3}})[a-z]*[-/ ](?P<y>[0-9]{{4}}){_JOIN}{_TIME}",
        rf"(?:[A-Za-z]{{3}},?\s+)?(?P<month>[A-Za-z]{{3}})\s+(?P<d>[0-9]{{1,2}})\s+{_TIME}(?:\s+(?P<y>[0-9]{{4}}))?",
        _COMPACT,
    )
)


class _AmbiguousDateError(ValueError):
    """Day and month cannot be told apart."""


@lru_cache(maxsize=64)
def _day(year: int, month: int, day: int) -> int:
    return date(year, month, day).toordinal()


def _date_of(fields: dict[str, str | None], ambiguous: dict[str, int]) -> int | None:
    """Return the day of some fields; None without a date.

    Parameters
    ----------
    ambiguous : dict of str to int
        Dates such as ``05/01/2024``, by their text; the first of them stands for an unknown day.
    """
    day, month_name, year = fields.get("d"), fields.get("month"), int(fields.get("y") or _LEAP_YEAR)
    if month_name is not None:
        return _day(year, _MONTHS.index(month_name.lower()) + 1, int(day or 1))
    first, second = fields.get("a"), fields.get("b")
    if first is None or second is None:
        return None if day is None else _day(year, int(fields.get("mo") or 1), int(day))
    if fields.get("mark") == "." or int(first) > 12:
        return _day(year, int(second), int(first))
    if int(second) > 12 or first == second:
        return _day(year, int(first), int(second))
    text = f"{first}/{second}/{year}"
    ambiguous.setdefault(text, len(ambiguous))
    if len(ambiguous) > 1:
        raise _AmbiguousDateError(text)
    return _day(year, int(second), int(first))


def _parse(text: str, ambiguous: dict[str, int]) -> tuple[int, bool] | None:
    """Return nanoseconds, and whether they count from a date rather than from midnight."""
    text = text.strip().strip("[]()\"'").strip()
    match = next((match for form in _FORMS if (match := form.fullmatch(text))), None)
    if match is None:
        return None
    fields = match.groupdict()
    hour, minute, second = (int(fields[name] or 0) for name in "hms")
    half = (fields.get("half") or "").strip().lower()[:1]
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "p" else 0)
    if hour > 23 or minute > 59 or second > 60:
        return None
    try:
        day = _date_of(fields, ambiguous)
    except _AmbiguousDateError:
        raise
    except ValueError:
        return None
    value = ((hour * 60 + minute) * 60 + second) * 10**9 + int((fields.get("f") or "").ljust(9, "0"))
    zone = (fields.get("zone") or "").strip()
    if day is not None:
        value += day * _DAY_NS
        if zone[:1] in {"+", "-"}:
            digits = zone[1:].replace(":", "").ljust(4, "0")
            away = (int(digits[:2]) * 60 + int(digits[2:])) * 60 * 10**9
            value -= away if zone[0] == "+" else -away
        elif zone[:1] in _HOURS_WEST:
            value += (_HOURS_WEST[zone[0]] - (zone[1] == "D")) * 3600 * 10**9
    return value, day is not None


def clock_ns(text: str) -> int | None:
    """Return a clock text such as ``2024-05-01T10:00:00.5Z`` as nanoseconds since year 0, or since midnight.

    Returns
    -------
    int or None
        None if the text is not a clock time.
    """
    found = _parse(text, {})
    return None if found is None else found[0]


class SampleClock:
    """A column of clock times, read part by part as nanoseconds since its first row.

    Dates may be missing: a time more than 12 hours before the row before is then on the next day, with a note.
    """

    def __init__(self, source: TraceSource) -> None:
        self._source = source
        self._ambiguous: dict[str, int] = {}
        self._begin: int | None = None
        self._last = 0
        self._days = 0

    def read(self, cells: Sequence[str], line_of: LineOf, what: str) -> NDArray[np.int64]:
        """Return the times of some cells.

        Raises
        ------
        UserError
            If a cell is not a clock time, or is before the first one.
        """
        values = np.empty(len(cells), dtype=np.int64)
        for position, cell in enumerate(cells):
            try:
                found = _parse(cell, self._ambiguous)
            except _AmbiguousDateError:
                raise self._source.error(
                    f"{what} {quote(cell)} may be month/day or day/month; write dates as 2024-05-01", line_of(position)
                ) from None
            if found is None:
                message = f"{what} is missing" if not cell else f"{what} {quote(cell)} is not a clock time"
                raise self._source.error(f"{message}; write it as {EXAMPLE_CLOCK} or 10:00:00", line_of(position))
            value, dated = found
            if not dated:
                value += self._days * _DAY_NS
                if self._begin is not None and value < self._last - _DAY_NS // 2:
                    self._days += 1
                    value += _DAY_NS
                    self._source.note(f"line {line_of(position)}: {quote(cell)} is taken as a time of the next day")
            self._begin = value if self._begin is None else self._begin
            self._last = value
            if not 0 <= value - self._begin <= MAX_NS:
                raise self._source.error(
                    f"{what} {quote(cell)} is before the first time; sort the rows by time, or number them "
                    "with every=1s in place of time=",
                    line_of(position),
                )
            values[position] = value - self._begin
        return values


def say_seconds(time_ns: int) -> str:
    """Write nanoseconds as seconds."""
    return f"{format_scaled(time_ns, 9)} s"


def usual_step(steps_ns: NDArray[np.int64]) -> int:
    """Return the (lower) median of some steps, nanoseconds."""
    middle = (len(steps_ns) - 1) // 2
    return int(np.partition(steps_ns, middle)[middle])


def note_gaps(
    source: TraceSource, steps_ns: NDArray[np.int64], line_of: LineOf, held: str, place: str = "line"
) -> None:
    """Note the steps that are much longer than the others.

    Parameters
    ----------
    steps_ns : int64 array
        Time of each step, nanoseconds.
    line_of : callable
        Line of a step, by its place.
    held : str
        The value that holds in a gap, for the note.
    place : str
        What ``line_of`` numbers.
    """
    if len(steps_ns) < 2:
        return
    usual = usual_step(steps_ns)
    gaps = int((steps_ns >= GAP_STEPS * usual).sum()) if usual else 0
    if gaps:
        longest = int(steps_ns.argmax())
        source.note(
            f"{plural(gaps, 'gap')} of at least {GAP_STEPS} usual steps of {say_seconds(usual)}, the longest "
            f"{say_seconds(int(steps_ns[longest]))} at {place} {line_of(longest)}; {held} holds there"
        )


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

    def __init__(self, source: TraceSource, *, semicolons: bool) -> None:
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
