"""Read one value of a scenario or an option: text, number or table in; a type of `model` out.

Every function takes what TOML or the command line gave, and raises `Problem` with the rule and the remedy. On the
command line a table is written as TOML writes it inline: ``--loss '{model = "gilbert-elliott", p = "1%", r = "9%"}'``.
"""

from __future__ import annotations

import re
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from wavebed.path.model import DistributedDelay, Join, PatternFile, Queue, Rate, TraceEnd
from wavebed.path.problems import Problem, at, choose, described, unknown_key
from wavebed.spec.link import Constant, ConstantDelay, FourState, GilbertElliott, Independent, Reorder, TokenBucket
from wavebed.units import Limit, parse_limit, parse_rate, parse_share, parse_size, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["QUEUE_KINDS", "SHAPES", "TRACE_ENDS", "Table"]

Table: TypeAlias = "Mapping[str, object]"
_Value = TypeVar("_Value")

QUEUE_KINDS = ("droptail", "drophead", "codel", "fq_codel", "infinite")
SHAPES = ("uniform", "normal", "pareto", "paretonormal")
TRACE_ENDS: tuple[TraceEnd, ...] = ("repeat", "hold", "stop")
UNITS = ("packet", "superpacket")

LEAST_PACKET_MEMORY_BYTES = 16 << 20
"""As in `lab_file.rs`."""

_CODEL_TARGET_NS = 5_000_000
_CODEL_INTERVAL_NS = 100_000_000
_FQ_CODEL_FLOWS = 1024
_FQ_CODEL_QUANTUM_BYTES = 1514


def table_of(text: object) -> object:
    """Return the table that an option's text writes inline, or the text itself."""
    if not isinstance(text, str) or not text.lstrip().startswith("{"):
        return text
    import tomllib

    try:
        value: object = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise Problem(f"{text!r} is not an inline table: {error}") from None
    return value


def quantity(parse: Callable[[str], _Value], example: str) -> Callable[[object], _Value]:
    """Make a parser of quantities accept anything, and refuse what is not text."""

    def read(value: object) -> _Value:
        if not isinstance(value, str):
            raise Problem(f"{described(value)} has no unit: write text such as {example}")
        return parse(value)

    return read


rate_bps = quantity(parse_rate, '"100mbit"')
time_ns = quantity(parse_time, '"10ms"')
size_bytes = quantity(parse_size, '"64kb"')
share = quantity(parse_share, '"0.01%"')


def number(least: int, most: int) -> Callable[[object], int]:
    """Make a reader of whole numbers within bounds."""

    def read(value: object) -> int:
        if isinstance(value, str) and re.fullmatch(r"[0-9]{1,20}", value, re.ASCII):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise Problem(f"{described(value)} is not a whole number: write one from {least} to {most}")
        if not least <= value <= most:
            raise Problem(f"{value} is out of range: write a whole number from {least} to {most}")
        return value

    return read


def packet_memory(value: object) -> int:
    """Read a memory size that some packets fit in."""
    size = size_bytes(value)
    if size < LEAST_PACKET_MEMORY_BYTES:
        raise Problem(f"{described(value)} is too little: write at least {LEAST_PACKET_MEMORY_BYTES >> 20}mib")
    return size


def word(*choices: str) -> Callable[[object], str]:
    """Make a reader of one of a few words."""
    return lambda value: choose(value, choices)


def boolean(value: object) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise Problem(f"{described(value)} is neither true nor false: write true or false without quotes")
    return value


def text(value: object) -> str:
    """Read text that is not empty and is on one line."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise Problem(f"{described(value)} is not text: write one line in quotes")
    return value


def name(value: object) -> str:
    """Read the name of a segment or a laboratory."""
    if not isinstance(value, str) or not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,31}", value, re.ASCII):
        raise Problem(
            f"{described(value)} is not a name: write 1 to 32 small letters, digits, '-' or '_',"
            " the first a letter or a digit"
        )
    return value


def file_path(value: object) -> FilePath:
    """Read the name of a file."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise Problem(f"{described(value)} is not a file: write its name in quotes")
    return FilePath(value)


