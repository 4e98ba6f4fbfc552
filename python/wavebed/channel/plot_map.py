"""The map of a scene from above, in true scale: base stations, obstacles with their movement, and the walk."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wavebed.page import charts
from wavebed.page.charts import FAINT, INK, STATE_COLOURS, polylines, rectangle, wedge
from wavebed.pattern.model import STATES
from wavebed.scene.model import Box

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from wavebed.channel.plot_data import Walk
    from wavebed.page.charts import Axes, RendererBase
    from wavebed.scene.model import BaseStation, Obstacle, SceneModel, Screen, Trajectory

    Place = tuple[float, float]
    _Mark = tuple[str, Place]
    from collections.abc import Iterator


BUILDING = "#c9d1d9"
BUILDING_EDGE = "#8b97a3"
THING = "#4d3b63"
STATION = "#1d2733"
FALLBACK = "#00704f"
OTHER = "#7b8794"
#: Obstacles widen the map by at most this fraction of the extent of the base stations and the walk.
WIDEN = 0.35
#: No side of the map is shorter than this fraction of the other.
NARROWEST = 0.16
MOST_TICKS = 9
#: A stop of less than this fraction of the time is not written at the walk.
SHORT_STOP = 0.04
#: Obstacles of fewer pixels than this get a mark, so that they are seen.
TINY = 7.0
#: The label of a UE that never moves.
STANDING = "UE"
#: The beam of a 3GPP element is 65° wide (TR 38.901 Table 7.3-1).
BEAM_DEG = 65.0


class Region(NamedTuple):
    """The region of the map, in metres."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def width(self) -> float:
        """From left to right."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """From bottom to top."""
        return self.top - self.bottom

    def holds(self, place: Place) -> bool:
        """Whether a place is on the map."""
        return self.left <= place[0] <= self.right and self.bottom <= place[1] <= self.top


def region_of(scene: SceneModel) -> Region:
    """Choose what the map shows: base stations and walk, and of the obstacles what is not far off."""
    places = [station.position_m[:2] for station in scene.base_stations]
    places += [position[:2] for ue in scene.devices or (scene.ue,) for position in ue.trajectory.position_m]
    low, high = np.min(places, axis=0), np.max(places, axis=0)
    span = max(float((high - low).max()), 0.5)
    corners = [corner for obstacle in scene.obstacles for corner in _reach(obstacle)]
    if scene.fallback is not None:
        x, y = scene.fallback.base_station.position_m[:2]
        if (
            low[0] - WIDEN * span <= x <= high[0] + WIDEN * span
            and low[1] - WIDEN * span <= y <= high[1] + WIDEN * span
        ):
            corners.append((x, y))
    if corners:
        low = np.minimum(low, np.maximum(np.min(corners, axis=0), low - WIDEN * span))
        high = np.maximum(high, np.minimum(np.max(corners, axis=0), high + WIDEN * span))
    size = high - low
    longest, (width, height) = float(size.max()), size.tolist()
    pad = np.array([0.05 * width + 0.1 * height + 1e-9, 0.07 * height + 0.02 * width + 1e-9])
    lack = np.maximum(NARROWEST * longest - size, 0) / 2
    left, bottom = (low - pad - lack).tolist()
    right, top = (high + pad + lack).tolist()
    return Region(left, bottom, right, top)


def draw_map(axes: Axes, scene: SceneModel, region: Region, walk: Walk, renderer: RendererBase) -> None:
    """Draw the map; the axes must already have their place in the figure, in the region's proportions."""
    labels = _drawn_place(axes, scene, region, renderer)
    others = [device.trajectory.position_m[0] for device in scene.devices if device.name != scene.ue.name]
    for x, y, _ in others:
        axes.plot(x, y, marker="o", ms=3.5, mfc=OTHER, mec="white", mew=0.6, zorder=4.6)
    _draw_walk(axes, walk, labels)
    _mark_base_stations(axes, scene, region, labels)
    stops, passing = _marks(scene.ue.trajectory, scene.duration_s, region)
    _mark_times(axes, stops, labels)
    for obstacle in scene.obstacles:
        _name_obstacle(obstacle, scene.base_stations[0], region, labels)
    _mark_times(axes, passing, labels)


