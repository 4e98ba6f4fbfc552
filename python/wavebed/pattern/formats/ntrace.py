"""``.ntrace``: the JSON of Intel's LPP network trace tools, with a clock time and a bandwidth in kbit/s per entry.

A value holds from its time to the next entry that has one. Entries of places alone, without a bandwidth, add nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.pattern.formats.base import Format, ReadOptions
from wavebed.pattern.formats.json_text import begins_with_keys, load
from wavebed.pattern.formats.kaunet import last_length
from wavebed.pattern.formats.times import EXAMPLE_CLOCK, clock_ns, note_gaps
from wavebed.pattern.model import MAX_NS, MAX_RATE_BPS, Pattern, steps
from wavebed.pattern.source import plural

if TYPE_CHECKING:
    from wavebed.pattern.source import Source

__all__ = ["DOWN", "UP"]

KBIT = 1000


def sniff(source: Source) -> bool:
    """Recognise the keys of an entry."""
    return begins_with_keys(source, "entries", "entryNo", "dateTime")


def _entries(source: Source) -> list[object]:
    document = load(source)
    entries = document.get("entries") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(entries, list) or not entries:
        raise source.error("has no list of entries; write {'version': 1, 'entries': [{'dateTime': …, 'dlBw': …}, …]}")
    if document.get("version", 1) != 1:
        raise source.error(f"is version {document['version']!r} of the format; version 1 can be read".replace("'", ""))
    return entries


def _read(source: Source, options: ReadOptions, key: str, other: str, name: str) -> Pattern:
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


def read_down(source: Source, options: ReadOptions) -> Pattern:
    """Read the downlink.

    Raises
    ------
    UserError
        With the entry, the rule and the remedy.
    """
    return _read(source, options, "dlBw", "ulBw", "ntrace-up")


def read_up(source: Source, options: ReadOptions) -> Pattern:
    """Read the uplink; see `read_down`."""
    return _read(source, options, "ulBw", "dlBw", "ntrace")


DOWN = Format(
    name="ntrace",
    title="LPP network trace (Intel): JSON with a clock time and the downlink's kbit/s per entry",
    sniff=sniff,
    read=read_down,
    write=None,
    suffixes=(".ntrace",),
)
UP = Format(
    name="ntrace-up",
    title="the same, the uplink's kbit/s",
    sniff=lambda source: False,  # noqa: ARG005 - both directions are in one file
    read=read_up,
    write=None,
)
