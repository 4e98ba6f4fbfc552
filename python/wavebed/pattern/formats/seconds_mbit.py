"""``seconds Mbit/s``: two columns, as the processed Lumos5G traces and Pensieve's.

A sample covers the time that ends with it: value i holds from time i-1 to time i, and the first from 0. So a file
of 800 lines from 1.0 to 800.0 lasts 800 s. Pensieve's own simulator replays its files that way.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from wavebed.pattern.formats.base import Format, ReadOptions, WriteOptions, note_lost_columns
from wavebed.pattern.model import MAX_NS, MAX_RATE_BPS, Pattern, steps
from wavebed.pattern.numbers import Rows, format_scaled, measured
from wavebed.pattern.resample import NS_PER_S, rate_steps
from wavebed.pattern.source import plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.pattern.numbers import LineOf
    from wavebed.pattern.source import Source

__all__ = ["FORMAT", "ending_samples"]

_LINE = re.compile(r"\s*[-+0-9.][^\s,;]*[ \t]+[^\s,;]+\s*")


def sniff(source: Source) -> bool:
    """Recognise lines of two words with blanks between, the first like a number."""
    filled = [line for line in source.head if line.strip()]
    return bool(filled) and 2 * sum(1 for line in filled if _LINE.fullmatch(line)) > len(filled)


def ending_samples(
    source: Source, times: NDArray[np.int64], rates: NDArray[np.int64], what: str, line_of: LineOf
) -> Pattern:
    """Make steps of samples that cover the time up to them.

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
    if times[0] == 0:
        if len(times) == 1:
            raise source.error(f"the only sample is at {what} 0 and covers no time; give its end", line_of(0))
        source.note(f"the sample at {what} 0 covers no time and is left out (a sample covers the time up to it)")
        times, rates = times[1:], rates[1:]
    again = np.concatenate((np.zeros(1, dtype=np.bool_), np.diff(times) == 0))
    if again.any():
        count = plural(int(again.sum()), "sample")
        source.note(f"left out: {count} at the {what} of the row before (a sample covers the time up to it)")
        times, rates = times[~again], rates[~again]
    starts = np.concatenate((np.zeros(1, dtype=np.int64), times[:-1]))
    return steps(starts, int(times[-1]), rate_bps=rates)


def read(source: Source, options: ReadOptions) -> Pattern:  # noqa: ARG001
    """Read two columns.

    Raises
    ------
    UserError
        With the line, the rule and the remedy.
    """
    most = source.count()
    times, rates = Rows(most, np.int64), Rows(most, np.int64)
    for begin, lines in source.blocks():
        rows = [line.split() for line in lines]
        for number, row in enumerate(rows, start=begin):
            if len(row) != 2:
                found = (
                    f"{plural(len(row), 'value')}; write 'seconds Mbit/s'" if row else "the line is blank; remove it"
                )
                raise source.error(found, number)

        def line_of(position: int, begin: int = begin) -> int:
            return begin + position

        seconds, mbit = [row[0] for row in rows], [row[1] for row in rows]
        times.add(measured(source, seconds, line_of, "time in s", scale=NS_PER_S, most=MAX_NS))
        rates.add(measured(source, mbit, line_of, "rate in Mbit/s", scale=10**6, most=MAX_RATE_BPS))
    return ending_samples(source, times.whole(), rates.whole(), "time", lambda position: position + 1)


def write(pattern: Pattern, options: WriteOptions) -> str:
    """Write the end of each step and its rate; steps are exact."""
    note_lost_columns(pattern, options)
    pattern = rate_steps(pattern, options, NS_PER_S)
    assert pattern.rate_bps is not None, "rate_steps returns a rate"
    ends = (pattern.index + pattern.lengths()).tolist()
    return "".join(
        f"{_one_digit(format_scaled(end, 9))}\t{_one_digit(format_scaled(rate, 6))}\n"
        for end, rate in zip(ends, pattern.rate_bps.tolist(), strict=True)
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
