"""``seconds Mbit/s``: two columns, as the processed Lumos5G traces and Pensieve's.

A sample covers the time that ends with it: value i holds from time i-1 to time i, and the first from 0. So a file
of 800 lines from 1.0 to 800.0 lasts 800 s. Pensieve's own simulator replays its files that way. Times that begin
late, such as 100, 101, …, are shifted: the first sample lasts one usual step.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from wavebed.pattern.formats.base import Format, ReadOptions, WriteOptions, note_lost_columns
from wavebed.pattern.formats.times import EPOCH_NS, LATEST_NS, note_gaps, say_seconds, usual_step
from wavebed.pattern.model import MAX_NS, MAX_RATE_BPS, Pattern, steps
from wavebed.pattern.numbers import Rows, first_value, format_scaled, measured
from wavebed.pattern.resample import NS_PER_S, rate_steps
from wavebed.pattern.source import plural, quote

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.pattern.numbers import LineOf
    from wavebed.pattern.source import Source

__all__ = ["FORMAT", "ending_samples", "late_step"]

_LINE = re.compile(r"\s*[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?[ \t]+[^\s,;:]+\s*")
LATE_STEPS = 3
"""A first time after at least this many usual steps is an offset."""


def sniff(source: Source) -> bool:
    """Recognise lines of two words with blanks between, the first a number."""
    filled = source.head_rows
    if not filled or _LINE.fullmatch(filled[0]) is None:
        return False
    return 2 * sum(1 for line in filled if _LINE.fullmatch(line)) > len(filled)


def late_step(times: NDArray[np.int64], start: int) -> int:
    """Return the usual step of samples whose first time is an offset, else 0.

    Parameters
    ----------
    start : int
        The first time, in the unit of the times.
    """
    apart = np.diff(times)
    apart = apart[apart > 0]
    usual = usual_step(apart) if len(apart) else 0
    return usual if start >= LATE_STEPS * usual else 0


def ending_samples(
    source: Source,
    times: NDArray[np.int64],
    rates: NDArray[np.int64],
    what: str,
    line_of: LineOf,
    shift: int = 0,
) -> Pattern:
    """Make steps of samples that cover the time up to them.

    Parameters
    ----------
    times : int64 array
        Nanoseconds after ``shift``.
    shift : int
        Nanoseconds that were taken off all times.

    A sample at 0, or at the time of the one before it, as clocks that are rounded give it, covers none and is left out.

    Raises
    ------
    UserError
        If times decrease, or the only sample is at 0.
    """
    back = np.diff(times) < 0
    if back.any():
        position = int(back.argmax()) + 1
        now, before = (format_scaled(int(times[place]), 9) for place in (position, position - 1))
        raise source.error(f"{what} {now} is before {before}, that of the row before; sort the rows", line_of(position))
    lines = np.arange(len(times), dtype=np.uint32)
    start = int(times[0]) + shift
    usual = late_step(times, start)
    if usual:
        source.note(
            f"the first {what} is {say_seconds(start)}; shifted to {say_seconds(usual)}, "
            "so that the first sample lasts as long as the others"
        )
        times = times - times[0] + usual
    elif shift:
        times = times + shift
    if times[0] == 0:
        if len(times) == 1:
            raise source.error(f"the only sample is at {what} 0 and covers no time; give its end", line_of(0))
        source.note(f"the sample at {what} 0 covers no time and is left out (a sample covers the time up to it)")
        times, rates, lines = times[1:], rates[1:], lines[1:]
    again = np.concatenate((np.zeros(1, dtype=np.bool_), np.diff(times) == 0))
    if again.any():
        count = plural(int(again.sum()), "sample")
        source.note(f"left out: {count} at the {what} of the row before (a sample covers the time up to it)")
        times, rates, lines = times[~again], rates[~again], lines[~again]
    starts = np.concatenate((np.zeros(1, dtype=np.int64), times[:-1]))
    note_gaps(source, times - starts, lambda step: line_of(int(lines[step])), "the value of that line")
    return steps(starts, int(times[-1]), rate_bps=rates)


def read(source: Source, options: ReadOptions) -> Pattern:  # noqa: ARG001
    """Read two columns.

    Raises
    ------
    UserError
        With the line, the rule and the remedy.
    """
    most = source.count()
    times, rates, places = Rows(most, np.int64), Rows(most, np.int64), Rows(most, np.uint32)
    shift: int | None = None
    for line_of, lines in source.rows():
        rows = [line.split() for line in lines]
        for position, row in enumerate(rows):
            if len(row) != 2:
                raise source.error(f"{plural(len(row), 'value')}; write 'seconds Mbit/s'", line_of(position))
        seconds, mbit = [row[0] for row in rows], [row[1] for row in rows]
        if shift is None:
            # Seconds since 1970 are beyond the longest pattern.
            first = first_value(seconds[0], NS_PER_S)
            shift = first if first >= EPOCH_NS else 0
            if first >= LATEST_NS:
                raise source.error(
                    f"time {quote(seconds[0])} is no number of seconds; for milliseconds since 1970, write "
                    "--columns time=1:ms rate=2:mbit",
                    line_of(0),
                )
        times.add(measured(source, seconds, line_of, "time in s", scale=NS_PER_S, most=MAX_NS, shift=shift))
        rates.add(measured(source, mbit, line_of, "rate in Mbit/s", scale=10**6, most=MAX_RATE_BPS))
        places.add(np.fromiter(map(line_of, range(len(rows))), dtype=np.uint32, count=len(rows)))
    if shift is None:
        raise source.error("has no rows; write 'seconds Mbit/s'")
    line_numbers = places.whole()
    return ending_samples(
        source, times.whole(), rates.whole(), "time", lambda position: int(line_numbers[position]), shift
    )


def write(pattern: Pattern, options: WriteOptions) -> str:
    """Write the end of each step and its rate; steps are exact.

    A sample at 0 comes first if the end of the first step would be read as an offset.
    """
    note_lost_columns(pattern, options)
    pattern = rate_steps(pattern, options, NS_PER_S)
    assert pattern.rate_bps is not None, "rate_steps returns a rate"
    ends = pattern.index + pattern.lengths()
    begin = f"0.0\t{_one_digit(format_scaled(int(pattern.rate_bps[0]), 6))}\n" if late_step(ends, int(ends[0])) else ""
    return begin + "".join(
        f"{_one_digit(format_scaled(end, 9))}\t{_one_digit(format_scaled(rate, 6))}\n"
        for end, rate in zip(ends.tolist(), pattern.rate_bps.tolist(), strict=True)
    )


def _one_digit(text: str) -> str:
    return text if "." in text else text + ".0"


FORMAT = Format(
    name="seconds-mbit",
    title="two columns, seconds and Mbit/s (processed Lumos5G, Pensieve)",
    sniff=sniff,
    read=read,
    write=write,
    suffixes=(".txt",),
)
