"""Beam pairs of a base station and a UE: chosen from a codebook by what was measured, and held until the next choice.

A pair is chosen as by the beam management of NR (TR 38.802 6.1.6.1), one end after the other: the best beam of the base
station for a UE without beams (P1), the UE's best beam and panel for that one (P3), the base station's best beam for
that one (P2). The same is done from the strongest single wave on, and the better pair is taken. A pair is used from the
next measurement on, so that it is late by one measurement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from wavebed.channel.propagation.antenna import angles_deg
from wavebed.channel.propagation.clusters import CLUSTERS, Clusters, draw_clusters
from wavebed.channel.propagation.codebook import patterns
from wavebed.channel.propagation.random_streams import generator
from wavebed.channel.propagation.regions import self_blocking_db

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.channel.budget import Budget, Sight
    from wavebed.scene.model import Array

    Floats: TypeAlias = NDArray[np.float64]
    Singles: TypeAlias = NDArray[np.float32]

__all__ = ["Gains", "Powers", "Side", "beamless", "measured_steps", "panels_seen", "track"]

MOVED_M = 0.1
"""A UE that has moved less is not measured again before `REST_UPDATES` updates: its channel is the same."""
REST_UPDATES = 8


class Powers(NamedTuple):
    """Power of each kind of path at some steps, in any common unit, before antennas: each (n,)."""

    direct: Floats
    line: Floats
    behind: Floats


class Gains(NamedTuple):
    """Power gains of a held beam pair for each kind of path: direct, scattered in LOS, scattered in NLOS; each (n,)."""

    direct: Floats
    line: Floats
    behind: Floats


class _Arrivals(NamedTuple):
    """Waves at `p` measurements: direct first, then the clusters of LOS, then those of NLOS.

    `share` (p, waves) is the part of the power of their kind; `first` are the places where the kinds begin.
    """

    share: Floats
    first: tuple[int, int]


class Side(NamedTuple):
    """Gains of one end's columns and rows, each (beams, p, waves), for each of its panels."""

    panels: tuple[tuple[Singles, Singles], ...]


def beamless(budget: Budget, sight: Sight) -> bool:
    """Return whether neither end has a direction: then every gain is 1."""
    arrays = (sight.station.array, budget.scene.ue.array)
    return all(array.rows * array.columns == 1 and array.element == "isotropic" for array in arrays)


def measured_steps(budget: Budget, sight: Sight) -> NDArray[np.intp]:
    """Return the steps at which beams are measured; the last step is one of them."""
    update_s = max(sight.station.array.update_s, budget.scene.ue.array.update_s)
    beat = np.floor(budget.time_s / update_s + 1e-9)
    candidates = np.concatenate(([0], np.flatnonzero(np.diff(beat)) + 1))
    moved = np.floor(budget.walked_m[candidates] / MOVED_M)
    rest = np.floor(beat[candidates] / REST_UPDATES)
    keep = np.concatenate(([True], (np.diff(moved) > 0) | (np.diff(rest) > 0)))
    return np.union1d(candidates[keep], [budget.time_s.size - 1])


def track(budget: Budget, sight: Sight, powers: Powers, k_db: Floats, seed: int, role: str) -> list[Gains]:
    """Follow two beam pairs: the best one, and the best one for the scattered waves alone.

    Parameters
    ----------
    budget, sight
        The scene and the base station.
    powers : Powers
        At the steps of `measured_steps`: decides which pair is best.
    k_db : (p,) float64
        K factor at those steps.
    seed, role
        Key the draws.

    Returns
    -------
    list of Gains
        At every step of the scene. In free space there are no scattered waves, and no second pair.
    """
    steps = measured_steps(budget, sight)
    arrivals, sides = _seen(budget, sight, steps, k_db, seed, role)
    weight = np.empty_like(arrivals.share)
    for power, part in zip(powers, _parts(arrivals), strict=True):
        weight[:, part] = power[:, None] * arrivals.share[:, part]
    errors = _errors(budget, sight, steps.size, seed, role)
    first = _followed(budget, steps, arrivals, sides, weight, errors)
    if sight.propagation == "free-space":
        return [first]
    scattered = weight.copy()
    scattered[:, 0] = 0.0
    return [first, _followed(budget, steps, arrivals, sides, scattered, errors)]