def draw_devices(
    axes: Axes, scene: SceneModel, region: Region, walks: Mapping[str, Walk], renderer: RendererBase
) -> None:
    """Draw the map with all devices, each where it begins and along its way."""
    labels = _drawn_place(axes, scene, region, renderer)
    for walk in walks.values():
        _draw_walk(axes, walk, labels, wide=3.0)
    _mark_base_stations(axes, scene, region, labels)
    for obstacle in scene.obstacles:
        _name_obstacle(obstacle, scene.base_stations[0], region, labels)
    for name, places in _groups(scene, walks).items():
        low, high = np.min(places, axis=0), np.max(places, axis=0)
        near, far = (labels.around(float(x), float(y), 4) for x, y in (low, high))
        labels.beside(name, Patch(near.left, near.bottom, far.right, far.top), FAINT, size=7.5)


def _groups(scene: SceneModel, walks: Mapping[str, Walk]) -> dict[str, list[Place]]:
    """Return where the devices begin, by the name of the device or of the crowd that it belongs to."""
    groups: dict[str, list[Place]] = {}
    for device in (each for each in scene.devices if each.name in walks):
        name = device.name if device.spread is None else f"{device.name.rpartition('-')[0]}-\N{HORIZONTAL ELLIPSIS}"
        x, y = walks[device.name].position_m[0, :2].tolist()
        groups.setdefault(name, []).append((x, y))
    return groups


def _drawn_place(axes: Axes, scene: SceneModel, region: Region, renderer: RendererBase) -> Labels:
    """Draw what stands and moves around the devices."""
    axes.set_xlim(region.left, region.right)
    axes.set_ylim(region.bottom, region.top)
    axes.set_aspect("equal", adjustable="box")
    axes.set_xlabel("x  (m)")
    axes.set_ylabel("y  (m)")
    axes.grid(visible=True)
    axes.tick_params(length=3)
    labels = Labels(axes, renderer)
    _draw_beams(axes, scene, region)
    for obstacle in scene.obstacles:
        _draw_obstacle(axes, obstacle, scene.base_stations[0], region, labels)
    return labels


def _shifts(trajectory: Trajectory | None) -> list[Place]:
    """Displacements from the described place, one for each waypoint; repeated ones once."""
    if trajectory is None:
        return [(0.0, 0.0)]
    first = trajectory.position_m[0]
    shifts = [(place[0] - first[0], place[1] - first[1]) for place in trajectory.position_m]
    return [shift for number, shift in enumerate(shifts) if number == 0 or shift != shifts[number - 1]]


def _middle(shape: Box | Screen) -> Place:
    if isinstance(shape, Box):
        return (shape.low_m[0] + shape.high_m[0]) / 2, (shape.low_m[1] + shape.high_m[1]) / 2
    return shape.centre_m[0], shape.centre_m[1]


def _reach(obstacle: Obstacle) -> list[Place]:
    shape = obstacle.shape
    x, y = _middle(shape)
    if isinstance(shape, Box):
        half_x, half_y = x - shape.low_m[0], y - shape.low_m[1]
    else:
        half_x = half_y = shape.width_m / 2
    shifts = _shifts(obstacle.trajectory)
    return [(x + a + sign * half_x, y + b + sign * half_y) for a, b in shifts for sign in (-1, 1)]


def _screen_ends(screen: Screen, station: BaseStation, shift: Place) -> tuple[Place, Place]:
    """Two ends of a screen seen from above; one without a heading faces the base station."""
    x, y = screen.centre_m[0] + shift[0], screen.centre_m[1] + shift[1]
    if screen.heading_deg is None:
        normal = math.atan2(station.position_m[1] - y, station.position_m[0] - x)
    else:
        normal = math.radians(screen.heading_deg)
    a, b = -math.sin(normal) * screen.width_m / 2, math.cos(normal) * screen.width_m / 2
    return (x - a, y - b), (x + a, y + b)


