"""Trajectories: legs such as ``{ stay = "2s" }`` and ``{ go-to = [75, 44.8], speed = "1.5m/s" }`` become a `Track`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wavebed.config.problems import Problem, at, described
from wavebed.config.values import seconds, table
from wavebed.scene import values
from wavebed.scene.model import Trajectory
from wavebed.scene.tables import LEG_FORMS

if TYPE_CHECKING:
    from wavebed.scene.tables import Vector

__all__ = ["read_trajectory"]

MAX_LEGS = 1000
_SLACK_S = 1e-9


def read_trajectory(value: object, start_m: Vector, duration_s: float) -> Trajectory:
    """Return the movement that the legs in `value` make from `start_m` on.

    Parameters
    ----------
    value : object
        An array of legs. ``[x, y]`` in ``go-to`` keeps the height.
    start_m : Vector
        Where it is at time 0.
    duration_s : float
        When the scene ends; no leg may end later.

    Raises
    ------
    Problem
        If a leg is wrong.
    """
    if not isinstance(value, list | tuple):
        raise Problem(f"{described(value)} is not an array of legs: write [{LEG_FORMS[0][0]}, {LEG_FORMS[2][0]}]")
    if len(value) > MAX_LEGS:
        raise Problem(f"has {len(value)} legs: write at most {MAX_LEGS}")
    times, places = [0.0], [start_m]
    for index, leg in enumerate(value):
        end_s, place = at(str(index), lambda leg: _leg(leg, times[-1], places[-1]), leg)
        if end_s > duration_s + _SLACK_S:
            raise Problem(
                f"ends at {end_s:.6g} s, beyond the duration of {duration_s:g} s:"
                " shorten the trajectory, or lengthen the scene",
                str(index),
            )
        if end_s > times[-1]:
            times.append(end_s)
            places.append(place)
    return Trajectory(tuple(times), tuple(places))


def _leg(value: object, now_s: float, here_m: Vector) -> tuple[float, Vector]:
    leg = table(value, (), ("stay", "stay-until", "go-to", "speed", "until"))
    keys = set(leg)
    if keys == {"stay"}:
        return now_s + at("stay", seconds(), leg["stay"]), here_m
    if keys == {"stay-until"}:
        return _moment("stay-until", leg["stay-until"], now_s), here_m
    if keys not in ({"go-to", "speed"}, {"go-to", "until"}):
        forms = ", ".join(form for form, _ in LEG_FORMS)
        raise Problem(f"has the keys {', '.join(sorted(keys)) or 'of nothing'}: write one of {forms}")
    given = at("go-to", values.vector(2, 3), leg["go-to"])
    there = (given[0], given[1], given[2] if len(given) == 3 else here_m[2])
    if "until" in leg:
        return _moment("until", leg["until"], now_s), there
    speed_m_s = at("speed", values.speed_m_s, leg["speed"])
    if speed_m_s <= 0:
        raise Problem(f"{leg['speed']!r} never arrives: write more than 0m/s, or stay", "speed")
    if there == here_m:
        raise Problem("is where it already stands: write stay, or another place", "go-to")
    return now_s + math.dist(here_m, there) / speed_m_s, there


def _moment(key: str, value: object, now_s: float) -> float:
    moment_s = at(key, seconds(), value)
    if moment_s <= now_s:
        raise Problem(f"{value!r} is not after {now_s:.6g} s, when the leg begins: write a later time", key)
    return moment_s
