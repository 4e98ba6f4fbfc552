"""A queue as people write it: its kind, its limit, and the parameters of an AQM."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct
from msgspec.structs import asdict, replace

from wavebed.config.problems import Problem, at, choose, described
from wavebed.config.reader import Reader, Schema, reader
from wavebed.config.table import Key, read_table, table_schema
from wavebed.config.units import Limit, format_limit, parse_limit
from wavebed.config.values import TIME_SCHEMA, boolean, number, quantity_schema, size_bytes, table_of, time_ns, word

__all__ = [
    "CODEL_INTERVAL_NS",
    "CODEL_TARGET_NS",
    "DUALPI2_COUPLING",
    "DUALPI2_RANGE_NS",
    "DUALPI2_RTT_MAX_NS",
    "DUALPI2_TARGET_NS",
    "DUALPI2_THRESHOLD_NS",
    "FQ_CODEL_FLOWS",
    "FQ_CODEL_QUANTUM_BYTES",
    "LEAST_COUPLING",
    "MOST_COUPLING",
    "QUEUE",
    "QUEUE_KINDS",
    "Queue",
    "least_limit",
    "limit_in_words",
]

QUEUE_KINDS = ("droptail", "drophead", "codel", "fq_codel", "dualpi2", "infinite")

CODEL_TARGET_NS = 5_000_000
CODEL_INTERVAL_NS = 100_000_000
"""RFC 8289, section 4."""
FQ_CODEL_FLOWS = 1024
FQ_CODEL_QUANTUM_BYTES = 1514
"""RFC 8290, section 5.2; Linux."""
DUALPI2_TARGET_NS = 15_000_000
DUALPI2_RTT_MAX_NS = 100_000_000
DUALPI2_COUPLING = 2.0
DUALPI2_THRESHOLD_NS = 800_000
DUALPI2_RANGE_NS = 400_000
"""RFC 9332, appendix A.1."""
LEAST_COUPLING = 0.5
MOST_COUPLING = 16.0
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
    ce_threshold_ns: int | None = None
    rtt_max_ns: int | None = None
    coupling: float | None = None
    threshold_ns: int | None = None
    range_ns: int | None = None
    predict_ns: int | None = None
    """0: off."""


def least_limit(limit: Limit, mtu: int, rate_bps: int | None) -> Limit | None:
    """Return the smallest limit that lets a packet of the MTU pass, in the unit of `limit`; ``None`` if `limit` does.

    `wavebed-core` has the same rule (`Limit::too_small_for`).

    Parameters
    ----------
    limit : Limit
        The limit of a queue.
    mtu : int
        Bytes of the largest packet.
    rate_bps : int or None
        The rate at which the queue is served, bits per second; ``None`` or 0: a limit in time is not judged.
    """
    if limit.bytes is not None:
        return Limit(bytes=mtu) if limit.bytes < mtu else None
    if limit.time_ns is None or not rate_bps:
        return None
    least_ns = -(-mtu * 8 * 10**9 // rate_bps)
    return Limit(time_ns=least_ns) if limit.time_ns < least_ns else None


def limit_in_words(limit: Limit, least: Limit, mtu: int, rate: str = "") -> str:
    """Return the message about a limit that `least_limit` found too small; `rate` says at which rate it was judged."""
    at_rate = f" at {rate}" if rate and limit.time_ns is not None else ""
    what = f"a limit of {format_limit(limit)} lets no packet of the MTU, {mtu} bytes, pass{at_rate}"
    return f"{what}: write at least {format_limit(least)}"


@reader("COUPLING", {"type": "number", "minimum": LEAST_COUPLING, "maximum": MOST_COUPLING})
def _coupling(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not LEAST_COUPLING <= value <= MOST_COUPLING:
        raise Problem(
            f"{described(value)} is out of range: write a number from {LEAST_COUPLING:g} to {MOST_COUPLING:g}"
        )
    return float(value)


@reader("TIME", TIME_SCHEMA)
def _positive(value: object) -> int:
    read = time_ns(value)
    if read < 1:
        raise Problem(f"{described(value)} is no time: write more than 0")
    return read


@reader("TIME|off", {"anyOf": [{"const": "off"}, dict(TIME_SCHEMA)]}, lambda read: read or "off")
def _predict(value: object) -> int:
    return 0 if value == "off" else _positive(value)


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
    ce_threshold_ns: Annotated[
        int | None, Key(time_ns, "sojourn time after which ECT(1) is marked at once; else ECT(1) is as ECT(0)")
    ] = None


class _FqCodel(_Codel, frozen=True, kw_only=True):
    kind: Annotated[str, Key(word("fq_codel"), "RFC 8290")]
    ecn: Annotated[bool, Key(boolean, "mark packets with ECN instead of dropping them")] = True
    flows: Annotated[int, Key(number(1, 65_536), "queues")] = FQ_CODEL_FLOWS
    quantum_bytes: Annotated[int, Key(size_bytes, "bytes of each queue per round")] = FQ_CODEL_QUANTUM_BYTES


class _DualPi2(Struct, frozen=True, kw_only=True):
    kind: Annotated[str, Key(word("dualpi2"), "RFC 9332")]
    limit: Annotated[Limit | None, Key(_limit, "of both queues together")] = None
    target_ns: Annotated[int, Key(_positive, "delay of the classic queue")] = DUALPI2_TARGET_NS
    rtt_max_ns: Annotated[int, Key(_positive, "longest usual round trip")] = DUALPI2_RTT_MAX_NS
    coupling: Annotated[float, Key(_coupling, "coupling factor k")] = DUALPI2_COUPLING
    threshold_ns: Annotated[int, Key(time_ns, "delay after which ECT(1) is marked")] = DUALPI2_THRESHOLD_NS
    range_ns: Annotated[int, Key(time_ns, "from there to the delay at which all are marked")] = DUALPI2_RANGE_NS
    predict_ns: Annotated[
        int | None, Key(_predict, "predict delays from the rate during this time, in place of measuring them")
    ] = None


def _schema() -> Schema:
    tables = (table_schema(model) for model in (_Drop, _Codel, _FqCodel, _DualPi2, _Infinite))
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
    if kind == "dualpi2":
        return Queue(**asdict(read_table(_DualPi2, given, "{kind = …}")))
    codel = read_table(_Codel if kind == "codel" else _FqCodel, given, "{kind = …}")
    if codel.target_ns < 1 or codel.interval_ns < codel.target_ns:
        raise Problem("must be at least the target, and the target more than 0: see RFC 8289, section 4.2", "interval")
    if codel.ce_threshold_ns is not None and not codel.ecn:
        raise Problem("requires ecn = true: add it", "ce-threshold")
    queue = Queue(
        kind, codel.limit, codel.target_ns, codel.interval_ns, codel.ecn, ce_threshold_ns=codel.ce_threshold_ns
    )
    if not isinstance(codel, _FqCodel):
        return queue
    return replace(queue, flows=codel.flows, quantum_bytes=codel.quantum_bytes)


QUEUE = Reader(_read, "KIND[:LIMIT]", _schema, _show)
"""Reads a queue."""
