"""Read obstacles: boxes with two corners, or screens with a middle and a width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wavebed.config.problems import Problem, at, described
from wavebed.scene.kinds import KINDS, transmission_loss_db
from wavebed.scene.model import Box, Obstacle, Screen
from wavebed.scene.schema import OBSTACLE_KEYS, fields
from wavebed.scene.way import read_way

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["read_obstacles"]

MAX_OBSTACLES = 1000


def read_obstacles(tables: object, frequency_hz: float, duration_s: float) -> tuple[Obstacle, ...]:
    """Return the obstacles of a scene.

    Parameters
    ----------
    tables : object
        What TOML gave.
    frequency_hz : float
        Of the carrier: what goes through glass depends on it.
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


def _obstacle(table: object, frequency_hz: float, duration_s: float) -> Obstacle:
    found = fields(table, OBSTACLE_KEYS, "[[obstacle]] above each one")
    kind = found["kind"]
    shape = _box(found) if _is_box(found) else _screen(found)
    start = shape.low_m if isinstance(shape, Box) else shape.centre_m
    if isinstance(shape, Box):  # the corner that the author wrote moves along the way
        start = (*found["from"], shape.low_m[2])
    track = at("way", lambda legs: read_way(legs, start, duration_s), found["way"]) if found["way"] != [] else None
    present_s = found["present_s"] or ()
    if present_s and present_s[-1][1] > duration_s:
        raise Problem(
            f"ends at {present_s[-1][1]:g} s, beyond the duration of {duration_s:g} s: write an earlier time",
            "present",
        )
    loss_db = found["transmission_loss_db"]
    if kind == "building" and loss_db is not None:
        raise Problem(
            "does not belong to a building, which decides between LOS and NLOS: leave it out", "transmission-loss"
        )
    return Obstacle(
        name=found["name"],
        kind=kind,
        shape=shape,
        track=track,
        present_s=present_s,
        transmission_loss_db=transmission_loss_db(kind, frequency_hz) if loss_db is None else loss_db,
    )


def _is_box(found: Mapping[str, Any]) -> bool:
    corners = [key for key in ("from", "to") if found[key] is not None]
    if corners and found["at"] is not None:
        raise Problem("belongs to a screen, from and to to a box: write one or the other", "at")
    if not corners and found["at"] is None:
        raise Problem("is missing: write at = [x, y] for a screen, or from = [x, y] and to = [x, y] for a box", "at")
    if len(corners) == 1:
        raise Problem(f"is missing: add the corner opposite {corners[0]}", "to" if corners == ["from"] else "from")
    return bool(corners)


def _height(found: Mapping[str, Any]) -> tuple[float, float]:
    height_m = found["height"] or KINDS[found["kind"]].height_m
    if height_m is None:
        raise Problem(f"is missing: a {found['kind']} has no usual height: write metres", "height")
    return found["bottom"], found["bottom"] + height_m


def _box(found: Mapping[str, Any]) -> Box:
    for key in ("width", "heading_deg"):
        if found[key] is not None:
            raise Problem("belongs to a screen: leave it out", key.removesuffix("_deg"))
    low_z, high_z = _height(found)
    (x1, y1), (x2, y2) = found["from"], found["to"]
    for axis, one, other in (("x", x1, x2), ("y", y1, y2)):
        if one == other:
            raise Problem(f"has the same {axis} as from: a box has a length and a width above 0", "to")
    return Box((min(x1, x2), min(y1, y2), low_z), (max(x1, x2), max(y1, y2), high_z))


def _screen(found: Mapping[str, Any]) -> Screen:
    kind = found["kind"]
    if kind == "building":
        raise Problem("is a screen, and a building is a box: write from and to", "at")
    width_m = found["width"] or KINDS[kind].width_m
    if width_m is None:
        raise Problem(f"is missing: a {kind} has no usual width: write metres", "width")
    low_z, high_z = _height(found)
    return Screen((*found["at"], low_z), width_m, high_z - low_z, found["heading_deg"])
