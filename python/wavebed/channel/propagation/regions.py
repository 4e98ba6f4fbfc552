"""Blockage by the user and by others who are not described: regions of angles (TR 38.901 7.6.4.1, model A).

Azimuths are counted from +x towards +y; zenith angles from straight up. Both say where the UE's signal comes from.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from wavebed.channel.propagation.antenna import turn_deg
from wavebed.channel.propagation.correlated import gaussian, normal_cdf
from wavebed.channel.propagation.pathloss import LIGHT_M_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from wavebed.scene.tables import Propagation

__all__ = ["SELF_BLOCKING_DB", "region_blocking_db", "self_blocking_db"]

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
