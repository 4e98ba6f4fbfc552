"""Beam pairs of a base station and a UE: chosen from a codebook by what was measured, and held until the next choice.

A pair is chosen as by the beam management of NR (TR 38.802 6.1.6.1), one end after the other: the best beam of the base
station for a UE without beams (P1), the UE's best beam and panel for that one (P3), the base station's best beam for
that one (P2). The same is done from the strongest single wave on, and the better pair is taken. A pair is used from the
next measurement on, so that it is late by one measurement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from wavebed.channel.propagation.antenna import Patterns, Toward, angles_deg, bins, patterns, self_blocking_db
from wavebed.channel.propagation.correlated import generator
from wavebed.channel.propagation.fading import CLUSTERS, Clusters, cluster_places, draw_clusters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.channel.budget import LinkBudget, Sight
    from wavebed.channel.propagation.correlated import Lattice
    from wavebed.scene.tables import Array

    Floats: TypeAlias = NDArray[np.float64]
    Singles: TypeAlias = NDArray[np.float32]
    Bins: TypeAlias = NDArray[np.intp]
    Beams: TypeAlias = NDArray[np.intp]
    """Panel, column beam and row beam at each measurement, (3, p)."""
    Panels: TypeAlias = tuple[Toward, ...]
    """What each panel of one end makes of each wave at some measurements."""


MOVED_M = 0.1
"""A UE that has moved less is not measured again before `REST_UPDATES` updates: its channel is the same."""
REST_UPDATES = 8
CHUNK = 128
"""Measurements whose gains are looked up at once, so that they stay in the processor's cache."""


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


@dataclass(frozen=True, eq=False)
class Measurements:
    """When and where beams are measured, the same for all seeds.

    Parameters
    ----------
    steps : (p,) intp
        The steps at which beams are measured; the last step is one of them.
    row : (n,) intp
        The measurement before each step.
    fraction : (n,) float64
        How far each step is on the way to the next measurement.
    places : tuple of Lattice
        The places, for the clusters of LOS and of NLOS; none in free space.
    """

    steps: NDArray[np.intp]
    row: NDArray[np.intp]
    fraction: Floats
    places: tuple[Lattice, ...]

    @classmethod
    def of(cls, budget: LinkBudget, sight: Sight) -> Measurements:
        """Return the measurements of a base station's beams."""
        steps = _measured_steps(budget, sight)
        length = np.diff(steps, append=budget.time_s.size)
        row = np.repeat(np.arange(steps.size), length)
        fraction = (np.arange(budget.time_s.size) - steps[row]) / length[row]
        if sight.propagation == "free-space":
            return cls(steps, row, fraction, ())
        place = budget.position_m[steps]
        return cls(
            steps, row, fraction, tuple(cluster_places(sight.propagation, place, los=los) for los in (True, False))
        )

    def at_steps(self, held: Sequence[tuple[Floats, Floats]]) -> Floats:
        """Return gains at every step, (seeds, n), of those at each measurement and just before the next one."""
        gains = np.empty((len(held), self.row.size))
        rest = np.empty(self.row.size)
        for own, (first, last) in zip(gains, held, strict=True):  # one seed at a time stays in the cache
            np.take(last - first, self.row, out=own, mode="clip")
            np.multiply(own, self.fraction, out=own)
            np.add(own, np.take(first, self.row, out=rest, mode="clip"), out=own)
        return gains


class _Arrivals(NamedTuple):
    """Waves at `p` measurements: direct first, then the clusters of LOS, then of NLOS.

    `share` (p, waves) is the part of the power of their kind; `first` are the places where the kinds begin.
    """

    share: Floats
    first: tuple[int, int]


class Side(NamedTuple):
    """The waves as the panels of one end see them: patterns, and the bins of each panel's waves, (p, waves)."""

    seen: Patterns
    bins: tuple[tuple[Bins, Bins], ...]

    def some(self, rows: slice) -> Panels:
        """Return the gains at some measurements."""
        return tuple(self.seen.at(across[rows], up[rows]) for across, up in self.bins)


def beamless(budget: LinkBudget, sight: Sight) -> bool:
    """Return whether neither end has a direction: then every gain is 1."""
    arrays = (sight.station.array, budget.scene.ue.array)
    return all(array.rows * array.columns == 1 and array.element == "isotropic" for array in arrays)


