"""Blockage by described obstacles: screens at which the signal is diffracted (TR 38.901 7.6.4.2, model B).

A screen blocks the fraction a = (F_h1 + F_h2)·(F_w1 + F_w2) of the field. The diffracted part is 1 - a, the transmitted
part t·a, with t its transmission factor. Their phase is not known, so their powers add. A screen never loses more than
its transmission loss. An opaque one (t = 0) loses the -20·lg(1 - a) of equation 7.6-29.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from wavebed.channel.propagation.pathloss import LIGHT_M_PER_S
from wavebed.scene.geometry import Movements, displacement, present
from wavebed.scene.model import Box

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.scene.model import Obstacle, Screen
    from wavebed.scene.tables import Vector

    Floats: TypeAlias = NDArray[np.float64]


NEGLIGIBLE_DB = 0.1
"""A screen that cannot lose as much as this within a stretch of time is not computed there."""
BLOCK = 64
"""Steps of such a stretch."""
FINE_M = 0.025
"""A twelfth of the 0.3 m that a person is wide: over less, the loss of one changes evenly."""
PAIRS = 1 << 14
"""Pairs of a body and a time that are computed at once, so that they stay in the processor's cache."""
FAINTEST = 1e-20
"""Least power factor of a screen, so that its logarithm exists: 200 dB."""


@dataclass(frozen=True, slots=True)
class _Rays:
    """The direct ray at each step, seen from the transmitter.

    Parameters
    ----------
    start_m : Vector
        The transmitter.
    forward_x, forward_y : (n,) float64
        Unit vector towards the receiver, in the plane.
    plane_m, rise_m, length_m : (n,) float64
        Distance in the plane, height of the receiver above the transmitter, distance in space.
    """

    start_m: Vector
    forward_x: Floats
    forward_y: Floats
    plane_m: Floats
    rise_m: Floats
    length_m: Floats

    @classmethod
    def between(cls, tx_m: Vector, rx_m: Floats) -> _Rays:
        """Return the rays from a place to places of shape (n, 3)."""
        across, along, rise = (rx_m[:, axis] - tx_m[axis] for axis in range(3))
        plane = np.maximum(np.hypot(across, along), 1e-6)
        return cls(tx_m, across / plane, along / plane, plane, rise, np.hypot(plane, rise))

    def at(self, steps: NDArray[np.intp] | slice) -> _Rays:
        """Return the rays at some steps."""
        return _Rays(
            self.start_m,
            self.forward_x[steps],
            self.forward_y[steps],
            self.plane_m[steps],
            self.rise_m[steps],
            self.length_m[steps],
        )


def knife_edge_db(
    tx_m: Vector,
    rx_m: NDArray[np.float64],
    centre_m: NDArray[np.float64],
    width_m: NDArray[np.float64] | float,
    height_m: float,
    wavelength_m: float,
    heading_deg: float | None = None,
) -> NDArray[np.float64]:
    """Return the loss of one opaque upright screen at each step, in dB (TR 38.901 equations 7.6-29 and 7.6-30).

    Parameters
    ----------
    tx_m : Vector
        The fixed end.
    rx_m : (n, 3) float64
        The moving end.
    centre_m : (3,) or (n, 3) float64
        Middle of the screen's lower edge.
    width_m, height_m : float or (n,) float64, float
        Its size.
    wavelength_m : float
        Wavelength of the carrier.
    heading_deg : float or None
        Azimuth of the screen's normal; ``None``: it faces the ray.
    """
    fraction = _blocked_fraction(_Rays.between(tx_m, rx_m), centre_m, width_m, height_m, wavelength_m, heading_deg)
    return np.asarray(-10 * np.log10(_power(fraction, math.inf)))


def blockage_db(
    tx_m: Vector,
    rx_m: NDArray[np.float64],
    time_s: NDArray[np.float64],
    obstacles: Sequence[Obstacle],
    frequency_hz: float,
    bodies: Sequence[Obstacle] = (),
) -> NDArray[np.float64]:
    """Return the loss by all obstacles at each step, in dB: the sum of their losses (TR 38.901 7.6.4.2).

    Buildings are left out: they decide between LOS and NLOS. A box is a screen through its middle that faces the ray,
    as wide as its silhouette and as high as itself.

    Parameters
    ----------
    tx_m : Vector
        The fixed end.
    rx_m : (n, 3) float64
        The moving end.
    time_s : (n,) float64
        Time of each step; it never falls.
    obstacles : sequence of Obstacle
        What may stand in the way.
    frequency_hz : float
        Carrier frequency.
    bodies : sequence of Obstacle
        Opaque screens that face the ray and are always there: many, and most matter nowhere.
    """
    wavelength = LIGHT_M_PER_S / frequency_hz
    rays = _Rays.between(tx_m, rx_m)
    stretches = _Stretches.of(rx_m, time_s)
    passed = np.ones(time_s.size)
    if bodies:
        passed *= _past_bodies(tx_m, rx_m, time_s, stretches, bodies, wavelength)
    for obstacle in obstacles:
        if obstacle.decides_los:
            continue
        near = stretches.near(tx_m, obstacle, wavelength)
        if not near.any():
            continue
        steps = np.flatnonzero(present(obstacle, time_s) & np.repeat(near, BLOCK)[: time_s.size])
        if steps.size == 0:
            continue
        some = rays.at(steps)
        centre = _centre(obstacle, time_s[steps])
        width, height, heading = _outline(obstacle, some)
        fraction = _blocked_fraction(some, centre, width, height, wavelength, heading)
        passed[steps] *= _power(fraction, obstacle.transmission_loss_db)
    return np.asarray(-10 * np.log10(passed))