def _errors(budget: Budget, sight: Sight, count: int, seed: int, role: str) -> tuple[Floats, Floats]:
    """Return the pointing errors of both ends, (2, count) degrees each: azimuth, elevation."""
    ends = ((sight.station.array, "station"), (budget.scene.ue.array, "ue"))
    out, back = (
        array.tracking_error_deg * generator(seed, f"beam {end} {role}").standard_normal((2, count))
        if array.tracking_error_deg > 0
        else np.zeros((2, count))
        for array, end in ends
    )
    return out, back


def _parts(arrivals: _Arrivals) -> tuple[slice, slice, slice]:
    line, behind = arrivals.first
    return slice(0, line), slice(line, behind), slice(behind, None)


def _seen(
    budget: Budget, sight: Sight, steps: NDArray[np.intp], k_db: Floats, seed: int, role: str
) -> tuple[_Arrivals, tuple[Side, Side]]:
    """Return the waves, and what the panels of the base station and of the UE make of each."""
    place = budget.position_m[steps]
    ray = place - np.asarray(sight.station.position_m)
    straight = [angle[:, None] for angle in angles_deg(ray)]
    waves = [Clusters(np.ones((steps.size, 1)), straight[0], straight[1], straight[0] + 180.0, -straight[1])]
    rays: list[tuple[float, float, float, float]] = [(0.0, 0.0, 0.0, 0.0)]
    if sight.propagation != "free-space":
        scenario = CLUSTERS[sight.propagation]
        for table, k, name in ((scenario.los, k_db, "line"), (scenario.nlos, None, "behind")):
            stage = f"clusters {name} {role}"
            station_m, frequency_hz = sight.station.position_m, sight.carrier.frequency_hz
            waves.append(draw_clusters(seed, stage, sight.propagation, k, station_m, place, frequency_hz))
            rays.append((table.ray_departure, 0.0, table.ray_arrival, table.ray_zenith))
    ends = np.cumsum([part[0].shape[1] for part in waves]).tolist()
    share = np.concatenate([part[0] for part in waves], axis=1)
    arrival = np.concatenate([part[3] for part in waves], axis=1)
    zenith = 90.0 - np.concatenate([part[4] for part in waves], axis=1)
    heading = budget.heading_deg[steps][:, None]
    own = self_blocking_db(arrival, zenith, heading, budget.scene.ue.hold, budget.scene.ue.body_loss_db)
    own[:, 0] = 0.0  # the direct ray has it from step to step
    arrivals = _Arrivals(share * 10 ** (-own / 10), (ends[0], ends[1] if len(ends) > 1 else ends[0]))
    station, ue = sight.station.array, budget.scene.ue.array
    out = panels_seen(station, [part[1:3] for part in waves], [ray[:2] for ray in rays], straight[0], straight[1], None)
    back = panels_seen(
        ue, [part[3:5] for part in waves], [ray[2:] for ray in rays], straight[0] + 180, -straight[1], heading
    )
    return arrivals, (out, back)


def panels_seen(
    array: Array,
    angles: list[tuple[Floats, ...]],
    rays: list[tuple[float, ...]],
    facing_azimuth: Floats,
    facing_elevation: Floats,
    heading: Floats | None,
) -> Side:
    """Return the gains of one end; `heading` turns the panels of a UE that has several."""
    above = facing_elevation if array.elevation_deg is None else np.asarray(array.elevation_deg)
    panels = []
    for panel in range(array.panels):
        normal = facing_azimuth if array.azimuth_deg is None else np.asarray(array.azimuth_deg)
        if array.panels > 1:
            turn = np.zeros(1) if heading is None else heading
            normal = turn + (array.azimuth_deg or 0.0) + 360.0 / array.panels * panel
        parts = [
            patterns(array, *spread).towards(azimuth - normal, elevation - above)
            for (azimuth, elevation), spread in zip(angles, rays, strict=True)
        ]
        columns, rows = (np.concatenate(part, axis=2) for part in zip(*parts, strict=True))
        panels.append((columns, rows))
    return Side(tuple(panels))