def _clipped(start: Place, end: Place, region: Region) -> tuple[Place, Place] | None:
    """Return the part of a line that is on the map (Liang and Barsky)."""
    first, last = 0.0, 1.0
    step = (end[0] - start[0], end[1] - start[1])
    for axis, (low, high) in enumerate(((region.left, region.right), (region.bottom, region.top))):
        if step[axis] == 0:
            if not low <= start[axis] <= high:
                return None
            continue
        near, far = sorted(((low - start[axis]) / step[axis], (high - start[axis]) / step[axis]))
        first, last = max(first, near), min(last, far)
    if first >= last:
        return None
    near_end = (start[0] + first * step[0], start[1] + first * step[1])
    return near_end, (start[0] + last * step[0], start[1] + last * step[1])


def _ways(obstacle: Obstacle, region: Region) -> list[tuple[Place, Place]]:
    """Return the parts of an obstacle's movement that are on the map."""
    x, y = _middle(obstacle.shape)
    places = [(x + a, y + b) for a, b in _shifts(obstacle.trajectory)]
    ways = [_clipped(start, end, region) for start, end in pairwise(places)]
    return [way for way in ways if way is not None]


def _shown_shift(obstacle: Obstacle, region: Region) -> Place | None:
    """Return the displacement at which an obstacle is drawn: its first place, or where it comes onto the map."""
    x, y = _middle(obstacle.shape)
    ways = _ways(obstacle, region)
    if region.holds((x, y)) or (isinstance(obstacle.shape, Box) and obstacle.trajectory is None):
        return 0.0, 0.0
    if not ways:
        return None
    (start_x, start_y), (end_x, end_y) = ways[0]
    return start_x + 0.25 * (end_x - start_x) - x, start_y + 0.25 * (end_y - start_y) - y


def _draw_obstacle(axes: Axes, obstacle: Obstacle, station: BaseStation, region: Region, labels: Labels) -> None:
    for start, end in _ways(obstacle, region):
        axes.annotate(
            "", end, start, arrowprops={"arrowstyle": "-|>", "color": THING, "lw": 1.2, "shrinkA": 0, "shrinkB": 0}
        ).set_zorder(3)
        for fraction in np.linspace(0, 1, 60).tolist():
            x, y = start[0] + fraction * (end[0] - start[0]), start[1] + fraction * (end[1] - start[1])
            labels.keep_free(labels.around(x, y, 4), rather=True)
    shift = _shown_shift(obstacle, region)
    if shift is None:
        return
    shape = obstacle.shape
    if isinstance(shape, Box):
        (left, bottom, _), (right, top, _) = shape.low_m, shape.high_m
        fill, edge = (BUILDING, BUILDING_EDGE) if obstacle.decides_los else ("#b9a9cc", THING)
        corner = (left + shift[0], bottom + shift[1])
        rectangle(axes, corner, (right - left, top - bottom), fill, edge)
    else:
        ends = _screen_ends(shape, station, shift)
        axes.plot(*zip(*ends, strict=True), color=THING, lw=3.2, solid_capstyle="butt", zorder=4)
    patch = _patch(obstacle, station, shift, labels)
    labels.keep_free(patch, rather=True)
    if max(patch.right - patch.left, patch.top - patch.bottom) < TINY:
        x, y = _middle(shape)
        axes.plot(x + shift[0], y + shift[1], marker="s", ms=4.2, mfc=THING, mec="white", mew=0.7, zorder=6.2)


def _patch(obstacle: Obstacle, station: BaseStation, shift: Place, labels: Labels) -> Patch:
    shape = obstacle.shape
    if isinstance(shape, Box):
        low, high = shape.low_m, shape.high_m
        return labels.pixels(low[0] + shift[0], low[1] + shift[1], high[0] + shift[0], high[1] + shift[1])
    ends = _screen_ends(shape, station, shift)
    xs, ys = sorted(end[0] for end in ends), sorted(end[1] for end in ends)
    return labels.pixels(xs[0], ys[0], xs[1], ys[1])


