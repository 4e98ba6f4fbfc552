"""A queue as people write it: its kind, its limit, and the parameters of an AQM."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from wavebed.config.problems import Problem, at, choose, described
from wavebed.config.reader import Reader, Schema, reader
from wavebed.config.table import Key, read_table, table_schema
from wavebed.config.units import Limit, format_limit, parse_limit
from wavebed.config.values import boolean, number, quantity_schema, size_bytes, table_of, time_ns, word

__all__ = [
    "CODEL_INTERVAL_NS",
    "CODEL_TARGET_NS",
    "FQ_CODEL_FLOWS",
    "FQ_CODEL_QUANTUM_BYTES",
    "QUEUE",
    "QUEUE_KINDS",
    "Queue",
]

QUEUE_KINDS = ("droptail", "drophead", "codel", "fq_codel", "infinite")

CODEL_TARGET_NS = 5_000_000
CODEL_INTERVAL_NS = 100_000_000
"""RFC 8289, section 4."""
FQ_CODEL_FLOWS = 1024
FQ_CODEL_QUANTUM_BYTES = 1514
"""RFC 8290, section 5.2; Linux."""
_LIMIT_SCHEMA = quantity_schema(("p", "b", "kb", "mb", "gb", "kib", "mib", "gib", "ns", "us", "ms", "s"))


class Queue(Struct, frozen=True):
    """A queue discipline; fields that its kind does not have are ``None``, and so is a limit that was not given."""

    kind: str
    limit: Limit | None = None
    target_ns: int | None = None
    interval_ns: int | None = None
    ecn: bool | None = None
    flows: int | None = None
    quantum_bytes: int | None = None


@reader("LIMIT", _LIMIT_SCHEMA, format_limit)
def _limit(value: object) -> Limit:
    if not isinstance(value, str):
        raise Problem(f"{described(value)} has no unit: write text such as 1000p, 1mb or 20ms")
    limit = parse_limit(value)
    if not any((limit.bytes, limit.packets, limit.time_ns)):
        raise Problem("an empty queue passes no packet: write at least 1p")
    return limit


class _Infinite(Struct, frozen=True, kw_only=True):
    kind: Annotated[str, Key(word("infinite"), "no limit")]


class _Drop(Struct, frozen=True, kw_only=True):
    kind: Annotated[str, Key(word("droptail", "drophead"), "drops the newest or the oldest packet")]
    limit: Annotated[Limit | None, Key(_limit, "its limit")] = None


class _Codel(Struct, frozen=True, kw_only=True):
    kind: Annotated[str, Key(word("codel"), "RFC 8289")]
    limit: Annotated[Limit | None, Key(_limit, "its limit")] = None
    target_ns: Annotated[int, Key(time_ns, "acceptable sojourn time")] = CODEL_TARGET_NS
    interval_ns: Annotated[int, Key(time_ns, "window in which it must be met")] = CODEL_INTERVAL_NS
    ecn: Annotated[bool, Key(boolean, "mark packets with ECN instead of dropping them")] = False


class _FqCodel(_Codel, frozen=True, kw_only=True):
    kind: Annotated[str, Key(word("fq_codel"), "RFC 8290")]
    ecn: Annotated[bool, Key(boolean, "mark packets with ECN instead of dropping them")] = True
    flows: Annotated[int, Key(number(1, 65_536), "queues")] = FQ_CODEL_FLOWS
    quantum_bytes: Annotated[int, Key(size_bytes, "bytes of each queue per round")] = FQ_CODEL_QUANTUM_BYTES


def _schema() -> Schema:
    tables = (table_schema(model) for model in (_Drop, _Codel, _FqCodel, _Infinite))
    return {"anyOf": [{"type": "string", "pattern": f"^({'|'.join(QUEUE_KINDS)})(:.+)?$"}, *map(dict, tables)]}


def _show(queue: Queue) -> str:
    return queue.kind if queue.limit is None else f"{queue.kind}:{format_limit(queue.limit)}"


def _read(value: object) -> Queue:
    """Read ``KIND``, ``KIND:LIMIT`` or ``{kind = …, limit = …, …}``."""
    value = table_of(value)
    if isinstance(value, dict):
        return _of_table(value)
    if not isinstance(value, str):
        raise Problem(f"{described(value)} is not a queue: write one such as droptail:1000p")
    kind, colon, limit = value.partition(":")
    choose(kind, QUEUE_KINDS)
    if kind == "infinite" and colon:
        raise Problem("an infinite queue has no limit: write infinite alone, or droptail with the limit")
    queue = _of_table({"kind": kind})
    return replace(queue, limit=_limit(limit)) if colon else queue


def _of_table(given: dict[str, object]) -> Queue:
    if "kind" not in given:
        raise Problem(f"is missing: write one of {', '.join(QUEUE_KINDS)}", "kind")
    kind = at("kind", lambda value: choose(value, QUEUE_KINDS), given["kind"])
    if kind == "infinite":
        return Queue(read_table(_Infinite, given, "{kind = …}").kind)
    if kind in ("droptail", "drophead"):
        drop = read_table(_Drop, given, "{kind = …}")
        return Queue(drop.kind, drop.limit)
    codel = read_table(_Codel if kind == "codel" else _FqCodel, given, "{kind = …}")
    if codel.target_ns < 1 or codel.interval_ns < codel.target_ns:
        raise Problem("must be at least the target, and the target more than 0: see RFC 8289, section 4.2", "interval")
    queue = Queue(kind, codel.limit, codel.target_ns, codel.interval_ns, codel.ecn)
    if not isinstance(codel, _FqCodel):
        return queue
    return replace(queue, flows=codel.flows, quantum_bytes=codel.quantum_bytes)


QUEUE = Reader(_read, "KIND[:LIMIT]", _schema, _show)
"""Reads a queue."""
