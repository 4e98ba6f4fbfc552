"""Checks of a scene that concern several keys."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from wavebed.config.problems import Problem
from wavebed.scene.geometry import inside
from wavebed.scene.model import Box, Screen, Trajectory
from wavebed.scene.values import LoadProcess

if TYPE_CHECKING:
    from wavebed.scene.model import BaseStation, Obstacle, Scene

__all__ = ["check"]

_TOUCH_M = 0.05
"""Nearer than this to its upright axis, a screen stands on an antenna."""


def check(scene: Scene) -> None:
    """Refuse a scene that cannot be.

    Raises
    ------
    Problem
        If something is underground, stands inside something else, or never comes to be.
    """
    _check_ground(scene)
    if scene.draws_los and any(obstacle.decides_los for obstacle in scene.obstacles):
        raise Problem(
            "drawn and buildings exclude each other: write geometry, or leave the buildings out", "line-of-sight"
        )
    steps = () if isinstance(scene.cell_load, LoadProcess) else scene.cell_load
    if steps and steps[-1].time_s > scene.duration_s:
        raise Problem(
            f"begins at {steps[-1].time_s:g} s, beyond the duration of {scene.duration_s:g} s: leave it out",
            "cell-load",
        )
    _check_entry(scene)
    places = [(f"base station {station.name!r}", station) for station in scene.base_stations]
    if scene.fallback is not None:
        places.append((f"fallback base station {scene.fallback.base_station.name!r}", scene.fallback.base_station))
    for obstacle in scene.obstacles:
        for called, station in places:
            _check_station(obstacle, called, station, scene)
        _check_trajectory(obstacle, scene)


def _check_ground(scene: Scene) -> None:
    for index, place in enumerate(scene.ue.trajectory.position_m):
        if place[2] < 0:
            when = "start" if index == 0 else "trajectory"
            raise Problem(
                f"the UE is underground at {scene.ue.trajectory.time_s[index]:g} s (z = {place[2]:g} m):"
                " write a height from 0 up",
                f"ue.{when}",
            )
    base_stations = [(f"base-station.{index}.at", station) for index, station in enumerate(scene.base_stations)]
    if scene.fallback is not None:
        base_stations.append(("fallback.base-station.at", scene.fallback.base_station))
    for key, station in base_stations:
        if station.position_m[2] < 0:
            raise Problem(f"is underground (z = {station.position_m[2]:g} m): write a height from 0 up", key)
        if _least_distance_m(scene.ue.trajectory, station) < _TOUCH_M:
            raise Problem(f"the UE's trajectory meets it within {_TOUCH_M} m: move one of them", key)


def _check_entry(scene: Scene) -> None:
    """Refuse walls around a UE where the standard has none."""
    scenarios = {scene.propagation} | ({scene.fallback.propagation} if scene.fallback is not None else set())
    for key, around in (("ue.indoor", scene.ue.indoor), ("ue.in-car", scene.ue.in_car)):
        if around is not None and scenarios <= {"inh", "inh-open"}:
            raise Problem("the base stations of an office are inside with the UE: leave it out", key)
    if scene.ue.indoor is not None and scene.ue.indoor.wall == "high-loss" and "rma" in scenarios:
        raise Problem(
            "high-loss is not for rural cells (TR 38.901 7.4.3.1): write low-loss, or another propagation",
            "ue.indoor.wall",
        )


def _least_distance_m(trajectory: Trajectory, station: BaseStation) -> float:
    places = np.asarray(trajectory.position_m) - np.asarray(station.position_m)
    start, step = places, np.diff(places, axis=0, append=places[-1:])
    length = np.maximum((step**2).sum(axis=1), 1e-300)
    nearest = np.clip(-(start * step).sum(axis=1) / length, 0.0, 1.0)
    return float(np.linalg.norm(start + nearest[:, None] * step, axis=1).min())


def _check_station(obstacle: Obstacle, called: str, station: BaseStation, scene: Scene) -> None:
    if isinstance(obstacle.shape, Box):
        still = Trajectory((0.0,), (station.position_m,))
        spans = inside(obstacle, still, scene.duration_s)
        if spans:
            raise Problem(
                f"stands on top of {called}{_when(spans[0][0])}: move one of them, or make the box lower",
                f"obstacle.{obstacle.name}",
            )
    elif _touches(obstacle, obstacle.shape, Trajectory((0.0,), (station.position_m,)), scene.duration_s):
        raise Problem(f"stands on top of {called}: move one of them", f"obstacle.{obstacle.name}")


def _check_trajectory(obstacle: Obstacle, scene: Scene) -> None:
    trajectory = scene.ue.trajectory
    if isinstance(obstacle.shape, Box):
        spans = inside(obstacle, trajectory, scene.duration_s)
        if spans:
            raise Problem(
                f"the UE is inside it{_when(spans[0][0])}: lead the trajectory around it, or move the obstacle",
                f"obstacle.{obstacle.name}",
            )
    elif _touches(obstacle, obstacle.shape, trajectory, scene.duration_s):
        raise Problem("stands on top of the UE: move one of them", f"obstacle.{obstacle.name}")


def _when(time_s: float) -> str:
    return f" at {time_s:.3f} s" if time_s > 0 else ""


def _touches(obstacle: Obstacle, screen: Screen, trajectory: Trajectory, duration_s: float) -> bool:
    """Return whether a track comes within `_TOUCH_M` of the axis of a screen, at its height."""
    half = _TOUCH_M / math.sqrt(2)
    x, y, z = screen.centre_m
    axis = Box((x - half, y - half, z), (x + half, y + half, z + screen.height_m))
    post = type(obstacle)(obstacle.name, "box", axis, obstacle.trajectory, obstacle.present_s)
    return bool(inside(post, trajectory, duration_s))
