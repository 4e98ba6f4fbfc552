"""The values of a link or a path that have several forms; see `wavebed.config.values`."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Annotated, Literal, get_args

from msgspec import Struct

from wavebed.config.derived import bounds
from wavebed.config.problems import Problem, at, choose, described
from wavebed.config.reader import Schema, reader
from wavebed.config.table import Key, read_table, table_schema
from wavebed.config.units import format_rate, format_size, format_time, parse_limit, parse_time
from wavebed.config.values import (
    PERCENTAGE_SCHEMA,
    RATE_SCHEMA,
    SIZE_SCHEMA,
    TIME_SCHEMA,
    boolean,
    file_path,
    number,
    percentage,
    rate_bps,
    size_bytes,
    table_of,
    text,
    time_ns,
    word,
)
from wavebed.path.model import (
    DistributedDelay,
    DrawnStart,
    LimitedLoss,
    LostPackets,
    LostTimes,
    MadeLoss,
    PatternFile,
    Rate,
    TraceEnd,
)
from wavebed.spec.types import (
    Coalesce,
    ConstantDelay,
    ConstantRate,
    FourStateLoss,
    GilbertElliottLoss,
    IndependentLoss,
    Network,
    OffCoalesce,
    ReorderStage,
    Shape,
    SlotCoalesce,
    TimeCoalesce,
    TokenBucketRate,
)

_SECOND_NS = 10**9


def _start_text(start: int | DrawnStart) -> str:
    return format_time(start) if isinstance(start, int) else f"{start.least_s}s..{start.most_s}s"


_TIME_PATTERN = str(TIME_SCHEMA["pattern"]).removeprefix("^").removesuffix("$")


@reader("TIME|TIME..TIME", {"type": "string", "pattern": rf"^{_TIME_PATTERN}(\.\.{_TIME_PATTERN})?$"}, _start_text)
def start_at(value: object) -> int | DrawnStart:
    """Read a moment, or the first and the last of the whole seconds from which one is drawn."""
    if not isinstance(value, str) or ".." not in value:
        return time_ns(value)
    least_ns, most_ns = map(parse_time, value.split("..", 1))
    if least_ns % _SECOND_NS or most_ns % _SECOND_NS:
        raise Problem(f"{value!r}: the moment is a whole second: write whole seconds, as in 0s..20s")
    if least_ns > most_ns:
        raise Problem(f"{value!r} ends before it begins: write the first second first")
    return DrawnStart(least_ns // _SECOND_NS, most_ns // _SECOND_NS)


TRACE_END = word("repeat", "hold", "stop")
_MODELS = ("gilbert-elliott", "four-state")


class _Bucket(Struct, frozen=True, kw_only=True):
    token_bucket_bps: Annotated[int, Key(rate_bps, "rate at which tokens come")]
    burst_bytes: Annotated[int, Key(size_bytes, "size of the bucket, which starts full")]


class _Pattern(Struct, frozen=True, kw_only=True):
    pattern: Annotated[FilePath, Key(file_path, "a pattern or trace")]
    format: Annotated[str | None, Key(text, "its format", absent="found from the content")] = None
    end: Annotated[TraceEnd, Key(TRACE_END, "at its end: repeat it, hold its last value, or stop the link")] = "repeat"
    start_at: Annotated[
        int | DrawnStart,
        Key(start_at, "where in it the laboratory's time begins; `0s..20s`: at a whole second drawn with the seed"),
    ] = 0


class _Distribution(Struct, frozen=True, kw_only=True):
    distribution: Annotated[Shape, Key(word(*get_args(Shape)), "its shape")]
    mean_ns: Annotated[int, Key(time_ns, "mean")]
    spread_ns: Annotated[int, Key(time_ns, "how far the shape reaches: see docs/models/impairments.md")]
    correlation: Annotated[float, Key(percentage, "of one packet's delay with the one before")] = 0.0
    reorder: Annotated[bool, Key(boolean, "whether packets may overtake each other")] = False


class _GilbertElliott(Struct, frozen=True, kw_only=True):
    model: Annotated[Literal["gilbert-elliott"], Key(word("gilbert-elliott"), "two states")]
    p: Annotated[float, Key(percentage, "from good to bad, for each packet")]
    r: Annotated[float, Key(percentage, "from bad to good")]
    good_loss: Annotated[float, Key(percentage, "loss in the good state")] = 0.0
    bad_loss: Annotated[float, Key(percentage, "loss in the bad state")] = 1.0


class _FourState(Struct, frozen=True, kw_only=True):
    model: Annotated[Literal["four-state"], Key(word("four-state"), "four states, as in netem")]
    p13: Annotated[float, Key(percentage, "from good reception to burst loss")]
    p31: Annotated[float, Key(percentage, "from burst loss to good reception")]
    p23: Annotated[float, Key(percentage, "from reception within a burst to burst loss")]
    p32: Annotated[float, Key(percentage, "from burst loss to reception within a burst")]
    p14: Annotated[float, Key(percentage, "from good reception to a single loss")]


class _Reorder(Struct, frozen=True, kw_only=True):
    probability: Annotated[float, Key(percentage, "that a packet is held back")]
    delay_ns: Annotated[int, Key(time_ns, "for how long")]


_MOST_LISTED = 1000
_MOST_NUMBER = 10**9


@reader(
    "[N, …]", {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 1, "maxItems": _MOST_LISTED}
)
def _numbers(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= _MOST_LISTED:
        raise Problem(f"{described(value)}: write an array of 1 to {_MOST_LISTED} numbers of packets, as in [1, 3]")
    for each in value:
        if isinstance(each, bool) or not isinstance(each, int) or not 1 <= each <= _MOST_NUMBER:
            raise Problem(f"{described(each)} is no number of a packet: write a whole number from 1")
    return tuple(sorted(set(value)))


@reader(
    '[["10s", "12s"], …]',
    {
        "type": "array",
        "items": {"type": "array", "items": dict(TIME_SCHEMA), "minItems": 2, "maxItems": 2},
        "minItems": 1,
        "maxItems": _MOST_LISTED,
    },
)
def _spans(value: object) -> tuple[tuple[int, int], ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= _MOST_LISTED:
        raise Problem(f'{described(value)}: write an array of 1 to {_MOST_LISTED} times, as in [["10s", "12s"]]')
    found: list[tuple[int, int]] = []
    for count, each in enumerate(value, 1):
        if not isinstance(each, list) or len(each) != 2:
            raise Problem('is not a begin and an end: write ["10s", "12s"]', f"[{count}]")
        begin_ns, end_ns = (at(f"[{count}]", time_ns, time) for time in each)
        if end_ns <= begin_ns or (found and begin_ns <= found[-1][1]):
            raise Problem("does not follow what is before it: write later times, in their order", f"[{count}]")
        found.append((begin_ns, end_ns))
    return tuple(found)


class _LostPackets(Struct, frozen=True, kw_only=True):
    packets: Annotated[tuple[int, ...], Key(_numbers, "the packets that are lost, counted from 1")]


class _LostTimes(Struct, frozen=True, kw_only=True):
    during: Annotated[tuple[tuple[int, int], ...], Key(_spans, "the times in which every packet is lost")]


class _LimitedLoss(Struct, frozen=True, kw_only=True):
    probability: Annotated[float, Key(percentage, "of each packet")]
    most_in_a_row: Annotated[
        int, Key(number(1, 1000), "so many losses follow each other at most: the packet after them arrives")
    ]


def _made_loss(value: dict[str, object]) -> MadeLoss | None:
    if "packets" in value:
        return LostPackets(read_table(_LostPackets, value, "{packets = [1, 3]}").packets)
    if "during" in value:
        return LostTimes(read_table(_LostTimes, value, '{during = [["10s", "12s"]]}').during)
    if "most-in-a-row" in value:
        limited = read_table(_LimitedLoss, value, "{probability = PERCENT, most-in-a-row = N}")
        return LimitedLoss(limited.probability, limited.most_in_a_row)
    return None


def _either(*schemas: Schema) -> Schema:
    return {"anyOf": [dict(schema) for schema in schemas]}


@reader("SIZE", SIZE_SCHEMA)
def packet_memory(value: object) -> int:
    """Read a memory size that some packets fit in."""
    size = size_bytes(value)
    least = int(bounds(Network, "packet_memory_bytes").least or 0)
    if size < least:
        raise Problem(f"{described(value)} is too little: write at least {format_size(least)}")
    return size


@reader("PACKETS", {"type": "string", "pattern": "^[0-9]+p$"}, lambda packets: f"{packets}p")
def packets(value: object) -> int:
    """Read a number of packets such as ``1000p``."""
    limit = parse_limit(value).packets if isinstance(value, str) else None
    if not limit:
        raise Problem(f"{described(value)} is no number of packets: write at least one, such as 1000p")
    return limit


def pattern(value: object) -> PatternFile:
    """Read ``{pattern = FILE, format, end, start-at}``."""
    given = read_table(_Pattern, value, "{pattern = FILE}")
    return PatternFile(given.pattern, given.format, given.end, given.start_at)


def _rate_bps(value: object) -> int:
    read = rate_bps(value)
    if read == 0:
        raise Problem(
            f"{described(value)} passes no packet: write a rate above 0; `wavebed ctl LAB set outage=2s` stops a link"
            " for a while"
        )
    return read


@reader("RATE", lambda: _either(RATE_SCHEMA, table_schema(_Bucket)))
def rate(value: object) -> Rate:
    """Read a rate: ``"10gbit"`` or ``{token-bucket = "100mbit", burst = "64kb"}``."""
    value = table_of(value)
    if not isinstance(value, dict):
        return ConstantRate(_rate_bps(value))
    given = read_table(_Bucket, value, "{token-bucket = RATE, burst = SIZE}")
    if given.burst_bytes < 1:
        raise Problem("an empty bucket passes no packet: write at least one packet, such as 1500b", "burst")
    at("token-bucket", _rate_bps, format_rate(given.token_bucket_bps))
    return TokenBucketRate(given.token_bucket_bps, given.burst_bytes)


@reader("TIME", lambda: _either(TIME_SCHEMA, table_schema(_Distribution), table_schema(_Pattern)))
def delay(value: object) -> ConstantDelay | DistributedDelay | PatternFile:
    """Read a one-way delay: a time, a distribution or a pattern."""
    value = table_of(value)
    if not isinstance(value, dict):
        return ConstantDelay(time_ns(value))
    if "pattern" in value:
        return pattern(value)
    given = read_table(_Distribution, value, "{distribution = SHAPE, mean = TIME, spread = TIME}")
    return DistributedDelay(given.distribution, given.mean_ns, given.spread_ns, given.correlation, given.reorder)


@reader(
    "PERCENT",
    lambda: _either(
        PERCENTAGE_SCHEMA,
        *(
            table_schema(each)
            for each in (_GilbertElliott, _FourState, _Pattern, _LostPackets, _LostTimes, _LimitedLoss)
        ),
    ),
)
def loss(value: object) -> IndependentLoss | GilbertElliottLoss | FourStateLoss | PatternFile | MadeLoss:
    """Read a loss: a probability, a model, a pattern, or the packets or times that are lost."""
    value = table_of(value)
    if not isinstance(value, dict):
        return IndependentLoss(percentage(value))
    if "pattern" in value:
        return pattern(value)
    made = _made_loss(value)
    if made is not None:
        return made
    if "model" not in value:
        raise Problem(
            'is missing: write model = "gilbert-elliott" or "four-state", or pattern = FILE, packets = […],'
            " during = […] or most-in-a-row = N",
            "model",
        )
    if at("model", lambda model: choose(model, _MODELS), value["model"]) == "gilbert-elliott":
        two = read_table(_GilbertElliott, value, "{model = …}")
        return GilbertElliottLoss(two.p, two.r, two.good_loss, two.bad_loss)
    four = read_table(_FourState, value, "{model = …}")
    for left, right, together in (("p13", "p14", four.p13 + four.p14), ("p31", "p32", four.p31 + four.p32)):
        if together > 1:
            raise Problem(f"{left} and {right} are together more than 100%: they leave the same state", left)
    return FourStateLoss(p13=four.p13, p31=four.p31, p23=four.p23, p32=four.p32, p14=four.p14)


@reader("{probability = PERCENT, delay = TIME}", lambda: table_schema(_Reorder))
def reorder(value: object) -> ReorderStage:
    """Read ``{probability = "1%", delay = "1ms"}``."""
    given = read_table(_Reorder, table_of(value), "{probability = PERCENT, delay = TIME}")
    return ReorderStage(given.probability, given.delay_ns)


def _show_coalesce(given: Coalesce) -> str:
    if isinstance(given, TimeCoalesce):
        return format_time(given.time_ns)
    return "slot" if isinstance(given, SlotCoalesce) else "off"


@reader("off|slot|TIME", _either({"enum": ["off", "slot"]}, TIME_SCHEMA), _show_coalesce)
def coalesce(value: object) -> Coalesce:
    """Read ``off``, ``slot`` or a time."""
    if value in ("off", "slot"):
        return OffCoalesce() if value == "off" else SlotCoalesce()
    if not isinstance(value, str) or not value[:1].isdigit():
        raise Problem(f"{described(value)} is not a choice: write off, slot or a time such as 125us")
    window_ns = parse_time(value)
    most_ns = bounds(TimeCoalesce, "time_ns").most or 0
    if not 1 <= window_ns <= most_ns:
        raise Problem(f"{value!r} is out of range: write 1ns to {format_time(int(most_ns))}, or off")
    return TimeCoalesce(window_ns)