def _past_bodies(
    tx_m: Vector, rx_m: Floats, time_s: Floats, stretches: _Stretches, bodies: Sequence[Obstacle], wavelength_m: float
) -> Floats | float:
    """Return the fraction of the power that passes screens, all at once.

    It is computed at times between which nothing moves further than `FINE_M`, and its logarithm is straight between
    them. What stands still before a receiver at rest is computed once.
    """
    fixed = 1.0
    if not stretches.travel_m.any():
        fixed = _past_still(tx_m, rx_m, [body for body in bodies if body.trajectory is None], wavelength_m)
        bodies = [body for body in bodies if body.trajectory is not None]
    if not bodies:
        return fixed
    screens = _Screens(bodies)
    near, stride = stretches.near_many(tx_m, screens, wavelength_m)
    grid = np.unique(np.append(np.arange(0, time_s.size, stride), time_s.size - 1))
    blocks = np.stack((grid // BLOCK, np.maximum(grid - 1, 0) // BLOCK))
    rays = _Rays.between(tx_m, rx_m[grid])
    loss = np.zeros(grid.size)
    size = max(1, PAIRS // len(bodies))
    for start in range(0, grid.size, size):
        part = slice(start, start + size)
        close = near[:, blocks[0, part]] | near[:, blocks[1, part]]
        if close.any():
            loss[part] = _lost_at(rays.at(part), time_s[grid[part]], screens, close, wavelength_m)
    return np.asarray(fixed * 10 ** np.interp(np.arange(time_s.size), grid, loss))


def _lost_at(rays: _Rays, time_s: Floats, screens: _Screens, close: NDArray[np.bool_], wavelength_m: float) -> Floats:
    """Return the logarithm of the power that passes screens at each time, (n,), where they are close, (screens, n)."""
    x, y, z = screens.centre_m(time_s)
    across, along = x - rays.start_m[0], y - rays.start_m[1]
    ahead = across * rays.forward_x + along * rays.forward_y
    close = close & _between_ends(rays, ahead)
    which, at = np.nonzero(close)
    rays = rays.at(at)
    aside = along[close] * rays.forward_x - across[close] * rays.forward_y
    bottom = z[close] - rays.start_m[2]
    ahead, half = ahead[close], 0.5 * screens.width_m[which]
    edges = (aside + half, ahead), (aside - half, ahead)
    fraction = _fraction(rays, *edges, ahead, bottom, screens.height_m[which], wavelength_m)
    lost = np.log10(_power(fraction, math.inf))
    return np.bincount(at, weights=lost, minlength=time_s.size).astype(np.float64, copy=False)


def _past_still(tx_m: Vector, rx_m: Floats, bodies: Sequence[Obstacle], wavelength_m: float) -> float:
    """Return the fraction of the power of the first ray that passes screens that stand still."""
    if not bodies:
        return 1.0
    screens = _Screens(bodies)
    rays = _Rays.between(tx_m, rx_m[:1])
    size = screens.width_m, screens.height_m
    return float(_power(_blocked_fraction(rays, screens.place_m.T, *size, wavelength_m, None), math.inf).prod())


def _blocked_fraction(
    rays: _Rays,
    centre_m: Floats,
    width_m: Floats | float,
    height_m: Floats | float,
    wavelength_m: float,
    heading_deg: float | None,
) -> Floats:
    """Return the fraction a of the field that a screen blocks; 0 where it is not between the two ends.

    The detour around a vertical edge follows the shortest path over it between the two heights. For a level ray the
    detour is the same as in the top view.
    """
    start_x, start_y, start_z = rays.start_m
    across, along = centre_m[..., 0] - start_x, centre_m[..., 1] - start_y
    ahead = across * rays.forward_x + along * rays.forward_y
    aside = along * rays.forward_x - across * rays.forward_y
    left, left_ahead, right, right_ahead = aside + 0.5 * width_m, ahead, aside - 0.5 * width_m, ahead
    if heading_deg is not None:
        normal = math.radians(heading_deg)
        facing = rays.forward_x * math.cos(normal) + rays.forward_y * math.sin(normal)
        turned = rays.forward_x * math.sin(normal) - rays.forward_y * math.cos(normal)
        half, shift = 0.5 * width_m * np.abs(facing), -0.5 * width_m * turned * np.sign(facing)
        left, left_ahead, right, right_ahead = aside + half, ahead + shift, aside - half, ahead - shift
    bottom = centre_m[..., 2] - start_z
    fraction = _fraction(rays, (left, left_ahead), (right, right_ahead), ahead, bottom, height_m, wavelength_m)
    return np.where(_between_ends(rays, ahead), fraction, 0.0)


def _between_ends(rays: _Rays, ahead_m: Floats) -> NDArray[np.bool_]:
    """Return whether the middle of a screen is between the two ends of the ray: elsewhere it blocks nothing."""
    return np.asarray((ahead_m > 0) & (ahead_m < rays.plane_m))


def _fraction(
    rays: _Rays,
    left_m: tuple[Floats, Floats],
    right_m: tuple[Floats, Floats],
    ahead_m: Floats,
    bottom_m: Floats,
    height_m: Floats | float,
    wavelength_m: float,
) -> Floats:
    """Return the fraction a of the field that a screen between the two ends blocks.

    Its vertical edges are given by the distances aside of the ray, positive on the left, and along the ray.
    """
    scale = math.pi / 2 * math.sqrt(math.pi / wavelength_m)
    beside = _angle(_edge(rays, *left_m, scale), _edge(rays, *right_m, scale))
    over = _angle(_edge_up(rays, bottom_m + height_m, ahead_m, scale), _edge_up(rays, bottom_m, ahead_m, scale))
    return np.asarray(beside * over / math.pi**2)


def _edge(rays: _Rays, aside_m: Floats, ahead_m: Floats, scale: float) -> Floats:
    """Return (π/2)·√(π/λ·(D1 + D2 - r)) of a vertical edge, negative on the right of the ray."""
    around = np.hypot(ahead_m, aside_m) + np.hypot(rays.plane_m - ahead_m, aside_m)
    detour = np.hypot(around, rays.rise_m) - rays.length_m
    return np.asarray(np.copysign(scale * np.sqrt(np.maximum(detour, 0)), aside_m))


def _edge_up(rays: _Rays, height_m: Floats, ahead_m: Floats, scale: float) -> Floats:
    """Return (π/2)·√(π/λ·(D1 + D2 - r)) of a horizontal edge, negative below the ray; heights from the transmitter."""
    detour = np.hypot(ahead_m, height_m) + np.hypot(rays.plane_m - ahead_m, rays.rise_m - height_m) - rays.length_m
    return np.copysign(scale * np.sqrt(np.maximum(detour, 0)), height_m - rays.rise_m * ahead_m / rays.plane_m)


def _angle(high: Floats, low: Floats) -> Floats:
    """Return arctan(high) - arctan(low), which is π·(F1 + F2) with the signs of 7.6.4.2; never negative."""
    return np.maximum(np.arctan2(high - low, 1 + high * low), 0)


def _power(fraction: Floats, transmission_loss_db: float) -> Floats:
    """Return the fraction of the power that passes around and through a screen."""
    through = 10 ** (-transmission_loss_db / 10)
    return np.maximum((1 - fraction) ** 2 + through * fraction**2, max(through, FAINTEST))


def _outline(obstacle: Obstacle, rays: _Rays) -> tuple[Floats | float, float, float | None]:
    """Return width, height and heading of the screen that an obstacle is."""
    shape = obstacle.shape
    if not isinstance(shape, Box):
        return shape.width_m, shape.height_m, shape.heading_deg
    size = [high - low for low, high in zip(shape.low_m, shape.high_m, strict=True)]
    return size[0] * np.abs(rays.forward_y) + size[1] * np.abs(rays.forward_x), size[2], None


def _centre(obstacle: Obstacle, time_s: Floats) -> Floats:
    """Return where the middle of the lower edge is: (3,) if it stands still, otherwise (n, 3)."""
    place = np.array(_place(obstacle.shape), dtype=np.float64)
    return place if obstacle.trajectory is None else place + displacement(obstacle.trajectory, time_s)


def _place(shape: Box | Screen) -> Vector:
    """Return the middle of the lower edge at time 0."""
    if not isinstance(shape, Box):
        return shape.centre_m
    low, high = shape.low_m, shape.high_m
    return (low[0] + high[0]) / 2, (low[1] + high[1]) / 2, low[2]


class _Screens:
    """Obstacles as screens that show their greatest width.

    Attributes
    ----------
    place_m : (3, m) float64
        Middle of the lower edge at time 0.
    width_m, height_m : (m,) float64
        Size.
    movements : Movements
        How they move.
    """

    def __init__(self, obstacles: Sequence[Obstacle]) -> None:
        self.place_m = np.array([_place(obstacle.shape) for obstacle in obstacles], dtype=np.float64).T
        self.width_m, self.height_m = np.array([_largest(obstacle) for obstacle in obstacles]).T
        self.movements = Movements([obstacle.trajectory for obstacle in obstacles])

    def centre_m(self, time_s: Floats) -> Floats:
        """Return the middles of the lower edges at times, (3, m, n)."""
        return np.asarray(self.place_m[:, :, None] + self.movements.displacement_m(time_s))


@dataclass(frozen=True, slots=True)
class _Stretches:
    """Blocks of steps, by their ends, to find out cheaply where an obstacle cannot matter.

    Parameters
    ----------
    rx_m, time_s : (blocks + 1, 3) and (blocks + 1,) float64
        Place of the receiver and time at the ends of the blocks.
    travel_m : (blocks,) float64
        How far the receiver goes in each.
    """

    rx_m: Floats
    time_s: Floats
    travel_m: Floats

    @classmethod
    def of(cls, rx_m: Floats, time_s: Floats) -> _Stretches:
        """Cut steps into blocks."""
        ends = np.append(np.arange(0, time_s.size, BLOCK), time_s.size - 1)
        walked = np.concatenate(([0.0], np.cumsum(np.sqrt((np.diff(rx_m, axis=0) ** 2).sum(axis=1)))))
        return cls(rx_m[ends], time_s[ends], np.diff(walked[ends]))

    def near(self, tx_m: Vector, obstacle: Obstacle, wavelength_m: float) -> NDArray[np.bool_]:
        """Return for each block whether an obstacle may lose more than `NEGLIGIBLE_DB` in it.

        The distance between the ray and a point changes no faster than the receiver and the point move. A screen all of
        whose points are at least c away from the ray has an edge that is c/√2 away in the top or in the side view; its
        detour is at least √(r² + 2c²) - r, and a is at most arctan(1/x)/π with the x of that detour.
        """
        return np.asarray(self.near_many(tx_m, _Screens([obstacle]), wavelength_m)[0][0])

    def near_many(self, tx_m: Vector, screens: _Screens, wavelength_m: float) -> tuple[NDArray[np.bool_], int]:
        """Return the same for many obstacles, (obstacles, blocks).

        Also in how many steps, a power of two up to `BLOCK`, none of them moves further than `FINE_M` across the ray: a
        point of the ray moves as some part of the receiver's way.
        """
        middle = screens.centre_m(self.time_s)
        middle[2] += screens.height_m[:, None] / 2
        ways = [np.diff(way) for way in (middle, middle - self.rx_m.T[:, None])]
        moved = max(float(np.sqrt((way**2).sum(axis=0)).max()) for way in ways) / BLOCK
        stride = 1
        while stride < BLOCK and 2 * stride * moved <= FINE_M:
            stride *= 2
        distance = _distance_to_ray(np.array(tx_m), self.rx_m.T, middle)
        travel = self.travel_m + np.diff(screens.movements.travelled_m(self.time_s))
        radius = np.hypot(screens.width_m, screens.height_m)[:, None] / 2
        clearance = (distance[:, :-1] + distance[:, 1:] - travel) / 2 - radius
        blocked = 1 - 10 ** (-NEGLIGIBLE_DB / 20)
        least = wavelength_m / math.pi * (2 / (math.pi * math.tan(math.pi * blocked))) ** 2
        length = np.sqrt(((self.rx_m - np.array(tx_m)) ** 2).sum(axis=1))
        longest = np.maximum(length[:-1], length[1:]) + self.travel_m
        return np.asarray(clearance < np.sqrt(((longest + least) ** 2 - longest**2) / 2)), stride


def _largest(obstacle: Obstacle) -> tuple[float, float]:
    """Return the greatest width that an obstacle can show, and its height."""
    shape = obstacle.shape
    if not isinstance(shape, Box):
        return shape.width_m, shape.height_m
    size = [high - low for low, high in zip(shape.low_m, shape.high_m, strict=True)]
    return math.hypot(size[0], size[1]), size[2]


def _distance_to_ray(tx_m: Floats, rx_m: Floats, point_m: Floats) -> Floats:
    """Return the distance of points, (3, m, n), from the straight line between the two ends, (3,) and (3, n)."""
    ray = (rx_m - tx_m[:, None])[:, None]
    to_point = point_m - tx_m[:, None, None]
    fraction = np.clip((ray * to_point).sum(axis=0) / np.maximum((ray**2).sum(axis=0), 1e-12), 0, 1)
    return np.asarray(np.sqrt(((to_point - fraction * ray) ** 2).sum(axis=0)))
