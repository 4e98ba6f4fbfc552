"""The path, in types that cannot be wrong: hosts, hops, and the two links of each hop.

Times are nanoseconds, sizes bytes, rates bits of IP packets per second, probabilities numbers from 0 to 1. A value of
``None`` means that the link has no such stage.
"""

from __future__ import annotations

import math
from random import Random
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, cast

from msgspec import Meta, Struct, field, to_builtins

from wavebed.config.problems import Problem, one_of
from wavebed.spec.types import (
    CellService,
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

    from wavebed.channel.low_orbit import LowOrbit
    from wavebed.channel.placemap import PlaceMap
    from wavebed.config.data import Json
    from wavebed.radio.presets import MacSettings, UeLimit
    from wavebed.remedy import ChosenRemedy
    from wavebed.scene.model import BaseStation, Box, Mode, Obstacle, SceneModel, Screen, Trajectory
    from wavebed.spec.network import WrittenQueue
    from wavebed.spec.types import BackgroundTraffic, CellScheduler, Coalesce, Shape


TraceEnd: TypeAlias = Literal["repeat", "hold", "stop"]


class DrawnStart(Struct, frozen=True):
    """A whole second of a pattern, drawn with the path's seed: the same for all links, or the links of one `device`."""

    least_s: int
    most_s: int
    device: str = ""

    def drawn_ns(self, seed: int) -> int:
        """Return the moment, nanoseconds."""
        of = f"start-at {seed} {self.device}".rstrip()
        return Random(of).randint(self.least_s, self.most_s) * 10**9  # noqa: S311 no secret


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
    scene : SceneModel, PlaceMap or LowOrbit
        The scene; the map, which has a downlink only; or the low-orbit access, whose patterns have delay and loss too.
    mode : str
        ``3gpp``, ``reference`` or ``study``; ``map`` for a map, ``low-orbit`` for a low-orbit access.
    direction : str
        ``down`` or ``up``.
    end, start
        As in `PatternFile`.
    device : str or None
        The device of a scene with several, whose pattern says which base station serves; ``None``: the first.
    """

    scene: SceneModel | PlaceMap | LowOrbit
    mode: Mode | Literal["study", "map", "low-orbit"]
    direction: Literal["down", "up"]
    end: TraceEnd = "repeat"
    start: int | DrawnStart = 0
    device: str | None = None


Rate: TypeAlias = ConstantRate | TokenBucketRate | PatternFile | ScenePattern


class DistributedDelay(Struct, frozen=True):
    """A random delay for every wire segment, never below zero."""

    shape: Shape
    mean_ns: int
    spread_ns: int
    correlation: float = 0.0
    reorder: bool = False


Delay: TypeAlias = ConstantDelay | DistributedDelay | PatternFile | ScenePattern


class LostPackets(Struct, frozen=True):
    """These wire segments are lost, counted from 1 in each direction."""

    numbers: tuple[int, ...]


class LostTimes(Struct, frozen=True):
    """Every packet is lost in these times, nanoseconds of the laboratory."""

    spans_ns: tuple[tuple[int, int], ...]


class LimitedLoss(Struct, frozen=True):
    """Independent losses; at most `most_in_a_row` follow each other: the packet after them arrives."""

    probability: float
    most_in_a_row: int


MadeLoss: TypeAlias = LostPackets | LostTimes | LimitedLoss
"""Losses that become a pattern when the laboratory file is made."""

Loss: TypeAlias = IndependentLoss | GilbertElliottLoss | FourStateLoss | PatternFile | ScenePattern | MadeLoss


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


class PathHop(Struct, frozen=True):
    """A downlink (towards the client) and an uplink."""

    name: str
    kind: str
    down: Link
    up: Link


class PathHost(Struct, frozen=True):
    """One host of the path."""

    name: str
    congestion_control: str | None = None
    sysctls: Mapping[str, str] = field(default_factory=dict)
    remedies: tuple[ChosenRemedy, ...] = ()


class DeviceModel(Struct, frozen=True):
    """A device of a cell.

    Parameters
    ----------
    name : str
        Its name, and its host's.
    group : str
        The name of its ``[[device]]``: with ``count`` the device `phone-3` belongs to `phone`.
    down, up : Link
        Its links of the radio hop.
    down_service, up_service : CellService
        What it is entitled to.
    addresses : tuple of str
        MAC, IPv4 and IPv6 addresses of a real device behind a bridge.
    """

    name: str
    group: str
    down: Link
    up: Link
    down_service: CellService = CellService()
    up_service: CellService = CellService()
    addresses: tuple[str, ...] = ()


class BackgroundModel(Struct, frozen=True):
    """A modelled user of one direction of a cell; `rate` is the rate that it would have with all slots."""

    name: str
    rate: Rate
    traffic: BackgroundTraffic
    service: CellService = CellService()


class OpenLoop(Struct, frozen=True):
    """Open-loop power control of an uplink: P0 of a resource block, and the compensated part of the path loss."""

    p0_dbm: float
    alpha: float


CLIENT = "client"
"""The name of a path's client; of the only device of a cell without ``[[device]]`` too."""


class CellModel(Struct, frozen=True):
    """The radio hop of a path whose devices share a cell.

    Parameters
    ----------
    name : str
        The name of the radio hop; the links of a device are ``NAME.DEVICE.down`` and ``NAME.DEVICE.up``.
    down, up : CellScheduler
        Who gets the slots.
    devices : tuple of DeviceModel
        In the order of their hosts.
    down_background, up_background : tuple of BackgroundModel
        Modelled users.
    power : OpenLoop or None
        Power control of devices in a scene; ``None``: a part of a slot has the SINR of the whole.
    """

    name: str
    down: CellScheduler
    up: CellScheduler
    devices: tuple[DeviceModel, ...]
    down_background: tuple[BackgroundModel, ...] = ()
    up_background: tuple[BackgroundModel, ...] = ()
    power: OpenLoop | None = None

    @property
    def is_of_client(self) -> bool:
        """Whether the path's client is its only device, beside modelled users."""
        return self.devices[0].name == CLIENT

    def named(self, name: str) -> tuple[DeviceModel, ...]:
        """Return the device of this name, or all devices of a ``[[device]]`` with ``count``; none: there is no such."""
        return tuple(device for device in self.devices if name in (device.name, device.group))

    def hop(self, device: DeviceModel) -> PathHop:
        """Return the radio hop of a device, by the name of its links."""
        return PathHop(f"{self.name}.{device.name}", "radio", device.down, device.up)


class PathModel(Struct, frozen=True):
    """Hosts and hops in a row, server first.

    Parameters
    ----------
    hosts : tuple of PathHost
        Server, perhaps edge, client; with a `cell` its devices in the place of the client.
    hops : tuple of PathHop
        In the order from the server to the client; with a `cell` those before its radio, perhaps none.
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
    second_radio : PathHop or None
        A second radio of the client: a hop beside all those between the last two hosts.
    cell : CellModel or None
        The cell of several devices; ``None``: the client is the only one.
    """

    hosts: tuple[PathHost, ...]
    hops: tuple[PathHop, ...]
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
    second_radio: PathHop | None = None
    cell: CellModel | None = None


def chosen_device(name: str | None, path: PathModel) -> str:
    """Return the host on which a command runs: the client, or with a cell this device, by default the first.

    Raises
    ------
    Problem
        If there is no such device.
    """
    if path.cell is None:
        if name is not None:
            raise Problem("the path has no devices: add [[device]] to the scenario, or leave it out")
        return CLIENT
    devices = [device.name for device in path.cell.devices]
    if name is None:
        return devices[0]
    if name not in devices:
        raise Problem(f"{name!r} is no device: {one_of(name, devices)}")
    return name


_MOST_PLACES = 10_000
"""Of a movement; measured walks have some thousands."""


class Movement(Struct, frozen=True):
    """Places at times, straight and even between them; nothing moves before the first and after the last."""

    time_s: list[float]
    x_m: list[float]
    y_m: list[float]


class MapStation(Struct, frozen=True):
    """A base station."""

    name: str
    x_m: float
    y_m: float


class MapObstacle(Struct, frozen=True):
    """An obstacle, seen from above."""

    name: str
    kind: str
    outline_m: Annotated[list[tuple[float, float]], Meta(description="corners of a box, or the two ends of a screen")]
    movement: Annotated[Movement | None, Meta(description="displacements from the outline; null for none")]
    present_s: Annotated[list[tuple[float, float]], Meta(description="when it is there; empty: always")]


class SceneMap(Struct, frozen=True):
    """The map of the scene of one hop. Its times are on the clock of the pattern, which begins at `start_s`."""

    hop: str
    title: str
    duration_s: float
    start_s: float
    end: Annotated[Literal["repeat", "hold", "stop"], Meta(description="what follows the end of the pattern")]
    stations: list[MapStation]
    ue: Movement
    obstacles: list[MapObstacle]
    replaced: Annotated[
        bool, Meta(description="whether a live change has put another rate in the place of the scene's downlink")
    ] = False


def scene_maps(path: PathModel) -> list[dict[str, Json]]:
    """Return the map of every hop that follows a scene, as JSON data; a learned map or a study's draw has none."""
    hops = [*path.hops, *([] if path.second_radio is None else [path.second_radio])]
    hops += [] if path.cell is None else map(path.cell.hop, path.cell.devices)
    maps = [made for hop in hops if (made := _of_hop(hop, path.seed)) is not None]
    return cast("list[dict[str, Json]]", to_builtins(maps))


def _of_hop(hop: PathHop, seed: int) -> SceneMap | None:
    rate = hop.down.rate
    if not isinstance(rate, ScenePattern) or rate.mode not in ("3gpp", "reference"):
        return None
    scene = cast("SceneModel", rate.scene)
    ue = scene.ue
    if scene.devices and rate.device is not None:
        from wavebed.channel.devices import placed  # NumPy takes long to import

        ue = placed(scene, seed).device(rate.device)
    start_ns = rate.start.drawn_ns(seed) if isinstance(rate.start, DrawnStart) else rate.start
    return SceneMap(
        hop=hop.name,
        title=scene.title,
        duration_s=scene.duration_s,
        start_s=start_ns / 1e9,
        end=rate.end,
        stations=[MapStation(station.name, *station.position_m[:2]) for station in scene.base_stations],
        ue=_movement(ue.trajectory, (0.0, 0.0)),
        obstacles=[_obstacle(obstacle, scene.base_stations[0]) for obstacle in scene.obstacles],
    )


def _obstacle(obstacle: Obstacle, station: BaseStation) -> MapObstacle:
    movement = None
    if obstacle.trajectory is not None:
        movement = _movement(obstacle.trajectory, obstacle.trajectory.position_m[0][:2])
    return MapObstacle(
        obstacle.name, obstacle.kind, _outline(obstacle.shape, station), movement, list(obstacle.present_s)
    )


def _outline(shape: Box | Screen, station: BaseStation) -> list[tuple[float, float]]:
    from wavebed.scene.model import Box

    if isinstance(shape, Box):
        (left, bottom, _), (right, top, _) = shape.low_m, shape.high_m
        return [(left, bottom), (right, bottom), (right, top), (left, top)]
    x, y, _ = shape.centre_m
    if shape.heading_deg is None:  # it turns with the ray: shown as it faces the first base station
        normal = math.atan2(station.position_m[1] - y, station.position_m[0] - x)
    else:
        normal = math.radians(shape.heading_deg)
    a, b = -math.sin(normal) * shape.width_m / 2, math.cos(normal) * shape.width_m / 2
    return [(x - a, y - b), (x + a, y + b)]


def _movement(trajectory: Trajectory, origin: tuple[float, float]) -> Movement:
    step = max(1, math.ceil(len(trajectory.time_s) / _MOST_PLACES))
    places = trajectory.position_m[::step]
    return Movement(
        list(trajectory.time_s[::step]),
        [place[0] - origin[0] for place in places],
        [place[1] - origin[1] for place in places],
    )
