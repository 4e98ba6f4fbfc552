"""Line of sight: exact times at which boxes block the direct path.

Between two corners of the trajectories, a base station, a UE and a box all move straight and evenly, so that the
UE and the base station are linear in time as seen from the box. A box and a line of sight are then parted by
one of a few planes (the separating axis theorem: the sides of the box, and the planes through its edges and the ray),
and each of these conditions changes at a root of a polynomial of degree two at most. The roots are all found; between
two of them nothing changes, and one look in the middle decides.
"""

from __future__ import annotations

import math
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING

import numpy as np

from wavebed.scene.model import Box, Obstacle, SceneInterval, Trajectory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from wavebed.scene.model import Mode, SceneModel, Screen, Ue
    from wavebed.scene.tables import Vector

    Floats = NDArray[np.float64]
    Span = tuple[float, float]


_SAME_S = 1e-9
"""Spans nearer to each other than this are one; times in files are whole nanoseconds."""


def positions(trajectory: Trajectory, time_s: Floats) -> Floats:
    """Return where a track is at the given times, (n, 3) in metres."""
    places = np.asarray(trajectory.position_m, dtype=np.float64)
    return np.stack([np.interp(time_s, trajectory.time_s, places[:, axis]) for axis in range(3)], axis=-1)


def shifted(trajectory: Trajectory, start_m: Vector) -> Trajectory:
    """Return the same movement from another start."""
    x, y, z = (new - old for new, old in zip(start_m, trajectory.position_m[0], strict=True))
    return Trajectory(
        trajectory.time_s, tuple((place[0] + x, place[1] + y, place[2] + z) for place in trajectory.position_m)
    )


def displacement(trajectory: Trajectory | None, time_s: Floats) -> Floats:
    """Return how far a track has moved from its first place, (n, 3) in metres; ``None`` does not move."""
    if trajectory is None:
        return np.zeros((len(time_s), 3))
    return np.asarray(positions(trajectory, time_s) - np.asarray(trajectory.position_m[0]))


class Movements:
    """Many trajectories, whose places are computed at once; ``None`` does not move."""

    def __init__(self, trajectories: Sequence[Trajectory | None]) -> None:
        self._count = len(trajectories)
        alike: dict[tuple[float, ...], list[int]] = {}
        for row, trajectory in enumerate(trajectories):
            if trajectory is not None and len(trajectory.time_s) > 1:
                alike.setdefault(trajectory.time_s, []).append(row)
        self._groups: list[tuple[list[int], Floats, Floats, Floats]] = []
        for times, rows in alike.items():
            places = np.array([one.position_m for row in rows if (one := trajectories[row]) is not None])
            steps = np.sqrt((np.diff(places, axis=1) ** 2).sum(axis=2))
            walked = np.concatenate((np.zeros((len(rows), 1)), np.cumsum(steps, axis=1)), axis=1)
            self._groups.append((rows, np.array(times), np.ascontiguousarray(np.moveaxis(places, 2, 0)), walked))

    def displacement_m(self, time_s: Floats) -> Floats:
        """Return `displacement` of each at times that never fall, (3, trajectories, n) in metres."""
        moved = np.zeros((3, self._count, len(time_s)))
        for rows, times, places, _ in self._groups:
            moved[:, rows] = _interpolated(times, places, time_s) - places[:, :, :1]
        return moved

    def travelled_m(self, time_s: Floats) -> Floats:
        """Return how far each has gone at times that never fall, (trajectories, n) in metres."""
        gone = np.zeros((self._count, len(time_s)))
        for rows, times, _, walked in self._groups:
            gone[rows] = _interpolated(times, walked, time_s)
        return gone


def _interpolated(times: Floats, values: Floats, time_s: Floats) -> Floats:
    """Return `numpy.interp` for many functions, (..., times), by the same arithmetic; `time_s` never falls."""
    time_s = np.clip(time_s, times[0], times[-1])
    last = len(times) - 2
    leg = np.clip(np.searchsorted(times, time_s, side="right") - 1, 0, last)
    legs = slice(leg[0], leg[0] + 1) if leg[0] == leg[-1] else leg
    slope = np.diff(values) / np.diff(times)
    found = np.asarray(slope[..., legs] * (time_s - times[legs]) + values[..., legs])
    if time_s[-1] == times[-1]:
        found[..., np.searchsorted(time_s, times[-1]) :] = values[..., -1:]
    return found


