"""Antenna elements and angles."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from wavebed.channel.propagation.correlated import gaussian, normal_cdf
from wavebed.channel.propagation.fading import RAY_OFFSETS
from wavebed.channel.propagation.pathloss import LIGHT_M_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from wavebed.scene.tables import Array, Propagation

    Floats: TypeAlias = NDArray[np.float32]


class Element(NamedTuple):
    """One antenna element: gain at its normal in dBi, width between the half-power points, deepest loss.

    The pattern follows TR 38.901 Table 7.3-1: 12·(angle/width)² dB of loss in each plane.
    """

    peak_dbi: float
    width_deg: float
    floor_db: float

    @property
    def peak(self) -> float:
        """Power gain at the normal."""
        return float(10 ** (self.peak_dbi / 10))

    def plane(self, angle_deg: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the power gain over that at the normal, at angles in one plane."""
        if math.isinf(self.width_deg):
            return np.ones_like(angle_deg)
        return np.asarray(10 ** (-np.minimum(12 * (angle_deg / self.width_deg) ** 2, self.floor_db) / 10))


ELEMENTS: Mapping[str, Element] = {
    "3gpp": Element(8.0, 65.0, 30.0),  # TR 38.901 Table 7.3-1
    "3gpp-ue": Element(5.0, 90.0, 25.0),  # TR 38.802 Table A.2.1-8
    "isotropic": Element(0.0, math.inf, 0.0),
}


