"""Times of samples as loggers write them: clock texts, offsets and gaps."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from wavebed.pattern.model import MAX_NS
from wavebed.pattern.numbers import format_scaled
from wavebed.pattern.source import plural, quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.pattern.numbers import LineOf
    from wavebed.pattern.source import Source

__all__ = ["EPOCH_NS", "EXAMPLE_CLOCK", "LATEST_NS", "Clock", "clock_ns", "note_gaps", "say_seconds", "usual_step"]

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
_ZONE = r"(?P<zone>\s*(?:Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?))?"
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


class Clock:
    """A column of clock times, read part by part as nanoseconds since its first row.

    Dates may be missing: a time more than 12 hours before the row before is then on the next day, with a note.
    """

    def __init__(self, source: Source) -> None:
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


def note_gaps(source: Source, steps_ns: NDArray[np.int64], line_of: LineOf, held: str, place: str = "line") -> None:
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