def present(obstacle: Obstacle, time_s: Floats) -> NDArray[np.bool_]:
    """Return whether an obstacle is there at the given times."""
    if not obstacle.present_s:
        return np.ones(len(time_s), dtype=np.bool_)
    there = [(start <= time_s) & (time_s < end) for start, end in obstacle.present_s]
    return np.asarray(np.logical_or.reduce(there), dtype=np.bool_)


def heading_deg(ue: Ue, time_s: Floats) -> Floats:
    """Return the azimuth in which the user looks: as given, or the direction of movement in the plane.

    A UE at rest keeps the azimuth of its last movement. Before it first moves, it has the azimuth of that movement.
    Without any movement it looks along +x.
    """
    if ue.heading_deg is not None:
        return np.full(len(time_s), ue.heading_deg)
    trajectory = ue.trajectory
    step = np.diff(np.asarray(trajectory.position_m), axis=0)[:, :2]
    moving = np.flatnonzero(np.any(step != 0, axis=1))
    if not len(moving):
        return np.zeros(len(time_s))
    azimuth = np.degrees(np.arctan2(step[moving, 1], step[moving, 0]))
    leg = np.searchsorted(np.asarray(trajectory.time_s)[moving], time_s, side="right") - 1
    return np.asarray(azimuth[np.maximum(leg, 0)], dtype=np.float64)


def decisive(scene: SceneModel, mode: Mode) -> tuple[Obstacle, ...]:
    """Return the boxes that decide between LOS and NLOS: buildings, and in ``reference`` every box."""
    return tuple(
        obstacle
        for obstacle in scene.obstacles
        if isinstance(obstacle.shape, Box) and (obstacle.decides_los or mode == "reference")
    )


def intervals(scene: SceneModel, mode: Mode, station: int = 0) -> tuple[SceneInterval, ...]:
    """Return the states of the direct path from one base station, with exact edges, over the whole scene.

    Parameters
    ----------
    scene : SceneModel
        The scene; without geometry (``draws_los``) there is nothing to see, and all is ``LOS``.
    mode : {"3gpp", "reference"}
        ``3gpp``: buildings decide, in space. ``reference``: every box decides, in the plane, as in the study; where
        the scene says so, one that the UE passes closely makes an ``OUTAGE``.
    station : int
        Index of the base station.
    """
    ignore_height = mode == "reference"
    near_m = scene.reference.outage_within_m if mode == "reference" and scene.reference is not None else None
    behind: list[Span] = []
    gone: list[Span] = []
    for obstacle in decisive(scene, mode):
        spans = blocked(obstacle, scene, station, ignore_height=ignore_height)
        behind += spans
        if near_m is not None:
            gone += [span for span in spans if _passes_within(obstacle, scene.ue.trajectory, span, near_m)]
    return _states(scene.duration_s, _joined(behind), _joined(gone))


def los(scene: SceneModel, mode: Mode, time_s: Floats, station: int = 0) -> NDArray[np.bool_]:
    """Return whether the direct path is free at the given times."""
    parts = intervals(scene, mode, station)
    free = np.array([part.state == "LOS" for part in parts])
    starts = np.array([part.start_s for part in parts])
    return np.asarray(free[np.maximum(np.searchsorted(starts, time_s, side="right") - 1, 0)], dtype=np.bool_)


def blocked(obstacle: Obstacle, scene: SceneModel, station: int = 0, *, ignore_height: bool = False) -> list[Span]:
    """Return the spans of time in seconds in which a box stands in the direct path.

    Parameters
    ----------
    obstacle : Obstacle
        One whose shape is a `Box`.
    scene : SceneModel
        Where it stands.
    station : int
        Index of the base station.
    ignore_height : bool
        Look from above: a box of any height blocks.
    """
    box = obstacle.shape
    assert isinstance(box, Box), "screens attenuate; they do not decide"
    axes = 2 if ignore_height else 3
    low, high = np.array(box.low_m)[:axes], np.array(box.high_m)[:axes]
    pieces = _pieces(scene.duration_s, scene.ue.trajectory, obstacle)
    shift = _at_ends(displacement(obstacle.trajectory, pieces.ravel()))
    mast = (np.asarray(scene.base_stations[station].position_m) - shift)[..., :axes]
    phone = (_at_ends(positions(scene.ue.trajectory, pieces.ravel())) - shift)[..., :axes]
    at = _changes(mast, phone, low, high)
    middle = (at[:, 1:, None] + at[:, :-1, None]) / 2
    hit = _crosses(_between(mast, middle), _between(phone, middle), low, high) & (np.diff(at) > 0)
    time_s = pieces[:, :1] + at * (pieces[:, 1:] - pieces[:, :1])
    return _joined(list(zip(time_s[:, :-1][hit].tolist(), time_s[:, 1:][hit].tolist(), strict=True)))


