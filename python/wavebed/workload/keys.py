"""The keys of a ``[[workload]]`` table that workloads of all kinds have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Struct
from msgspec.structs import replace

from wavebed.config import values
from wavebed.config.problems import Problem, at, described
from wavebed.config.table import Key, fields, read_table

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Common", "NoOptions", "read_common"]


class Common(Struct, frozen=True, kw_only=True):
    """Keys of every workload: start, limit and hosts."""

    kind: Annotated[str, Key(values.text, "what it is; the kinds have sections of their own below", write="NAME")]
    name: Annotated[str, Key(values.name, "its name, by which results go", absent="that of its kind")] = ""
    start_s: Annotated[
        float, Key(values.seconds(), "when it starts: after time zero of the pattern, or after the end of `after`")
    ] = 0.0
    after: Annotated[str | None, Key(values.name, "the workload that must have ended before it starts")] = None
    limit_s: Annotated[float, Key(values.seconds(), "longest time that it may run")] = 60.0
    skip: Annotated[
        bool,
        Key(values.boolean, "true: left out; for workloads that only some treatments or levels of a factor run"),
    ] = False
    server: Annotated[Literal["server", "edge"], Key(values.word("server", "edge"), "the host that serves")] = "server"
    client: Annotated[Literal["client", "edge"], Key(values.word("client", "edge"), "the host at the other end")] = (
        "client"
    )


class NoOptions(Struct, frozen=True):
    """The options of a kind that has none."""


def read_common(table: Mapping[str, object]) -> Common:
    """Return the common keys of a ``[[workload]]`` table; the others are left alone.

    Raises
    ------
    Problem
        If one is missing or wrong.
    """
    common = read_table(Common, {name: table[name] for name in fields(Common) if name in table}, "[[workload]]")
    if common.server == common.client:
        raise Problem(f"{described(common.client)} is at both ends: write two hosts", "client")
    return common if common.name else replace(common, name=at("name", values.name, common.kind))