def _name_obstacle(obstacle: Obstacle, station: BaseStation, region: Region, labels: Labels) -> None:
    shift = _shown_shift(obstacle, region)
    if shift is None:
        return
    patch = _patch(obstacle, station, shift, labels)
    shown = labels.pixels(*region)
    patch = Patch(
        max(patch.left, shown.left),
        max(patch.bottom, shown.bottom),
        min(patch.right, shown.right),
        min(patch.top, shown.top),
    )
    if patch.left >= patch.right and patch.bottom >= patch.top:
        return
    name = obstacle.name
    if 0 < len(obstacle.present_s) <= 3:
        name += " (" + ", ".join(f"{start:g}\N{EN DASH}{end:g}" for start, end in obstacle.present_s) + " s)"
    if isinstance(obstacle.shape, Box) and labels.inside(name, patch, INK):
        return
    labels.beside(name, patch, INK if obstacle.decides_los else THING)


def _draw_beams(axes: Axes, scene: SceneModel, region: Region) -> None:
    """Draw where panels with a fixed direction look."""
    radius = 0.22 * max(region.width, region.height)
    for station in scene.base_stations:
        azimuth = station.array.azimuth_deg
        if azimuth is None:
            continue
        x, y, _ = station.position_m
        wedge(axes, (x, y), radius, (azimuth - BEAM_DEG / 2, azimuth + BEAM_DEG / 2), STATION)
        tip = (x + radius * math.cos(math.radians(azimuth)), y + radius * math.sin(math.radians(azimuth)))
        arrow = {"arrowstyle": "->", "color": FAINT, "lw": 0.9, "ls": (0, (4, 2)), "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", tip, (x, y), arrowprops=arrow).set_zorder(2.5)


def _edge(middle: Place, place: Place, region: Region) -> Place:
    """Return where the line from the middle of the map to a place beyond it comes near the edge."""
    fraction = min(
        0.47 * size / abs(far)
        for size, far in zip((region.width, region.height), (place[0] - middle[0], place[1] - middle[1]), strict=True)
        if far
    )
    return middle[0] + fraction * (place[0] - middle[0]), middle[1] + fraction * (place[1] - middle[1])


def _mark_base_stations(axes: Axes, scene: SceneModel, region: Region, labels: Labels) -> None:
    named: dict[Place, list[str]] = {}
    for station in scene.base_stations:
        named.setdefault(station.position_m[:2], []).append(station.name)
    if scene.fallback is not None:
        station = scene.fallback.base_station
        place = station.position_m[:2]
        text = "fallback" if place in named else f"{station.name} (fallback)"
        if not region.holds(place):
            middle = ((region.left + region.right) / 2, (region.bottom + region.top) / 2)
            text = f"{station.name} (fallback), {math.dist(place, scene.base_stations[0].position_m[:2]):.0f} m away"
            place = _edge(middle, place, region)
        named.setdefault(place, []).append(text)
    own = {station.position_m[:2] for station in scene.base_stations}
    for place in named:
        colour = STATION if place in own else FALLBACK
        axes.plot(*place, marker="^", ms=11, mfc=colour, mec="white", mew=1.2, zorder=7, clip_on=False)
        labels.keep_free(labels.around(*place, 15))
    for place, names in named.items():
        colour = STATION if place in own else FALLBACK
        labels.beside(" + ".join(dict.fromkeys(names)), labels.around(*place, 11), colour, size=9, weight="bold")


