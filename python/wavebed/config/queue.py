"""A queue as people write it: its kind, its limit, and what an AQM needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from wavebed.config.problems import Problem, at, choose, described
from wavebed.config.reader import reader
from wavebed.config.units import Limit, parse_limit
from wavebed.config.values import boolean, field, number, size_bytes, table, table_of, time_ns, word

if TYPE_CHECKING:
    from wavebed.config.values import Table

__all__ = ["QUEUE_KINDS", "Queue", "queue"]

QUEUE_KINDS = ("droptail", "drophead", "codel", "fq_codel", "infinite")

_CODEL_TARGET_NS = 5_000_000
_CODEL_INTERVAL_NS = 100_000_000
_FQ_CODEL_FLOWS = 1024
_FQ_CODEL_QUANTUM_BYTES = 1514


class Queue(Struct, frozen=True):
    """A queue discipline; fields that its kind does not have are ``None``, and so is a limit that was not given."""

    kind: str
    limit: Limit | None = None
    target_ns: int | None = None
    interval_ns: int | None = None
    ecn: bool | None = None
    flows: int | None = None
    quantum_bytes: int | None = None


@reader("KIND[:LIMIT]", {"type": ["string", "object"]})
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
    target_ns = field(given, "target", time_ns, _CODEL_TARGET_NS)
    interval_ns = field(given, "interval", time_ns, _CODEL_INTERVAL_NS)
    if target_ns < 1 or interval_ns < target_ns:
        raise Problem("must be at least the target, and the target more than 0: see RFC 8289, section 4.2", "interval")
    if kind == "codel":
        return Queue(kind, limit, target_ns, interval_ns, field(given, "ecn", boolean, False))
    return Queue(
        kind,
        limit,
        target_ns,
        interval_ns,
        field(given, "ecn", boolean, True),
        field(given, "flows", number(1, 65_536), _FQ_CODEL_FLOWS),
        field(given, "quantum", size_bytes, _FQ_CODEL_QUANTUM_BYTES),
    )


def _limit(value: object) -> Limit:
    if not isinstance(value, str):
        raise Problem(f"{described(value)} has no unit: write text such as 1000p, 1mb or 20ms")
    limit = parse_limit(value)
    if not any((limit.bytes, limit.packets, limit.time_ns)):
        raise Problem("a queue that holds nothing passes nothing: write at least 1p")
    return limit