def _measured_steps(budget: LinkBudget, sight: Sight) -> NDArray[np.intp]:
    update_s = max(sight.station.array.update_s, budget.scene.ue.array.update_s)
    beat = np.floor(budget.time_s / update_s + 1e-9)
    candidates = np.concatenate(([0], np.flatnonzero(np.diff(beat)) + 1))
    moved = np.floor(budget.walked_m[candidates] / MOVED_M)
    rest = np.floor(beat[candidates] / REST_UPDATES)
    keep = np.concatenate(([True], (np.diff(moved) > 0) | (np.diff(rest) > 0)))
    steps = np.union1d(candidates[keep], [budget.time_s.size - 1])
    if sight.station.array.tracking_error_deg > 0 or budget.scene.ue.array.tracking_error_deg > 0:
        return steps
    # A measurement that finds what the two before it and the two after it find changes nothing: the pair is held.
    seen = np.column_stack((budget.position_m[steps], budget.heading_deg[steps], sight.open_part[steps]))
    same = (seen[1:] == seen[:-1]).all(axis=1)
    needless = np.zeros(steps.size, dtype=np.bool_)
    needless[2:-2] = same[:-3] & same[1:-2] & same[2:-1] & same[3:]
    return np.asarray(steps[~needless])


def track(
    budget: LinkBudget, sight: Sight, measured: Measurements, powers: Powers, k_db: Floats, seed: int, role: str
) -> list[list[tuple[Floats, Floats]]]:
    """Follow two beam pairs: the best one, and the best one for the scattered waves alone.

    Parameters
    ----------
    budget, sight
        The scene and the base station.
    measured : Measurements
        Of that base station.
    powers : Powers
        At the measurements: decides which pair is best.
    k_db : (p,) float64
        K factor at the measurements.
    seed, role
        Key the draws.

    Returns
    -------
    list of list of (first, last)
        For each pair and each kind of path, the gain at each measurement and just before the next one, (p,). In free
        space there are no scattered waves, and no second pair.
    """
    arrivals, sides = _seen(budget, sight, measured, k_db, seed, role)
    weight = np.empty(arrivals.share.shape, dtype=np.float32)
    for power, part in zip(powers, _parts(arrivals), strict=True):
        weight[:, part] = power[:, None] * arrivals.share[:, part]
    errors = _errors(budget, sight, measured.steps.size, seed, role)
    weights = [weight]
    if sight.propagation != "free-space":
        weights.append(np.concatenate((np.zeros_like(weight[:, :1]), weight[:, 1:]), axis=1))
    return [_summed(arrivals, *held) for held in _followed(sides, weights, errors)]


def _errors(budget: LinkBudget, sight: Sight, count: int, seed: int, role: str) -> tuple[Floats, Floats]:
    """Return the pointing errors of both ends, (2, count) degrees each: azimuth, elevation."""
    ends = ((sight.station.array, "station"), (budget.scene.ue.array, "ue"))
    out, back = (
        array.tracking_error_deg
        * generator(seed, f"beam {end} {role}{budget.scene.ue.stream}").standard_normal((2, count))
        if array.tracking_error_deg > 0
        else np.zeros((2, count))
        for array, end in ends
    )
    return out, back


def _parts(arrivals: _Arrivals) -> tuple[slice, slice, slice]:
    line, behind = arrivals.first
    return slice(0, line), slice(line, behind), slice(behind, None)


