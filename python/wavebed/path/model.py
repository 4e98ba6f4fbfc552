"""The path, in types that cannot be wrong: hosts, hops, and the two links of each hop.

Times are nanoseconds, sizes bytes, rates bits of IP packets per second, probabilities numbers from 0 to 1. A value of
``None`` means that the link has no such stage.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct, field

from wavebed.spec.types import (
    ConstantDelay,
    ConstantRate,
    FourStateLoss,
    GilbertElliottLoss,
    IndependentLoss,
    ReorderStage,
    TokenBucketRate,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path as FilePath

    from wavebed.channel.placemap import PlaceMap
    from wavebed.radio.model import MacSettings, UeLimit
    from wavebed.remedy.model import Chosen
    from wavebed.scene.model import Mode, Scene
    from wavebed.spec.queue import WrittenQueue
    from wavebed.spec.types import Coalesce, Shape

__all__ = [
    "Delay",
    "DistributedDelay",
    "DrawnStart",
    "Hop",
    "Host",
    "LimitedLoss",
    "Link",
    "Loss",
    "LostPackets",
    "LostTimes",
    "MadeLoss",
    "PathModel",
    "PatternFile",
    "Rate",
    "ScenePattern",
]

TraceEnd: TypeAlias = Literal["repeat", "hold", "stop"]


class DrawnStart(Struct, frozen=True):
    """A whole second of a pattern, drawn with the path's seed: the same for all links."""

    least_s: int
    most_s: int

    def drawn_ns(self, seed: int) -> int:
        """Return the moment, nanoseconds."""
        return Random(f"start-at {seed}").randint(self.least_s, self.most_s) * 10**9  # noqa: S311 no secret


class PatternFile(Struct, frozen=True):
    """A pattern or trace in a file.

    Parameters
    ----------
    file : pathlib.Path
        The file, absolute or relative to the working directory.
    format : str or None
        The name of its format, where the content fits several.
    end : str
        ``repeat``, ``hold`` or ``stop``: repeat it, hold its last value, or stop the link.
    start : int or DrawnStart
        Where in the pattern the laboratory's time begins, nanoseconds.
    """

    file: FilePath
    format: str | None = None
    end: TraceEnd = "repeat"
    start: int | DrawnStart = 0


class ScenePattern(Struct, frozen=True):
    """One direction of a scene or a map, realised with the path's seed when the laboratory file is made.

    Parameters
    ----------
    scene : Scene or PlaceMap
        The scene, or the map, which has a downlink only.
    mode : str
        ``3gpp``, ``reference`` or ``study``; ``map`` for a map.
    direction : str
        ``down`` or ``up``.
    end, start
        As those of `PatternFile`.
    """

    scene: Scene | PlaceMap
    mode: Mode | Literal["study", "map"]
    direction: Literal["down", "up"]
    end: TraceEnd = "repeat"
    start: int | DrawnStart = 0


Rate: TypeAlias = ConstantRate | TokenBucketRate | PatternFile | ScenePattern


class DistributedDelay(Struct, frozen=True):
    """A random delay for every wire segment, never below zero."""

    shape: Shape
    mean_ns: int
    spread_ns: int
    correlation: float = 0.0
    reorder: bool = False


Delay: TypeAlias = ConstantDelay | DistributedDelay | PatternFile


class LostPackets(Struct, frozen=True):
    """These wire segments are lost, counted from 1 in each direction."""

    numbers: tuple[int, ...]


class LostTimes(Struct, frozen=True):
    """Every packet is lost in these times, nanoseconds of the laboratory."""

    spans_ns: tuple[tuple[int, int], ...]


class LimitedLoss(Struct, frozen=True):
    """Independent losses of which at most so many follow each other: the packet after them arrives."""

    probability: float
    most_in_a_row: int


MadeLoss: TypeAlias = LostPackets | LostTimes | LimitedLoss
"""Losses that become a pattern when the laboratory file is made."""

Loss: TypeAlias = IndependentLoss | GilbertElliottLoss | FourStateLoss | PatternFile | MadeLoss


class Link(Struct, frozen=True):
    """One direction of a hop; the fields stand in the order in which packets meet the stages.

    With a `radio` the rate drives the radio stage, and `overhead_bytes` and `queue` are those in its settings. The
    stage of `ue_limit` comes after the radio in a downlink, and before it in an uplink.
    """

    rate: Rate | None = None
    radio: MacSettings | None = None
    ue_limit: UeLimit | None = None
    sampled: bool = False
    overhead_bytes: int = 0
    outage: str = "hold"
    queue: WrittenQueue | None = None
    queue_unit: str = "packet"
    delay: Delay | None = None
    delay_limit: int | None = None
    loss: Loss | None = None
    loss_unit: str = "packet"
    loss_at: str = "exit"
    duplicate: float | None = None
    reorder: ReorderStage | None = None
    corrupt: float | None = None


class Hop(Struct, frozen=True):
    """A downlink (towards the client) and an uplink."""

    name: str
    kind: str
    down: Link
    up: Link


class Host(Struct, frozen=True):
    """One host of the path."""

    name: str
    congestion_control: str | None = None
    sysctls: Mapping[str, str] = field(default_factory=dict)
    remedies: tuple[Chosen, ...] = ()


class PathModel(Struct, frozen=True):
    """Hosts and hops in a row, server first.

    Parameters
    ----------
    hosts : tuple of Host
        Server, perhaps edge, client.
    hops : tuple of Hop
        In the order from the server to the client.
    edge_after : int or None
        How many hops lie between the server and the edge host; ``None`` without an edge.
    coalesce : Coalesce
        Which packets leave as one GSO packet.
    seed : int
        Seed of all random processes.
    mtu : int
        Bytes of the largest IP packet.
    nat : bool
        Whether the far end is this machine and its network.
    outside_sockets : bool or None
        Whether programs reach named sockets of programs outside; ``None`` where nothing says so.
    packet_memory_bytes : int or None
        Memory that packets in flight may take; ``None`` for a quarter of what the engine may have.
    packet_log : bool
        Whether the times of every packet and of every radio block are recorded.
    names : str
        With `nat`, which way questions go to a resolver that only this machine reaches: over the path, or beside it.
    rebind_at_ns : tuple of int
        When the client's flows get other source ports, after time zero, rising.
    second_radio : Hop or None
        A second radio of the client: a hop beside all those between the last two hosts.
    """

    hosts: tuple[Host, ...]
    hops: tuple[Hop, ...]
    edge_after: int | None
    coalesce: Coalesce
    seed: int
    mtu: int
    nat: bool
    outside_sockets: bool | None = None
    packet_memory_bytes: int | None = None
    packet_log: bool = False
    names: Literal["path", "beside"] = "path"
    rebind_at_ns: tuple[int, ...] = ()
    second_radio: Hop | None = None
