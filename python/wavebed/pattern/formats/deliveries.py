"""The form of mahimahi's traces and CellReplay's heavy traces: one millisecond per line, one packet each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from wavebed.errors import UserError
from wavebed.pattern.formats.base import note_lost_columns
from wavebed.pattern.model import MAX_NS, MAX_OPPORTUNITY_BYTES, Pattern, opportunities
from wavebed.pattern.numbers import Rows, integers
from wavebed.pattern.resample import MAX_OPPORTUNITIES, NS_PER_MS, to_opportunities

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.pattern.formats.base import WriteOptions
    from wavebed.pattern.numbers import LineOf
    from wavebed.pattern.source import Source

__all__ = ["looks_like_deliveries", "read_deliveries", "write_deliveries"]

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?", re.ASCII)


def looks_like_deliveries(source: Source) -> bool:
    """Tell whether most of the first lines are one number each."""
    filled = source.head_rows
    alone = sum(1 for line in filled if _NUMBER.fullmatch(line.strip()))
    return bool(filled) and 2 * alone > len(filled)


def read_deliveries(source: Source, size_bytes: int) -> Pattern:
    """Read milliseconds, one line for each packet of so many bytes; the last is the period.

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


def _check_order(source: Source, times: NDArray[np.int64], before: int, line_of: LineOf) -> None:
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
    """Write one line for each packet of so many bytes.

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
