"""KauNet bandwidth list: ``t_ms,rate,t_ms,rate,…`` on one line, bits per second, as ``patt_gen -bw -u bit`` takes it.

The list does not hold the duration: ``patt_gen`` takes it by ``-s``. Without ``--duration`` the last rate is
taken to last as long as the one before it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from wavebed.pattern.formats.base import (
    EXAMPLE_CLOCK,
    GAP_STEPS,
    ReadOptions,
    TraceFormat,
    WriteOptions,
    begins_with_keys,
    clock_ns,
    load,
    note_gaps,
    note_lost_columns,
    usual_step,
)
from wavebed.pattern.model import MAX_NS, MAX_RATE_BPS, Pattern, steps
from wavebed.pattern.resample import NS_PER_MS, NS_PER_S, rate_steps, to_windows
from wavebed.pattern.source import Rows, integers, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from wavebed.pattern.source import TraceSource


_LIST = re.compile(r"0,-?[0-9]+(?:\.[0-9]+)?(?:,[^,]*)*", re.ASCII)


def sniff(source: TraceSource) -> bool:
    """Recognise one line of comma-separated values that begins at time 0."""
    filled = [line for line in source.head if line.strip()]
    return len(filled) == 1 and _LIST.match(filled[0].strip()) is not None


def last_length(source: TraceSource, starts_ns: NDArray[np.int64], options: ReadOptions, what: str) -> int:
    """Return how long the last of some rows lasts: to ``--duration``, else as long as the one before.

    If the one before is a gap, the last row lasts one usual step.

    Raises
    ------
    UserError
        If there is only one row and no duration, or the duration ends before the last row.
    """
    last_ns = int(starts_ns[-1])
    if options.duration_ns is not None:
        length = options.duration_ns - last_ns
        if length <= 0:
            raise source.error(
                f"--duration {options.duration_ns / NS_PER_S:g}s is not after the last {what}, "
                f"{last_ns / NS_PER_S:g}s; give a longer one"
            )
        return length
    if len(starts_ns) < 2:
        raise source.error(f"has one {what} and no end; say how long it lasts with --duration, as --duration 40s")
    length = last_ns - int(starts_ns[-2])
    usual = usual_step(np.diff(starts_ns))
    as_which = "as the one before"
    if length >= GAP_STEPS * usual:
        length, as_which = usual, "the usual step"
    source.note(
        f"the file does not say when the last {what} ends; taken to last {length / NS_PER_S:g} s, "
        f"{as_which} (--duration says otherwise)"
    )
    return length


def read(source: TraceSource, options: ReadOptions) -> Pattern:
    """Read a list of changes.

    Raises
    ------
    UserError
        With the value, the rule and the remedy.
    """
    count = sum(len(lines) for _, lines in source.blocks())
    if count != 1:
        raise source.error(f"has {count} lines; a KauNet list is one line, t_ms,rate,t_ms,rate,…", 2)
    parts = [Rows(source.count(",") // 2 + 1, np.int64) for _ in range(2)]
    total = 0
    for values in _filled(source):
        first = total % 2
        total += len(values)
        texts = values[first::2], values[1 - first :: 2]
        parts[0].add(integers(source, texts[0], lambda _: 1, "time in ms", most=MAX_NS // NS_PER_MS))
        parts[1].add(integers(source, texts[1], lambda _: 1, "rate in bit/s", most=MAX_RATE_BPS))
    if total % 2:
        raise source.error(f"has {plural(total, 'value')}, an odd number; write pairs t_ms,rate,…", 1)
    times, rates = (part.whole() for part in parts)
    if times[0] != 0:
        raise source.error(f"the first time is {times[0]} ms; it must be 0", 1)
    back = np.diff(times) <= 0
    if back.any():
        position = int(back.argmax()) + 1
        raise source.error(
            f"value {2 * position + 1}: time {times[position]} ms is not after {times[position - 1]} ms; "
            "put the pairs in order",
            1,
        )
    times *= NS_PER_MS
    duration = int(times[-1]) + last_length(source, times, options, "rate")
    return steps(times, duration, rate_bps=rates)


def _filled(source: TraceSource) -> Iterator[list[str]]:
    """Yield the values, without the blanks before the first and behind the last."""
    held: list[str] = []
    first = True
    for values in source.values(","):
        if first:
            values[0], first = values[0].lstrip(), False
        if held:
            yield held
        held = values
    # A mark at the end has an empty value behind it.
    if source.ends_with(","):
        held.append("")
    held[-1] = held[-1].rstrip()
    yield held


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


FORMAT = TraceFormat(
    name="kaunet",
    title="KauNet bandwidth list: t_ms,rate,… on one line, bit/s",
    sniff=sniff,
    read=read,
    write=write,
    suffixes=(".kaunet",),
)


KBIT = 1000


def sniff_ntrace(source: TraceSource) -> bool:
    """Recognise the keys of an entry."""
    return begins_with_keys(source, "entries", "entryNo", "dateTime")


def _entries(source: TraceSource) -> list[object]:
    document = load(source)
    entries = document.get("entries") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(entries, list) or not entries:
        raise source.error("has no list of entries; write {'version': 1, 'entries': [{'dateTime': …, 'dlBw': …}, …]}")
    if document.get("version", 1) != 1:
        raise source.error(f"is version {document['version']!r} of the format; version 1 can be read".replace("'", ""))
    return entries


def _read(source: TraceSource, options: ReadOptions, key: str, other: str, name: str) -> Pattern:
    times: list[int] = []
    rates: list[int] = []
    numbers: list[int] = []
    without, others, latencies = 0, 0, 0
    for number, entry in enumerate(_entries(source), start=1):
        where = f"entry {number}"
        if not isinstance(entry, dict):
            raise source.error(f"{where} is not an object; write {{'dateTime': …, '{key}': …}}")
        others += other in entry
        latencies += "dlLatency" in entry or "ulLatency" in entry
        if key not in entry:
            without += 1
            continue
        text, rate = entry.get("dateTime"), entry[key]
        time = clock_ns(text) if isinstance(text, str) else None
        if time is None:
            raise source.error(f"{where}: dateTime is not a clock time; write it as '{EXAMPLE_CLOCK}'")
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate * KBIT <= MAX_RATE_BPS:
            raise source.error(f"{where}: {key} is not a number of kbit/s from 0 to {MAX_RATE_BPS // KBIT}; correct it")
        if times and time <= times[-1]:
            raise source.error(f"{where}: dateTime {text} is not after that of entry {numbers[-1]}; sort the entries")
        times.append(time)
        rates.append(round(rate * KBIT))
        numbers.append(number)
    if not times:
        raise source.error(f"no entry has {key}" + (f"; read {other} with --format {name}" if others else "; add it"))
    if times[-1] - times[0] > MAX_NS:
        raise source.error("lasts longer than 1000000000 s; cut it")
    source.note(f"time begins with entry {numbers[0]}")
    if without:
        source.note(f"left out: {plural(without, 'entry').replace('entrys', 'entries')} without {key}")
    if others:
        source.note(f"{other} is left out; read it with --format {name}")
    if latencies:
        source.note("dlLatency and ulLatency are left out: they are times to the first bytes, not delays of the link")
    index = np.array([time - times[0] for time in times], dtype=np.int64)
    note_gaps(source, np.diff(index), lambda step: numbers[step], "the value of that entry", "entry")
    duration = int(index[-1]) + last_length(source, index, options, "entry")
    return steps(index, duration, rate_bps=np.array(rates, dtype=np.int64))


def read_down(source: TraceSource, options: ReadOptions) -> Pattern:
    """Read the downlink.

    Raises
    ------
    UserError
        With the entry, the rule and the remedy.
    """
    return _read(source, options, "dlBw", "ulBw", "ntrace-up")


def read_up(source: TraceSource, options: ReadOptions) -> Pattern:
    """Read the uplink; see `read_down`."""
    return _read(source, options, "ulBw", "dlBw", "ntrace")


DOWN = TraceFormat(
    name="ntrace",
    title="LPP network trace (Intel): JSON with a clock time and the downlink's kbit/s per entry",
    sniff=sniff_ntrace,
    read=read_down,
    write=None,
    suffixes=(".ntrace",),
)
UP = TraceFormat(
    name="ntrace-up",
    title="the same, the uplink's kbit/s",
    sniff=lambda source: False,  # noqa: ARG005 - both directions are in one file
    read=read_up,
    write=None,
)
