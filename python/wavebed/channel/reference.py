"""Gain of two arrays over a clustered channel: eigen-beamforming, and what is left of it in every sub-band.

The study's simulator draws one of a fixed number of channel instances every 100 ms. Each has at most four clusters with
the statistics that New York University measured at 28 GHz, 20 paths in all; both ends use the strongest eigenvector
of their covariance matrix. The instances here are our own, drawn from the published statistics; the quantiles of the
gain follow from them.

References
----------
M. R. Akdeniz et al., "Millimeter wave channel modeling and cellular capacity evaluation", IEEE JSAC 32(6), 2014,
Table I: number of clusters max(Poisson(1.8), 1); power U^(r - 1)·10^(-Z/10), r = 2.8, Z ~ N(0, 4 dB); rms angular
spreads exponential with means 10.2° (base station, azimuth), 0° (base station, elevation), 15.5° and 6° (UE).
"""

from __future__ import annotations

from csv import DictReader
from functools import cache
from importlib.resources import files
from math import erfc, log, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wavebed.channel.realisation import Realisation
from wavebed.errors import UserError
from wavebed.pattern.model import STATES, Pattern, steps
from wavebed.scene.geometry import intervals, positions
from wavebed.scene.model import SceneInterval

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from wavebed.scene.model import SceneModel
    from wavebed.scene.tables import ReferenceChain

    Floats = NDArray[np.float64]
    Complex = NDArray[np.complex128]


INSTANCES = 400
SUBBANDS = 72
SUBBAND_HZ = 13.889e6

PATHS = 20
MAX_CLUSTERS = 4
CLUSTER_MEAN = 1.8
POWER_EXPONENT = 1.8  # r - 1
POWER_SIGMA_DB = 4.0
STATION_SPREAD_DEG = (10.2, 0.0)
UE_SPREAD_DEG = (15.5, 6.0)
MAX_DELAY_S = 50e-9
"""The study's simulator spreads the 20 delays over 50 ns; which path has which is drawn here."""

LIBRARY_KEY = (28, 64, 16)
"""The instances are part of the model, as they are part of the study's simulator: no seed changes them."""


@cache
def gains(station: tuple[int, int], ue: tuple[int, int]) -> Floats:
    """Return the power gain of every channel instance in every sub-band.

    Parameters
    ----------
    station, ue : (int, int)
        Rows and columns of the two arrays; elements are isotropic, half a wavelength apart.

    Returns
    -------
    (INSTANCES, SUBBANDS) float64
        Gain over a single path between single antennas, linear.
    """
    rng = np.random.default_rng(LIBRARY_KEY)
    clusters = np.clip(rng.poisson(CLUSTER_MEAN, INSTANCES), 1, MAX_CLUSTERS)
    member = np.arange(PATHS) * clusters[:, np.newaxis] // PATHS
    power = _path_powers(rng, clusters, member)
    beam = _beam(rng, station, STATION_SPREAD_DEG, member, power) * _beam(rng, ue, UE_SPREAD_DEG, member, power)
    phase = rng.uniform(0.0, 2 * np.pi, power.shape)
    delay_s = rng.uniform(0.0, MAX_DELAY_S, power.shape)
    turns = np.repeat(np.exp(-2j * np.pi * SUBBAND_HZ * delay_s)[..., np.newaxis], SUBBANDS, axis=-1)
    amplitude = np.sqrt(power) * beam * np.exp(1j * phase)
    response = np.matmul(amplitude[:, np.newaxis, :], np.cumprod(turns, axis=-1))[:, 0, :]
    gain: Floats = np.abs(response) ** 2
    gain.setflags(write=False)
    return gain


def _path_powers(rng: np.random.Generator, clusters: NDArray[np.int64], member: NDArray[np.int64]) -> Floats:
    """Draw the power of each path; they sum to 1, and paths of a cluster share its power evenly."""
    shape = (len(clusters), MAX_CLUSTERS)
    power = rng.random(shape) ** POWER_EXPONENT * 10 ** (-0.1 * rng.normal(0.0, POWER_SIGMA_DB, shape))
    power[np.arange(MAX_CLUSTERS) >= clusters[:, np.newaxis]] = 0.0
    paths = (member[..., np.newaxis] == np.arange(MAX_CLUSTERS)).sum(axis=1)
    fraction = power / power.sum(axis=1, keepdims=True) / np.maximum(paths, 1)
    return np.asarray(np.take_along_axis(fraction, member, axis=1))