def inside(obstacle: Obstacle, trajectory: Trajectory, duration_s: float) -> list[Span]:
    """Return the spans of time in seconds in which a track runs inside a box, more than its surface."""
    box = obstacle.shape
    assert isinstance(box, Box), "a screen has no inside"
    low, high = np.array(box.low_m), np.array(box.high_m)
    pieces = _pieces(duration_s, trajectory, obstacle)
    place = _at_ends(positions(trajectory, pieces.ravel()) - displacement(obstacle.trajectory, pieces.ravel()))
    entry, leave = _slabs(place[:, 0], place[:, 1], low, high)
    at = np.stack([entry, leave], axis=1)[entry < leave]
    spans = pieces[entry < leave, :1] + at * np.diff(pieces)[entry < leave]
    return _joined([(start_s, end_s) for start_s, end_s in spans.tolist()])


TOUCH_M = 0.05
"""Nearer than this to its upright axis, a screen stands on an antenna."""


def touches(obstacle: Obstacle, screen: Screen, trajectory: Trajectory, duration_s: float) -> bool:
    """Return whether a track comes within `TOUCH_M` of the axis of a screen, at its height."""
    half = TOUCH_M / math.sqrt(2)
    x, y, z = screen.centre_m
    axis = Box((x - half, y - half, z), (x + half, y + half, z + screen.height_m))
    post = Obstacle(obstacle.name, "box", axis, obstacle.trajectory, obstacle.present_s)
    return bool(inside(post, trajectory, duration_s))


def distance_m(trajectory: Trajectory, box: Box, moved: Floats, time_s: Floats, axes: int = 3) -> Floats:
    """Return how far a track is from a box that has moved by `moved`, at the given times (0 inside)."""
    place = positions(trajectory, time_s) - moved
    low, high = np.asarray(box.low_m), np.asarray(box.high_m)
    outside = np.maximum(np.maximum(low - place, place - high), 0)[:, :axes]
    return np.asarray(np.hypot.reduce(outside, axis=1), dtype=np.float64)


def _passes_within(obstacle: Obstacle, trajectory: Trajectory, span: Span, near_m: float) -> bool:
    """Return whether a trajectory comes nearer than this to a box in a span of time, seen from above.

    Between the corners of the trajectories the distance is a convex function of time, so that the neighbours of the
    least of a few values bracket the least of all.
    """
    box = obstacle.shape
    assert isinstance(box, Box), "only boxes shadow"
    for start_s, end_s in _pieces(span[1], trajectory, obstacle).tolist():
        low_s, high_s = max(start_s, span[0]), end_s
        while high_s - low_s > _SAME_S:
            time_s = np.linspace(low_s, high_s, 65)
            apart_m = distance_m(trajectory, box, displacement(obstacle.trajectory, time_s), time_s, axes=2)
            nearest = int(apart_m.argmin())
            if apart_m[nearest] < near_m:
                return True
            low_s, high_s = float(time_s[max(nearest - 1, 0)]), float(time_s[min(nearest + 1, 64)])
    return False


def spans_of(parts: Iterable[SceneInterval], state: str) -> list[Span]:
    """Return the spans of one state."""
    return [(part.start_s, part.end_s) for part in parts if part.state == state]


def _pieces(duration_s: float, trajectory: Trajectory, obstacle: Obstacle) -> Floats:
    """Return the spans in which the obstacle is there and everything moves straight and evenly, (pieces, 2)."""
    corners = {0.0, duration_s, *trajectory.time_s, *(obstacle.trajectory.time_s if obstacle.trajectory else ())}
    corners |= {time for period in obstacle.present_s for time in period}
    times = np.array(sorted(time for time in corners if time <= duration_s))
    pieces = np.stack([times[:-1], times[1:]], axis=1)
    return np.asarray(pieces[present(obstacle, pieces.mean(axis=1))])


def _at_ends(values: Floats) -> Floats:
    """Return (2·pieces, axes) as (pieces, 2, axes): what holds at the beginning and at the end of each piece."""
    return values.reshape(-1, 2, values.shape[-1])


def _between(ends: Floats, fraction: Floats) -> Floats:
    return np.asarray(ends[:, :1] + fraction * (ends[:, 1:] - ends[:, :1]))