def _draw_walk(axes: Axes, walk: Walk, labels: Labels, wide: float = 5.0) -> None:
    """Draw the walk in the colours of the states, outages on top."""
    xy = walk.position_m[:, :2]
    if len(xy) > 1 and bool((xy != xy[0]).any()):
        segments = np.stack((xy[:-1], xy[1:]), axis=1)
        polylines(axes, [xy], "white", 1.5 * wide, cap="round", order=4.8)
        for code, state in enumerate(STATES):
            mine = walk.state[:-1] == code
            if mine.any():
                lines = _joined(segments, mine)
                polylines(axes, lines, STATE_COLOURS[state], wide, cap="butt", order=5 + code / 10)
    else:
        axes.plot(
            *xy[0], marker="o", ms=2 * wide, mfc=STATE_COLOURS[STATES[walk.state[0]]], mec="white", mew=1.2, zorder=6
        )
    for x, y in xy[:: max(1, len(xy) // 300)]:
        labels.keep_free(labels.around(float(x), float(y), 5))


def _joined(segments: NDArray[np.float64], mine: NDArray[np.bool_]) -> list[NDArray[np.float64]]:
    """Join neighbouring segments into lines."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mine.astype(np.int8), [0]))))
    return [
        np.concatenate((segments[start:end, 0], segments[end - 1 : end, 1]))
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    ]


def _stops(trajectory: Trajectory, duration_s: float) -> list[tuple[float, float, Place]]:
    """When and where the UE stands: from, to, place."""
    stops: list[tuple[float, float, Place]] = []
    times = [*trajectory.time_s, max(duration_s, trajectory.time_s[-1])]
    places = [*trajectory.position_m, trajectory.position_m[-1]]
    for start, end, here, there in zip(times[:-1], times[1:], places[:-1], places[1:], strict=True):
        if here == there and end > start:
            joined = bool(stops) and stops[-1][1] == start
            stops[-1:] = [(stops[-1][0], end, here[:2])] if joined else [*stops[-1:], (start, end, here[:2])]
    return stops


_NICE_S = tuple(nice * 10.0**power for power in range(-3, 5) for nice in (1, 2, 5))


def _short(time_s: float) -> str:
    return f"{round(time_s, 2):g}"


def _marks(trajectory: Trajectory, duration_s: float, region: Region) -> tuple[list[_Mark], list[_Mark]]:
    """Return texts and places that say when the UE is where: stops, and whole times on the way."""
    if len(set(trajectory.position_m)) == 1:
        return [(STANDING, trajectory.position_m[0][:2])], []
    stops = [stop for stop in _stops(trajectory, duration_s) if stop[1] - stop[0] >= SHORT_STOP * duration_s]
    step = next((nice for nice in _NICE_S if duration_s / nice <= MOST_TICKS), duration_s)
    axes = [np.array([place[axis] for place in trajectory.position_m]) for axis in (0, 1)]
    near = 0.03 * max(region.width, region.height)
    passing: list[_Mark] = []
    for number in range(int(duration_s / step) + 1):
        time = number * step
        x, y = (float(np.interp(time, trajectory.time_s, values)) for values in axes)
        if all(math.dist((x, y), place) > near for _, _, place in stops):
            passing.append((f"{time:g} s", (x, y)))
    return [(f"{_short(start)}\N{EN DASH}{_short(end)} s", place) for start, end, place in stops], passing


def _mark_times(axes: Axes, marks: list[_Mark], labels: Labels) -> None:
    for text, place in marks:
        if text != STANDING:
            axes.plot(*place, marker="o", ms=3.6, mfc="white", mec=INK, mew=0.9, zorder=6.5)
        labels.beside(text, labels.around(*place, 5), FAINT, size=8)


#: The four sides, then the corners, then between them; right and above read best.
_DIRECTIONS = (
    (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1),
    (1, 0.5), (-1, 0.5), (1, -0.5), (-1, -0.5), (0.5, 1), (-0.5, 1), (0.5, -1), (-0.5, -1),
)  # fmt: skip
_GAP = 5.0
_RINGS = 12
#: A label this many of its heights away from its thing gets a line to it.
_LEADER = 1.2


class Patch(NamedTuple):
    """A rectangle on the canvas, in pixels."""

    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: Patch) -> bool:
        """Whether the two have a common point."""
        return (
            self.left < other.right and other.left < self.right and self.bottom < other.top and other.bottom < self.top
        )

    def holds(self, other: Patch) -> bool:
        """Whether the other lies within."""
        return (
            self.left <= other.left
            and self.bottom <= other.bottom
            and self.right >= other.right
            and self.top >= other.top
        )


@dataclass
class _Style:
    colour: str
    size: float
    weight: str


class Labels:
    """Finds a free place for one label after the other.

    Parameters
    ----------
    axes : Axes
        The map; its limits and its place must be final.
    """

    def __init__(self, axes: Axes, renderer: RendererBase) -> None:
        self._axes = axes
        self._renderer = renderer
        box = axes.get_window_extent()
        self._room = Patch(box.x0 + 2, box.y0 + 2, box.x1 - 2, box.y1 - 2)
        self._hard: list[Patch] = []
        self._soft: list[Patch] = []

    def pixels(self, left_m: float, bottom_m: float, right_m: float, top_m: float) -> Patch:
        """Return where a rectangle in metres lies on the canvas."""
        (left, bottom), (right, top) = self._axes.transData.transform([(left_m, bottom_m), (right_m, top_m)])
        return Patch(float(left), float(bottom), float(right), float(top))

    def around(self, x_m: float, y_m: float, radius: float) -> Patch:
        """Return the square of this many pixels around a place in metres."""
        x, y, _, _ = self.pixels(x_m, y_m, x_m, y_m)
        return Patch(x - radius, y - radius, x + radius, y + radius)

    def keep_free(self, patch: Patch, *, rather: bool = False) -> None:
        """Keep labels off a rectangle, or rather off it where there is another place."""
        (self._soft if rather else self._hard).append(patch)

    def inside(self, text: str, patch: Patch, colour: str, size: float = 8.5) -> bool:
        """Write within a rectangle, upright if need be; tell whether there was room."""
        for rotation in (0, 90):
            width, height = self._measure(text, _Style(colour, size, "normal"), rotation)
            x, y = (patch.left + patch.right) / 2, (patch.bottom + patch.top) / 2
            place = Patch(x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            roomy = Patch(place.left - 4, place.bottom - 3, place.right + 4, place.top + 3)
            if patch.holds(roomy) and self._room.holds(place) and not any(place.meets(other) for other in self._hard):
                self._write(text, place, _Style(colour, size, "normal"), rotation, halo=False)
                return True
        return False

    def beside(self, text: str, patch: Patch, colour: str, *, size: float = 8.5, weight: str = "normal") -> bool:
        """Write next to a rectangle, with a line to it if the place is not near; tell whether there was room."""
        style = _Style(colour, size, weight)
        width, height = self._measure(text, style, 0)
        for busy in ([*self._hard, *self._soft], self._hard):
            for place, far in _places(patch, width, height):
                if self._room.holds(place) and not any(place.meets(other) for other in busy):
                    if far > _LEADER * height:
                        self._lead(place, patch, colour)
                    self._write(text, place, style, 0, halo=True)
                    return True
        return False

    def _measure(self, text: str, style: _Style, rotation: int) -> tuple[float, float]:
        probe = self._axes.text(0, 0, text, fontsize=style.size, fontweight=style.weight, rotation=rotation)
        box = probe.get_window_extent(self._renderer)
        probe.remove()
        return float(box.width), float(box.height)

    def _metres(self, x: float, y: float) -> tuple[float, float]:
        x_m, y_m = self._axes.transData.inverted().transform((x, y))
        return float(x_m), float(y_m)

    def _write(self, text: str, place: Patch, style: _Style, rotation: int, *, halo: bool) -> None:
        self._hard.append(place)
        x_m, y_m = self._metres((place.left + place.right) / 2, (place.bottom + place.top) / 2)
        self._axes.text(
            x_m,
            y_m,
            text,
            color=style.colour,
            fontsize=style.size,
            fontweight=style.weight,
            rotation=rotation,
            ha="center",
            va="center",
            zorder=9,
            path_effects=charts.halo(2.4, "white") if halo else [],
        )

    def _lead(self, place: Patch, patch: Patch, colour: str) -> None:
        def nearest(of: Patch, to: Patch) -> tuple[float, float]:
            x, y = (to.left + to.right) / 2, (to.bottom + to.top) / 2
            return min(max(x, of.left), of.right), min(max(y, of.bottom), of.top)

        ends = [self._metres(*nearest(place, patch)), self._metres(*nearest(patch, place))]
        self._axes.plot(*zip(*ends, strict=True), color=colour, lw=0.6, alpha=0.7, zorder=8)


def _places(patch: Patch, width: float, height: float) -> Iterator[tuple[Patch, float]]:
    """Yield places around a rectangle, nearer ones first, and how far away they are."""
    middle_x, middle_y = (patch.left + patch.right) / 2, (patch.bottom + patch.top) / 2
    for ring in range(_RINGS):
        far = _GAP + ring * height * 0.8
        for right, up in _DIRECTIONS:
            x = middle_x + right * ((patch.right - patch.left) / 2 + far + width / 2)
            y = middle_y + up * ((patch.top - patch.bottom) / 2 + far + height / 2)
            yield Patch(x - width / 2, y - height / 2, x + width / 2, y + height / 2), far