def _beam(
    rng: np.random.Generator,
    elements: tuple[int, int],
    spread_deg: tuple[float, float],
    member: NDArray[np.int64],
    power: Floats,
) -> Complex:
    """Return the amplitude that one end's beam gives to each path."""
    shape = (len(member), MAX_CLUSTERS)
    centre = rng.uniform(0.0, 2 * np.pi, shape)
    azimuth = np.take_along_axis(centre, member, axis=1) + _offsets(rng, spread_deg[0], member)
    elevation = _offsets(rng, spread_deg[1], member)
    alike = _likeness(elements, azimuth, elevation)
    root = np.sqrt(power)
    chosen = root * _strongest(alike * root[:, :, np.newaxis] * root[:, np.newaxis, :])
    reach = np.matmul(alike, chosen[..., np.newaxis])[..., 0]
    norm = np.sqrt(np.einsum("np,np->n", chosen.conj(), reach).real)
    return np.asarray(reach / norm[:, np.newaxis])


def _offsets(rng: np.random.Generator, mean_deg: float, member: NDArray[np.int64]) -> Floats:
    """Draw each path's angle from the middle of its cluster, whose rms spread is exponential."""
    spread = np.radians(mean_deg) * rng.exponential(1.0, (len(member), MAX_CLUSTERS))
    return np.asarray(np.take_along_axis(spread, member, axis=1) * rng.normal(size=member.shape))


def _likeness(elements: tuple[int, int], azimuth: Floats, elevation: Floats) -> Complex:
    """Inner products of the paths' steering vectors on a planar array, elements half a wavelength apart.

    The weights of a beam are a sum of steering vectors, so that these products are all that is needed of the array.
    """
    rows, columns = elements
    across = np.exp(1j * np.pi * (np.cos(elevation) * np.sin(azimuth))[..., np.newaxis] * np.arange(columns))
    up = np.exp(1j * np.pi * np.sin(elevation)[..., np.newaxis] * np.arange(rows))
    products = [np.matmul(waves.conj(), waves.transpose(0, 2, 1)) for waves in (across, up)]
    return np.asarray(products[0] * products[1])


def _strongest(matrices: Complex) -> Complex:
    """Strongest eigenvector of each covariance matrix, by squaring; exact unless two are equal within 1 %."""
    power = matrices
    for _ in range(8):
        power = np.matmul(power, power)
        power = power / np.abs(power).max(axis=(1, 2), keepdims=True)
    best = np.argmax(np.abs(np.einsum("npp->np", power)), axis=1)
    return np.asarray(power[np.arange(len(power)), :, best])


RESOURCE_ELEMENTS = 48 * 72 - 864
"""Per symbol: 48 subcarriers in each of 72 sub-bands, less the reference signals."""

USABLE_SYMBOLS = 22
"""Of 24 in a subframe; one at each end carries control."""

SUBFRAME_S = 100e-6
CRC_BITS = 24
CODE_BLOCK_BITS = 6144

UNCERTAINTY_DB = 0.5
"""A level begins within the dB below the one at which it was first seen; its middle is taken."""

_LOWEST_DB, _HIGHEST_DB, _PER_DB = -30.0, 40.0, 20
_SEARCH_STEP_DB = 1.0
_MOST_LOSS_DB = 15.0


