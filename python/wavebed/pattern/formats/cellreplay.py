"""CellReplay's packet-delivery files: heavy (saturated) opportunities, and base delay with light opportunities.

The heavy file is as mahimahi's, with 1400 bytes each. Of the light file a pattern can hold the base delay over
time; the short trains of opportunities after an idle time cannot be held, nor can the file of delays by packet
size.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from wavebed.errors import UserError
from wavebed.pattern.formats.base import Format, ReadOptions, WriteOptions, note_lost_columns
from wavebed.pattern.formats.deliveries import looks_like_deliveries, read_deliveries, write_deliveries
from wavebed.pattern.model import MAX_NS, Pattern, steps
from wavebed.pattern.numbers import Rows, integers
from wavebed.pattern.resample import NS_PER_MS

if TYPE_CHECKING:
    from wavebed.pattern.source import Source

__all__ = ["HEAVY", "LIGHT", "OFFSET"]

PACKET_BYTES = 1400
_LIGHT_LINE = re.compile(r"-?[0-9]+ -?[0-9.]+ -?[0-9]+(?: .*)?", re.ASCII)


def read_heavy(source: Source, options: ReadOptions) -> Pattern:  # noqa: ARG001
    """Read a heavy trace; opportunities of one millisecond become one row."""
    return read_deliveries(source, PACKET_BYTES)


def write_heavy(pattern: Pattern, options: WriteOptions) -> str:
    """Write a heavy trace."""
    return write_deliveries(pattern, options, PACKET_BYTES)


def sniff_light(source: Source) -> bool:
    """Recognise lines of three or more numbers with single spaces between."""
    filled = source.head_rows
    return bool(filled) and 2 * sum(1 for line in filled if _LIGHT_LINE.fullmatch(line)) > len(filled)


def read_light(source: Source, options: ReadOptions) -> Pattern:  # noqa: ARG001
    """Read the base delay over time; the last line only ends the last interval.

    Raises
    ------
    UserError
        With the line, the rule and the remedy.
    """
    most = MAX_NS // NS_PER_MS
    parts = [Rows(source.count(), np.int64) for _ in range(2)]
    places = Rows(source.count(), np.uint32)
    longer, count, number = False, 0, 0
    for line_of, lines in source.rows():
        rows = [line.split(" ") for line in lines]
        count += len(rows)
        numbers = [line_of(position) for position in range(len(rows))]
        places.add(np.array(numbers, dtype=np.uint32))
        for number, row in zip(numbers, rows, strict=True):
            if len(row) < 3:
                raise _too_few(source, number, len(lines))
        parts[0].add(integers(source, [row[0] for row in rows], line_of, "time in ms", most=most))
        parts[1].add(integers(source, [row[1] for row in rows], line_of, "base delay in ms", most=most))
        for number, row in zip(numbers, rows, strict=True):
            integers(source, row[2:], lambda _, number=number: number, "light opportunity in ms", most=most)  # type: ignore[misc]
            longer = longer or len(row) > 3
    if count < 3:
        raise _too_few(source, number, count)
    times, delays = (part.whole() for part in parts)
    back = np.diff(times) <= 0
    if back.any():
        position = int(back.argmax()) + 1
        raise source.error(
            f"time {times[position]} ms is not after {times[position - 1]} ms, that of the line before; sort the lines",
            int(places.whole()[position]),
        )
    start = int(times[0])
    if start:
        source.note(f"time begins with the first line, at {start} ms")
    if longer:
        source.note("a pattern holds the base delay; the light opportunities after an idle time are left out")
    source.note("CellReplay interpolates the base delay between lines; here it holds until the next line")
    index = (times[:-1] - start) * NS_PER_MS
    return steps(index, int(times[-1] - start) * NS_PER_MS, delay_ns=delays[:-1] * NS_PER_MS)


def _too_few(source: Source, number: int, lines: int) -> UserError:
    if lines < 3:
        return source.error("has fewer than 3 lines; CellReplay needs at least 3: time, base delay, opportunities")
    return source.error("the line needs 't_ms delay_ms 0 …': time, base delay and light opportunities", number)


def write_light(pattern: Pattern, options: WriteOptions) -> str:
    """Write the base delay over time, with one light opportunity for each line.

    Raises
    ------
    UserError
        If the pattern has no delay over time.
    """
    if pattern.kind != "steps" or pattern.delay_ns is None:
        raise UserError("the pattern has no delay over time, and this format holds nothing else; write --to native")
    note_lost_columns(pattern, options, held=("delay",))
    times = (pattern.index + NS_PER_MS // 2) // NS_PER_MS
    delays = (pattern.delay_ns + NS_PER_MS // 2) // NS_PER_MS
    end = -(-pattern.period // NS_PER_MS)
    exact = (times * NS_PER_MS == pattern.index).all() and end * NS_PER_MS == pattern.period
    if not (exact and (delays * NS_PER_MS == pattern.delay_ns).all()):
        options.notes.append("times and delays are rounded to whole milliseconds")
    keep = np.append(np.diff(times) > 0, times[-1] < end)
    rows = list(zip(times[keep].tolist(), delays[keep].tolist(), strict=True))
    if len(rows) == 1:
        if end < 2:
            raise UserError("the pattern is shorter than 2 ms, too short for this format; write --to native")
        rows.append((end // 2, rows[0][1]))
    rows.append((int(end), rows[-1][1]))
    return "".join(f"{time} {delay} 0\n" for time, delay in rows)


def sniff_offset(source: Source) -> bool:
    """Recognise 100, 200, 300, … in the first of two columns."""
    rows = [line.split() for line in source.head_rows]
    return len(rows) > 1 and all(len(row) == 2 and row[0] == str(100 * n) for n, row in enumerate(rows, start=1))


def read_offset(source: Source, options: ReadOptions) -> Pattern:  # noqa: ARG001
    """Refuse the file: it is no series over time.

    Raises
    ------
    UserError
        Always.
    """
    raise source.error(
        "holds extra delay by packet size, which a pattern cannot hold; give the delay or the heavy file instead"
    )


HEAVY = Format(
    name="cellreplay-heavy",
    title="CellReplay heavy opportunities: one whole millisecond per line, 1400 bytes each",
    sniff=looks_like_deliveries,
    read=read_heavy,
    write=write_heavy,
    suffixes=("up-pdo", "down-pdo", ".pdo"),
)
LIGHT = Format(
    name="cellreplay-light",
    title="CellReplay base delay and light opportunities: t_ms delay_ms 0 … (the delay is read)",
    sniff=sniff_light,
    read=read_light,
    write=write_light,
    suffixes=("light-pdo",),
)
OFFSET = Format(
    name="cellreplay-offset",
    title="CellReplay extra delay by packet size (recognised, and refused: no series over time)",
    sniff=sniff_offset,
    read=read_offset,
    write=None,
    suffixes=("latency-offset-up", "latency-offset-down"),
)
