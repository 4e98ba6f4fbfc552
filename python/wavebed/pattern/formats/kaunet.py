"""KauNet bandwidth list: ``t_ms,rate,t_ms,rate,…`` on one line, bits per second, as ``patt_gen -bw -u bit`` takes it.

The list does not hold the duration: ``patt_gen`` is told it with ``-s``. Without ``--duration`` the last rate is
taken to last as long as the one before it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from wavebed.pattern.formats.base import Format, ReadOptions, WriteOptions, note_lost_columns
from wavebed.pattern.model import MAX_NS, MAX_RATE_BPS, Pattern, steps
from wavebed.pattern.numbers import integers
from wavebed.pattern.resample import NS_PER_MS, NS_PER_S, rate_steps, to_windows
from wavebed.pattern.source import plural

if TYPE_CHECKING:
    from wavebed.pattern.source import Source

__all__ = ["FORMAT", "last_length"]

_LIST = re.compile(r"0,-?[0-9]+(?:\.[0-9]+)?(?:,[^,]*)*", re.ASCII)


def sniff(source: Source) -> bool:
    """Recognise one line of comma-separated values that begins at time 0."""
    filled = [line for line in source.head if line.strip()]
    return len(filled) == 1 and _LIST.match(filled[0].strip()) is not None


def last_length(source: Source, starts_ns: list[int], options: ReadOptions, what: str) -> int:
    """Return how long the last of some rows lasts: to ``--duration``, else as long as the one before.

    Raises
    ------
    UserError
        If there is only one row and no duration, or the duration ends before the last row.
    """
    if options.duration_ns is not None:
        length = options.duration_ns - starts_ns[-1]
        if length <= 0:
            raise source.error(
                f"--duration {options.duration_ns / NS_PER_S:g}s is not after the last {what}, "
                f"{starts_ns[-1] / NS_PER_S:g}s; give a longer one"
            )
        return length
    if len(starts_ns) < 2:
        raise source.error(f"has one {what} and no end; say how long it lasts with --duration, as --duration 40s")
    length = starts_ns[-1] - starts_ns[-2]
    source.note(
        f"the file does not say when the last {what} ends; taken to last {length / NS_PER_S:g} s, "
        "as the one before (--duration says otherwise)"
    )
    return length


def read(source: Source, options: ReadOptions) -> Pattern:
    """Read a list of changes.

    Raises
    ------
    UserError
        With the value, the rule and the remedy.
    """
    if len(source.lines) != 1:
        raise source.error(f"has {len(source.lines)} lines; a KauNet list is one line, t_ms,rate,t_ms,rate,…", 2)
    values = source.lines[0].strip().split(",")
    if len(values) % 2:
        raise source.error(f"has {plural(len(values), 'value')}, an odd number; write pairs t_ms,rate,…", 1)
    places = range(1, len(values) + 1)
    times = integers(source, values[0::2], lambda _: 1, "time in ms", most=MAX_NS // NS_PER_MS)
    rates = integers(source, values[1::2], lambda _: 1, "rate in bit/s", most=MAX_RATE_BPS)
    if times[0] != 0:
        raise source.error(f"the first time is {times[0]} ms; it must be 0", 1)
    back = np.diff(times) <= 0
    if back.any():
        position = int(back.argmax()) + 1
        raise source.error(
            f"value {places[2 * position]}: time {times[position]} ms is not after {times[position - 1]} ms; "
            "put the pairs in order",
            1,
        )
    starts = (times * NS_PER_MS).tolist()
    duration = starts[-1] + last_length(source, starts, options, "rate")
    return steps(times * NS_PER_MS, duration, rate_bps=rates)


def write(pattern: Pattern, options: WriteOptions) -> str:
    """Write the list; times on whole milliseconds."""
    note_lost_columns(pattern, options)
    pattern = to_windows(rate_steps(pattern, options), NS_PER_MS, options, "whole milliseconds")
    assert pattern.rate_bps is not None, "rate_steps returns a rate"
    options.notes.append(
        f"the list does not hold the duration: give patt_gen -s {pattern.period // NS_PER_MS}, "
        f"and wavebed --duration {pattern.period // NS_PER_MS}ms"
    )
    times = (pattern.index // NS_PER_MS).tolist()
    pairs = zip(times, pattern.rate_bps.tolist(), strict=True)
    return ",".join(f"{time},{rate}" for time, rate in pairs) + "\n"


FORMAT = Format(
    name="kaunet",
    title="KauNet bandwidth list: t_ms,rate,… on one line, bit/s",
    sniff=sniff,
    read=read,
    write=write,
    suffixes=(".kaunet",),
)