def _followed(
    budget: Budget,
    steps: NDArray[np.intp],
    arrivals: _Arrivals,
    sides: tuple[Side, Side],
    weight: Floats,
    errors: tuple[Floats, Floats],
) -> Gains:
    """Choose a pair at each measurement, hold it from the next one on, and return its gains at every step."""
    out, back = sides
    power = weight.astype(np.float32)
    pairs = (_searched(out, back, power, power), _searched(out, back, power, _strongest(out, back, power)))
    received = [(power * _held(out, pair[0]) * _held(back, pair[1])).sum(axis=1) for pair in pairs]
    chosen_out, chosen_back = (
        _missed(side, np.where(received[1] > received[0], two, one), error)
        for side, one, two, error in zip(sides, *pairs, errors, strict=True)
    )
    late = [np.concatenate((chosen[:, :1], chosen[:, :-1]), axis=1) for chosen in (chosen_out, chosen_back)]
    begin = _held(out, late[0]) * _held(back, late[1])
    end = _held(out, late[0], ahead=True) * _held(back, late[1], ahead=True)
    share = arrivals.share
    after = np.concatenate((share[1:], share[-1:]))
    row = np.clip(np.searchsorted(steps, np.arange(budget.time_s.size), side="right") - 1, 0, steps.size - 1)
    length = np.maximum(np.diff(steps, append=steps[-1] + 1), 1)
    fraction = (np.arange(budget.time_s.size) - steps[row]) / length[row]
    found = []
    for part in _parts(arrivals):
        first = (share[:, part] * begin[:, part]).sum(axis=1)
        last = (after[:, part] * end[:, part]).sum(axis=1)
        found.append(first[row] + (last - first)[row] * fraction)
    return Gains(*found)


def _searched(out: Side, back: Side, power: Singles, seen: Singles) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return beams of both ends: one end's for what is `seen` without beams, the other's for that one, and again."""
    one = _best(out, seen)
    two = _best(back, power * _held(out, one))
    return _best(out, power * _held(back, two)), two


def _strongest(out: Side, back: Side, power: Singles) -> Singles:
    """Return the power of the wave alone that is strongest with beams towards it at both ends."""
    gain = power.copy()
    for side in (out, back):
        gain *= np.max([columns.max(axis=0) * rows.max(axis=0) for columns, rows in side.panels], axis=0)
    alone = np.zeros_like(power)
    rows = np.arange(len(power))
    place = gain.argmax(axis=1)
    alone[rows, place] = power[rows, place]
    return alone


def _best(side: Side, power: Singles) -> NDArray[np.intp]:
    """Return the best panel, column beam and row beam at each measurement, (3, p)."""
    best = np.full(power.shape[0], -1.0, dtype=np.float32)
    chosen = np.zeros((3, power.shape[0]), dtype=np.intp)
    for panel, (columns, rows) in enumerate(side.panels):
        received = np.matmul((columns * power).transpose(1, 0, 2), rows.transpose(1, 2, 0))  # (p, columns, rows)
        flat = received.reshape(len(received), -1)
        place = flat.argmax(axis=1)
        value = flat[np.arange(len(flat)), place]
        better = value > best
        best = np.where(better, value, best)
        chosen[:, better] = np.stack((np.full_like(place, panel), *np.divmod(place, rows.shape[0])))[:, better]
    return chosen


def _missed(side: Side, chosen: NDArray[np.intp], error_deg: Floats) -> NDArray[np.intp]:
    """Return the beams chosen with a pointing error: as many beams aside as the error is wide."""
    moved = chosen.copy()
    for place, beams in enumerate(table.shape[0] for table in side.panels[0]):
        spacing = 2.0 / beams  # in the sine of the angle
        shift = np.rint(np.sin(np.radians(error_deg[place])) / spacing).astype(np.intp)
        moved[1 + place] = np.clip(chosen[1 + place] + shift, 0, beams - 1)
    return moved


def _held(side: Side, chosen: NDArray[np.intp], *, ahead: bool = False) -> Singles:
    """Return the gain of chosen beams for each wave, (p, waves); `ahead`: at the next measurement."""
    count = chosen.shape[1]
    at = np.minimum(np.arange(count) + ahead, count - 1)
    gain = np.empty((count, side.panels[0][0].shape[2]), dtype=np.float32)
    for panel, (columns, rows) in enumerate(side.panels):
        mine = chosen[0] == panel
        gain[mine] = columns[chosen[1, mine], at[mine]] * rows[chosen[2, mine], at[mine]]
    return gain
