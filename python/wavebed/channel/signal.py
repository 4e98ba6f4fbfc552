"""The random part of a link budget: LOS where it is drawn, shadowing, pointing errors, fading; one row per seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from wavebed.channel.propagation.antenna import angles_deg, gain_db
from wavebed.channel.propagation.entry import entry_db
from wavebed.channel.propagation.fading import fading_db
from wavebed.channel.propagation.noise import noise_dbm
from wavebed.channel.propagation.random_streams import generators
from wavebed.channel.propagation.regions import region_blocking_db, self_blocking_db
from wavebed.channel.propagation.shadowing import draw_los, shadowing_db

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.channel.budget import Budget, Sight

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

__all__ = ["Signal", "fading", "signal", "uplink_offset_db"]


@dataclass(frozen=True, eq=False)
class Signal:
    """One base station's downlink at the UE; arrays of shape (seeds, n), or (1, n) where the seeds do not differ.

    Parameters
    ----------
    los : bool
        Whether no building stands in the direct path.
    path_loss_db, shadowing_db, gain_db : float64
        Parts of the budget that both beams share; the path loss includes the edges of buildings.
    blockage_db : float64
        Loss of the direct path by obstacles, the user's body and a crowd that is not described.
    direct_db, reflected_db : float64
        SNR of the two beams without fading; ``None`` where the scene has no second beam.
    rise_db : float64
        Interference of the other base stations over noise, see `wavebed.channel.interference`.
    """

    los: Flags
    path_loss_db: Floats
    shadowing_db: Floats
    gain_db: Floats
    blockage_db: Floats
    direct_db: Floats
    reflected_db: Floats | None
    rise_db: Floats = field(default_factory=lambda: np.zeros((1, 1)))

    def beams(self) -> tuple[Floats, ...]:
        """SINR of each beam."""
        return tuple(level - self.rise_db for level in self.levels())

    def levels(self) -> tuple[Floats, ...]:
        """SNR of each beam, which compares the base stations."""
        return (self.direct_db,) if self.reflected_db is None else (self.direct_db, self.reflected_db)


def signal(budget: Budget, sight: Sight, seeds: Sequence[int], role: str) -> Signal:
    """Draw a base station's signal.

    Parameters
    ----------
    budget, sight
        The part that does not depend on the seed.
    seeds : sequence of int
        One row each.
    role : str
        Keys the draws: the base station's place, so that base stations are independent.
    """
    scene, station = budget.scene, sight.station
    los, edge_db = sight.los[None], sight.edge_db[None]
    if sight.probability is not None:
        los = draw_los(generators(seeds, f"los {role}"), sight.propagation, sight.probability, budget.route)
        edge_db = np.where(los, 0.0, sight.behind_db)
    with np.errstate(invalid="ignore", divide="ignore"):
        behind = np.where(sight.behind_db > 0, edge_db / sight.behind_db, 0.0)
    shadow = shadowing_db(
        generators(seeds, f"shadowing {role}"), sight.propagation, 1 - behind, budget.route, sight.spread_db
    )
    gain = _gain_db(budget, sight, seeds, role)
    blockage = _blockage_db(budget, sight, seeds, role) * (1 - behind)
    path_loss = sight.los_loss_db + edge_db
    path_loss = path_loss + entry_db(seeds, scene.ue, sight.propagation, sight.carrier.frequency_hz, budget.time_s)
    noise = noise_dbm(sight.carrier.bandwidth_hz, scene.ue.noise_figure_db)
    free = gain - shadow
    free += (station.power_dbm - noise) - path_loss
    reflected = None if scene.reflection_loss_db is None else free - scene.reflection_loss_db
    return Signal(los, path_loss, shadow, gain, blockage, free - blockage, reflected)


def fading(budget: Budget, sight: Sight, los: Flags, seeds: Sequence[int], role: str) -> Floats:
    """Draw small-scale fading, (seeds, n) in dB."""
    direct_m = np.linalg.norm(budget.position_m - np.asarray(sight.station.position_m), axis=1)
    return fading_db(
        generators(seeds, f"fading {role}"),
        sight.propagation,
        los,
        budget.time_s,
        budget.route,
        direct_m,
        sight.carrier.frequency_hz,
        sight.carrier.bandwidth_hz,
    )


def uplink_offset_db(budget: Budget, sight: Sight) -> float:
    """SINR of the uplink over that of the downlink: same path, the UE's power, the base station's receiver."""
    ue, station = budget.scene.ue, sight.station
    return (ue.power_dbm - station.noise_figure_db - station.noise_rise_db) - (station.power_dbm - ue.noise_figure_db)


def _gain_db(budget: Budget, sight: Sight, seeds: Sequence[int], role: str) -> Floats:
    to_ue = budget.position_m - np.asarray(sight.station.position_m)
    # The last words key the random streams: a seed gives the same beams as in earlier releases.
    ends = ((sight.station.array, to_ue, "station"), (budget.scene.ue.array, -to_ue, "handset"))
    gains = [
        gain_db(array, direction, budget.time_s, generators(seeds, f"beam {end} {role}"))
        for array, direction, end in ends
    ]
    return np.asarray(gains[0] + gains[1])


def _blockage_db(budget: Budget, sight: Sight, seeds: Sequence[int], role: str) -> Floats:
    """Add up described obstacles (model B), the user's body and, where nothing is described, a crowd (model A)."""
    scene = budget.scene
    azimuth, elevation = angles_deg(np.asarray(sight.station.position_m) - budget.position_m)
    zenith = 90.0 - elevation
    own = self_blocking_db(azimuth, zenith, budget.heading_deg, scene.ue.hold)
    blockage = (sight.blockage_db + own)[None]
    if not scene.draws_los or scene.obstacles or scene.ue.hold == "none":
        return blockage
    rngs = generators(seeds, f"crowd {role}")
    scenario = "uma" if sight.propagation == "rma" else sight.propagation  # one column of Table 7.6.4.1-2
    crowd = region_blocking_db(
        rngs, scenario, azimuth, zenith, budget.walked_m, budget.time_s, sight.carrier.frequency_hz
    )
    return blockage + crowd