def _changes(mast: Floats, phone: Floats, low: Floats, high: Floats) -> Floats:
    """Return when a plane may start or stop separating the line of sight from the box.

    The moments are sorted, as fractions of each piece.

    Parameters
    ----------
    mast, phone : (pieces, 2, axes) array
        The ends of the line of sight at the beginning and the end of each piece, as seen from the box.
    low, high : (axes,) array
        The box.

    Returns
    -------
    (pieces, k) array
        From 0 to 1; moments that a piece does not need are 0.
    """
    axes = len(low)
    sides = np.stack([low, high])
    steps = [(ends[:, 1] - ends[:, 0]) for ends in (mast, phone)]
    constants = [ends[:, 0, None] - sides for ends in (mast, phone)]
    slopes = [np.broadcast_to(step[:, None], constant.shape) for step, constant in zip(steps, constants, strict=True)]
    flat = (len(mast), -1)
    terms = [(np.zeros((len(mast), 2 * axes)), *(part.reshape(flat) for part in pair))
             for pair in zip(slopes, constants, strict=True)]  # fmt: skip
    for plane in combinations(range(axes), 2):
        corner = np.array(list(product(*sides[:, plane].T)))
        ray, turn = (phone[:, 0] - mast[:, 0])[:, None, plane], (steps[1] - steps[0])[:, None, plane]
        reach, drift = corner - mast[:, 0][:, None, plane], -steps[0][:, None, plane]
        # cross(ray + turn·s, reach + drift·s) = 0: the ray passes through the corner
        square = np.broadcast_to(_cross(turn, drift), (len(mast), len(corner)))
        terms.append((square, _cross(turn, reach) + _cross(ray, drift), _cross(ray, reach)))
    roots = _roots(*(np.concatenate(parts, axis=1) for parts in zip(*terms, strict=True)))
    ends = np.broadcast_to([0.0, 1.0], (len(mast), 2))
    return np.sort(np.concatenate([roots, ends], axis=1), axis=1)


def _cross(one: Floats, other: Floats) -> Floats:
    return np.asarray(one[..., 0] * other[..., 1] - one[..., 1] * other[..., 0])


def _roots(square: Floats, slope: Floats, constant: Floats) -> Floats:
    """Return the roots of ``square·s² + slope·s + constant`` in (0, 1) by the stable formula, and 0 for the others."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        discriminant = slope**2 - 4 * square * constant
        half = -(slope + np.where(slope >= 0, 1.0, -1.0) * np.sqrt(discriminant)) / 2
        found = np.concatenate([half / square, constant / half], axis=1)
        return np.where((found > 0) & (found < 1), found, 0.0)


def _slabs(start: Floats, end: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the first and the last fraction of each straight line inside a box; empty where from ≥ to."""
    step = end - start
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = (low - start) / step, (high - start) / step
    between = (start > low) & (start < high)
    entry = np.where(step == 0, np.where(between, -np.inf, np.inf), np.minimum(one, other))
    leave = np.where(step == 0, np.where(between, np.inf, -np.inf), np.maximum(one, other))
    return np.maximum(entry.max(axis=-1), 0.0), np.minimum(leave.min(axis=-1), 1.0)


def _crosses(start: Floats, end: Floats, low: Floats, high: Floats) -> NDArray[np.bool_]:
    entry, leave = _slabs(start, end, low, high)
    return np.asarray(entry < leave, dtype=np.bool_)


def _joined(spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for start_s, end_s in sorted(spans):
        if joined and start_s <= joined[-1][1] + _SAME_S:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end_s))
        else:
            joined.append((start_s, end_s))
    return [span for span in joined if span[1] - span[0] > _SAME_S]


def _states(duration_s: float, behind: list[Span], gone: list[Span]) -> tuple[SceneInterval, ...]:
    edges = sorted({0.0, duration_s, *(edge for span in (*behind, *gone) for edge in span)})
    parts: list[SceneInterval] = []
    for start_s, end_s in pairwise(edges):
        middle = (start_s + end_s) / 2
        state = "OUTAGE" if _covers(gone, middle) else "NLOS" if _covers(behind, middle) else "LOS"
        if parts and parts[-1].state == state:
            parts[-1] = parts[-1]._replace(end_s=end_s)
        else:
            parts.append(SceneInterval(state, start_s, end_s))
    return tuple(parts)


def _covers(spans: list[Span], time_s: float) -> bool:
    return any(start_s <= time_s < end_s for start_s, end_s in spans)