def angles_deg(direction_m: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return azimuth (from +x towards +y) and elevation (from the horizon up) of vectors of shape (n, 3)."""
    x, y, z = direction_m[:, 0], direction_m[:, 1], direction_m[:, 2]
    return np.degrees(np.arctan2(y, x)), np.degrees(np.arctan2(z, np.hypot(x, y)))


def array_db(array: Array) -> float:
    """Return the gain of all elements together over one: 10·lg N."""
    return 10 * math.log10(array.rows * array.columns)


def turn_deg(angle_deg: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the same angle from -180 up to 180 degrees."""
    return np.asarray((angle_deg + 180.0) % 360.0 - 180.0)


OVERSAMPLING = 2
"""Beams of a row of n elements: 2n, 1/n apart in the sine of the angle. Between two of them 0.9 dB are lost."""
BINS_PER_DEG = 4
BINS = 360 * BINS_PER_DEG
SIDELOBE_FLOOR = 1e-3
"""Beams are this deep at most below their peak, 30 dB: the nulls are filled by errors of real arrays."""


class Toward(NamedTuple):
    """Gains of a panel towards angles: of all columns' and rows' beams, (*shape, beams), and the best product."""

    columns: Floats
    rows: Floats
    highest: Floats


class Patterns(NamedTuple):
    """Power gains of a panel: `columns` (azimuth bins, beams), `rows` (elevation bins, beams), and the best of a bin.

    Bin 0 is -180 degrees from the normal of the panel, and they wrap around. The bins of each kind of wave follow those
    of the kind before.
    """

    columns: Floats
    rows: Floats
    best_column: Floats
    best_row: Floats

    def towards(self, azimuth_deg: NDArray[np.float64], elevation_deg: NDArray[np.float64]) -> Toward:
        """Return the gains towards angles of one shape, of waves of the first kind."""
        return self.at(bins(azimuth_deg), bins(elevation_deg))

    def at(self, across: NDArray[np.intp], up: NDArray[np.intp]) -> Toward:
        """Return the gains in bins of the azimuth and of the elevation."""
        highest = np.take(self.best_column, across) * np.take(self.best_row, up)
        return Toward(np.take(self.columns, across, axis=0), np.take(self.rows, up, axis=0), highest)


def bins(angle_deg: NDArray[np.float64], kind: NDArray[np.intp] | int = 0) -> NDArray[np.intp]:
    """Return the bins of angles, of waves of a `kind`."""
    place = np.rint((angle_deg + 180.0) * BINS_PER_DEG).astype(np.intp)
    return np.asarray(place % BINS + np.asarray(kind) * BINS)


def beams_of(elements: int) -> NDArray[np.float64]:
    """Return the sines of the angles to which the beams of a row point."""
    if elements == 1:
        return np.zeros(1)
    count = OVERSAMPLING * elements
    return np.asarray((np.arange(count) - count // 2) / elements)


@lru_cache(maxsize=64)
def patterns(array: Array, rays_deg: tuple[tuple[float, float], ...] = ((0.0, 0.0),)) -> Patterns:
    """Return the gains of a panel's beams, the mean over the rays of a cluster.

    Parameters
    ----------
    array : Array
        Rows, columns and element.
    rays_deg : tuple of (float, float)
        Spread of the rays in azimuth and elevation for each kind of wave; 0 for a direct ray.
    """
    element = ELEMENTS[array.element]
    across, up = (_row(count) * element.plane(_angles()) for count in (array.columns, array.rows))
    columns = np.concatenate([_smeared(across, azimuth) for azimuth, _ in rays_deg], axis=1) * element.peak
    rows = np.concatenate([_smeared(up, elevation) for _, elevation in rays_deg], axis=1)
    return Patterns(
        np.ascontiguousarray(columns.T), np.ascontiguousarray(rows.T), columns.max(axis=0), rows.max(axis=0)
    )


def _angles() -> NDArray[np.float64]:
    return np.arange(BINS) / BINS_PER_DEG - 180.0


def _row(elements: int) -> NDArray[np.float64]:
    """Return the power of each beam of a row of elements half a wavelength apart, over one element's."""
    half = np.pi / 2 * (np.sin(np.radians(_angles()))[None, :] - beams_of(elements)[:, None])
    below = np.sin(half)
    straight = np.abs(below) < 1e-9
    power = np.where(straight, elements, np.sin(elements * half) ** 2 / (elements * np.where(straight, 1, below) ** 2))
    return np.asarray(np.maximum(power, elements * SIDELOBE_FLOOR))


def _smeared(table: NDArray[np.float64], spread_deg: float) -> Floats:
    if spread_deg == 0:
        return table.astype(np.float32)
    shifts = [round(side * offset * spread_deg * BINS_PER_DEG) for offset in RAY_OFFSETS for side in (1, -1)]
    return np.asarray(np.mean([np.roll(table, shift, axis=1) for shift in shifts], axis=0), dtype=np.float32)


Hold: TypeAlias = Literal["none", "portrait", "landscape"]

SELF_BLOCKING_DB = 30.0
REGIONS = 4
BLOCKER_M_PER_S = 1.0
"""Illustrative speed of the people around; the standard leaves it to its user."""


class _Hold(NamedTuple):
    """Table 7.6.4.1-1, in degrees: the region's width, and its middle and height in zenith angle."""

    width: float
    zenith: float
    height: float


_HOLDS: Mapping[Hold, _Hold] = {"portrait": _Hold(120.0, 100.0, 80.0), "landscape": _Hold(160.0, 110.0, 75.0)}


class _Crowd(NamedTuple):
    """Table 7.6.4.1-2: ranges of width and height in degrees, distance; Table 7.6.4.1-4: correlation distance."""

    widths: tuple[float, float]
    heights: tuple[float, float]
    distance_m: float
    correlation_m: float


_STREET = _Crowd((5.0, 15.0), (5.0, 5.0), 10.0, 10.0)
_OFFICE = _Crowd((15.0, 45.0), (5.0, 15.0), 2.0, 5.0)
_CROWDS: Mapping[Propagation, _Crowd] = {
    "umi": _STREET,
    "uma": _STREET,
    "rma": _STREET,
    "inh": _OFFICE,
    "inh-open": _OFFICE,
}


def self_blocking_db(
    azimuth_deg: NDArray[np.float64],
    zenith_deg: NDArray[np.float64],
    heading_deg: NDArray[np.float64] | float,
    hold: Hold,
    loss_db: float = SELF_BLOCKING_DB,
) -> NDArray[np.float64]:
    """Return the loss where the user's own body is in the way, otherwise 0.

    The UE is held before the user, who looks at it along the heading: the middle of the region (260° in portrait,
    40° in landscape, in the UE's own coordinates) lies opposite to the heading.

    Parameters
    ----------
    azimuth_deg, zenith_deg : (n,) float64
        Where the signal comes from.
    heading_deg : float or (n,) float64
        Azimuth in which the user looks.
    hold : str
        ``none``, ``portrait`` or ``landscape``.
    loss_db : float
        Loss by the body: 30 dB in Table 7.6.4.1-1.
    """
    if hold == "none":
        return np.zeros(np.shape(azimuth_deg))
    region = _HOLDS[hold]
    aside = np.abs(turn_deg(azimuth_deg - np.asarray(heading_deg) - 180.0))
    above = np.abs(zenith_deg - region.zenith)
    return np.where((aside < region.width / 2) & (above < region.height / 2), loss_db, 0.0)


def region_blocking_db(
    rngs: Sequence[np.random.Generator],
    scenario: Propagation,
    azimuth_deg: NDArray[np.float64],
    zenith_deg: NDArray[np.float64],
    walked_m: NDArray[np.float64],
    time_s: NDArray[np.float64],
    frequency_hz: float,
) -> NDArray[np.float64]:
    """Return the loss in four regions that move at random, of shape (seeds, n), in dB (equations 7.6-22 to 7.6-27).

    The middle of each is uniform in azimuth, and follows a normal process that is correlated by
    exp(-(Δx/d + Δt/t)), t = d/v.

    Parameters
    ----------
    rngs : sequence of numpy.random.Generator
        One for each seed.
    scenario : str
        The propagation scenario; nothing is in the way in free space.
    azimuth_deg, zenith_deg : (n,) float64
        Where the signal comes from.
    walked_m, time_s : (n,) float64
        Distance walked until, and time of, each step.
    frequency_hz : float
        Carrier frequency.
    """
    total = np.zeros((len(rngs), walked_m.size))
    if scenario == "free-space":
        return total
    crowd = _CROWDS[scenario]
    scale = math.pi / 2 * math.sqrt(math.pi * crowd.distance_m * frequency_hz / LIGHT_M_PER_S)
    moved = walked_m + BLOCKER_M_PER_S * (time_s - time_s[0])
    level = np.flatnonzero(np.abs(zenith_deg - 90.0) < crowd.heights[1])
    if level.size == 0:
        return total
    for _ in range(REGIONS):
        width = np.array([[rng.uniform(*crowd.widths)] for rng in rngs])
        height = np.array([[rng.uniform(*crowd.heights)] for rng in rngs])
        middle = 360.0 * normal_cdf(gaussian(rngs, moved, crowd.correlation_m)[:, level])
        aside = turn_deg(azimuth_deg[level] - middle)
        above = np.broadcast_to(zenith_deg[level] - 90.0, aside.shape)
        inside = (np.abs(aside) < width) & (np.abs(above) < height)
        seeds, steps = np.nonzero(inside)
        fraction = _covered(aside[seeds, steps], width[seeds, 0], scale)
        fraction *= _covered(above[seeds, steps], height[seeds, 0], scale)
        total[seeds, level[steps]] -= 20 * np.log10(1 - fraction)
    return total


def _covered(angle_deg: NDArray[np.float64], size_deg: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """Return F1 + F2 of equation 7.6-23, with the signs of Table 7.6.4.1-3: + inside, - at an edge beyond it."""
    covered = np.zeros_like(angle_deg)
    for side in (1.0, -1.0):
        beyond = side * angle_deg - size_deg / 2
        argument = scale * np.sqrt(1 / np.cos(np.radians(beyond)) - 1)
        covered -= np.sign(beyond) * np.arctan(argument) / math.pi
    return covered
