"""The part of a link budget that all seeds have in common: places, path loss, edges of buildings, obstacles.

Buildings decide between LOS and NLOS. At a building's edge the direct path does not end at once: it is diffracted, and
its loss grows over the Fresnel zone (model B of TR 38.901 7.6.4.2 with the building as the screen) until it reaches the
NLOS path loss, which already counts every other way around. Everything else attenuates the direct path by model B. It
leaves NLOS paths alone: they arrive from directions that the scene does not describe.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from wavebed.channel.propagation.blockage import blockage_db
from wavebed.channel.propagation.pathloss import (
    los_probability,
    noise_dbm,
    path_loss_db,
    rain_db_per_km,
    range_warnings,
)
from wavebed.channel.propagation.shadowing import UeRoute, los_spread_db
from wavebed.scene.geometry import heading_deg, intervals, los, positions
from wavebed.scene.model import Box

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.scene.model import BaseStation, Carrier, Obstacle, SceneInterval, SceneModel
    from wavebed.scene.tables import Propagation, ShadowTable

    Floats = NDArray[np.float64]


UNDERGROUND_M = 100.0
"""Nothing passes below a building: its screen reaches this far into the ground."""


@dataclass(frozen=True, eq=False)
class Sight:
    """One base station as the UE sees it, at each of `n` steps.

    Parameters
    ----------
    station : BaseStation
        The base station.
    carrier, propagation
        Its carrier, and the scenario of TR 38.901.
    los : (n,) bool
        Whether no building stands in the direct path; all true where LOS is drawn.
    intervals : tuple of SceneInterval
        The same, with exact edges.
    probability : (n,) float64 or None
        Probability of LOS, where it is drawn.
    los_loss_db : (n,) float64
        Path loss, had the direct path been free.
    behind_db : (n,) float64
        Loss of NLOS beyond that, at least 0.
    open_part : (n,) float64
        Fraction of the power of LOS that passes the edges of buildings: 1 in the open, 0 deep in the shadow, where the
        NLOS path loss counts all there is.
    blockage_db : (n,) float64
        Loss of the direct path by the other obstacles.
    spread_db : float or (n,) float64
        Standard deviation of shadowing in LOS.
    shadowing : ShadowTable or None
        What is known of shadowing in this place, instead of the tables.
    """

    station: BaseStation
    carrier: Carrier
    propagation: Propagation
    los: NDArray[np.bool_]
    intervals: tuple[SceneInterval, ...]
    probability: Floats | None
    los_loss_db: Floats
    behind_db: Floats
    open_part: Floats
    blockage_db: Floats
    spread_db: Floats | float
    shadowing: ShadowTable | None


class LinkBudget:
    """The part that all realisations of a scene have in common; each value is computed at its first use."""

    def __init__(self, scene: SceneModel) -> None:
        self.scene = scene
        self.time_s = step_times_s(scene)
        self.position_m = positions(scene.ue.trajectory, self.time_s)
        self.route = UeRoute.of(self.position_m)
        self.walked_m = self.route.walked_m
        self.heading_deg = heading_deg(scene.ue, self.time_s)
        self.sights = tuple(
            sight(self, station, scene.carrier, scene.propagation, index)
            for index, station in enumerate(scene.base_stations)
        )

    @cached_property
    def fallback(self) -> Sight | None:
        """The base station of the fallback carrier."""
        fallback = self.scene.fallback
        if fallback is None:
            return None
        return sight(self, fallback.base_station, fallback.carrier, fallback.propagation, None)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Where the path loss is used outside its range, once per base station."""
        seen: dict[str, None] = {}
        sights = (*self.sights, *(() if self.fallback is None else (self.fallback,)))
        for each in sights:
            place = each.station.position_m
            plane = np.hypot(self.position_m[:, 0] - place[0], self.position_m[:, 1] - place[1])
            name = f"{each.station.name}: " if len(sights) > 1 else ""
            height = self.position_m[:, 2]
            for line in range_warnings(each.propagation, plane, place[2], height, each.carrier.frequency_hz):
                seen[name + line] = None
        return tuple(seen)

    def noise_dbm(self, noise_figure_db: float) -> float:
        """Noise of a receiver of the scene's carrier over its whole bandwidth."""
        return noise_dbm(self.scene.carrier.bandwidth_hz, noise_figure_db)