def table(value: object, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> Table:
    """Return the table `value` after checking its keys."""
    if not isinstance(value, dict):
        raise Problem(f"{described(value)} is not a table: write {{{' = …, '.join(required)} = …}}")
    known = (*required, *optional)
    for key in value:
        if key not in known:
            raise unknown_key(str(key), known)
    for key in required:
        if key not in value:
            raise Problem(f"is missing: add it beside {', '.join(repr(other) for other in value) or 'nothing'}", key)
    return value


def _field(given: Table, key: str, parse: Callable[[object], _Value], default: _Value) -> _Value:
    return at(key, parse, given[key]) if key in given else default


def pattern(value: object) -> PatternFile:
    """Read ``{pattern = FILE, format, end, start-at}``."""
    given = table(value, ("pattern",), ("format", "end", "start-at"))
    end = _field(given, "end", word(*TRACE_ENDS), "repeat")
    return PatternFile(
        file=at("pattern", file_path, given["pattern"]),
        format=at("format", text, given["format"]) if "format" in given else None,
        end=next(known for known in TRACE_ENDS if known == end),
        start_ns=_field(given, "start-at", time_ns, 0),
    )


def rate(value: object) -> Rate:
    """Read a rate: ``"10gbit"`` or ``{token-bucket = "100mbit", burst = "64kb"}``."""
    value = table_of(value)
    if isinstance(value, dict):
        given = table(value, ("token-bucket", "burst"))
        burst_bytes = at("burst", size_bytes, given["burst"])
        if burst_bytes < 1:
            raise Problem("a bucket of nothing passes nothing: write at least one packet, such as 1500b", "burst")
        return TokenBucket(at("token-bucket", rate_bps, given["token-bucket"]), burst_bytes)
    return Constant(rate_bps(value))


def delay(value: object) -> ConstantDelay | DistributedDelay | PatternFile:
    """Read a one-way delay: a time, a distribution or a pattern."""
    value = table_of(value)
    if not isinstance(value, dict):
        return ConstantDelay(time_ns(value))
    if "pattern" in value:
        return pattern(value)
    given = table(value, ("distribution", "mean", "spread"), ("correlation", "reorder"))
    return DistributedDelay(
        shape=at("distribution", word(*SHAPES), given["distribution"]),
        mean_ns=at("mean", time_ns, given["mean"]),
        spread_ns=at("spread", time_ns, given["spread"]),
        correlation=_field(given, "correlation", share, 0.0),
        reorder=_field(given, "reorder", boolean, False),
    )


def loss(value: object) -> Independent | GilbertElliott | FourState | PatternFile:
    """Read a loss: a share, a model or a pattern."""
    value = table_of(value)
    if not isinstance(value, dict):
        return Independent(share(value))
    if "pattern" in value:
        return pattern(value)
    if "model" not in value:
        raise Problem('is missing: write model = "gilbert-elliott" or "four-state", or pattern = FILE', "model")
    if at("model", word("gilbert-elliott", "four-state"), value["model"]) == "four-state":
        given = table(value, ("model", "p13", "p31", "p23", "p32", "p14"))
        found = {key: at(key, share, given[key]) for key in ("p13", "p31", "p23", "p32", "p14")}
        for left, right in (("p13", "p14"), ("p31", "p32")):
            if found[left] + found[right] > 1:
                raise Problem(f"{left} and {right} are together more than 100%: they leave the same state", left)
        return FourState(**found)
    given = table(value, ("model", "p", "r"), ("good-loss", "bad-loss"))
    return GilbertElliott(
        p=at("p", share, given["p"]),
        r=at("r", share, given["r"]),
        good_loss=_field(given, "good-loss", share, 0.0),
        bad_loss=_field(given, "bad-loss", share, 1.0),
    )


def reorder(value: object) -> Reorder:
    """Read ``{share = "1%", delay = "1ms"}``."""
    given = table(table_of(value), ("share", "delay"))
    return Reorder(at("share", share, given["share"]), at("delay", time_ns, given["delay"]))


def join(value: object) -> Join:
    """Read ``off``, ``slot`` or a time."""
    if value in ("off", "slot"):
        return Join(str(value))
    if not isinstance(value, str) or not value[:1].isdigit():
        raise Problem(f"{described(value)} is not a way to join: write off, slot or a time such as 125us")
    window_ns = parse_time(value)
    if not 1 <= window_ns <= 10_000_000:
        raise Problem(f"{value!r} is out of range: join within 1ns to 10ms, or write off")
    return Join("time", window_ns)


def queue(value: object) -> Queue:
    """Read ``KIND``, ``KIND:LIMIT`` or ``{kind = …, limit = …, …}``."""
    value = table_of(value)
    if isinstance(value, dict):
        return _queue_table(value)
    if not isinstance(value, str):
        raise Problem(f"{described(value)} is not a queue: write one such as droptail:1000p")
    kind, colon, limit = value.partition(":")
    choose(kind, QUEUE_KINDS)
    if kind == "infinite":
        if colon:
            raise Problem("an infinite queue has no limit: write infinite alone, or droptail with the limit")
        return Queue(kind)
    return _with_defaults(kind, _limit(limit) if colon else None, {})


def _queue_table(value: dict[str, object]) -> Queue:
    if "kind" not in value:
        raise Problem(f"is missing: write one of {', '.join(QUEUE_KINDS)}", "kind")
    kind = at("kind", word(*QUEUE_KINDS), value["kind"])
    fields = {
        "infinite": (),
        "droptail": ("limit",),
        "drophead": ("limit",),
        "codel": ("limit", "target", "interval", "ecn"),
        "fq_codel": ("limit", "target", "interval", "ecn", "flows", "quantum"),
    }[kind]
    given = table(value, ("kind",), fields)
    if kind == "infinite":
        return Queue(kind)
    return _with_defaults(kind, at("limit", _limit, given["limit"]) if "limit" in given else None, given)


def _with_defaults(kind: str, limit: Limit | None, given: Table) -> Queue:
    if kind in ("droptail", "drophead"):
        return Queue(kind, limit)
    target_ns = _field(given, "target", time_ns, _CODEL_TARGET_NS)
    interval_ns = _field(given, "interval", time_ns, _CODEL_INTERVAL_NS)
    if target_ns < 1 or interval_ns < target_ns:
        raise Problem("must be at least the target, and the target more than 0: see RFC 8289, section 4.2", "interval")
    if kind == "codel":
        return Queue(kind, limit, target_ns, interval_ns, _field(given, "ecn", boolean, False))
    return Queue(
        kind,
        limit,
        target_ns,
        interval_ns,
        _field(given, "ecn", boolean, True),
        _field(given, "flows", number(1, 65_536), _FQ_CODEL_FLOWS),
        _field(given, "quantum", size_bytes, _FQ_CODEL_QUANTUM_BYTES),
    )


def _limit(value: object) -> Limit:
    if not isinstance(value, str):
        raise Problem(f"{described(value)} has no unit: write text such as 1000p, 1mb or 20ms")
    limit = parse_limit(value)
    if not any((limit.bytes, limit.packets, limit.time_ns)):
        raise Problem("a queue that holds nothing passes nothing: write at least 1p")
    return limit
