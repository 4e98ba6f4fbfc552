"""Read obstacles: boxes with two corners, or screens with a middle and a width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.config.problems import Problem, at, described
from wavebed.config.table import read_table
from wavebed.scene.kinds import KINDS, transmission_loss_db
from wavebed.scene.model import Box, Obstacle, Screen
from wavebed.scene.tables import ObstacleTable
from wavebed.scene.trajectory import read_trajectory

if TYPE_CHECKING:
    from wavebed.scene.tables import Vector

__all__ = ["read_obstacles"]

MAX_OBSTACLES = 1000


def read_obstacles(tables: object, frequency_hz: float, duration_s: float) -> tuple[Obstacle, ...]:
    """Return the obstacles of a scene.

    Parameters
    ----------
    tables : object
        The value in TOML.
    frequency_hz : float
        Of the carrier: the transmission loss of glass depends on it.
    duration_s : float
        When the scene ends.

    Raises
    ------
    Problem
        If an obstacle is wrong, or two have the same name.
    """
    if not isinstance(tables, list):
        raise Problem(f"{described(tables)} is not an array of tables: write [[obstacle]] above each one")
    if len(tables) > MAX_OBSTACLES:
        raise Problem(f"there are {len(tables)}: write at most {MAX_OBSTACLES}")
    obstacles: list[Obstacle] = []
    names: set[str] = set()
    for index, table in enumerate(tables):
        obstacle = at(_called(table, index), lambda table: _obstacle(table, frequency_hz, duration_s), table)
        if obstacle.name in names:
            raise Problem("is the name of another one: write a name of its own", f"{obstacle.name}.name")
        names.add(obstacle.name)
        obstacles.append(obstacle)
    return tuple(obstacles)


def _called(table: object, index: int) -> str:
    name = table.get("name") if isinstance(table, dict) else None
    return name if isinstance(name, str) and name.isprintable() and 0 < len(name) <= 32 else str(index)


def _obstacle(given: object, frequency_hz: float, duration_s: float) -> Obstacle:
    table = read_table(ObstacleTable, given, "[[obstacle]] above each one")
    shape = _box(table) if _is_box(table) else _screen(table)
    trajectory = None
    if table.trajectory not in ((), []):
        start_m = _start(table, shape)
        trajectory = at("trajectory", lambda legs: read_trajectory(legs, start_m, duration_s), table.trajectory)
    if table.present_s and table.present_s[-1][1] > duration_s:
        raise Problem(
            f"ends at {table.present_s[-1][1]:g} s, beyond the duration of {duration_s:g} s: write an earlier time",
            "present",
        )
    loss_db = table.transmission_loss_db
    if table.kind == "building" and loss_db is not None:
        raise Problem(
            "does not belong to a building, which decides between LOS and NLOS: leave it out", "transmission-loss"
        )
    return Obstacle(
        name=table.name,
        kind=table.kind,
        shape=shape,
        trajectory=trajectory,
        present_s=table.present_s,
        transmission_loss_db=transmission_loss_db(table.kind, frequency_hz) if loss_db is None else loss_db,
    )


def _start(table: ObstacleTable, shape: Box | Screen) -> Vector:
    """Return the point that moves along the trajectory: of a box the corner that the author wrote."""
    if isinstance(shape, Screen):
        return shape.centre_m
    assert table.from_m is not None, "a box has corners"
    return (*table.from_m, shape.low_m[2])


def _is_box(table: ObstacleTable) -> bool:
    corners = [key for key, corner_m in (("from", table.from_m), ("to", table.to_m)) if corner_m is not None]
    if corners and table.at_m is not None:
        raise Problem("belongs to a screen, from and to to a box: write one or the other", "at")
    if not corners and table.at_m is None:
        raise Problem("is missing: write at = [x, y] for a screen, or from = [x, y] and to = [x, y] for a box", "at")
    if len(corners) == 1:
        raise Problem(f"is missing: add the corner opposite {corners[0]}", "to" if corners == ["from"] else "from")
    return bool(corners)


def _height(table: ObstacleTable) -> tuple[float, float]:
    height_m = table.height_m or KINDS[table.kind].height_m
    if height_m is None:
        raise Problem(f"is missing: a {table.kind} has no usual height: write metres", "height")
    return table.bottom_m, table.bottom_m + height_m


def _box(table: ObstacleTable) -> Box:
    for key, given in (("width", table.width_m), ("heading", table.heading_deg)):
        if given is not None:
            raise Problem("belongs to a screen: leave it out", key)
    low_z, high_z = _height(table)
    assert table.from_m is not None, "a box has corners"
    assert table.to_m is not None, "a box has corners"
    (x1, y1), (x2, y2) = table.from_m, table.to_m
    for axis, one, other in (("x", x1, x2), ("y", y1, y2)):
        if one == other:
            raise Problem(f"has the same {axis} as from: a box has a length and a width above 0", "to")
    return Box((min(x1, x2), min(y1, y2), low_z), (max(x1, x2), max(y1, y2), high_z))


def _screen(table: ObstacleTable) -> Screen:
    if table.kind == "building":
        raise Problem("is a screen, and a building is a box: write from and to", "at")
    width_m = table.width_m or KINDS[table.kind].width_m
    if width_m is None:
        raise Problem(f"is missing: a {table.kind} has no usual width: write metres", "width")
    low_z, high_z = _height(table)
    assert table.at_m is not None, "a screen has a middle"
    return Screen((*table.at_m, low_z), width_m, high_z - low_z, table.heading_deg)
