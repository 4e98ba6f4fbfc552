"""The keys of a ``[[workload]]`` table: those that all have, and those of each kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from wavebed.config import values
from wavebed.config.problems import Problem, at, choose, described, unknown_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["COMMON_KEYS", "Common", "WorkloadKey", "read_common", "read_values"]

DEFAULT_LIMIT = "60s"


@dataclass(frozen=True, slots=True)
class WorkloadKey:
    """One key of a kind of workload.

    Parameters
    ----------
    name : str
        The key in a scenario.
    read : callable
        Reads what TOML gave, or raises `wavebed.config.problems.Problem`; `wavebed.path.values` has readers of times
        (``time_ns``), sizes, rates, shares, numbers, words.
    write : str
        What to write, for people.
    default : object
        What it is without it, as TOML gives it: it is read too. ``None``: the value is ``None`` without it.
    meaning : str
        What it does.
    """

    name: str
    read: Callable[[object], object]
    write: str
    default: object
    meaning: str


@dataclass(frozen=True, slots=True)
class Common:
    """The keys that every workload has.

    Parameters
    ----------
    name : str
        Its name: that of its kind by default.
    start_s : float
        When it starts: seconds since time zero, or since the end of `after`.
    after : str or None
        The workload that it waits for.
    limit_s : float
        Longest time that it may run.
    server, client : str
        The hosts at its two ends.
    """

    name: str
    start_s: float
    after: str | None
    limit_s: float
    server: str
    client: str


def _host(*names: str) -> Callable[[object], str]:
    return lambda value: choose(value, names)


COMMON_KEYS: tuple[WorkloadKey, ...] = (
    WorkloadKey("kind", values.text, "NAME", None, "what it is; the kinds have sections of their own below"),
    WorkloadKey("name", values.name, "NAME", None, "its name, by which results go; that of its kind by default"),
    WorkloadKey(
        "start",
        values.time_ns,
        "TIME",
        "0s",
        "when it starts: after time zero of the pattern, or after the end of `after`",
    ),
    WorkloadKey("after", values.name, "NAME", None, "the workload that must have ended before it starts"),
    WorkloadKey("limit", values.time_ns, "TIME", DEFAULT_LIMIT, "longest time that it may run"),
    WorkloadKey("server", _host("server", "edge"), "server|edge", "server", "the host that serves"),
    WorkloadKey("client", _host("client", "edge"), "client|edge", "client", "the host at the other end"),
)


def read_values(
    table: Mapping[str, object], keys: Sequence[WorkloadKey], *, ignore: Sequence[str] = ()
) -> dict[str, object]:
    """Return the value of every key of `keys`; keys in `ignore` are left to others.

    Raises
    ------
    Problem
        If a key is unknown or a value is wrong.
    """
    known = [key.name for key in keys]
    for name in table:
        if name not in known and name not in ignore:
            raise unknown_key(name, [*known, *ignore])
    found: dict[str, object] = {}
    for key in keys:
        if key.name in table:
            found[key.name] = at(key.name, key.read, table[key.name])
        else:
            found[key.name] = None if key.default is None else key.read(key.default)
    return found


def read_common(table: Mapping[str, object]) -> Common:
    """Return the common keys of a ``[[workload]]`` table.

    Raises
    ------
    Problem
        If one is missing or wrong.
    """
    names = [key.name for key in COMMON_KEYS]
    given = read_values({name: value for name, value in table.items() if name in names}, COMMON_KEYS)
    if given["kind"] is None:
        raise Problem("is missing: write the kind of workload", "kind")
    if given["server"] == given["client"]:
        raise Problem(f"{described(given['client'])} is at both ends: write two hosts", "client")
    name = given["name"] or at("name", values.name, given["kind"])
    return Common(
        name=cast("str", name),
        start_s=cast("int", given["start"]) / 1e9,
        after=cast("str | None", given["after"]),
        limit_s=cast("int", given["limit"]) / 1e9,
        server=cast("str", given["server"]),
        client=cast("str", given["client"]),
    )
