"""TheaterQ trace files: one entry per line, kept for so many microseconds.

Simple: ``keep_us,latency_ns,rate_bps,loss,limit``. Extended: ``keep_us,latency_ns,jitter_ns,rate_bps,loss,limit,
dup_prob,dup_delay[,route_id[,queue_id]]``. A loss is a fraction of 4294967295; a rate of -1 is unlimited. Lines that
do not begin with a digit are comments, as in TheaterQ.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from wavebed.errors import UserError
from wavebed.pattern.formats.base import Format, WriteOptions, note_lost_columns
from wavebed.pattern.model import MAX_NS, MAX_RATE_BPS, Pattern, steps
from wavebed.pattern.numbers import Rows, integers, split_columns
from wavebed.pattern.resample import rate_steps
from wavebed.pattern.source import plural, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from wavebed.pattern.source import Source

__all__ = ["EXTENDED", "SIMPLE"]

U32_MAX = 2**32 - 1
NS_PER_US = 1000
LIMIT_PACKETS = 1000
SIMPLE_NAMES = ("keep_us", "latency_ns", "rate_bps", "loss", "limit")
EXTENDED_NAMES = (
    "keep_us", "latency_ns", "jitter_ns", "rate_bps", "loss", "limit", "dup_prob", "dup_delay", "route_id", "queue_id",
)  # fmt: skip
_WIDTHS = {"simple": (5,), "extended": (8, 9, 10)}
_DIGIT = re.compile(r"[0-9]", re.ASCII)
_ENTRY = re.compile(r"[0-9]+(?:,-?[0-9]+)+", re.ASCII)


def _sniff(source: Source, shape: str) -> bool:
    entries = [line for line in source.head if _DIGIT.match(line)]
    good = sum(
        1 for line in entries if _ENTRY.fullmatch(line) and line.count(",") + 1 in _WIDTHS[shape] and line[:2] != "0,"
    )
    return bool(entries) and 2 * good > len(entries)


def _read(source: Source, shape: str) -> Pattern:
    names = SIMPLE_NAMES if shape == "simple" else EXTENDED_NAMES
    entries: Iterator[tuple[list[int], list[str]]] = (
        ([begin + place for place in places], [lines[place] for place in places])
        for begin, lines in source.blocks()
        if (places := [place for place, line in enumerate(lines) if "0" <= line[:1] <= "9"])
    )
    width = 0
    most = source.count()
    parts: dict[str, Rows[np.int64]] = {}
    for numbers, lines in entries:
        first = not width
        width = width or lines[0].count(",") + 1
        columns = split_columns(lines, width) if width in _WIDTHS[shape] else 0
        if isinstance(columns, int):
            found = plural(lines[columns].count(",") + 1, "value")
            either = " or ".join(map(str, _WIDTHS[shape]))
            wanted = either if first and columns == 0 else f"{width}, as the first"
            raise source.error(f"{found}; an entry has {wanted}: {','.join(names)}", numbers[columns])
        for name, values in _checked(source, dict(zip(names, columns, strict=False)), numbers):
            parts.setdefault(name, Rows(most, np.int64)).add(values)
    if not parts:
        raise source.error(f"has no entries; write lines {','.join(names)}")
    return _build(source, {name: part.whole() for name, part in parts.items()})


def _checked(source: Source, cells: dict[str, list[str]], lines: list[int]) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Yield the columns of some entries; of those that are left out, a single value that tells whether one is set."""

    def column(name: str, most: int, *, signed: bool = False) -> NDArray[np.int64]:
        return integers(source, cells[name], lambda position: lines[position], name, most=most, signed=signed)

    keep = column("keep_us", MAX_NS // NS_PER_US)
    yield "keep_us", keep
    yield "latency_ns", column("latency_ns", MAX_NS)
    rate = column("rate_bps", MAX_RATE_BPS, signed=True)
    yield "rate_bps", rate
    yield "loss", column("loss", U32_MAX)
    column("limit", U32_MAX)
    for name in ("jitter_ns", "dup_prob", "dup_delay", "route_id", "queue_id"):
        if name in cells:
            yield name, column(name, MAX_NS).max(keepdims=True)
    if (keep == 0).any():
        raise source.error("keep_us is 0; an entry lasts at least 1 µs", lines[int((keep == 0).argmax())])
    if (rate < -1).any():
        position = int((rate < -1).argmax())
        message = f"rate_bps {quote(cells['rate_bps'][position])} is negative; write -1 for no limit"
        raise source.error(message, lines[position])


def _build(source: Source, columns: dict[str, NDArray[np.int64]]) -> Pattern:
    keep, latency, rate, loss = (columns.pop(name) for name in ("keep_us", "latency_ns", "rate_bps", "loss"))
    for name, values in columns.items():
        if values.any():
            source.note(f"{name} cannot be held by a pattern and is left out")
    if (rate == -1).any():
        source.note("a rate of -1 (no limit) becomes 1000gbit")
        rate[rate == -1] = MAX_RATE_BPS
    source.note("the queue limit is not part of a pattern and is left out")
    if len(keep) * int(keep.max()) > MAX_NS // NS_PER_US and keep.astype(np.float64).sum() > MAX_NS // NS_PER_US:
        raise source.error("lasts longer than 1000000000 s; cut the trace")
    ends = np.cumsum(keep)
    period = int(ends[-1]) * NS_PER_US
    starts = np.subtract(ends, keep, out=keep)
    del ends
    starts *= NS_PER_US
    return steps(starts, period, rate_bps=rate, delay_ns=latency, loss=loss.astype(np.float64) / U32_MAX)


def _write(pattern: Pattern, options: WriteOptions, shape: str) -> str:
    if pattern.kind == "opportunities":
        pattern = rate_steps(pattern, options)
    if pattern.kind != "steps":
        raise UserError("the pattern counts packets, and this format counts time; write --to native")
    note_lost_columns(pattern, options, held=("rate", "delay", "loss"))
    ends = (pattern.index + pattern.lengths() + NS_PER_US // 2) // NS_PER_US
    if (ends * NS_PER_US != pattern.index + pattern.lengths()).any():
        options.notes.append("times are rounded to whole microseconds")
    keeps = np.diff(ends, prepend=0).tolist()
    count = len(pattern)
    rates = ["-1"] * count if pattern.rate_bps is None else list(map(str, pattern.rate_bps.tolist()))
    delays = [0] * count if pattern.delay_ns is None else pattern.delay_ns.tolist()
    losses = [0.0] * count if pattern.loss is None else pattern.loss.tolist()
    units = [round(loss * U32_MAX) for loss in losses]
    if any(unit / U32_MAX != loss for unit, loss in zip(units, losses, strict=True)):
        options.notes.append("losses are rounded to multiples of 1/4294967295")
    options.notes.append(f"the queue limit is not part of a pattern; each entry gets {LIMIT_PACKETS} packets")
    out = []
    for keep, delay, rate, unit in zip(keeps, delays, rates, units, strict=True):
        if keep == 0:
            continue
        if shape == "simple":
            out.append(f"{keep},{delay},{rate},{unit},{LIMIT_PACKETS}\n")
        else:
            out.append(f"{keep},{delay},0,{rate},{unit},{LIMIT_PACKETS},0,0,0\n")
    if not out:
        raise UserError("the pattern is shorter than 1 µs, too short for this format; write --to native")
    return "".join(out)


SIMPLE = Format(
    name="theaterq",
    title="TheaterQ simple: keep_us,latency_ns,rate_bps,loss,limit",
    sniff=lambda source: _sniff(source, "simple"),
    read=lambda source, options: _read(source, "simple"),  # noqa: ARG005
    write=lambda pattern, options: _write(pattern, options, "simple"),
    suffixes=(".theaterq",),
)
EXTENDED = Format(
    name="theaterq-extended",
    title="TheaterQ extended: with jitter, duplication and route (which a pattern does not hold)",
    sniff=lambda source: _sniff(source, "extended"),
    read=lambda source, options: _read(source, "extended"),  # noqa: ARG005
    write=lambda pattern, options: _write(pattern, options, "extended"),
)
