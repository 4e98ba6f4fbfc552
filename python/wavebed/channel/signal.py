"""The random part of a link budget: LOS where it is drawn, shadowing, antennas and fading; one row per seed.

Power comes on three kinds of path: the direct ray; the waves scattered around it in LOS; the waves that arrive in NLOS,
which are there in LOS too. The LOS path loss covers the first two kinds, and the K factor divides their power.
Buildings take the first two away, other obstacles the direct ray alone: a blocked UE keeps the scattered waves
(TR 38.901 7.5 and 7.6.4).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wavebed.channel.beams import Gains, Measurements, Powers, beamless, track
from wavebed.channel.propagation.antenna import angles_deg, region_blocking_db, self_blocking_db
from wavebed.channel.propagation.correlated import generators
from wavebed.channel.propagation.fading import fading_db, k_factor_db
from wavebed.channel.propagation.pathloss import entry_db, noise_dbm
from wavebed.channel.propagation.shadowing import draw_los, shadowing_db

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from wavebed.channel.budget import LinkBudget, Sight

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]


FAINTEST = 1e-30
"""Least power factor, so that its logarithm exists."""


class Beam(NamedTuple):
    """What one beam pair receives, (seeds, n): SNR in dB without fading, and the fraction of it that is scattered."""

    snr_db: Floats
    scattered: Floats


@dataclass(frozen=True, eq=False)
class Signal:
    """One base station's downlink at the UE; arrays of shape (seeds, n), or (1, n) where the seeds do not differ.

    Parameters
    ----------
    los : bool
        Whether no building stands in the direct path.
    path_loss_db, shadowing_db, gain_db : float64
        Parts of the budget of the first beam, had the direct ray been free; the path loss includes the edges of
        buildings, the gain covers both antennas over all paths.
    blockage_db : float64
        Loss of the direct ray by obstacles, the user's body and a crowd that is not described.
    bare : callable
        Returns the power over noise with one isotropic element at each end; only interference needs it.
    beams : tuple of Beam
        The best pair of the codebook; the best one for the scattered waves alone; the described reflection.
    rise_db : float64
        Interference of the other base stations over noise, see `wavebed.channel.batch`.
    """

    los: Flags
    path_loss_db: Floats
    shadowing_db: Floats
    gain_db: Floats
    blockage_db: Floats
    bare: Callable[[], Floats]
    beams: tuple[Beam, ...]
    rise_db: Floats = field(default_factory=lambda: np.zeros((1, 1)))

    @property
    def shape(self) -> tuple[int, ...]:
        """Seeds and steps."""
        return np.broadcast_shapes(*(beam.snr_db.shape for beam in self.beams))


def signal(budget: LinkBudget, sight: Sight, seeds: Sequence[int], role: str) -> Signal:
    """Draw a base station's signal.

    Parameters
    ----------
    budget, sight
        The part that does not depend on the seed.
    seeds : sequence of int
        One row each.
    role : str
        Keys the draws: the base station's place, so that base stations are independent. All devices share the fields.
    """
    los, open_part = sight.los[None], sight.open_part[None]
    if sight.probability is not None:
        los = draw_los(generators(seeds, f"los {role}"), sight.propagation, sight.probability, budget.route)
        open_part = los.astype(np.float64)
    shadow = shadowing_db(
        generators(seeds, f"shadowing {role}"), sight.propagation, budget.route, sight.spread_db, sight.shadowing
    )
    free_space = sight.propagation == "free-space"
    entry = entry_db(seeds, budget.scene.ue, sight.propagation, sight.carrier.frequency_hz, budget.time_s)
    loss_db = sight.los_loss_db + entry
    line = _ratio(-loss_db) * open_part
    shaded = line * _ratio(-shadow[0])
    behind = np.zeros((1, 1)) if free_space else _ratio(-(loss_db + sight.behind_db))
    shaded_behind = behind * _ratio(-shadow[1])
    k_db = np.full((1, 1), np.inf)
    if not free_space:
        k_db = k_factor_db(generators(seeds, f"k {role}"), sight.propagation, budget.route)
    scattered = 1 / (1 + _ratio(k_db))
    blockage = _blockage_db(budget, sight, seeds, role)
    powers = Powers(shaded * (1 - scattered), shaded * scattered, shaded_behind)
    pairs = _pairs(budget, sight, powers, k_db, seeds, role)
    scale = _ratio(unobstructed_db(budget, sight))
    passed = _ratio(-blockage)
    first = pairs[0]
    free = powers.direct * first.direct + powers.line * first.line + powers.behind * first.behind
    before_db = _decibels(shaded + shaded_behind)
    path_loss_db = -_decibels(line + behind)
    beams = [_beam(scale, powers, gains, passed) for gains in pairs]
    if budget.scene.reflection_loss_db is not None:
        around = scale * free * _ratio(-budget.scene.reflection_loss_db)
        beams.append(Beam(_decibels(around), np.broadcast_to(scattered, around.shape)))
    return Signal(
        los,
        path_loss_db,
        -path_loss_db - before_db,
        _decibels(free) - before_db,
        blockage,
        lambda: _bare(scale, powers, passed),
        tuple(beams),
    )


def _bare(scale: Floats, powers: Powers, passed: Floats) -> Floats:
    one = np.ones((1, 1))
    return _ratio(_beam(scale, powers, Gains(one, one, one), passed).snr_db)


def _ratio(decibels: Floats | float) -> Floats:
    return np.asarray(np.power(10.0, np.divide(decibels, 10)))


def _decibels(ratio: Floats) -> Floats:
    return np.asarray(10 * np.log10(np.maximum(ratio, FAINTEST)))


def _beam(scale: Floats, powers: Powers, gains: Gains, passed: Floats) -> Beam:
    """Return what a pair receives, the direct ray weakened by what is in its way."""
    direct = powers.direct * gains.direct * passed
    scattered = powers.line * gains.line + powers.behind * gains.behind
    total = np.maximum(direct + scattered, FAINTEST)
    scattered = scattered / total
    total *= scale
    return Beam(_decibels(total), scattered)


def _pairs(
    budget: LinkBudget, sight: Sight, powers: Powers, k_db: Floats, seeds: Sequence[int], role: str
) -> list[Gains]:
    """Return the gains of the beam pairs, each (seeds, n)."""
    if beamless(budget, sight):
        one = np.ones((1, 1))
        return [Gains(one, one, one)]
    measured = Measurements.of(budget, sight)
    shape = (len(seeds), budget.time_s.size)
    at = [np.broadcast_to(values, shape)[:, measured.steps] for values in (*powers, k_db)]
    tracked = [
        track(budget, sight, measured, Powers(*(values[row] for values in at[:3])), at[3][row], seed, role)
        for row, seed in enumerate(seeds)
    ]
    return [
        Gains(*(measured.at_steps(part) for part in zip(*pair, strict=True))) for pair in zip(*tracked, strict=True)
    ]


def fading(
    budget: LinkBudget,
    sight: Sight,
    los: Flags,
    scattered: Floats,
    seeds: Sequence[int],
    role: str,
    mean_sinr_db: Floats,
) -> Floats:
    """Draw small-scale fading, (seeds, n) in dB, where this fraction of the power is scattered."""
    direct_m = np.linalg.norm(budget.position_m - np.asarray(sight.station.position_m), axis=1)
    return fading_db(
        generators(seeds, f"fading {role}{budget.scene.ue.stream}"),
        sight.propagation,
        los,
        scattered,
        budget.time_s,
        budget.route,
        direct_m,
        sight.carrier.frequency_hz,
        sight.carrier.bandwidth_hz,
        mean_sinr_db,
    )


def unobstructed_db(budget: LinkBudget, sight: Sight) -> float:
    """Return the SNR of the downlink before path loss and antennas: transmit power over the noise of the UE."""
    noise = noise_dbm(sight.carrier.bandwidth_hz, budget.scene.ue.noise_figure_db)
    return sight.station.power_dbm - noise


def uplink_offset_db(budget: LinkBudget, sight: Sight) -> float:
    """SINR of the uplink over the downlink's: same path, the UE's power, the base station's receiver."""
    ue, station = budget.scene.ue, sight.station
    return (ue.power_dbm - station.noise_figure_db - station.noise_rise_db) - (station.power_dbm - ue.noise_figure_db)


def _blockage_db(budget: LinkBudget, sight: Sight, seeds: Sequence[int], role: str) -> Floats:
    """Add up described obstacles (model B), the user's body and, where nothing is described, a crowd (model A)."""
    scene = budget.scene
    azimuth, elevation = angles_deg(np.asarray(sight.station.position_m) - budget.position_m)
    zenith = 90.0 - elevation
    own = self_blocking_db(azimuth, zenith, budget.heading_deg, scene.ue.hold, scene.ue.body_loss_db)
    blockage = (sight.blockage_db + own)[None]
    if not scene.draws_los or scene.obstacles or scene.ue.hold == "none":
        return blockage
    rngs = generators(seeds, f"crowd {role}{scene.ue.stream}")
    crowd = region_blocking_db(
        rngs, sight.propagation, azimuth, zenith, budget.walked_m, budget.time_s, sight.carrier.frequency_hz
    )
    return blockage + crowd