def _seen(
    budget: LinkBudget, sight: Sight, measured: Measurements, k_db: Floats, seed: int, role: str
) -> tuple[_Arrivals, tuple[Side, Side]]:
    """Return the waves, and what the panels of the base station and of the UE make of each."""
    ray = budget.position_m[measured.steps] - np.asarray(sight.station.position_m)
    straight = [angle[:, None] for angle in angles_deg(ray)]
    waves = [Clusters(np.ones((measured.steps.size, 1)), straight[0], straight[1], straight[0] + 180.0, -straight[1])]
    rays = [(0.0, 0.0, 0.0, 0.0)]
    if sight.propagation != "free-space":
        scenario = CLUSTERS[sight.propagation]
        kinds = ((scenario.los, k_db, "line"), (scenario.nlos, None, "behind"))
        for (table, k, name), places in zip(kinds, measured.places, strict=True):
            stage = f"clusters {name} {role}"
            station_m, frequency_hz = sight.station.position_m, sight.carrier.frequency_hz
            waves.append(draw_clusters(seed, stage, sight.propagation, k, station_m, places, frequency_hz))
            rays.append((table.ray_departure, 0.0, table.ray_arrival, table.ray_zenith))
    sizes = [part.power.shape[1] for part in waves]
    kind = np.repeat(np.arange(len(waves)), sizes)
    share, *departure, azimuth, elevation = (np.concatenate(part, axis=1) for part in zip(*waves, strict=True))
    heading = budget.heading_deg[measured.steps][:, None]
    ue = budget.scene.ue
    own = self_blocking_db(azimuth, 90.0 - elevation, heading, ue.hold, ue.body_loss_db)
    own[:, 0] = 0.0  # the direct ray has it from step to step
    arrivals = _Arrivals(share * 10 ** (-own / 10), (1, sum(sizes[:2])))
    spreads = tuple(ray[:2] for ray in rays), tuple(ray[2:] for ray in rays)
    out = panels_seen(sight.station.array, (departure[0], departure[1]), (straight[0], straight[1]), spreads[0], kind)
    facing = straight[0] + 180, -straight[1]
    back = panels_seen(budget.scene.ue.array, (azimuth, elevation), facing, spreads[1], kind, heading)
    return arrivals, (out, back)


def panels_seen(
    array: Array,
    angles: tuple[Floats, Floats],
    facing: tuple[Floats, Floats],
    rays_deg: tuple[tuple[float, float], ...] = ((0.0, 0.0),),
    kind: NDArray[np.intp] | int = 0,
    heading: Floats | None = None,
) -> Side:
    """Return the waves as one end sees them.

    Parameters
    ----------
    array : Array
        Its panels.
    angles : tuple of (p, waves) float64
        Azimuth and elevation of the waves.
    facing : tuple of (p, 1) float64
        Direction of a panel whose own is not given.
    rays_deg, kind
        Spreads of each kind of wave, and the kind of each.
    heading : (p, 1) float64, optional
        Turns the panels of a UE that has several.
    """
    seen = patterns(array, rays_deg)
    above = facing[1] if array.elevation_deg is None else np.asarray(array.elevation_deg)
    panels = []
    for panel in range(array.panels):
        normal = facing[0] if array.azimuth_deg is None else np.asarray(array.azimuth_deg)
        if array.panels > 1:
            turn = np.zeros(1) if heading is None else heading
            normal = turn + (array.azimuth_deg or 0.0) + 360.0 / array.panels * panel
        panels.append((bins(angles[0] - normal, kind), bins(angles[1] - above, kind)))
    return Side(seen, tuple(panels))


def _followed(
    sides: tuple[Side, Side], weights: list[Singles], errors: tuple[Floats, Floats]
) -> list[tuple[Singles, Singles]]:
    """Choose a pair for each weight of the waves at each measurement, and hold it from the next one on.

    Returns
    -------
    list of (begin, end)
        Gain of the held pair for each wave, (p, waves), at each measurement and just before the next one.
    """
    found = [(np.empty_like(weight), np.empty_like(weight)) for weight in weights]
    kept: dict[int, NDArray[np.intp]] = {}  # the last two pairs of each
    for start in range(0, len(weights[0]), CHUNK):
        rows = slice(start, start + CHUNK)
        out, back = (side.some(rows) for side in sides)
        for number, (weight, (begin, end)) in enumerate(zip(weights, found, strict=True)):
            if number == 0 or weights[0][rows, 0].any():  # without a direct ray the second pair is the first
                pair = _chosen(out, back, weight[rows])
                chosen = np.stack(
                    [_missed(out, pair[0], errors[0][:, rows]), _missed(back, pair[1], errors[1][:, rows])]
                )
            late = np.concatenate((kept.get(number, np.repeat(chosen[:, :, :1], 2, axis=2)), chosen), axis=2)
            kept[number] = late[:, :, -2:]
            begin[rows] = _held(out, late[0, :, 1:-1]) * _held(back, late[1, :, 1:-1])
            end[rows] = _held(out, late[0, :, :-2]) * _held(back, late[1, :, :-2])
    return [(begin, np.concatenate((end[1:], begin[-1:]))) for begin, end in found]


