"""The form of mahimahi's traces and CellReplay's heavy traces: one millisecond per line, one packet each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from wavebed.errors import UserError
from wavebed.pattern.formats.base import ReadOptions, TraceFormat, WriteOptions, note_lost_columns
from wavebed.pattern.model import MAX_NS, MAX_OPPORTUNITY_BYTES, Pattern, opportunities, steps
from wavebed.pattern.resample import MAX_OPPORTUNITIES, NS_PER_MS, to_opportunities
from wavebed.pattern.source import Rows, integers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.pattern.source import LineOf, TraceSource


_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?", re.ASCII)


def looks_like_deliveries(source: TraceSource) -> bool:
    """Tell whether most of the first lines are one number each."""
    filled = source.head_rows
    alone = sum(1 for line in filled if _NUMBER.fullmatch(line.strip()))
    return bool(filled) and 2 * alone > len(filled)


def read_deliveries(source: TraceSource, size_bytes: int) -> Pattern:
    """Read milliseconds, one line for each packet of fixed size; the last is the period.

    Raises
    ------
    UserError
        With the line, the rule and the remedy.
    """
    most = source.count()
    starts, counts = Rows(most, np.int64), Rows(most, np.int64)
    last, number = -1, 0
    for line_of, lines in source.rows():
        times = integers(source, lines, line_of, "time in ms", most=MAX_NS // NS_PER_MS)
        _check_order(source, times, last, line_of)
        found, many = np.unique(times, return_counts=True)
        if found[0] == last:
            counts.whole()[-1] += many[0]
            found, many = found[1:], many[1:]
        starts.add(found)
        counts.add(many.astype(np.int64))
        last, number = int(times[-1]), line_of(len(lines) - 1)
    if last < 0:
        raise source.error("has no rows; write one whole millisecond per line")
    if last == 0:
        raise source.error("the last time is 0 ms; it is the period of the trace and must be greater", number)
    index, sizes = starts.whole(), counts.whole()
    index *= NS_PER_MS
    sizes *= size_bytes
    if sizes.max() > MAX_OPPORTUNITY_BYTES:
        raise source.error(f"more than {MAX_OPPORTUNITY_BYTES} bytes within one millisecond; scale the trace down")
    return opportunities(index, last * NS_PER_MS, sizes)


def _check_order(source: TraceSource, times: NDArray[np.int64], before: int, line_of: LineOf) -> None:
    back = np.diff(times, prepend=max(before, 0)) < 0
    if back.any():
        position = int(back.argmax())
        earlier = times[position - 1] if position else before
        raise source.error(
            f"time {times[position]} ms is before {earlier} ms, that of the line before; sort the lines",
            line_of(position),
        )


def _on_the_grid(pattern: Pattern, size_bytes: int, options: WriteOptions) -> Pattern:
    """Move opportunities to whole milliseconds and whole packets, carrying bytes on, never losing one packet."""
    assert pattern.size_bytes is not None, "the caller has checked the kind"
    times = -(-pattern.index // NS_PER_MS)
    end = -(-pattern.period // NS_PER_MS)
    if (times * NS_PER_MS != pattern.index).any() or end * NS_PER_MS != pattern.period:
        options.notes.append("times are rounded up to whole milliseconds")
    if (pattern.size_bytes % size_bytes != 0).any():
        options.notes.append(f"opportunities become multiples of {size_bytes} bytes; the rest is carried to the next")
    packets = np.diff(np.cumsum(pattern.size_bytes) // size_bytes, prepend=0)
    if times[-1] != end or packets[-1] == 0:
        times = np.append(times, end)
        packets = np.append(packets, 1)
        options.notes.append(
            f"one opportunity of {size_bytes} bytes is added at the end, since the last line is the period"
        )
    keep = packets > 0
    return opportunities(times[keep] * NS_PER_MS, int(end) * NS_PER_MS, packets[keep] * size_bytes)


def write_deliveries(pattern: Pattern, options: WriteOptions, size_bytes: int) -> str:
    """Write one line for each packet of fixed size.

    Raises
    ------
    UserError
        If the pattern has no rate, or the file would be too large.
    """
    if pattern.kind == "opportunities":
        pattern = _on_the_grid(pattern, size_bytes, options)
    elif pattern.kind == "steps" and pattern.rate_bps is not None:
        note_lost_columns(pattern, options)
        options.notes.append(f"the rate becomes opportunities of {size_bytes} bytes on whole milliseconds")
        pattern, added = to_opportunities(pattern, size_bytes)
        if added:
            options.notes.append(
                f"one opportunity of {added} bytes is added at the end, since the last line is the period"
            )
    else:
        raise UserError("the pattern has no rate, and this format holds delivery opportunities; write --to native")
    assert pattern.size_bytes is not None, "both ways make opportunities"
    counts = pattern.size_bytes // size_bytes
    if counts.sum() > MAX_OPPORTUNITIES:
        raise UserError(f"the trace would have more than {MAX_OPPORTUNITIES} opportunities; cut it or scale its rate")
    times = (pattern.index // NS_PER_MS).tolist()
    return "".join(f"{time}\n" * count for time, count in zip(times, counts.tolist(), strict=True))


OPPORTUNITY_BYTES = 1500


def read(source: TraceSource, options: ReadOptions) -> Pattern:  # noqa: ARG001
    """Read a mahimahi trace; opportunities of one millisecond become one row."""
    return read_deliveries(source, OPPORTUNITY_BYTES)


def write(pattern: Pattern, options: WriteOptions) -> str:
    """Write a mahimahi trace."""
    return write_deliveries(pattern, options, OPPORTUNITY_BYTES)


FORMAT = TraceFormat(
    name="mahimahi",
    title="mahimahi: one whole millisecond per line, 1500 bytes each",
    sniff=looks_like_deliveries,
    read=read,
    write=write,
    suffixes=(".up", ".down", ".mahimahi", ".mahi"),
)


PACKET_BYTES = 1400
_LIGHT_LINE = re.compile(r"-?[0-9]+ -?[0-9.]+ -?[0-9]+(?: .*)?", re.ASCII)


def read_heavy(source: TraceSource, options: ReadOptions) -> Pattern:  # noqa: ARG001
    """Read a heavy trace; opportunities of one millisecond become one row."""
    return read_deliveries(source, PACKET_BYTES)


def write_heavy(pattern: Pattern, options: WriteOptions) -> str:
    """Write a heavy trace."""
    return write_deliveries(pattern, options, PACKET_BYTES)


def sniff_light(source: TraceSource) -> bool:
    """Recognise lines of three or more numbers with single spaces between."""
    filled = source.head_rows
    return bool(filled) and 2 * sum(1 for line in filled if _LIGHT_LINE.fullmatch(line)) > len(filled)


def read_light(source: TraceSource, options: ReadOptions) -> Pattern:  # noqa: ARG001
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


def _too_few(source: TraceSource, number: int, lines: int) -> UserError:
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


def sniff_offset(source: TraceSource) -> bool:
    """Recognise 100, 200, 300, … in the first of two columns."""
    rows = [line.split() for line in source.head_rows]
    return len(rows) > 1 and all(len(row) == 2 and row[0] == str(100 * n) for n, row in enumerate(rows, start=1))


def read_offset(source: TraceSource, options: ReadOptions) -> Pattern:  # noqa: ARG001
    """Refuse the file: it is no series over time.

    Raises
    ------
    UserError
        Always.
    """
    raise source.error(
        "holds extra delay by packet size, which a pattern cannot hold; give the delay or the heavy file instead"
    )


HEAVY = TraceFormat(
    name="cellreplay-heavy",
    title="CellReplay heavy opportunities: one whole millisecond per line, 1400 bytes each",
    sniff=looks_like_deliveries,
    read=read_heavy,
    write=write_heavy,
    suffixes=("up-pdo", "down-pdo", ".pdo"),
)
LIGHT = TraceFormat(
    name="cellreplay-light",
    title="CellReplay base delay and light opportunities: t_ms delay_ms 0 … (the delay is read)",
    sniff=sniff_light,
    read=read_light,
    write=write_light,
    suffixes=("light-pdo",),
)
OFFSET = TraceFormat(
    name="cellreplay-offset",
    title="CellReplay extra delay by packet size (recognised, and refused: no series over time)",
    sniff=sniff_offset,
    read=read_offset,
    write=None,
    suffixes=("latency-offset-up", "latency-offset-down"),
)
