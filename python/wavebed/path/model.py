"""What a path is, in types that cannot be wrong: hosts, segments, and the two links of each segment.

Times are nanoseconds, sizes bytes, rates bits of IP packets per second, shares numbers from 0 to 1. A value of
``None`` means that the link has no such stage.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path as FilePath

    from wavebed.channel.realisation import Mode
    from wavebed.radio.model import DeviceSettings, MacSettings
    from wavebed.scene.model import Scene
    from wavebed.units import Limit

__all__ = [
    "ConstantDelay",
    "ConstantRate",
    "Delay",
    "DistributedDelay",
    "FourStateLoss",
    "GilbertElliottLoss",
    "Host",
    "IndependentLoss",
    "Join",
    "Link",
    "Loss",
    "PathModel",
    "PatternFile",
    "Queue",
    "Rate",
    "Reorder",
    "ScenePattern",
    "Segment",
    "TokenBucket",
]

TraceEnd: TypeAlias = Literal["repeat", "hold", "stop"]


@dataclass(frozen=True, slots=True)
class PatternFile:
    """A pattern or trace in a file.

    Parameters
    ----------
    file : pathlib.Path
        The file, absolute or relative to the working directory.
    format : str or None
        The name of its format, where the content fits several.
    end : str
        ``repeat``, ``hold`` or ``stop``: what follows the end of the pattern.
    start_ns : int
        Where in the pattern the laboratory's time begins.
    """

    file: FilePath
    format: str | None = None
    end: TraceEnd = "repeat"
    start_ns: int = 0


@dataclass(frozen=True, slots=True)
class ConstantRate:
    """A rate that never changes by itself."""

    rate_bps: int


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """A token bucket that starts full."""

    rate_bps: int
    burst_bytes: int


@dataclass(frozen=True, slots=True)
class ScenePattern:
    """One direction of a scene, realised with the path's seed when the laboratory file is made.

    Parameters
    ----------
    scene : Scene
        The scene.
    mode : str
        ``3gpp`` or ``reference``.
    direction : str
        ``down`` or ``up``.
    end, start_ns
        As those of `PatternFile`.
    """

    scene: Scene
    mode: Mode
    direction: Literal["down", "up"]
    end: TraceEnd = "repeat"
    start_ns: int = 0


Rate: TypeAlias = ConstantRate | TokenBucket | PatternFile | ScenePattern


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue discipline; fields that its kind does not have are ``None``."""

    kind: str
    limit: Limit | None = None
    target_ns: int | None = None
    interval_ns: int | None = None
    ecn: bool | None = None
    flows: int | None = None
    quantum_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ConstantDelay:
    """The same delay for every segment."""

    delay_ns: int


@dataclass(frozen=True, slots=True)
class DistributedDelay:
    """A random delay for every segment, never below zero."""

    shape: str
    mean_ns: int
    spread_ns: int
    correlation: float = 0.0
    reorder: bool = False


Delay: TypeAlias = ConstantDelay | DistributedDelay | PatternFile


@dataclass(frozen=True, slots=True)
class IndependentLoss:
    """Every segment has the same chance of being lost."""

    probability: float


@dataclass(frozen=True, slots=True)
class GilbertElliottLoss:
    """Two states; `p` leads from good to bad, `r` back, at each segment."""

    p: float
    r: float
    good_loss: float = 0.0
    bad_loss: float = 1.0


@dataclass(frozen=True, slots=True)
class FourStateLoss:
    """The four-state Markov model of Salsano et al., as in netem."""

    p13: float
    p31: float
    p23: float
    p32: float
    p14: float


Loss: TypeAlias = IndependentLoss | GilbertElliottLoss | FourStateLoss | PatternFile


@dataclass(frozen=True, slots=True)
class Reorder:
    """A share of the segments is held back by a fixed time."""

    probability: float
    delay_ns: int


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a segment; the fields stand in the order in which packets meet the stages.

    With a `radio` the rate drives the radio stage, and `overhead_bytes` and `queue` are those in its settings. The
    stage of the `device` comes after the radio in a downlink, and before it in an uplink.
    """

    rate: Rate | None = None
    radio: MacSettings | None = None
    device: DeviceSettings | None = None
    sampled: bool = False
    overhead_bytes: int = 0
    outage: str = "hold"
    queue: Queue | None = None
    queue_unit: str = "packet"
    delay: Delay | None = None
    loss: Loss | None = None
    loss_unit: str = "packet"
    loss_at: str = "exit"
    duplicate: float | None = None
    reorder: Reorder | None = None
    corrupt: float | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """One hop: a downlink (towards the client) and an uplink."""

    name: str
    kind: str
    down: Link
    up: Link


@dataclass(frozen=True, slots=True)
class Host:
    """One host of the path."""

    name: str
    congestion_control: str | None = None
    sysctls: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Join:
    """Which departures leave as one super-packet: ``off``, ``slot`` or within a ``time``."""

    kind: str
    time_ns: int | None = None


@dataclass(frozen=True, slots=True)
class PathModel:
    """Hosts and segments in a row, server first.

    Parameters
    ----------
    hosts : tuple of Host
        Server, perhaps edge, client.
    segments : tuple of Segment
        In the order from the server to the client.
    edge_after : int or None
        How many segments lie between the server and the edge host; ``None`` without an edge.
    join : Join
        Which departures are joined into super-packets.
    seed : int
        What all luck is keyed by.
    mtu : int
        Bytes of the largest IP packet.
    nat : bool
        Whether the far end is this machine and its network.
    packet_memory_bytes : int or None
        Memory that packets in flight may take; ``None`` for a quarter of what the engine may have.
    """

    hosts: tuple[Host, ...]
    segments: tuple[Segment, ...]
    edge_after: int | None
    join: Join
    seed: int
    mtu: int
    nat: bool
    packet_memory_bytes: int | None = None