def _summed(arrivals: _Arrivals, begin: Singles, end: Singles) -> list[tuple[Floats, Floats]]:
    """Return the gains of a held pair for each kind of path, at each measurement and just before the next one."""
    share = arrivals.share
    after = np.concatenate((share[1:], share[-1:]))
    return [
        ((share[:, part] * begin[:, part]).sum(axis=1), (after[:, part] * end[:, part]).sum(axis=1))
        for part in _parts(arrivals)
    ]


def _chosen(out: Panels, back: Panels, power: Singles) -> tuple[Beams, Beams]:
    """Return the best beams of both ends for waves of this power."""
    whole = _searched(out, back, power, _best(out, power)[0])
    strongest = (power * _highest(out) * _highest(back)).argmax(axis=1)  # with beams towards it at both ends
    single = _searched(out, back, power, _towards(out, strongest))
    better = single[2] > whole[2]
    return np.where(better, single[0], whole[0]), np.where(better, single[1], whole[1])


def _highest(panels: Panels) -> Singles:
    """Return the gain of the best beam of any panel towards each wave."""
    return np.asarray(np.max([panel.highest for panel in panels], axis=0))


def _searched(out: Panels, back: Panels, power: Singles, first: Beams) -> tuple[Beams, Beams, Singles]:
    """Return beams of both ends, and what they receive: from a `first` one of the base station on, each end in turn."""
    two = _best(back, power * _held(out, first))[0]
    one, received = _best(out, power * _held(back, two))
    return one, two, received


def _towards(panels: Panels, wave: NDArray[np.intp]) -> Beams:
    """Return the best panel, column beam and row beam for one wave at each measurement."""
    at = np.arange(wave.size)
    best = np.argmax([panel.highest[at, wave] for panel in panels], axis=0)
    beams = np.array([[table[at, wave].argmax(axis=1) for table in panel[:2]] for panel in panels])
    return np.stack((best, *beams[best, :, at].T))


def _best(panels: Panels, power: Singles) -> tuple[Beams, Singles]:
    """Return the best panel, column beam and row beam at each measurement, (3, p), and the power they receive."""
    best = np.full(power.shape[0], -1.0, dtype=np.float32)
    chosen = np.zeros((3, power.shape[0]), dtype=np.intp)
    for panel, (columns, rows, _) in enumerate(panels):
        weighted = np.repeat(power.ravel(), columns.shape[2]).reshape(columns.shape)  # quicker than to broadcast it
        weighted *= columns
        received = np.matmul(weighted.transpose(0, 2, 1), rows)  # (p, columns, rows)
        flat = received.reshape(len(received), -1)
        place = flat.argmax(axis=1)
        value = flat[np.arange(len(flat)), place]
        better = value > best
        best = np.where(better, value, best)
        chosen[:, better] = np.stack((np.full_like(place, panel), *np.divmod(place, rows.shape[2])))[:, better]
    return chosen, best


def _missed(panels: Panels, chosen: Beams, error_deg: Floats) -> Beams:
    """Return the beams chosen with a pointing error: as many beams aside as the error is wide."""
    if not error_deg.any():
        return chosen
    moved = chosen.copy()
    for place, beams in enumerate(table.shape[2] for table in panels[0][:2]):
        spacing = 2.0 / beams  # in the sine of the angle
        shift = np.rint(np.sin(np.radians(error_deg[place])) / spacing).astype(np.intp)
        moved[1 + place] = np.clip(chosen[1 + place] + shift, 0, beams - 1)
    return moved


def _held(panels: Panels, chosen: Beams) -> Singles:
    """Return the gain of chosen beams for each wave, (p, waves)."""
    if len(panels) == 1:
        at = np.arange(chosen.shape[1])
        return np.asarray(panels[0].columns[at, :, chosen[1]] * panels[0].rows[at, :, chosen[2]])
    gain = np.empty_like(panels[0].highest)
    for panel, (columns, rows, _) in enumerate(panels):
        mine = np.flatnonzero(chosen[0] == panel)
        gain[mine] = columns[mine, :, chosen[1, mine]] * rows[mine, :, chosen[2, mine]]
    return gain
