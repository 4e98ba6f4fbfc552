"""Any table with a header line, read with ``--columns NAME=COLUMN:UNIT…``.

A row holds from its time to the next row's; the last as long as the one before, unless ``--duration`` says
otherwise. Time begins with the first row. ``every=1s`` in place of ``time=`` gives each row that long.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import numpy as np

from wavebed.config.renamed import warn_old_name
from wavebed.config.units import RATE_UNITS, TIME_UNITS, parse_time
from wavebed.errors import UserError
from wavebed.pattern.formats.base import Format, ReadOptions
from wavebed.pattern.formats.kaunet import last_length
from wavebed.pattern.model import MAX_NS, MAX_RATE_BPS, Pattern, steps
from wavebed.pattern.numbers import Rows, first_value, format_scaled, measured
from wavebed.pattern.source import plural, quote

if TYPE_CHECKING:
    from _csv import Reader
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from wavebed.pattern.source import Source

__all__ = ["FORMAT", "blocks_of_rows", "looks_like_table"]

PROBABILITY_SCALE = 10**12
LOSS_UNIT, OLD_LOSS_UNIT = "probability", "share"
ROWS_AT_ONCE = 1 << 14
UNITS = {
    "time": TIME_UNITS,
    "rate": RATE_UNITS,
    "delay": TIME_UNITS,
    "loss": {LOSS_UNIT: PROBABILITY_SCALE, "%": PROBABILITY_SCALE // 100},
}
MOST = {"time": MAX_NS, "rate": MAX_RATE_BPS, "delay": MAX_NS, "loss": PROBABILITY_SCALE}
EXAMPLE = "--columns time=Timestamp:s rate=Throughput:mbit"


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
        if name == "loss" and unit.lower() == OLD_LOSS_UNIT:
            warn_old_name(f"--columns {item}: {unit}", LOSS_UNIT)
            unit = LOSS_UNIT
        if not colon or not column or unit.lower() not in UNITS[name]:
            units = ", ".join(UNITS[name])
            raise UserError(f"--columns {item}: the unit is missing or unknown; write {name}=COLUMN:UNIT, in {units}")
        chosen[name] = (column, UNITS[name][unit.lower()])
    if ("time" in chosen) == (every_ns is not None):
        raise UserError(f"--columns needs either time=COLUMN:UNIT or every=TIME, as {EXAMPLE}")
    if not chosen.keys() - {"time"}:
        raise UserError(f"--columns needs a rate, delay or loss, as {EXAMPLE}")
    return chosen, every_ns


def _delimiter(header: str) -> str:
    return max(",\t;", key=header.count)


def looks_like_table(source: Source) -> list[str]:
    """Return the column names where the first line could be a header, else nothing."""
    if not source.head:
        return []
    mark = _delimiter(source.head[0])
    names = [name.strip() for name in source.head[0].split(mark)]
    return names if len(names) > 1 and any(name[:1].isalpha() for name in names) else []


def read(source: Source, options: ReadOptions) -> Pattern:
    """Read the chosen columns.

    Raises
    ------
    UserError
        With the line, the rule and the remedy.
    """
    if not options.columns:
        raise source.error(f"a table needs to be told its columns, as {EXAMPLE}")
    chosen, every_ns = _choices(options)
    if not source.head:
        raise source.error("is empty; a table has a header line and rows")
    reader = csv.reader((f"{line}\n" for _, line in source.lines()), delimiter=_delimiter(source.head[0]), strict=True)
    most = source.count()
    parts = {name: Rows(most, np.int64) for name in chosen}
    places = Rows(most, np.uint32)
    begin_of_time: int | None = None
    try:
        names = [name.strip() for name in next(reader)]
        columns = {name: _place(source, names, column) for name, (column, _) in chosen.items()}
        for lines, rows in blocks_of_rows(source, reader, len(names)):
            places.add(np.array(lines, dtype=np.uint32))
            for name, (column, scale) in chosen.items():
                cells = [row[columns[name]].strip() for row in rows]
                shift = 0
                if name == "time":
                    shift = begin_of_time = first_value(cells[0], scale) if begin_of_time is None else begin_of_time
                parts[name].add(_values(source, name, cells, lines, column, scale, shift))
    except csv.Error as error:
        raise source.error(f"is not a table of separated values: {error}", reader.line_num) from None
    if not len(places):
        raise source.error("has no rows below the header", 1)
    values = {name: part.whole() for name, part in parts.items()}
    return _assemble(source, options, values, every_ns, places.whole())


def blocks_of_rows(source: Source, reader: Reader, width: int) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Yield the rows and their lines, many at a time."""
    lines: list[int] = []
    rows: list[list[str]] = []
    for row in reader:
        if len(row) != width:
            raise source.error(
                f"{plural(len(row), 'value')} for {plural(width, 'column')}; write one for each", reader.line_num
            )
        lines.append(reader.line_num)
        rows.append(row)
        if len(rows) == ROWS_AT_ONCE:
            yield lines, rows
            lines, rows = [], []
    if rows:
        yield lines, rows


def _place(source: Source, names: Sequence[str], column: str) -> int:
    if names.count(column) != 1:
        fault = "has no column" if column not in names else "has several columns"
        shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
        raise source.error(f"{fault} {quote(column)}; it has {shown}", 1)
    return names.index(column)


def _values(
    source: Source, name: str, cells: list[str], lines: list[int], column: str, scale: int, shift: int
) -> NDArray[np.int64]:
    if name == "time":
        back = [first_value(cell, scale) < shift for cell in cells]
        if True in back:
            position = back.index(True)
            raise _backwards(source, cells[position], cells[max(position - 1, 0)], lines[position])
    what = f"{column} ({name})"
    return measured(source, cells, lambda position: lines[position], what, scale=scale, most=MOST[name], shift=shift)


def _backwards(source: Source, now: str, before: str, line: int) -> UserError:
    return source.error(
        f"time {now} is not after {before}, that of the row before; "
        "sort the rows by time, or number them with --columns every=1s",
        line,
    )


def _assemble(
    source: Source,
    options: ReadOptions,
    values: dict[str, NDArray[np.int64]],
    every_ns: int | None,
    lines: NDArray[np.uint32],
) -> Pattern:
    if every_ns is not None:
        if len(lines) * every_ns > MAX_NS:
            raise source.error("lasts longer than 1000000000 s; choose a shorter every=TIME")
        index = np.arange(len(lines), dtype=np.int64) * every_ns
        duration = len(lines) * every_ns
    else:
        index = values["time"]
        back = np.diff(index) <= 0
        if back.any():
            position = int(back.argmax()) + 1
            now, before = (format_scaled(int(index[place]), 9) + " s" for place in (position, position - 1))
            raise _backwards(source, now, before, int(lines[position]))
        duration = int(index[-1]) + last_length(source, index, options, "row")
    loss = values["loss"].astype(np.float64) / PROBABILITY_SCALE if "loss" in values else None
    return steps(index, duration, rate_bps=values.get("rate"), delay_ns=values.get("delay"), loss=loss)


FORMAT = Format(
    name="table",
    title="any table with a header, read with --columns NAME=COLUMN:UNIT…",
    sniff=lambda source: False,  # noqa: ARG005
    read=read,
    write=None,
)