def step_times_s(scene: SceneModel) -> Floats:
    """Beginning of each step; the last one may be shorter."""
    count = max(1, int(np.ceil(scene.duration_s / scene.step_s - 1e-9)))
    return np.asarray(np.arange(count) * scene.step_s)


def sight(
    budget: LinkBudget, station: BaseStation, carrier: Carrier, propagation: Propagation, index: int | None
) -> Sight:
    """Work out how the UE sees a base station.

    Parameters
    ----------
    budget : LinkBudget
        Times and places.
    station, carrier, propagation
        What is seen.
    index : int or None
        Place of the base station in the scene; ``None`` for one that is not among them.
    """
    scene, place = budget.scene, budget.position_m
    offset_db, measured = scene.nlos_offset_db, scene.shadowing
    if index is None:
        scene, index = replace(scene, base_stations=(station,)), 0
        offset_db, measured = 0.0, None
    plane = np.hypot(place[:, 0] - station.position_m[0], place[:, 1] - station.position_m[1])
    link = (plane, station.position_m[2], place[:, 2], carrier.frequency_hz)
    both = [
        path_loss_db(propagation, state, *link, scene.street_width_m, scene.building_height_m)
        for state in (True, False)
    ]
    free = los(scene, "3gpp", budget.time_s, index)
    behind = np.maximum(both[1] + offset_db - both[0], 0.0)
    return Sight(
        station,
        carrier,
        propagation,
        free,
        # A scene of the study keeps the study's states, in the plan and with every box, in either mode.
        intervals(scene, "3gpp" if scene.reference is None else "reference", index),
        los_probability(propagation, plane, place[:, 2]) if scene.draws_los else None,
        both[0] + _rain_db(scene, station, carrier, plane, place[:, 2]),
        behind,
        _open_part(budget, station, carrier, free, behind),
        blockage_db(station.position_m, place, budget.time_s, scene.obstacles, carrier.frequency_hz, scene.bodies),
        los_spread_db(propagation, *link),
        measured,
    )


def _rain_db(
    scene: SceneModel, station: BaseStation, carrier: Carrier, plane_m: Floats, height_m: Floats
) -> Floats | float:
    """Loss by rain along the whole path."""
    if scene.rain_mm_per_h == 0:
        return 0.0
    distance_m = np.hypot(plane_m, station.position_m[2] - height_m)
    return np.asarray(rain_db_per_km(carrier.frequency_hz, scene.rain_mm_per_h) / 1000 * distance_m)


def _open_part(
    budget: LinkBudget, station: BaseStation, carrier: Carrier, free: NDArray[np.bool_], behind_db: Floats
) -> Floats:
    """Return the fraction of the power of LOS around the buildings beyond the power of NLOS, which is there besides."""
    screens = [_as_screen(obstacle) for obstacle in budget.scene.obstacles if obstacle.decides_los]
    if not screens:
        return np.where(free, 1.0, 0.0)
    around = blockage_db(station.position_m, budget.position_m, budget.time_s, screens, carrier.frequency_hz)
    if not behind_db.any():  # free space has no NLOS: diffraction is all
        return np.asarray(10 ** (-around / 10))
    least = 10 ** (-behind_db / 10)
    return np.asarray(np.maximum(10 ** (-around / 10) - least, 0) / np.maximum(1 - least, 1e-9))


def _as_screen(building: Obstacle) -> Obstacle:
    """Make a building one of the obstacles at which model B diffracts, standing on opaque ground."""
    box = building.shape
    assert isinstance(box, Box), "buildings are boxes"
    low = (box.low_m[0], box.low_m[1], box.low_m[2] - UNDERGROUND_M)
    return replace(building, kind="box", shape=Box(low, box.high_m), transmission_loss_db=float("inf"))
