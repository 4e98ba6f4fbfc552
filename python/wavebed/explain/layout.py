"""The way of a packet through the stages of its links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from wavebed.errors import UserError
from wavebed.prepared import prepared
from wavebed.spec.types import (
    BottleneckStage,
    CorruptStage,
    DelayStage,
    DuplicateStage,
    LossStage,
    Network,
    OpportunitiesRate,
    PacketsRate,
    RadioStage,
    ReorderStage,
    WifiStage,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.result.model import TrialRecord
    from wavebed.spec.types import Stage

__all__ = ["Direction", "Kind", "LinkLayout", "directions", "network_of"]

Kind: TypeAlias = Literal["server", "opportunities", "ue", "radio", "wifi", "delay", "reorder"]
"""Kinds of stages that take time."""
_QUEUES = ("server", "opportunities", "ue", "wifi")


@dataclass(frozen=True)
class LinkLayout:
    """The stages of a link that take time.

    Parameters
    ----------
    name : str
        ``HOP.down`` or ``HOP.up``.
    stages : sequence of str
        Their kinds, in the order in which packets meet them.
    logged : int or None
        Place of the one whose queue is in the packet log: the radio, else the first with a queue.
    """

    name: str
    stages: Sequence[Kind]

    @property
    def logged(self) -> int | None:
        """Place of the stage whose queue is in the packet log."""
        if "radio" in self.stages:
            return self.stages.index("radio")
        return next((place for place, kind in enumerate(self.stages) if kind in _QUEUES), None)


@dataclass(frozen=True)
class Direction:
    """One direction between two hosts, ``server-client.down``, and its links in the order of the packets."""

    name: str
    links: Sequence[LinkLayout]


def network_of(record: TrialRecord, folder: Path) -> Network:
    """Return the emulated network of a trial, from its specification.

    Raises
    ------
    UserError
        If it has none.
    """
    given = record.resolved.get("network")
    if given is None or record.engine.get("backend") == "hosts":
        raise UserError(
            f"{folder}: has no emulated links: wavebed explain needs a trial in namespaces, with its spec.json"
        )
    try:
        return msgspec.convert(given, prepared(Network))
    except msgspec.ValidationError as error:
        raise UserError(f"{folder}: its network is not as documented ({error}): run the trial again") from None


def directions(network: Network) -> list[Direction]:
    """Return the directions of a network."""
    found = []
    for leg in network.legs:
        name = f"{leg.start}-{leg.end}"
        down = [_layout(f"{hop.name}.down", hop.down) for hop in leg.hops]
        up = [_layout(f"{hop.name}.up", hop.up) for hop in reversed(leg.hops)]
        found += [Direction(f"{name}.down", down), Direction(f"{name}.up", up)]
    return found


def _layout(name: str, stages: Sequence[Stage]) -> LinkLayout:
    return LinkLayout(name, [kind for stage in stages if (kind := _kind(stage)) is not None])


def _kind(stage: Stage) -> Kind | None:
    match stage:
        case RadioStage():
            return "radio"
        case WifiStage():
            return "wifi"
        case BottleneckStage(rate=PacketsRate()):
            return "ue"
        case BottleneckStage(rate=OpportunitiesRate()):
            return "opportunities"
        case BottleneckStage():
            return "server"
        case DelayStage():
            return "delay"
        case ReorderStage():
            return "reorder"
        case LossStage() | DuplicateStage() | CorruptStage():
            return None