class Level(NamedTuple):
    """A channel quality indicator: its MCS, bits per symbol, code rate, and the first whole dB at which it was seen."""

    cqi: int
    mcs: int
    bits: int
    code_rate: float
    sinr_db: float

    @property
    def rate_bps(self) -> float:
        """Bits of transport blocks per second, without their checksums."""
        block = int(RESOURCE_ELEMENTS * USABLE_SYMBOLS * self.bits * self.code_rate) - CRC_BITS
        if block > CODE_BLOCK_BITS:
            block -= CRC_BITS * -(-block // CODE_BLOCK_BITS)
        return block / SUBFRAME_S


@cache
def levels() -> tuple[Level, ...]:
    """Return the 15 levels, lowest first."""
    lines = files(__package__).joinpath("reference_cqi.csv").read_text().splitlines()
    rows = DictReader(line for line in lines if not line.startswith("#"))
    return tuple(
        Level(int(row["cqi"]), int(row["mcs"]), int(row["bits"]), float(row["code_rate"]), float(row["sinr_db"]))
        for row in rows
    )


def rates_bps() -> NDArray[np.int64]:
    """Return the rate of each level; the first entry, 0, means no level."""
    return np.array([0, *(round(level.rate_bps) for level in levels())], dtype=np.int64)


def mcs_numbers() -> NDArray[np.int16]:
    """Return the MCS of each level; the first entry, -1, means no level."""
    return np.array([-1, *(level.mcs for level in levels())], dtype=np.int16)


def flat_thresholds_db() -> Floats:
    """Return the SINR at which each level begins in a channel without selectivity, ±`UNCERTAINTY_DB`."""
    return np.array([level.sinr_db - UNCERTAINTY_DB for level in levels()])


@cache
def needed_db(station: tuple[int, int], ue: tuple[int, int]) -> Floats:
    """Return the SINR before beamforming at which each level begins, for every channel instance.

    Returns
    -------
    (instances, levels) float64
        SINR of a single path between single antennas, in dB; it rises with the level.
    """
    gain = gains(station, ue)
    mean_db = 10 * np.log10(gain.mean(axis=1))
    relative_db = 10 * np.log10(np.maximum(gain, 1e-12)) - mean_db[:, np.newaxis]
    starts_db = flat_thresholds_db()
    columns = []
    for bits in (2, 4, 6):
        own_db = starts_db[[level.bits == bits for level in levels()]]
        mean_sinr_db = np.arange(own_db[0], own_db[-1] + _MOST_LOSS_DB, _SEARCH_STEP_DB)
        reached = np.stack([_information(bits, relative_db + at_db).mean(axis=1) for at_db in mean_sinr_db])
        columns += [_crossing(mean_sinr_db, reached, float(_information(bits, flat_db))) for flat_db in own_db]
    return np.asarray(np.maximum.accumulate(np.stack(columns, axis=1) - mean_db[:, np.newaxis], axis=1))


def _crossing(mean_sinr_db: Floats, reached: Floats, wanted: float) -> Floats:
    """Return the mean SINR at which each column of rising information gets to what is wanted."""
    after = np.clip((reached < wanted).sum(axis=0), 1, len(mean_sinr_db) - 1)
    column = np.arange(reached.shape[1])
    low, high = reached[after - 1, column], reached[after, column]
    part = np.clip((wanted - low) / np.maximum(high - low, 1e-12), 0.0, 1.0)
    return np.asarray(mean_sinr_db[after - 1] + part * (mean_sinr_db[after] - mean_sinr_db[after - 1]))


def _information(bits: int, sinr_db: Floats | float) -> Floats:
    """Mutual information per coded bit of QPSK, 16QAM or 64QAM at the given SINR, from the curve's nearest point."""
    place = np.rint((sinr_db - _LOWEST_DB) * _PER_DB).astype(np.int64)
    curve = _curve(bits)
    return np.asarray(curve[np.clip(place, 0, len(curve) - 1)])


@cache
def _curve(bits: int) -> Floats:
    """Mutual information per coded bit (bit-interleaved coded modulation), by Gauss-Hermite quadrature.

    Reference: G. Caire, G. Taricco, E. Biglieri, "Bit-interleaved coded modulation", IEEE Trans. IT 44(3), 1998,
    equation 18. A square constellation is two independent ones of half the bits.
    """
    size = 2 ** (bits // 2)
    points = np.arange(1 - size, size, 2.0)
    points /= np.sqrt(np.mean(points**2))
    labels = np.arange(size) ^ (np.arange(size) >> 1)
    nodes, weights = np.polynomial.hermite_e.hermegauss(32)
    weights = weights / weights.sum()
    sinr_db = np.arange(_LOWEST_DB, _HIGHEST_DB, 1.0)
    noise = 10 ** (-sinr_db / 20)[:, np.newaxis, np.newaxis]
    received = points[:, np.newaxis] + noise * nodes
    exponent = (received[..., np.newaxis] - points) ** 2 - (noise * nodes)[..., np.newaxis] ** 2
    likelihood = np.exp(-exponent / (2 * noise[..., np.newaxis] ** 2))
    total = likelihood.sum(axis=-1)
    lost = np.zeros(len(sinr_db))
    for bit in range(bits // 2):
        same = (labels[:, np.newaxis] >> bit & 1) == (labels >> bit & 1)
        right = (likelihood * same[:, np.newaxis, :]).sum(axis=-1)
        lost += (np.log2(total / right) * weights).sum(axis=-1).mean(axis=-1)
    fine_db = np.arange(_LOWEST_DB, _HIGHEST_DB - 1.0, 1 / _PER_DB)
    return np.asarray(np.interp(fine_db, sinr_db, 1 - lost / (bits // 2)))


LENGTH_S = 0.039
DEPTH_DB = 35.96
CROSSING_DB = 37.0 - 20.0
DOWN_S = 0.031
UP_S = 0.009

DOWN_EXPONENT = log(CROSSING_DB / DEPTH_DB) / log(DOWN_S / LENGTH_S)
UP_EXPONENT = log(CROSSING_DB / DEPTH_DB) / log(1 - UP_S / LENGTH_S)


def blockage_db(time_s: Floats, spans: Iterable[tuple[float, float]]) -> Floats:
    """Return the loss of blockage over time.

    Parameters
    ----------
    time_s : (n,) float64
        Times, rising.
    spans : iterable of (float, float)
        When a box stands in the direct path, in seconds, in order and apart. A transition begins from the loss at which
        the one before it was left.
    """
    loss = np.zeros(len(time_s))
    ended_s, left = -np.inf, 0.0
    for start_s, end_s in spans:
        begun = float(_rising(left, np.array(start_s - ended_s))) ** (1 / DOWN_EXPONENT)
        here = (time_s >= start_s) & (time_s < end_s)
        loss[here] = np.minimum(begun + (time_s[here] - start_s) / LENGTH_S, 1.0) ** DOWN_EXPONENT
        ended_s, left = end_s, min(begun + (end_s - start_s) / LENGTH_S, 1.0) ** DOWN_EXPONENT
        after = (time_s >= end_s) & (time_s < end_s + LENGTH_S)
        loss[after] = _rising(left, time_s[after] - end_s)
    return DEPTH_DB * loss


def _rising(left: float, since_s: Floats) -> Floats:
    """Return the remaining fraction of the depth, a time after the path was free again at the fraction `left`."""
    remaining: Floats = np.maximum(left ** (1 / UP_EXPONENT) - since_s / LENGTH_S, 0.0) ** UP_EXPONENT
    return remaining


REDRAW_S = 0.1
"""How often the small-scale gain is drawn anew."""

CQI_DELAY_S = 0.001
"""Age of the report that the scheduler uses."""

FALL_DB = 0.1
"""Standard deviation of the normal curve that describes how a block's errors fall with SINR.

The normal approximation (Polyanskiy, Poor, Verdú 2010) for blocks of 6144 bits gives 0.08 dB at rate 0.44, QPSK. At its
threshold a level fails in 10 %."""

STAGE = 1
"""Key of the draws of this mode; another number for each further kind of draw."""

_Z10 = 1.2816
_CODES = {"LOS": STATES.index("los"), "NLOS": STATES.index("nlos"), "OUTAGE": STATES.index("outage")}


def free_path_db(distance_m: Floats) -> Floats:
    """Path loss of the study: 61.4 + 20·lg d, d in metres, at 28 GHz with a free direct path."""
    return np.asarray(61.4 + 20 * np.log10(distance_m))


def realise_reference(scene: SceneModel, seeds: Sequence[int]) -> list[Realisation]:
    """Realise a scene as the study's simulator did.

    Parameters
    ----------
    scene : SceneModel
        A scene with a table ``[reference]``.
    seeds : sequence of int
        One realisation for each. Geometry and path loss are the same for all; the gain is drawn.

    Raises
    ------
    UserError
        If the scene has no table ``[reference]``.
    """
    if scene.reference is None:
        raise UserError(
            f"{scene.source or scene.name}: mode reference: the scene has no [reference] table: "
            "use mode 3gpp, or one of the kau-e5g scenes"
        )
    if scene.reference.constant_bps is not None:
        return [_constant(scene, seed, scene.reference.constant_bps) for seed in seeds]
    parts = intervals(scene, "reference")
    time_s, position_m = _walk(scene)
    losses = _losses_db(scene, parts, time_s, position_m)
    state = _state(parts, time_s)
    before_gain_db = _before_gain_db(scene, losses)
    return [_realise(scene, seed, parts, time_s, position_m, state, losses, before_gain_db) for seed in seeds]


def _walk(scene: SceneModel) -> tuple[Floats, Floats]:
    steps = max(round(scene.duration_s / scene.step_s), 1)
    time_s: Floats = np.arange(steps, dtype=np.float64) * scene.step_s
    return time_s, positions(scene.ue.trajectory, time_s)


def _losses_db(
    scene: SceneModel, parts: tuple[SceneInterval, ...], time_s: Floats, position_m: Floats
) -> dict[str, Floats]:
    distance_m = np.linalg.norm(position_m - np.asarray(scene.base_stations[0].position_m), axis=1)
    behind = [(part.start_s, part.end_s) for part in parts if part.state != "LOS"]
    return {"path loss": free_path_db(distance_m), "blockage": blockage_db(time_s, behind)}


def _state(parts: tuple[SceneInterval, ...], time_s: Floats) -> NDArray[np.uint8]:
    starts = np.array([part.start_s for part in parts])
    codes = np.array([_CODES[part.state] for part in parts], dtype=np.uint8)
    return codes[np.maximum(np.searchsorted(starts, time_s, side="right") - 1, 0)]


def _before_gain_db(scene: SceneModel, losses: Mapping[str, Floats]) -> Floats:
    """SINR of a single path between single antennas: budget, less losses and thermal noise (-174 dBm/Hz)."""
    station = scene.base_stations[0]
    noise_dbm = -174 + 10 * np.log10(SUBBANDS * SUBBAND_HZ) + scene.ue.noise_figure_db
    return np.asarray(station.power_dbm - noise_dbm - losses["path loss"] - losses["blockage"])


def _realise(
    scene: SceneModel,
    seed: int,
    parts: tuple[SceneInterval, ...],
    time_s: Floats,
    position_m: Floats,
    state: NDArray[np.uint8],
    losses: Mapping[str, Floats],
    before_gain_db: Floats,
) -> Realisation:
    arrays = _arrays(scene)
    drawn = _drawn(seed, time_s)
    gain_db = (10 * np.log10(gains(*arrays).mean(axis=1)))[drawn]
    gone = state == _CODES["OUTAGE"]
    level, margin_db = _adapted(needed_db(*arrays), drawn, before_gain_db, max(round(CQI_DELAY_S / scene.step_s), 0))
    level = np.where(gone, 0, level)
    bler = np.where(level > 0, _block_errors(margin_db), 0.0)
    rate_bps = rates_bps()[level]
    sinr_db = np.where(gone, np.nan, before_gain_db + gain_db)
    shown = dict(losses)
    shown["gain"] = gain_db
    return Realisation(
        scene=scene,
        mode="reference",
        seed=seed,
        time_s=time_s,
        position_m=position_m,
        serving=np.zeros(len(time_s), dtype=np.int16),
        los=state == _CODES["LOS"],
        state=state,
        sinr_db=sinr_db,
        mcs=mcs_numbers()[level],
        rate_bps=rate_bps,
        bler=bler,
        up_rate_bps=rate_bps,
        up_bler=bler,
        losses_db=shown,
        intervals=parts,
        warnings=_warnings(scene),
    )


def _arrays(scene: SceneModel) -> tuple[tuple[int, int], tuple[int, int]]:
    station, ue = scene.base_stations[0].array, scene.ue.array
    return (station.rows, station.columns), (ue.rows, ue.columns)


def _drawn(seed: int, time_s: Floats) -> NDArray[np.int64]:
    """Which channel instance holds at each step."""
    period = np.floor(time_s / REDRAW_S + 1e-9).astype(np.int64)
    draws = np.random.default_rng((seed, STAGE)).integers(0, INSTANCES, int(period[-1]) + 1)
    return np.asarray(draws[period])


def _adapted(
    needed: Floats, drawn: NDArray[np.int64], before_gain_db: Floats, delay: int
) -> tuple[NDArray[np.int64], Floats]:
    """Return the level that an old report chooses, and the margin of the present channel over its need, in dB."""
    allowed = (before_gain_db[:, np.newaxis] >= needed[drawn]).sum(axis=1)
    level = np.concatenate((allowed[:1].repeat(delay), allowed))[: len(allowed)]
    return level, before_gain_db - needed[drawn, np.maximum(level, 1) - 1]


def _block_errors(margin_db: Floats) -> Floats:
    """Share of first transmissions that fail: 10 % at no margin, less by a normal curve."""
    grid = np.linspace(-1.0, 1.0, 201)
    curve = [0.5 * erfc((margin / FALL_DB + _Z10) / sqrt(2)) for margin in grid]
    return np.interp(margin_db, grid, curve)


def _constant(scene: SceneModel, seed: int, rate_bps: float) -> Realisation:
    """Make a realisation of a rate that the study set by hand; nothing of a channel stands behind it."""
    time_s, position_m = _walk(scene)
    steps = len(time_s)
    rate = np.full(steps, round(rate_bps), dtype=np.int64)
    nothing = np.zeros(steps)
    return Realisation(
        scene=scene,
        mode="reference",
        seed=seed,
        time_s=time_s,
        position_m=position_m,
        serving=np.zeros(steps, dtype=np.int16),
        los=np.ones(steps, dtype=np.bool_),
        state=np.full(steps, _CODES["LOS"], dtype=np.uint8),
        sinr_db=np.full(steps, np.nan),
        mcs=np.full(steps, -1, dtype=np.int16),
        rate_bps=rate,
        bler=nothing,
        up_rate_bps=rate,
        up_bler=nothing,
        losses_db={},
        intervals=(SceneInterval("LOS", 0.0, scene.duration_s),),
        warnings=("mode reference: this rate is a constant of the study's script; no channel was simulated",),
    )


def _warnings(scene: SceneModel) -> tuple[str, ...]:
    carrier = scene.carrier
    found = []
    if carrier.frequency_hz != 28e9:
        found.append(f"mode reference: its path loss holds at 28 GHz, the scene has {carrier.frequency_hz / 1e9:g} GHz")
    if carrier.bandwidth_hz != 1e9:
        found.append(f"mode reference: its frame has 1 GHz, the scene has {carrier.bandwidth_hz / 1e6:g} MHz")
    if len(scene.base_stations) > 1:
        found.append(f"mode reference: it has one base station; only {scene.base_stations[0].name} is used")
    return tuple(found)


TRAFFIC_STARTS_S = 0.1
"""When the load begins, while the study averages from 0. Inferred: 945 instead of 1001 Mbit/s over the first 2.1 s is a
start at about 0.12 s; 0.1 s is a usual start in scripts of that simulator."""

SHORTEST_S = 0.001
"""No two switches are nearer to each other than this."""


def study_pattern(scene: SceneModel, seed: int) -> Pattern:
    """Make the pattern of the study from one realisation.

    Its rates are what a receiver got of a fixed load, not what the link could carry: use it to repeat the study, and
    `realise_reference` for capacity.

    Parameters
    ----------
    scene : SceneModel
        A scene with a table ``[reference]``.
    seed : int
        Of the realisation.

    Returns
    -------
    Pattern
        Steps with a rate for each interval between two crossings of the threshold.

    Raises
    ------
    UserError
        If the scene has no table ``[reference]``.
    """
    realisation = realise_reference(scene, [seed])[0]
    duration_ns = round(scene.duration_s * 1e9)
    reference = scene.reference
    if reference is None:
        raise UserError(f"{scene.name}: the scene has no [reference] table")
    if reference.constant_bps is not None:
        rate = np.array([round(reference.constant_bps)], dtype=np.int64)
        return steps(np.zeros(1, dtype=np.int64), duration_ns, rate_bps=rate)
    starts = _switches(realisation, reference.threshold_db)
    received = received_bps(realisation, reference)
    lengths = np.diff(starts, append=len(received))
    rates = np.add.reduceat(received, starts) / lengths
    time_ns = np.rint(realisation.time_s[starts] * 1e9).astype(np.int64)
    return steps(time_ns, duration_ns, rate_bps=np.rint(rates).astype(np.int64))


def received_bps(realisation: Realisation, reference: ReferenceChain) -> Floats:
    """Return what the receiver gets in each step: the offered load through the RLC queue, behind block errors."""
    step_s = realisation.scene.step_s
    served = (realisation.rate_bps * (1 - realisation.bler) * step_s).tolist()
    fraction = np.clip((realisation.time_s + step_s - TRAFFIC_STARTS_S) / step_s, 0.0, 1.0)
    offered = (fraction * reference.offered_bps * step_s).tolist()
    limit = reference.rlc_buffer_bytes * 8.0
    queue = 0.0
    received = []
    for new, room in zip(offered, served, strict=True):
        there = queue + new
        sent = min(there, room)
        queue = min(there - sent, limit)
        received.append(sent)
    return np.array(received) / step_s


def _switches(realisation: Realisation, threshold_db: float) -> NDArray[np.int64]:
    """First steps of the intervals on one side of the threshold; no link is below it."""
    above = np.nan_to_num(realisation.sinr_db, nan=-np.inf) >= threshold_db
    starts = [0]
    for place in (np.flatnonzero(above[1:] != above[:-1]) + 1).tolist():
        if realisation.time_s[place] - realisation.time_s[starts[-1]] >= SHORTEST_S - 1e-9:
            starts.append(place)
    return np.array(starts, dtype=np.int64)
