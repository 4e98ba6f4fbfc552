"""TheaterQ trace files: one entry per line, with its duration in microseconds.

Simple: ``keep_us,latency_ns,rate_bps,loss,limit``. Extended: ``keep_us,latency_ns,jitter_ns,rate_bps,loss,limit,
dup_prob,dup_delay[,route_id[,queue_id]]``. A loss is a fraction of 4294967295; a rate of -1 is unlimited. Lines that
do not begin with a digit are comments, as in TheaterQ.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from wavebed.errors import UserError
from wavebed.pattern.formats.base import (
    AS_TABLE,
    ReadOptions,
    TraceFormat,
    WriteOptions,
    is_json,
    load,
    note_lost_columns,
)
from wavebed.pattern.formats.kaunet import sniff_ntrace
from wavebed.pattern.formats.measured import sniff_iperf3
from wavebed.pattern.model import MAX_NS, MAX_PACKETS, MAX_RATE_BPS, Pattern, packets, steps
from wavebed.pattern.resample import NS_PER_S, rate_steps
from wavebed.pattern.source import Rows, integers, plural, quote, split_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from wavebed.pattern.source import TraceSource


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


def _sniff(source: TraceSource, shape: str) -> bool:
    entries = [line for line in source.head if _DIGIT.match(line)]
    good = sum(
        1 for line in entries if _ENTRY.fullmatch(line) and line.count(",") + 1 in _WIDTHS[shape] and line[:2] != "0,"
    )
    return bool(entries) and 2 * good > len(entries)


def _read(source: TraceSource, shape: str) -> Pattern:
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


def _checked(
    source: TraceSource, cells: dict[str, list[str]], lines: list[int]
) -> Iterator[tuple[str, NDArray[np.int64]]]:
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


def _build(source: TraceSource, columns: dict[str, NDArray[np.int64]]) -> Pattern:
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


SIMPLE = TraceFormat(
    name="theaterq",
    title="TheaterQ simple: keep_us,latency_ns,rate_bps,loss,limit",
    sniff=lambda source: _sniff(source, "simple"),
    read=lambda source, options: _read(source, "simple"),  # noqa: ARG005
    write=lambda pattern, options: _write(pattern, options, "simple"),
    suffixes=(".theaterq",),
)
EXTENDED = TraceFormat(
    name="theaterq-extended",
    title="TheaterQ extended: with jitter, duplication and route (which a pattern does not hold)",
    sniff=lambda source: _sniff(source, "extended"),
    read=lambda source, options: _read(source, "extended"),  # noqa: ARG005
    write=lambda pattern, options: _write(pattern, options, "extended"),
)


MAX_SPANS = 5_000_000
MAX_DEPTH = 50
MAX_KEPT_TIMES = 1000
TIME_UNITS = {
    "ns": 1, "nsec": 1, "us": 10**3, "µs": 10**3, "usec": 10**3, "ms": 10**6, "msec": 10**6, "millis": 10**6,
    "s": 10**9, "sec": 10**9, "secs": 10**9, "second": 10**9, "seconds": 10**9,
    "m": 60 * 10**9, "min": 60 * 10**9, "mins": 60 * 10**9, "h": 3600 * 10**9, "hr": 3600 * 10**9,
}  # fmt: skip
RATE_UNITS = {
    f"{prefix}{suffix}": scale
    for prefix, scale in (("", 1), ("k", 10**3), ("M", 10**6), ("G", 10**9), ("T", 10**12))
    for suffix in ("bps", "bit/s", "b/s")
}
KINDS = {
    "Bw": ("rate", "bw"),
    "Delay": ("delay", "delay"),
    "DelayPerPacket": ("delay per packet", "delay"),
    "Loss": ("loss", "loss"),
}
SAWTOOTH = {"bottom": "0bps", "top": "12Mbps", "interval": "1s", "duration": "1s", "step": "1ms"}
"""Values that netem-trace takes for keys that are left out."""
NOISE = ("std_dev", "seed", "upper_noise_bound", "lower_noise_bound")
RANDOM = "draws random numbers, which differ between versions of netem-trace"
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµ/]+)\s*")

Span = tuple[int, "int | float"]


class _Static(tuple[int, "int | float"]):
    """A static configuration as it is read: how long it lasts, and its value.

    A long trace has millions of them; as the tables that JSON gives they would take ten times the size of the file.
    """

    __slots__ = ()
    kind = ""


class _Bw(_Static):
    __slots__ = ()
    kind = "Bw"


class _Delay(_Static):
    __slots__ = ()
    kind = "Delay"


class _Loss(_Static):
    __slots__ = ()
    kind = "Loss"


_STATIC: dict[str, type[_Static]] = {"StaticBwConfig": _Bw, "StaticDelayConfig": _Delay, "StaticLossConfig": _Loss}


class _Reader:
    """Walk the configurations of one file; ``where`` is the path of keys to the value at hand."""

    def __init__(self, source: TraceSource) -> None:
        self.source = source
        self.spans = 0
        self._times: dict[str, int] = {}

    def compact(self, value: dict[str, object]) -> object:
        """Return a static configuration in brief while JSON is read; what is wrong waits until its place is known."""
        if len(value) == 1:
            ((name, body),) = value.items()
            static = _STATIC.get(name)
            if static is not None:
                with suppress(UserError):
                    return static(self.static(static.kind, body, "")[0])
        return value

    def fail(self, where: str, message: str) -> UserError:
        return self.source.error(f"key {where}: {message}")

    def member(
        self, value: object, where: str, names: set[str], needed: set[str], other: str = ""
    ) -> dict[str, object]:
        if not isinstance(value, dict):
            raise self.fail(where, f"must be an object with {' and '.join(sorted(needed))}{other}")
        for name in value:
            if name not in names:
                raise self.fail(f"{where}.{name}", f"is unknown; the keys are {', '.join(sorted(names))}")
        for name in sorted(needed):
            if name not in value:
                raise self.fail(where, f"has no {name!r}; add it")
        return value

    def human(self, value: str, where: str, units: dict[str, int], example: str) -> int:
        """Add up spans such as ``1s 500ms``; a part finer than the unit is refused."""
        total = Decimal(0)
        position = 0
        while position < len(value):
            match = _SPAN.match(value, position)
            if match is None or match.group(2) not in units or len(match.group(1)) > 30:
                raise self.fail(where, f"{quote(value)} is not understood; write it as {example!r}")
            total += Decimal(match.group(1)) * units[match.group(2)]
            position = match.end()
        if not value or total != int(total):
            raise self.fail(where, f"{quote(value)} is not a whole number of base units; write it as {example!r}")
        return int(total)

    def parts(self, value: object, where: str, names: tuple[str, str], example: str) -> int:
        fields = self.member(value, where, set(names), set(names), f", or text as {example!r}")
        numbers = []
        for name in names:
            number = fields[name]
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise self.fail(f"{where}.{name}", f"must be a whole number from 0; or write {example!r}")
            numbers.append(number)
        return numbers[0] * 10**9 + numbers[1]

    def time(self, value: object, where: str) -> int:
        if isinstance(value, str) and value in self._times:
            return self._times[value]
        if isinstance(value, str):
            time_ns = self.human(value, where, TIME_UNITS, "1s")
        else:
            time_ns = self.parts(value, where, ("secs", "nanos"), "1s")
        if time_ns > MAX_NS:
            raise self.fail(where, "is longer than 1000000000 s; shorten it")
        if isinstance(value, str) and len(self._times) < MAX_KEPT_TIMES:
            # Most steps of a trace last equally long: one number for all of them.
            self._times[value] = time_ns
        return time_ns

    def rate(self, value: object, where: str) -> int:
        if isinstance(value, str):
            rate_bps = self.human(value, where, RATE_UNITS, "12Mbps")
        else:
            rate_bps = self.parts(value, where, ("gbps", "bps"), "12Mbps")
        if rate_bps > MAX_RATE_BPS:
            raise self.fail(where, "is more than 1Tbps; lower it")
        return rate_bps

    def loss(self, value: object, where: str) -> float:
        good = isinstance(value, list) and all(
            isinstance(item, int | float) and not isinstance(item, bool) and 0 <= item <= 1 for item in value
        )
        if not good or not isinstance(value, list) or not value:
            raise self.fail(where, "must be a list of probabilities from 0 to 1, as [0.01]")
        if any(item != value[0] for item in value):
            raise self.fail(
                where,
                "depends on the losses before it, which a pattern cannot hold; "
                "use the path's Gilbert-Elliott loss, or a list with one probability",
            )
        return float(value[0])

    def static(self, kind: str, value: object, where: str) -> list[Span]:
        _, field = KINDS[kind]
        if kind == "DelayPerPacket":
            return self.packets(value, where)
        fields = self.member(value, where, {field, "duration"}, {field, "duration"})
        duration = self.time(fields["duration"], f"{where}.duration")
        if duration == 0:
            raise self.fail(f"{where}.duration", "is 0; write how long the value lasts, as '1s'")
        place = f"{where}.{field}"
        if kind == "Bw":
            return [(duration, self.rate(fields[field], place))]
        if kind == "Delay":
            return [(duration, self.time(fields[field], place))]
        return [(duration, self.loss(fields[field], place))]

    def packets(self, value: object, where: str) -> list[Span]:
        """Return a delay per packet: how many packets have it, and the delay."""
        fields = self.member(value, where, {"delay", "count"}, {"delay", "count"})
        count = self.whole(fields["count"], f"{where}.count")
        if count > MAX_PACKETS:
            raise self.fail(f"{where}.count", f"is more than {MAX_PACKETS} packets; lower it")
        # A count of 0 is for ever, that is one period of a pattern that repeats.
        return [(count or 1, self.time(fields["delay"], f"{where}.delay"))]

    def whole(self, value: object, where: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.fail(where, "must be a whole number from 0 (0: for ever)")
        return value

    def listed(self, value: object, where: str) -> list[Span]:
        """Return the values of a compact list: the duration of each value, and the values."""
        pattern = self.member(value, where, {"pattern"}, {"pattern"})["pattern"]
        if not isinstance(pattern, list) or not pattern:
            raise self.fail(f"{where}.pattern", 'must be a list with at least one ["1s", ["12Mbps", …]]')
        spans: list[Span] = []
        for position, item in enumerate(pattern):
            place = f"{where}.pattern[{position}]"
            if not isinstance(item, list) or len(item) != 2 or not isinstance(item[1], list):
                raise self.fail(place, 'must be a duration and a list of values, as ["1s", ["12Mbps", …]]')
            duration = self.time(item[0], f"{place}[0]")
            if duration == 0:
                raise self.fail(f"{place}[0]", "is 0; write how long each value lasts, as '1s'")
            for number, entry in enumerate(item[1]):
                spans.append((duration, self.rate(entry, f"{place}[1][{number}]")))
            self.limit(len(item[1]), place)
        if not spans:
            raise self.fail(f"{where}.pattern", "has no values; write at least one")
        return spans

    def limit(self, count: int, where: str) -> None:
        self.spans += count
        if self.spans > MAX_SPANS:
            raise self.fail(where, f"makes more than {MAX_SPANS} steps; lower it")

    def sawtooth(self, value: object, where: str) -> list[Span]:
        """Return a wave that rises from bottom to top for a fraction of the interval, and falls in the rest of it."""
        fields: dict[str, object] = dict(SAWTOOTH) | self.member(value, where, {*SAWTOOTH, *NOISE, "duty_ratio"}, set())
        if fields.get("std_dev") is not None and self.rate(fields["std_dev"], f"{where}.std_dev"):
            raise self.fail(
                f"{where}.std_dev",
                f"{RANDOM}; leave it out, or print its values in netem-trace and write TraceBwConfig",
            )
        bottom, top = (self.rate(fields[name], f"{where}.{name}") for name in ("bottom", "top"))
        interval, duration, step = (
            self.time(fields[name], f"{where}.{name}") for name in ("interval", "duration", "step")
        )
        duty = fields.get("duty_ratio", 0.5)
        if isinstance(duty, bool) or not isinstance(duty, int | float) or not 0 <= duty <= 1:
            raise self.fail(f"{where}.duty_ratio", "must be a number from 0 to 1")
        if bottom > top:
            raise self.fail(f"{where}.bottom", "is more than the top; exchange them")
        for name, length in (("interval", interval), ("duration", duration), ("step", step)):
            if length == 0:
                raise self.fail(f"{where}.{name}", "is 0; write a time, as '1s'")
        self.limit(-(-duration // step), f"{where}.step")
        turn = Fraction(str(duty)) * interval
        spans: list[Span] = []
        done, place = 0, 0
        while done < duration:
            length = min(step, duration - done)
            rising = place < turn
            part = place / turn if rising else (place - turn) / (interval - turn)
            rate = bottom + (top - bottom) * part if rising else top - (top - bottom) * part
            spans.append((length, int(rate)))
            done += length
            place += length
            if place >= interval:
                place -= interval
        return spans

    def repeated(self, kind: str, value: object, where: str, depth: int) -> list[Span]:
        fields = self.member(value, where, {"pattern", "count"}, {"pattern", "count"})
        pattern, count = fields["pattern"], fields["count"]
        if not isinstance(pattern, list) or not pattern:
            raise self.fail(f"{where}.pattern", "must be a list with at least one configuration")
        count = self.whole(count, f"{where}.count")
        spans: list[Span] = []
        for position, item in enumerate(pattern):
            place = f"{where}.pattern[{position}]"
            item_kind, item_spans = self.config(item, place, depth + 1)
            if item_kind != kind:
                raise self.fail(place, f"is a {KINDS[item_kind][0]} within a repetition of {KINDS[kind][0]}")
            spans.extend(item_spans)
        if count == 0 and depth > 0:
            raise self.fail(f"{where}.count", "is 0 (for ever) within another repetition; write how often")
        self.limit(len(spans) * max(count, 1), f"{where}.count")
        return spans * max(count, 1)

    def config(self, value: object, where: str, depth: int) -> tuple[str, list[Span]]:
        if depth > MAX_DEPTH:
            raise self.fail(where[:60], f"is nested more than {MAX_DEPTH} deep")
        if isinstance(value, _Static):
            return value.kind, [value]
        if not isinstance(value, dict) or len(value) != 1:
            if depth == 0:
                raise self.fail(where, f"is JSON that no format here fits; {AS_TABLE}")
            raise self.fail(where, "must be an object with one key, as {'StaticBwConfig': …}")
        ((name, body),) = value.items()
        for kind in KINDS:
            if name == f"Static{kind}Config":
                return kind, self.static(kind, body, f"{where}.{name}")
            if name == f"Repeated{kind}PatternConfig":
                return kind, self.repeated(kind, body, f"{where}.{name}", depth)
        if name == "TraceBwConfig":
            return "Bw", self.listed(body, f"{where}.{name}")
        if name == "SawtoothBwConfig":
            return "Bw", self.sawtooth(body, f"{where}.{name}")
        if depth == 0 and not name.endswith("Config"):
            raise self.fail(where, f"is JSON that no format here fits; {AS_TABLE}")
        if name.startswith(("Normalized", "LogNormalized")):
            of = name.removeprefix("Log").removeprefix("Normalized").removesuffix("Config")
            series = "TraceBwConfig" if of == "Bw" else f"a Repeated{of}PatternConfig of Static{of}Config"
            raise self.fail(f"{where}.{name}"[:80], f"{RANDOM}; print its values in netem-trace and write {series}")
        raise self.fail(
            f"{where}.{name}"[:80],
            "is not a series that can be read; use Static…Config and Repeated…PatternConfig of Bw, Delay or Loss, "
            "or TraceBwConfig",
        )


def sniff(source: TraceSource) -> bool:
    """Recognise JSON that no other format claims."""
    return is_json(source) and not sniff_iperf3(source) and not sniff_ntrace(source)


def read(source: TraceSource, options: ReadOptions) -> Pattern:  # noqa: ARG001
    """Read one configuration, or a list of them.

    Raises
    ------
    UserError
        With the line or key, the rule and the remedy.
    """
    reader = _Reader(source)
    document = load(source, reader.compact)
    items = document if isinstance(document, list) else [document]
    if not items:
        raise source.error("is an empty list; write at least one configuration")
    series: dict[str, list[Span]] = {}
    for position, item in enumerate(items):
        where = f"[{position}]" if isinstance(document, list) else "$"
        kind, spans = reader.config(item, where, 0)
        series.setdefault(kind, []).extend(spans)
    if "DelayPerPacket" in series:
        if len(series) > 1:
            raise source.error("has delays per packet beside other quantities; put them in a file of their own")
        return _over_packets(source, series["DelayPerPacket"])
    durations = {kind: sum(span[0] for span in spans) for kind, spans in series.items()}
    if len(set(durations.values())) > 1:
        said = ", ".join(f"{KINDS[kind][0]} {duration / NS_PER_S:g} s" for kind, duration in durations.items())
        raise source.error(f"the quantities last differently ({said}); make them last equally long")
    return _combine(source, series, next(iter(durations.values())))


def _over_packets(source: TraceSource, spans: list[Span]) -> Pattern:
    count = sum(count for count, _ in spans)
    if count > MAX_PACKETS:
        raise source.error(f"has more than {MAX_PACKETS} packets; shorten it")
    return packets(_starts(spans), count, delay_ns=np.array([value for _, value in spans], dtype=np.int64))


def _combine(source: TraceSource, series: dict[str, list[Span]], duration: int) -> Pattern:
    if duration > MAX_NS:
        raise source.error("lasts longer than 1000000000 s; shorten it")
    starts = {kind: _starts(spans) for kind, spans in series.items()}
    index = np.unique(np.concatenate(list(starts.values())))
    whole: dict[str, NDArray[np.int64]] = {}
    loss: NDArray[np.float64] | None = None
    for kind, spans in series.items():
        rows = np.searchsorted(starts[kind], index, side="right") - 1
        if kind == "Loss":
            loss = np.array([value for _, value in spans], dtype=np.float64)[rows]
        else:
            whole[kind] = np.array([value for _, value in spans], dtype=np.int64)[rows]
    return steps(index, duration, rate_bps=whole.get("Bw"), delay_ns=whole.get("Delay"), loss=loss)


def _starts(spans: list[Span]) -> NDArray[np.int64]:
    lengths = np.array([duration for duration, _ in spans], dtype=np.int64)
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lengths)[:-1]))


def _human(value: int, units: tuple[tuple[str, int], ...]) -> str:
    name, scale = next((name, scale) for name, scale in units if value % scale == 0)
    return f"{value // scale}{name}"


def _time(time_ns: int) -> str:
    return _human(time_ns, (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))) if time_ns else "0s"


def _rate(rate_bps: int) -> str:
    return _human(rate_bps, (("Gbps", 10**9), ("Mbps", 10**6), ("kbps", 10**3), ("bps", 1))) if rate_bps else "0bps"


def write(pattern: Pattern, options: WriteOptions) -> str:
    """Write one repetition without end for each column, in a list where there are several.

    Raises
    ------
    UserError
        If the pattern counts packets and has a loss, or no column fits.
    """
    if pattern.kind == "packets" and pattern.delay_ns is not None and pattern.loss is None:
        entries: list[object] = [
            {"StaticDelayPerPacketConfig": {"delay": _time(value), "count": count}}
            for value, count in zip(pattern.delay_ns.tolist(), pattern.lengths().tolist(), strict=True)
        ]
        return _text({"RepeatedDelayPerPacketPatternConfig": {"pattern": entries, "count": 0}})
    if pattern.kind == "opportunities":
        pattern = rate_steps(pattern, options)
    if pattern.kind != "steps":
        raise UserError("the pattern counts packets, and this format counts time; write --to native")
    note_lost_columns(pattern, options, held=("rate", "delay", "loss"))
    lengths = [_time(length) for length in pattern.lengths().tolist()]
    columns: dict[str, list[object]] = {}
    if pattern.rate_bps is not None:
        columns["Bw"] = [_rate(value) for value in pattern.rate_bps.tolist()]
    if pattern.delay_ns is not None:
        columns["Delay"] = [_time(value) for value in pattern.delay_ns.tolist()]
    if pattern.loss is not None:
        columns["Loss"] = [[value] for value in pattern.loss.tolist()]
    if not columns:
        raise UserError("the pattern has no rate, delay or loss, and this format holds nothing else; write --to native")
    configs = [
        {
            f"Repeated{kind}PatternConfig": {
                "pattern": [
                    {f"Static{kind}Config": {KINDS[kind][1]: value, "duration": length}}
                    for value, length in zip(values, lengths, strict=True)
                ],
                "count": 0,
            }
        }
        for kind, values in columns.items()
    ]
    document: object = configs[0] if len(configs) == 1 else configs
    return _text(document)


def _text(document: object) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


FORMAT = TraceFormat(
    name="netem-trace",
    title="netem-trace JSON (Rattan): configurations of rate, delay and loss",
    sniff=sniff,
    read=read,
    write=write,
    suffixes=(".json",),
)
