"""A queue as people write it: its kind, perhaps its limit, and those parameters that differ from the defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from msgspec import Struct, structs

from wavebed.config.derived import limit
from wavebed.config.problems import Problem, at, choose, described
from wavebed.config.reader import Reader
from wavebed.config.table import fields, properties_of, read_changes
from wavebed.config.units import Limit, format_limit
from wavebed.config.values import table_of
from wavebed.spec import types as spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.config.data import Json
    from wavebed.config.reader import Schema

__all__ = ["QUEUE", "QUEUE_KINDS", "WrittenQueue", "least_limit", "limit_in_words"]

_Kind: TypeAlias = type[spec.Queue]
QUEUE_KINDS: dict[str, _Kind] = {each.__struct_config__.tag: each for each in get_args(spec.Queue)}


class WrittenQueue(Struct, frozen=True):
    """A queue discipline that may have no limit yet.

    Parameters
    ----------
    kind : str
        One of `QUEUE_KINDS`.
    limit : Limit or None
        ``None``: whoever builds the link gives one.
    given : tuple of pairs
        The other fields that were written, with their values.
    """

    kind: str
    limit: Limit | None = None
    given: tuple[tuple[str, Any], ...] = ()

    def has(self, field: str) -> bool:
        """Whether this kind of queue has the field."""
        return field in QUEUE_KINDS[self.kind].__struct_fields__

    def build(self, **further: Any) -> spec.Queue:
        """Return the queue of the specification; `further` fields stand where none were written."""
        known = further | dict(self.given)
        if self.has("limit"):
            assert self.limit is not None, "whoever resolves a path gives a limit"
            known["limit"] = self.limit
        return QUEUE_KINDS[self.kind](**known)


def least_limit(limit: Limit, mtu: int, rate_bps: int | None) -> Limit | None:
    """Return the smallest limit that lets a packet of the MTU pass, in the unit of `limit`; ``None`` if `limit` does.

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


def _schema() -> Schema:
    tables: list[Json] = []
    for name, kind in QUEUE_KINDS.items():
        own: dict[str, Json] = {
            "kind": {"enum": [name], "description": str(kind.__doc__)},
            **properties_of(fields(kind).values()),
        }
        tables.append({"type": "object", "properties": own, "required": ["kind"], "additionalProperties": False})
    return {"anyOf": [{"type": "string", "pattern": f"^({'|'.join(QUEUE_KINDS)})(:.+)?$"}, *tables]}


def _show(queue: WrittenQueue) -> str:
    return queue.kind if queue.limit is None else f"{queue.kind}:{format_limit(queue.limit)}"


def _check(kind: str, given: Mapping[str, Any]) -> None:
    """Check two rules of CoDel, which the engine has too: here the message names the key of the file."""
    known = {field.name: field.default for field in structs.fields(QUEUE_KINDS[kind])} | dict(given)
    if "interval_ns" in known and known["interval_ns"] < known["target_ns"]:
        raise Problem("must be at least the target: see RFC 8289, section 4.2", "interval")
    if known.get("ce_threshold_ns") is not None and not known["ecn"]:
        raise Problem("requires ecn = true: add it", "ce-threshold")


def _read(value: object) -> WrittenQueue:
    """Read ``KIND``, ``KIND:LIMIT`` or ``{kind = …, limit = …, …}``."""
    value = table_of(value)
    if isinstance(value, dict):
        if "kind" not in value:
            raise Problem(f"is missing: write one of {', '.join(QUEUE_KINDS)}", "kind")
        kind = at("kind", lambda given: choose(given, QUEUE_KINDS), value["kind"])
        further = {key: each for key, each in value.items() if key != "kind"}
        given = read_changes(further, "{kind = …}", QUEUE_KINDS[kind], also=("kind",))
        _check(kind, given)
        return WrittenQueue(kind, given.pop("limit", None), tuple(given.items()))
    if not isinstance(value, str):
        raise Problem(f"{described(value)} is not a queue: write one such as droptail:1000p")
    kind, colon, text = value.partition(":")
    choose(kind, QUEUE_KINDS)
    if not colon:
        return WrittenQueue(kind)
    if kind == "infinite":
        raise Problem("an infinite queue has no limit: write infinite alone, or droptail with the limit")
    return WrittenQueue(kind, limit(text))


QUEUE = Reader(_read, "KIND[:LIMIT]", _schema, _show)
"""Reads a queue."""
