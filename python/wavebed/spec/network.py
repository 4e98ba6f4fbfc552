"""The network of a trial: hosts, the legs between them, and the stages of both directions of each leg."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, TypeVar

from msgspec import Meta, Struct, field, structs

from wavebed.config.queue import least_limit, limit_in_words
from wavebed.spec.link import (
    Bottleneck,
    ConstantDelay,
    Corrupt,
    Delay,
    Duplicate,
    Kind,
    Loss,
    Part,
    Reorder,
    RuleError,
    TokenBucket,
)
from wavebed.spec.radio import Radio, Wifi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wavebed.config.units import Limit

__all__ = ["MOST_SEED", "Coalesce", "CoalesceOff", "CoalesceSlot", "CoalesceTime", "Hop", "Host", "Leg", "Network"]
__all__ += ["Stage", "pattern_files", "with_pattern_files"]

Stage: TypeAlias = Bottleneck | Delay | Loss | Duplicate | Reorder | Corrupt | Radio | Wifi
Name: TypeAlias = Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$")]
Setting: TypeAlias = Annotated[str, Meta(pattern=r"^net(\.[A-Za-z0-9_-]+)+$")]
LEAST_PACKET_MEMORY_BYTES = 16 << 20
"""A few packets in each direction, and buffers that are kept for reuse."""
MOST_COALESCE_NS = 10_000_000
"""As long as a radio frame."""
MOST_SEED = 2**63 - 1
"""The largest signed integer of 64 bits, the integers of TOML and Parquet."""
_SOURCES = ("rate", "delay", "model")
"""Fields of stages that a pattern may drive."""
_Node = TypeVar("_Node", bound=Struct)


class CoalesceOff(Kind, frozen=True, tag="off"):
    """Every wire segment is handed to a host on its own."""


class CoalesceSlot(Kind, frozen=True, tag="slot"):
    """Wire segments of one instant are coalesced into GSO packets."""


class CoalesceTime(Kind, frozen=True, tag="time"):
    """Wire segments that leave within a time of the first are coalesced into GSO packets."""

    time_ns: Annotated[int, Meta(ge=1, le=MOST_COALESCE_NS)]


Coalesce: TypeAlias = CoalesceOff | CoalesceSlot | CoalesceTime


class Host(Part, frozen=True):
    """A host: its congestion control (``None``: the machine's default) and the settings of its network namespace."""

    name: Name
    congestion_control: str | None = None
    sysctls: dict[Setting, str] = field(default_factory=dict)


class Hop(Part, frozen=True):
    """One part of a leg: the stages towards the client and towards the server, as packets meet them."""

    name: Name
    kind: Literal["wired", "radio"]
    down: tuple[Stage, ...]
    up: tuple[Stage, ...]

    def __post_init__(self) -> None:
        radios = [stage for stage in (*self.down, *self.up) if isinstance(stage, Radio)]
        known = [radio.connection for radio in radios if radio.connection is not None]
        if any(connection != known[0] for connection in known):
            raise RuleError("connection is the same in both directions of a hop")


class Leg(Part, frozen=True, rename={"start": "from", "end": "to"}):
    """The hops between two hosts, the one nearest to `start` first; `down` leads from `start` to `end`."""

    start: Name
    end: Name
    hops: Annotated[tuple[Hop, ...], Meta(min_length=1)]

    @property
    def least_rtt_ns(self) -> int:
        """The constant delays of both directions: no answer of a host returns sooner."""
        stages = [stage for hop in self.hops for stage in (*hop.down, *hop.up)]
        delays = [stage.delay for stage in stages if isinstance(stage, Delay)]
        return sum(delay.delay_ns for delay in delays if isinstance(delay, ConstantDelay))


class Network(Part, frozen=True):
    """Hosts, and the legs between them: a graph whose nodes are the hosts.

    The hosts stand in a row, with a leg between neighbours; one more leg may connect the last two.

    Parameters
    ----------
    mtu : int
        Bytes of the largest IP packet.
    nat : bool
        Whether the server is this machine and its network.
    coalesce : CoalesceOff, CoalesceSlot or CoalesceTime
        Which wire segments are coalesced into GSO packets where they leave.
    packet_memory_bytes : int or None
        Memory that packets in flight may take; ``None`` for a quarter of what the engine may have.
    packet_log : bool
        Whether the times of every packet and of every radio block are recorded.
    outside_sockets : bool
        Whether programs reach sockets of the machine's programs by their names in the file system.
    names : str
        With `nat`, which way questions go to a resolver that only this machine reaches: over the path, or beside it.
    rebind_at_ns : tuple of int
        When the client's flows get other source ports at the server, after time zero, rising.
    """

    mtu: Annotated[int, Meta(ge=1280, le=65_535)]
    nat: bool
    coalesce: Coalesce
    packet_memory_bytes: Annotated[int, Meta(ge=LEAST_PACKET_MEMORY_BYTES)] | None
    hosts: tuple[Host, ...]
    legs: tuple[Leg, ...]
    packet_log: bool = False
    outside_sockets: bool = False
    names: Literal["path", "beside"] = "path"
    rebind_at_ns: tuple[Annotated[int, Meta(ge=0)], ...] = ()

    def __post_init__(self) -> None:
        hosts = [host.name for host in self.hosts]
        hops = [hop.name for leg in self.legs for hop in leg.hops]
        for what, names in (("host", hosts), ("hop", hops)):
            if len(set(names)) != len(names):
                raise RuleError(f"each name of a {what} stands once")
        for leg in self.legs:
            if leg.start not in hosts or leg.end not in hosts:
                raise RuleError(f"a leg connects two of the hosts, which are {', '.join(hosts)}")
        second = self.second_leg
        if second is not None and (len(self.legs) > len(hosts) or (second.start, second.end) != tuple(hosts[-2:])):
            raise RuleError("one leg beside those of the row connects the last two hosts")
        if any(one >= later for one, later in pairwise(self.rebind_at_ns)):
            raise RuleError("rebind_at_ns rises")
        if self.rebind_at_ns and self.nat:
            raise RuleError("with nat the server is this machine, whose connections stay as they are")
        if second is not None and self.nat:
            raise RuleError("with nat there is no second leg to the client")
        if self.nat and any(
            host.name == "server" and (host.congestion_control is not None or host.sysctls) for host in self.hosts
        ):
            raise RuleError("with nat the server is this machine, whose settings stay as they are")
        for name, stages in self.links():
            for stage in stages:
                self._check_with_mtu(name, stage)

    def _check_with_mtu(self, link: str, stage: Stage) -> None:
        rate = getattr(stage, "rate", None)
        if isinstance(rate, TokenBucket) and rate.burst_bytes < self.mtu:
            raise RuleError(f"{link}: burst_bytes is at least the MTU, {self.mtu}")
        limit: Limit | None = getattr(getattr(stage, "queue", None), "limit", None)
        least = None if limit is None else least_limit(limit, self.mtu, getattr(rate, "rate_bps", None))
        if limit is not None and least is not None:
            raise RuleError(f"{link}: queue: {limit_in_words(limit, least, self.mtu)}")
        if isinstance(stage, Wifi):
            stage.check(self.mtu)

    @property
    def second_leg(self) -> Leg | None:
        """The leg beside the row: that of the client's second radio; ``None`` without one."""
        row = len(self.hosts) - 1
        return self.legs[row] if len(self.legs) > row > 0 else None

    def links(self) -> Iterator[tuple[str, tuple[Stage, ...]]]:
        """Yield name and stages of every link: ``radio.down``, ``radio.up``."""
        for leg in self.legs:
            for hop in leg.hops:
                yield f"{hop.name}.down", hop.down
                yield f"{hop.name}.up", hop.up


def pattern_files(network: Network) -> list[str]:
    """Return the files of all patterns, each once, in the order of the links."""
    found: dict[str, None] = {}
    for _, stages in network.links():
        for stage in stages:
            for name in _SOURCES:
                file = getattr(getattr(stage, name, None), "file", None)
                if file is not None:
                    found[file] = None
    return list(found)


def with_pattern_files(network: Network, renamed: Callable[[str], str]) -> Network:
    """Return the same network with other names of its pattern files."""

    def link(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
        return tuple(_renamed(stage, renamed) for stage in stages)

    def hop(each: Hop) -> Hop:
        return structs.replace(each, down=link(each.down), up=link(each.up))

    legs = tuple(structs.replace(leg, hops=tuple(map(hop, leg.hops))) for leg in network.legs)
    return structs.replace(network, legs=legs)


def _renamed(stage: _Node, renamed: Callable[[str], str]) -> _Node:
    for name in _SOURCES:
        source = getattr(stage, name, None)
        file = getattr(source, "file", None)
        if isinstance(source, Struct) and file is not None:
            stage = structs.replace(stage, **{name: structs.replace(source, file=renamed(file))})
    return stage
