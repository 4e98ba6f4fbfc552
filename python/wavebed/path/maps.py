"""The maps of a laboratory: where base stations, obstacles and the UE of its scenes are, at each time of its pattern.

They go into the laboratory file, which keeps them for displays; the engine uses nothing of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal, cast

from msgspec import Meta, Struct, to_builtins

from wavebed.path.model import DrawnStart, ScenePattern

if TYPE_CHECKING:
    from wavebed.config.data import Json
    from wavebed.path.model import Hop, PathModel
    from wavebed.scene.model import BaseStation, Box, Obstacle, Scene, Screen, Trajectory

__all__ = ["MapObstacle", "MapStation", "Movement", "SceneMap", "scene_maps"]

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
    """The map of the scene of one hop. Its times are those of the pattern, which begins at `start_s`."""

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
    maps = [made for hop in hops if (made := _of_hop(hop, path.seed)) is not None]
    return cast("list[dict[str, Json]]", to_builtins(maps))


def _of_hop(hop: Hop, seed: int) -> SceneMap | None:
    rate = hop.down.rate
    if not isinstance(rate, ScenePattern) or rate.mode not in ("3gpp", "reference"):
        return None
    scene = cast("Scene", rate.scene)
    start_ns = rate.start.drawn_ns(seed) if isinstance(rate.start, DrawnStart) else rate.start
    return SceneMap(
        hop=hop.name,
        title=scene.title,
        duration_s=scene.duration_s,
        start_s=start_ns / 1e9,
        end=rate.end,
        stations=[MapStation(station.name, *station.position_m[:2]) for station in scene.base_stations],
        ue=_movement(scene.ue.trajectory, (0.0, 0.0)),
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
