"""Workloads: real applications on the path, each a plug-in of one module (see `wavebed.workload.model`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from wavebed.config.plugins import class_of
from wavebed.config.problems import Problem, at
from wavebed.config.table import fields, read_table
from wavebed.workload.model import Common, read_common

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.workload.model import AnyWorkload

__all__ = ["KINDS", "kind_of", "read_workload"]

KINDS = {
    "bulk": "wavebed.workload.bulk:Bulk",
    "download": "wavebed.workload.download:Download",
    "latency": "wavebed.workload.latency:Latency",
    "voice": "wavebed.workload.voice:Voice",
    "call": "wavebed.workload.call:Call",
    "video": "wavebed.workload.video:Video",
    "web": "wavebed.workload.web:Web",
    "command": "wavebed.workload.command:Command",
    "record": "wavebed.workload.record:Record",
}
"""The class of each kind of workload; imported when it is needed."""


def kind_of(name: object) -> type[AnyWorkload]:
    """Return the class of a kind of workload.

    Raises
    ------
    Problem
        If there is no such kind.
    """
    return cast("type[AnyWorkload]", class_of(name, KINDS))


def read_workload(table: Mapping[str, object]) -> AnyWorkload:
    """Return the workload that a ``[[workload]]`` table describes.

    Raises
    ------
    Problem
        If a key or a value is wrong.
    """
    if "kind" not in table:
        raise Problem(f"is missing: write one of {', '.join(KINDS)}", "kind")
    kind = at("kind", kind_of, table["kind"])
    common = read_common(table)
    own = {name: value for name, value in table.items() if name not in fields(Common)}
    return kind(common, read_table(kind.options_type, own, "[[workload]]", also=fields(Common)))
