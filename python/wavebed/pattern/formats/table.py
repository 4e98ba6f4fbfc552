"""Any table, read with ``--columns NAME=COLUMN:UNIT…``; columns without a header are called 1, 2, ….

A row holds from its time to the next row's; the last as long as the one before, unless ``--duration`` says
otherwise. Time begins with the first row. Rows of one time become their mean; a missing value keeps the one before.
``every=1s`` in place of ``time=`` gives each row that long. Whatever changes a value adds a note.
"""

from __future__ import annotations

import csv
import re
import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wavebed.config.units import RATE_UNITS, TIME_UNITS, format_time, parse_time
from wavebed.errors import UserError
from wavebed.pattern.formats.base import (
    AS_TABLE,
    EPOCH_NS,
    LATEST_NS,
    ReadOptions,
    SampleClock,
    Spelling,
    TraceFormat,
    clock_ns,
    is_missing,
    is_number,
    note_gaps,
    say_seconds,
)
from wavebed.pattern.formats.kaunet import last_length
from wavebed.pattern.model import MAX_NS, MAX_RATE_BPS, Pattern, steps
from wavebed.pattern.resample import NS_PER_S
from wavebed.pattern.source import COMMENT, Rows, first_value, measured, plural, quote

if TYPE_CHECKING:
    from _csv import Reader
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from wavebed.pattern.source import LineOf, TraceSource


PROBABILITY_SCALE = 10**12
ROWS_AT_ONCE = 1 << 14
CLOCK = 0
"""Scale of a column of clock times."""
BYTE_UNITS = {f"{prefix}byte": 8 * scale for prefix, scale in (("", 1), ("k", 10**3), ("m", 10**6))}
UNITS = {
    "time": TIME_UNITS | {"clock": CLOCK},
    "rate": RATE_UNITS | BYTE_UNITS,
    "delay": TIME_UNITS,
    "loss": {"probability": PROBABILITY_SCALE, "%": PROBABILITY_SCALE // 100},
}
MOST = {"time": MAX_NS, "rate": MAX_RATE_BPS, "delay": MAX_NS, "loss": PROBABILITY_SCALE}
EXAMPLE = "--columns time=Timestamp:s rate=Throughput:mbit"
EMPTY_CELL = "write a decimal number, or leave the cell empty to keep the value before"
_MARKS = ",\t;|"
_SEPARATOR = re.compile(r"sep=.", re.IGNORECASE)
"""A first line in which Excel names the mark between values."""
_UNIT_CELL = re.compile(r"[\[(]?[A-Za-zµ%][A-Za-zµ%/*^ .:-]{0,11}[\])]?")
_TIME_WORDS = re.compile(r"time|date|clock|stamp|epoch|second|^sec|^ts?$|^t_|elapsed", re.IGNORECASE)
_GUESSES = (
    (
        "rate",
        re.compile(
            r"rate|throughput|bandwidth|download|down|[kmg]?bps|bit/s|bits_per|speed|^dl|dl$|^bw|bw$", re.IGNORECASE
        ),
        "mbit",
    ),
    ("delay", re.compile(r"rtt|ping|delay|latency", re.IGNORECASE), "ms"),
)
_RATE_WORDS = (
    *(("gbit", "gbit"), ("gbps", "gbit"), ("mbit", "mbit"), ("mbps", "mbit"), ("mb/s", "mbit"), ("kbit", "kbit")),
    *(("kbps", "kbit"), ("kb/s", "kbit"), ("mbyte", "mbyte"), ("kbyte", "kbyte"), ("byte", "byte"), ("bps", "bit")),
    *(("bit/s", "bit"), ("bits_per_second", "bit")),
)
_LARGE = re.compile(r"[1-9][0-9]{5}")
"""Rates with at least this number of digits are probably bits per second."""
_UNSAID = "; the file does not say the unit of {}"


def _choices(options: ReadOptions) -> tuple[dict[str, tuple[str, int]], int | None]:
    """Split ``NAME=COLUMN:UNIT`` items into columns with scales, and the time of a row if given by ``every``."""
    chosen: dict[str, tuple[str, int]] = {}
    every_ns: int | None = None
    for item in options.columns:
        name, equals, rest = item.partition("=")
        if not equals or name not in {*UNITS, "every"}:
            raise UserError(f"--columns {item}: write NAME=COLUMN:UNIT with time, rate, delay, loss or every")
        if name in chosen or (name == "every" and every_ns is not None):
            raise UserError(f"--columns {item}: {name} is given twice; keep one of them")
        if name == "every":
            try:
                every_ns = parse_time(rest)
            except UserError as error:
                raise UserError(f"--columns {item}: {error}") from None
            if every_ns == 0:
                raise UserError("--columns every=0s: a row lasts longer than that")
            continue
        column, colon, unit = rest.rpartition(":")
        if not colon or not column or unit.lower() not in UNITS[name]:
            units = ", ".join(UNITS[name])
            raise UserError(f"--columns {item}: the unit is missing or unknown; write {name}=COLUMN:UNIT, in {units}")
        chosen[name] = (column, UNITS[name][unit.lower()])
    if ("time" in chosen) == (every_ns is not None):
        raise UserError(f"--columns needs either time=COLUMN:UNIT or every=TIME, as {EXAMPLE}")
    if not chosen.keys() - {"time"}:
        raise UserError(f"--columns needs a rate, delay or loss, as {EXAMPLE}")
    return chosen, every_ns


class ColumnLayout(NamedTuple):
    """How the lines of a table are laid out.

    Parameters
    ----------
    names : tuple of str
        Of the columns; numbers from 1 for a table without a header.
    mark : str
        What stands between the values; empty for blanks.
    header : int
        The line of the names; 0 without a header.
    sample : tuple of str
        The first row of values.
    """

    names: tuple[str, ...]
    mark: str
    header: int
    sample: tuple[str, ...]


def layout(source: TraceSource) -> ColumnLayout | None:
    """Find the header and the mark between values; None if the first lines are no table."""
    lines = [(number, line) for number, line in enumerate(source.head, start=1) if line.strip()]
    lines = [(number, line) for number, line in lines if number > 1 or not _SEPARATOR.fullmatch(line)]
    texts = [(number, line) for number, line in lines if not line.startswith(COMMENT)]
    if not texts:
        return None
    number, first = texts[0]
    mark = max(_MARKS, key=first.count)
    mark = mark if mark in first else ""
    row = _split(first, mark)
    if any(is_number(cell) or clock_ns(cell) is not None for cell in row):
        # A header may be written as a comment above the rows.
        above = [line for place, line in lines if place < number and line.startswith(COMMENT)]
        names = _split(above[-1].lstrip(COMMENT).strip(), mark) if above else []
        named = len(names) == len(row) and not any(map(is_number, names))
        header = number - 1 if named and source.head[number - 2] == above[-1] else 0
        names = names if header else [str(place) for place in range(1, len(row) + 1)]
        return ColumnLayout(tuple(names), mark, header, tuple(row)) if len(row) > 1 else None
    if len(row) < 2 or not any(name[:1].isalpha() for name in row):
        return None
    rows = [_split(line, mark) for _, line in texts[1:]]
    values = next((cells for cells in rows if any(map(is_number, cells)) and len(cells) == len(row)), None)
    if values is None and not mark:
        return None  # words of a sentence
    return ColumnLayout(tuple(row), mark, number, tuple(values or next(iter(rows), ())))


def _split(line: str, mark: str) -> list[str]:
    """Split one line; a quote that is open ends with the line."""
    cells = next(csv.reader([line], delimiter=mark), []) if mark else line.split()
    return [cell.strip() for cell in cells]


def looks_like_table(source: TraceSource) -> str | None:
    """Describe a table that needs ``--columns``, with columns and units that fit its names; None for other files."""
    found = layout(source)
    if found is None:
        return None
    shown = ", ".join(found.names[:12]) + (", …" if len(found.names) > 12 else "")
    kind = f"is a table of {shown}" if found.header else f"is a table without a header, its columns are {shown}"
    return f"{kind}; name columns and their units, as {_suggestion(found)}"


def _suggestion(table: ColumnLayout) -> str:
    """Return options that read a table, as far as its names and first row show them."""
    time = _time_column(table)
    items = [
        "every=1s" if time is None else f"time={table.names[time]}:{_time_unit(table.names[time], table.sample[time])}"
    ]
    unsaid = ""
    others = [place for place in range(len(table.names)) if place != time]
    values = [place for place in others if place < len(table.sample) and _is_value(table.sample[place])]
    for name, words, default in _GUESSES:
        if len(items) > 1:
            break
        if table.header:
            named = [place for place in others if words.search(table.names[place])]
            place = next((place for place in named if place in values), next(iter(named), None))
        else:
            place = next(reversed(values), None)
        if place is not None:
            unit = _unit(name, table, place)
            if unit is None:
                unsaid = _UNSAID.format(quote(table.names[place]))
                large = place in values and _LARGE.match(table.sample[place])
                unit = "bit" if name == "rate" and large else default
            items.append(f"{name}={table.names[place]}:{unit}")
    if len(items) == 1:
        place = values[0] if values else others[-1]
        unsaid = _UNSAID.format(quote(table.names[place]))
        items.append(f"rate={table.names[place]}:mbit")
    return " ".join(["--columns", *map(shlex.quote, items)]) + unsaid


def _is_value(cell: str) -> bool:
    return is_number(cell) or is_missing(cell)


def _unit(name: str, table: ColumnLayout, place: int) -> str | None:
    """Return the unit that the names of a table show; None if they do not."""
    if name == "rate":
        if table.names[place] in {"DL_bitrate", "UL_bitrate"}:
            return "kbit"  # G-NetTrack
        if "Sponsor" in table.names:
            return "bit"  # speedtest-cli
        if "server name" in table.names:
            return "byte"  # Ookla's speedtest
        text = table.names[place]
        if "MB/s" in text:
            return "mbyte"
        return next((unit for words, unit in _RATE_WORDS if words in text.casefold()), None)
    return _suffix_unit(table.names[place])


def _suffix_unit(name: str) -> str | None:
    match = re.search(r"[_(\[ ](s|sec|secs|seconds|ms|msec|us|usec|ns|nsec)[)\]]?$", name.casefold())
    return None if match is None else {"m": "ms", "u": "us", "n": "ns", "s": "s"}[match.group(1)[0]]


def _time_column(table: ColumnLayout) -> int | None:
    """Return the place of the column that looks like times."""
    cells = dict(enumerate(table.sample))
    clocks = [place for place, cell in cells.items() if not is_number(cell) and clock_ns(cell) is not None]
    if clocks:
        return clocks[0]
    if not table.header:
        return 0 if is_number(table.sample[0]) else None
    named = (place for place, name in enumerate(table.names) if _TIME_WORDS.search(name))
    return next((place for place in named if is_number(cells.get(place, ""))), None)


def _time_unit(name: str, cell: str) -> str:
    if not is_number(cell) or re.fullmatch(r"(?:19|20)[0-9]{12}", cell):
        return "clock"
    try:
        value = abs(float(cell.replace(",", ".")))
    except ValueError:
        value = 0.0
    since_1970 = next((unit for unit, least in (("ns", 1e17), ("us", 1e14), ("ms", 1e11)) if value >= least), None)
    return since_1970 or _suffix_unit(name) or "s"


def read(source: TraceSource, options: ReadOptions) -> Pattern:
    """Read the chosen columns.

    Raises
    ------
    UserError
        With the line, the rule and the remedy.
    """
    if not options.columns:
        raise source.error(looks_like_table(source) or f"a table needs to be told its columns, as {EXAMPLE}")
    chosen, every_ns = _choices(options)
    table = layout(source)
    if table is None:
        raise source.error(
            f"is not a table: it needs a header line and rows with the same number of values; {AS_TABLE}"
        )
    places = {name: _place(source, table, column, time=name == "time") for name, (column, _) in chosen.items()}
    reader = _Reader(source, table, chosen, places)
    for lines, rows in _blocks(source, table):
        reader.add(lines, rows)
    if not len(reader.lines):
        raise source.error("has no rows below the header", table.header or 1)
    reader.finish(every_ns)
    return _assemble(source, options, reader, every_ns)


def _blocks(source: TraceSource, table: ColumnLayout) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Yield the rows below the header and their lines, many at a time; comments and a row of units are left out."""
    comments = 0

    def text() -> Iterator[str]:
        nonlocal comments
        for number, line in source.lines(table.header + 1):
            comment = line.startswith(COMMENT) or (number == 1 and _SEPARATOR.fullmatch(line) is not None)
            comments += comment
            yield "\n" if comment else f"{line}\n"

    reader = csv.reader(text(), delimiter=table.mark, strict=True) if table.mark else _Words(text())
    first = True
    try:
        for lines, rows in blocks_of_rows(source, reader, len(table.names), table.header):
            skip = first and bool(table.header) and _is_units(rows[0])
            if skip:
                source.note(f"line {lines[0]} is left out as a row of units: {quote(', '.join(rows[0]))}")
            first = False
            yield (lines[1:], rows[1:]) if skip else (lines, rows)
    except csv.Error as error:
        line = reader.line_num + table.header
        raise source.error(f"is not a table of separated values: {error}", line) from None
    if comments:
        source.note(f"{plural(comments, 'comment line')} skipped")


class _Words:
    """Rows of words with blanks between, in the manner of `csv.reader`."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.line_num = 0

    def __iter__(self) -> Iterator[list[str]]:
        for line in self._lines:
            self.line_num += 1
            yield line.split()


def _is_units(row: list[str]) -> bool:
    """Tell whether a row below the header has words in place of all its values."""
    filled = [cell.strip() for cell in row if not is_missing(cell.strip())]
    return (
        bool(filled)
        and not any(is_number(cell) or clock_ns(cell) is not None for cell in filled)
        and all(_UNIT_CELL.fullmatch(cell) for cell in filled)
    )


def blocks_of_rows(
    source: TraceSource, reader: Reader | _Words, width: int, above: int = 0
) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Yield the rows and their lines, many at a time; rows without any value are left out.

    Parameters
    ----------
    above : int
        How many lines of the file the reader did not get.
    """
    lines: list[int] = []
    rows: list[list[str]] = []
    for row in reader:
        if not any(row) or (len(row) != width and not any(map(str.strip, row))):
            continue
        if len(row) != width:
            raise source.error(
                f"{plural(len(row), 'value')} for {plural(width, 'column')}; write one for each",
                reader.line_num + above,
            )
        lines.append(reader.line_num + above)
        rows.append(row)
        if len(rows) == ROWS_AT_ONCE:
            yield lines, rows
            lines, rows = [], []
    if rows:
        yield lines, rows


def _place(source: TraceSource, table: ColumnLayout, column: str, *, time: bool) -> int:
    if table.names.count(column) != 1:
        fault = "has no column" if column not in table.names else "has several columns"
        shown = ", ".join(table.names[:12]) + (", …" if len(table.names) > 12 else "")
        remedy = "; without a column of times, write every=1s in place of time=" if time else ""
        raise source.error(f"{fault} {quote(column)}; it has {shown}{remedy}", table.header or 1)
    return table.names.index(column)


class _Reader:
    """The chosen columns, read part by part."""

    def __init__(
        self, source: TraceSource, table: ColumnLayout, chosen: dict[str, tuple[str, int]], places: dict[str, int]
    ) -> None:
        most = source.count()
        self.source = source
        self.values = {name: Rows(most, np.int64) for name in chosen}
        self.lines = Rows(most, np.uint32)
        self.missing: dict[str, list[int]] = {name: [] for name in chosen}
        self.columns = {name: column for name, (column, _) in chosen.items()}
        self._chosen = chosen
        self._places = places
        self._spelling = Spelling(source, semicolons=table.mark == ";")
        self._clock = SampleClock(source)
        self._begin: int | None = None
        self._table = table
        self._times = None if "time" in chosen else _time_column(table)
        self._first_and_last = ["", ""]

    def add(self, lines: list[int], rows: list[list[str]]) -> None:
        """Read some rows."""
        start = len(self.lines)
        self.lines.add(np.array(lines, dtype=np.uint32))
        cells = {name: [row[place].strip() for row in rows] for name, place in self._places.items()}
        if self._times is not None and rows:
            self._first_and_last = [self._first_and_last[0] or rows[0][self._times], rows[-1][self._times]]

        def line_of(position: int) -> int:
            return lines[position]

        numeric = [name for name in cells if self._chosen[name][1] != CLOCK]
        plain = self._spelling.plain([cells[name] for name in numeric], line_of)
        for name, texts in zip(numeric, plain, strict=True):
            if name == "time":
                self.values[name].add(self._numeric_times(texts, line_of))
                continue
            missing = [position for position, text in enumerate(texts) if is_missing(text)]
            for position in missing:
                texts[position] = "0"
            self.missing[name].extend(start + position for position in missing)
            what = f"{self.columns[name]} ({name})"
            scale = self._chosen[name][1]
            self.values[name].add(
                measured(self.source, texts, line_of, what, scale=scale, most=MOST[name], remedy=EMPTY_CELL)
            )
        if "time" in cells and "time" not in numeric:
            if self._begin is None and rows:
                self._begin = 0
                if is_number(cells["time"][0]) and clock_ns(cells["time"][0]) is None:
                    raise self.source.error(
                        f"time {quote(cells['time'][0])} is a number, not a clock time; "
                        f"write time={self.columns['time']}:{_time_unit(self.columns['time'], cells['time'][0])}",
                        lines[0],
                    )
                self.source.note(f"time begins with the first row, at {cells['time'][0]}")
            self.values["time"].add(self._clock.read(cells["time"], line_of, f"{self.columns['time']} (time)"))

    def _numeric_times(self, texts: list[str], line_of: LineOf) -> NDArray[np.int64]:
        column, scale = self._chosen["time"]
        if self._begin is None and texts:
            self._begin = self._first_time(texts[0], line_of(0))
        begin = self._begin or 0
        back = [first_value(text, scale) < begin for text in texts]
        if True in back and not is_missing(texts[back.index(True)]):
            position = back.index(True)
            raise _backwards(self.source, texts[position], texts[max(position - 1, 0)], line_of(position))
        what = f"{column} (time)"
        return measured(self.source, texts, line_of, what, scale=scale, most=MAX_NS, shift=begin)

    def _first_time(self, text: str, line: int) -> int:
        column, scale = self._chosen["time"]
        if not is_number(text) and clock_ns(text) is not None:
            raise self.source.error(f"time {quote(text)} is a clock time; write time={column}:clock", line)
        begin = first_value(text, scale)
        unit = next(unit for unit, value in TIME_UNITS.items() if value == scale)
        if begin >= LATEST_NS and unit != "ns":
            finer = _time_unit(column, text)
            raise self.source.error(
                f"time {quote(text)} is too large for {unit} since 1970; write time={column}:{finer}", line
            )
        said = _suffix_unit(column)
        if said not in (None, unit):
            self.source.note(f"the name {quote(column)} says {said}, the times are read as {unit}")
        if begin:
            since = (
                f" ({datetime.fromtimestamp(begin // NS_PER_S, UTC):%Y-%m-%d %H:%M:%S} UTC if since 1970)"
                if (begin >= EPOCH_NS)
                else ""
            )
            self.source.note(f"time begins with the first row, at {text} {unit}{since}")
        return begin

    def finish(self, every_ns: int | None) -> None:
        """Merge rows of one time, fill missing values, and compare ``every`` with a column of times."""
        self._merge()
        for name, missing in self.missing.items():
            if missing:
                self._fill(name, missing)
        if every_ns is not None and self._times is not None:
            self._compare(every_ns)

    def _merge(self) -> None:
        """Replace rows of one time by their mean."""
        if "time" not in self.values:
            return
        index = self.values["time"].whole()
        back = np.diff(index) < 0
        if back.any():
            position = int(back.argmax()) + 1
            now, before = (say_seconds(int(index[place])) for place in (position, position - 1))
            raise _backwards(self.source, now, before, int(self.lines.whole()[position]))
        again = np.diff(index) == 0
        if not again.any():
            return
        starts = np.flatnonzero(np.concatenate((np.ones(1, dtype=np.bool_), ~again)))
        self.source.note(
            f"{plural(int(again.sum()), 'row')} at the time of the row before; rows of one time become their mean"
        )
        for name, rows in self.values.items():
            values = rows.whole()
            if name == "time":
                rows.replace(values[starts])
                continue
            there = np.ones(len(values), dtype=np.int64)
            there[self.missing[name]] = 0
            counts = np.add.reduceat(there, starts)
            rows.replace(np.add.reduceat(values * there, starts) // np.maximum(counts, 1))
            self.missing[name] = np.flatnonzero(counts == 0).tolist()
        self.lines.replace(self.lines.whole()[starts])

    def _fill(self, name: str, missing: list[int]) -> None:
        """Let missing values keep the value before, at the beginning that after."""
        values = self.values[name].whole()
        rows = np.arange(len(values))
        rows[missing] = -1
        held = np.maximum.accumulate(rows)
        first = int((held >= 0).argmax()) if (held >= 0).any() else -1
        column = self.columns[name]
        if first < 0:
            raise self.source.error(
                f"column {quote(column)} has no values; leave {name}= out of --columns, or correct it"
            )
        held[:first] = first
        self.values[name].replace(values[held])
        begin = f", the first {first} the value after" if first else ""
        self.source.note(
            f"{column} ({name}): {len(missing)} of {plural(len(values), 'value')} missing, the first at line "
            f"{self.lines.whole()[missing[0]]}; each keeps the value before{begin}"
        )

    def _compare(self, every_ns: int) -> None:
        """Tell if the times of a column say something else than ``every``."""
        assert self._times is not None, "the caller has checked it"
        name = self._table.names[self._times]
        unit = _time_unit(name, self._first_and_last[0].strip())
        texts = [text.strip() for text in self._first_and_last]
        if unit == "clock":
            ends = [clock_ns(text) for text in texts]
        else:
            ends = [first_value(text, TIME_UNITS[unit]) if is_number(text) else None for text in texts]
        if ends[0] is None or ends[1] is None:
            return
        count = len(self.lines)
        span, made = ends[1] - ends[0], (count - 1) * every_ns
        if span > 0 and abs(span - made) > max(every_ns, made // 100):
            self.source.note(
                f"column {quote(name)} goes over {say_seconds(span)}, every={format_time(every_ns)} makes "
                f"{say_seconds(made)} of its {plural(count, 'row')}; to keep its times, write time={name}:{unit}"
            )


def _backwards(source: TraceSource, now: str, before: str, line: int) -> UserError:
    return source.error(
        f"time {now} is before {before}, that of the row before; "
        "sort the rows by time, or number them with every=1s in place of time=",
        line,
    )


def _assemble(source: TraceSource, options: ReadOptions, reader: _Reader, every_ns: int | None) -> Pattern:
    values = {name: rows.whole() for name, rows in reader.values.items()}
    count = len(reader.lines)
    if every_ns is not None:
        if count * every_ns > MAX_NS:
            raise source.error("lasts longer than 1000000000 s; choose a shorter every=TIME")
        index = np.arange(count, dtype=np.int64) * every_ns
        duration = count * every_ns
    else:
        index = values["time"]
        lines = reader.lines.whole()
        note_gaps(source, np.diff(index), lambda step: int(lines[step]), "the value of that line")
        duration = int(index[-1]) + last_length(source, index, options, "row")
    loss = values["loss"].astype(np.float64) / PROBABILITY_SCALE if "loss" in values else None
    return steps(index, duration, rate_bps=values.get("rate"), delay_ns=values.get("delay"), loss=loss)


FORMAT = TraceFormat(
    name="table",
    title="any table, read with --columns NAME=COLUMN:UNIT…",
    sniff=lambda source: False,  # noqa: ARG005
    read=read,
    write=None,
)
