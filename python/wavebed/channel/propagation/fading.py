"""Clusters of scattered waves around a place: their powers and angles (TR 38.901 7.5, steps 4 to 7).

Delays are not drawn: a cluster's power follows from the uniform number that its delay is made of. The spreads of one
place are independent of each other and of the shadowing: the correlations of Table 7.5-6 are left out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import numpy as np

from wavebed.channel.propagation.correlated import Lattice, generator, normal_cdf, place_normals
from wavebed.channel.propagation.pathloss import LIGHT_M_PER_S
from wavebed.channel.propagation.shadowing import normal_field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from wavebed.channel.propagation.shadowing import UeRoute
    from wavebed.scene.tables import Propagation

    Floats: TypeAlias = NDArray[np.float64]


RAY_OFFSETS = (0.0447, 0.1413, 0.2492, 0.3715, 0.5129, 0.6797, 0.8844, 1.1481, 1.5195, 2.1551)
"""Angles of the 20 rays of a cluster, over its spread, each to both sides (Table 7.5-3)."""
WIDEST_AZIMUTH_DEG, WIDEST_ZENITH_DEG = 104.0, 52.0
"""Greatest angular spreads (7.5, step 4)."""
_AZIMUTH_SCALE = {10: 1.090, 11: 1.123, 12: 1.146, 15: 1.211, 19: 1.273, 20: 1.289}
"""Table 7.5-2."""
_ZENITH_SCALE = {10: 0.957, 11: 1.031, 12: 1.104, 15: 1.1088, 19: 1.184, 20: 1.178}
"""Table 7.5-4."""
_PER_CLUSTER = 6
_SPREADS = 4


class Lg(NamedTuple):
    """Normal distribution of the decadic logarithm: mean and deviation, each offset + slope·lg f or lg(1 + f)."""

    offset: float
    slope: float
    spread: float
    spread_slope: float = 0.0

    def drawn(self, normal: Floats, lg_f: float) -> Floats:
        """Return the values of normal numbers."""
        spread = self.spread + self.spread_slope * lg_f
        return np.asarray(10 ** (self.offset + self.slope * lg_f + spread * normal))

    def median(self, lg_f: float) -> float:
        """Return the median."""
        return float(10 ** (self.offset + self.slope * lg_f))


class Departure(NamedTuple):
    """Zenith spread of departure: lg of it falls with the distance, from `offset` to `least` (Tables 7.5-7 to -10).

    It grows with the difference of the heights; in NLOS, only with the height of a UE above the base station.
    """

    offset: float
    per_km: float
    per_m_apart: float
    least: float
    spread: float
    with_frequency: float = 0.0
    per_m_above: float = 0.0


class ClusterTable(NamedTuple):
    """Parameters of one state of a scenario (Table 7.5-6), angles in degrees.

    Parameters
    ----------
    clusters : int
        How many.
    delay_factor, shadow_db : float
        Delay distribution proportionality factor r, deviation of the power of each cluster.
    departure, arrival, zenith : Lg
        Azimuth spread of departure, of arrival, zenith spread of arrival.
    rise : Departure
        Zenith spread of departure.
    ray_departure, ray_arrival, ray_zenith : float
        Spread of the rays of one cluster.
    """

    clusters: int
    delay_factor: float
    shadow_db: float
    departure: Lg
    arrival: Lg
    zenith: Lg
    rise: Departure
    ray_departure: float
    ray_arrival: float
    ray_zenith: float


class _Scenario(NamedTuple):
    """Both states of a scenario.

    Parameters
    ----------
    los, nlos : ClusterTable
        Their parameters.
    plus_one : bool
        Whether the slopes belong to lg(1 + f) rather than lg f.
    least_ghz : float
        Lower frequencies count as this one (notes 6 and 7).
    consistent_m : (float, float)
        Correlation distance of the clusters in LOS and in NLOS (Table 7.6.3.1-2).
    """

    los: ClusterTable
    nlos: ClusterTable
    plus_one: bool
    least_ghz: float
    consistent_m: tuple[float, float]

    def lg(self, frequency_hz: float) -> float:
        """Return the logarithm that the table's slopes belong to."""
        ghz = max(frequency_hz / 1e9, self.least_ghz)
        return float(np.log10(1 + ghz if self.plus_one else ghz))


_OFFICE_CLUSTERS = _Scenario(
    ClusterTable(
        15, 3.6, 6.0, Lg(1.60, 0, 0.18), Lg(1.781, -0.19, 0.119, 0.12), Lg(1.44, -0.26, 0.264, -0.04),
        Departure(2.228, 0, 0, -9, 0.30, -1.43), 5, 8, 9,
    ),
    ClusterTable(
        19, 3.0, 3.0, Lg(1.62, 0, 0.25), Lg(1.863, -0.11, 0.059, 0.12), Lg(1.387, -0.15, 0.746, -0.09),
        Departure(1.08, 0, 0, -9, 0.36), 5, 11, 9,
    ),
    plus_one=True, least_ghz=6.0, consistent_m=(10.0, 10.0),
)  # fmt: skip
CLUSTERS: Mapping[Propagation, _Scenario] = {
    "umi": _Scenario(
        ClusterTable(
            12, 3.0, 3.0, Lg(1.21, -0.05, 0.41), Lg(1.73, -0.08, 0.28, 0.014), Lg(0.73, -0.1, 0.34, -0.04),
            Departure(0.83, -14.8, 0.01, -0.21, 0.35), 3, 17, 7,
        ),
        ClusterTable(
            19, 2.1, 3.0, Lg(1.53, -0.23, 0.33, 0.11), Lg(1.81, -0.08, 0.3, 0.05), Lg(0.92, -0.04, 0.41, -0.07),
            Departure(0.2, -3.1, 0, -0.5, 0.35, per_m_above=0.01), 10, 22, 7,
        ),
        plus_one=True, least_ghz=2.0, consistent_m=(12.0, 15.0),
    ),
    "uma": _Scenario(
        ClusterTable(
            12, 2.5, 3.0, Lg(1.06, 0.1114, 0.28), Lg(1.81, 0, 0.20), Lg(0.95, 0, 0.16),
            Departure(0.75, -2.1, 0, -0.5, 0.40), 5, 11, 7,
        ),
        ClusterTable(
            20, 2.3, 3.0, Lg(1.5, -0.1144, 0.28), Lg(2.08, -0.27, 0.11), Lg(1.512, -0.3236, 0.16),
            Departure(0.9, -2.1, 0, -0.5, 0.49), 2, 15, 7,
        ),
        plus_one=False, least_ghz=6.0, consistent_m=(40.0, 50.0),
    ),
    "rma": _Scenario(
        ClusterTable(
            11, 3.8, 3.0, Lg(0.90, 0, 0.38), Lg(1.52, 0, 0.24), Lg(0.47, 0, 0.40),
            Departure(0.22, -0.17, 0, -1, 0.34), 2, 3, 3,
        ),
        ClusterTable(
            10, 1.7, 3.0, Lg(0.95, 0, 0.45), Lg(1.52, 0, 0.13), Lg(0.58, 0, 0.37),
            Departure(0.28, -0.19, 0, -1, 0.30), 2, 3, 3,
        ),
        plus_one=False, least_ghz=0.5, consistent_m=(50.0, 60.0),
    ),
    "inh": _OFFICE_CLUSTERS,
    "inh-open": _OFFICE_CLUSTERS,
}  # fmt: skip


class Clusters(NamedTuple):
    """Scattered waves at each of `n` places: share of their power, which sums to 1, and angles in degrees.

    Each array is (n, clusters). Azimuths are counted from +x towards +y, elevations from the horizon up; `departure` is
    seen from the base station, `arrival` says where the UE receives from.
    """

    power: Floats
    departure_azimuth: Floats
    departure_elevation: Floats
    arrival_azimuth: Floats
    arrival_elevation: Floats


def rise_deg(table: ClusterTable, lg_f: float, plane_m: Floats, above_m: Floats) -> Floats:
    """Return the median zenith spread of departure at distances in the plane, the base station `above_m` the UE."""
    rise = table.rise
    lg = rise.offset + rise.per_km * plane_m / 1000 + rise.with_frequency * lg_f
    lg = lg + rise.per_m_apart * np.abs(above_m) + rise.per_m_above * np.maximum(-above_m, 0)
    return np.asarray(10 ** np.maximum(lg, rise.least))


def cluster_places(scenario: Propagation, position_m: Floats, *, los: bool) -> Lattice:
    """Return the places of a UE, (n, 3), with the distance over which its clusters change."""
    return Lattice.of(position_m, CLUSTERS[scenario].consistent_m[0 if los else 1])


def draw_clusters(
    seed: int,
    stage: str,
    scenario: Propagation,
    k_db: Floats | None,
    station_m: tuple[float, float, float],
    places: Lattice,
    frequency_hz: float,
) -> Clusters:
    """Draw the clusters that a UE meets at places; equal places have equal clusters.

    Parameters
    ----------
    seed, stage
        Key the draws.
    scenario : str
        The propagation scenario, not free space.
    k_db : (n,) float64 or None
        Rician K factor in LOS, which makes the clusters gather around the direct path; ``None``: NLOS.
    station_m : (float, float, float)
        The base station.
    places : Lattice
        The places of the UE, of `cluster_places`.
    frequency_hz : float
        Carrier frequency.
    """
    values = CLUSTERS[scenario]
    table = values.nlos if k_db is None else values.los
    lg_f = values.lg(frequency_hz)
    normals = place_normals(seed, stage, places, _SPREADS + _PER_CLUSTER * table.clusters)
    spreads, own = normals[:, :_SPREADS], normals[:, _SPREADS:].reshape(-1, _PER_CLUSTER, table.clusters)
    power = normal_cdf(own[:, 0]) ** (table.delay_factor - 1) * 10 ** (-table.shadow_db / 10 * own[:, 1])
    power = np.maximum(power, 1e-12)
    power /= power.sum(axis=1, keepdims=True)
    # Eq. 7.5-9, 7.5-14: how far from the middle the power says that a cluster is; of unit spread.
    azimuth, zenith = _distances(table, power, k_db)
    sides = generator(seed, f"{stage} sides").integers(0, 2, (4, table.clusters)) * 2.0 - 1.0
    ray = places.position_m - np.asarray(station_m)
    plane_m = np.hypot(ray[:, 0], ray[:, 1])
    rise = rise_deg(table, lg_f, plane_m, -ray[:, 2]) * 10 ** (table.rise.spread * spreads[:, 3])
    widths = (
        np.minimum(table.departure.drawn(spreads[:, 0], lg_f), WIDEST_AZIMUTH_DEG),
        np.minimum(table.arrival.drawn(spreads[:, 1], lg_f), WIDEST_AZIMUTH_DEG),
        np.minimum(table.zenith.drawn(spreads[:, 2], lg_f), WIDEST_ZENITH_DEG),
        np.minimum(rise, WIDEST_ZENITH_DEG),
    )
    out, back, above, below = (
        width[:, None] * (side * far + own[:, place] / 7)
        for width, side, far, place in zip(widths, sides, (azimuth, azimuth, zenith, zenith), range(2, 6), strict=True)
    )
    azimuth_deg = np.degrees(np.arctan2(ray[:, 1], ray[:, 0]))[:, None]
    elevation_deg = np.degrees(np.arctan2(ray[:, 2], plane_m))[:, None]
    if k_db is None and scenario == "umi":  # Table 7.5-8: the zenith of departure is lifted in NLOS
        below = below + 10 ** (-1.5 * np.log10(np.maximum(10, plane_m[:, None])) + 3.3)
    return Clusters(
        power,
        azimuth_deg + out,
        elevation_deg + below,
        azimuth_deg + 180.0 + back,
        -elevation_deg + above,
    )


def _distances(table: ClusterTable, power: Floats, k_db: Floats | None) -> tuple[Floats, Floats]:
    """Return azimuth and zenith offsets for a spread of one degree; in LOS the first wave is the direct path."""
    if k_db is None:
        level = np.log(power / power.max(axis=1, keepdims=True))
        factors = np.ones((2, len(power), 1))
    else:
        k = np.clip(k_db, -10.0, 25.0)[:, None]
        ratio = 10 ** (k / 10)
        level = np.log(power / (power.max(axis=1, keepdims=True) + ratio))
        factors = np.stack(
            (
                1.1035 - 0.028 * k - 0.002 * k**2 + 0.0001 * k**3,
                1.3086 + 0.0339 * k - 0.0077 * k**2 + 0.0002 * k**3,
            )
        )
    azimuth = 2 / 1.4 * np.sqrt(-level) / (_AZIMUTH_SCALE[table.clusters] * factors[0])
    zenith = -level / (_ZENITH_SCALE[table.clusters] * factors[1])
    return azimuth, zenith


Number = TypeVar("Number", np.float64, np.float32, np.bool_)

WAVES = 24
"""Waves that arrive, evenly around the UE: the correlation equals J0 within 10⁻³ over six wavelengths."""
SURROUNDINGS_M_PER_S = 0.089 / 3.6
"""What moves around a UE that stands still: 0.089 km/h, of IEEE 802.11-09/0308 (TGac channel model addendum)."""
MOST_SUBBANDS = 12
"""Above this, each further subband costs time and takes less than 0.1 dB from the spread of the fading."""
USUAL_SINR_DB = 15.0
"""Where a caller does not say the mean SINR."""
LEAST_SINR_DB, MOST_SINR_DB = -20.0, 60.0
"""At the least, the effective SINR is the mean within 0.02 dB; single precision resolves what lies between."""
ROW = 64
"""Steps of one matrix product: so small that the linear algebra library starts no threads, which would fight for a
busy machine's processors (a hundred times slower was seen)."""
DEEPEST = 1e-6
"""Least power, -60 dB: single precision resolves no deeper fades of an effective SINR."""
CHUNK = 64 * ROW
"""Steps that are computed at once, so that they stay in the processor's cache."""


class _State(NamedTuple):
    """Mean of lg(delay spread/s) as offset + slope·lg(1 + f) (UMa: lg f), f in GHz (TR 38.901 Table 7.5-6)."""

    offset: float
    slope: float


class _Small(NamedTuple):
    """Small-scale parameters of a scenario (TR 38.901 Table 7.5-6, parts 1 and 2).

    Parameters
    ----------
    los, nlos : _State
        Delay spread.
    plus_one : bool
        Whether the slope belongs to lg(1 + f) rather than lg f.
    least_ghz : float
        Lower frequencies count as this one (notes 6 and 7).
    k_db, k_spread_db, k_correlation_m : float
        K factor in LOS: mean, standard deviation, correlation distance.
    """

    los: _State
    nlos: _State
    plus_one: bool
    least_ghz: float
    k_db: float
    k_spread_db: float
    k_correlation_m: float


_OFFICE = _Small(_State(-7.692, -0.01), _State(-7.173, -0.28), True, 6.0, 7.0, 4.0, 4.0)
_SMALL: Mapping[Propagation, _Small] = {
    "umi": _Small(_State(-7.14, -0.24), _State(-6.83, -0.24), True, 2.0, 9.0, 5.0, 15.0),
    "uma": _Small(_State(-6.955, -0.0963), _State(-6.28, -0.204), False, 6.0, 9.0, 3.5, 12.0),
    "rma": _Small(_State(-7.49, 0.0), _State(-7.43, 0.0), True, 0.5, 7.0, 4.0, 40.0),
    "inh": _OFFICE,
    "inh-open": _OFFICE,
}


def delay_spread_s(scenario: Propagation, los: bool, frequency_hz: float) -> float:
    """Return the median RMS delay spread (TR 38.901 Table 7.5-6); 0 in free space."""
    if scenario == "free-space":
        return 0.0
    small = _SMALL[scenario]
    state = small.los if los else small.nlos
    ghz = max(frequency_hz / 1e9, small.least_ghz)
    return math.pow(10, state.offset + state.slope * math.log10(ghz + 1 if small.plus_one else ghz))


def subbands(bandwidth_hz: float, spread_s: float) -> int:
    """Return how many independent subbands average alike, at most `MOST_SUBBANDS`.

    With an exponential power delay profile of RMS width τ the correlation of two frequencies is
    |R|² = 1/(1 + (2πΔfτ)²). The mean power over the bandwidth then varies like the mean of
    N = 1/(2·arctan(x)/x - ln(1 + x²)/x²) independent subbands, x = 2πBτ. For wide bands N is near 2Bτ.
    """
    x = 2 * math.pi * bandwidth_hz * spread_s
    if x < 1e-3:
        return 1
    count = 1 / (2 * math.atan(x) / x - math.log1p(x * x) / (x * x))
    return max(1, min(MOST_SUBBANDS, round(count)))


def k_factor_db(rngs: Sequence[np.random.Generator], scenario: Propagation, route: UeRoute) -> NDArray[np.float64]:
    """Return the Rician K factor in LOS, of shape (seeds, n): a normal field of places, in dB (Table 7.5-6)."""
    small = _SMALL[scenario]
    return small.k_db + small.k_spread_db * normal_field(rngs, route, small.k_correlation_m)


def wavelengths_moved(
    time_s: NDArray[np.float64], walked_m: NDArray[np.float64], frequency_hz: float
) -> NDArray[np.float64]:
    """Return how many wavelengths the pattern of waves has been crossed until each step.

    The greatest Doppler shift is √(v² + v₀²)·f/c. The UE moves at v, its surroundings at v₀, `SURROUNDINGS_M_PER_S`.
    """
    steps = np.hypot(np.diff(walked_m), SURROUNDINGS_M_PER_S * np.diff(time_s))
    return np.concatenate(([0.0], np.cumsum(steps))) * (frequency_hz / LIGHT_M_PER_S)


def _arriving(moved: NDArray[np.float64]) -> NDArray[np.complex64]:
    """Return waves from all sides in the plane, (rows, `WAVES`, `ROW`): exp(2πj·cos(angle)·moved) of (rows, 1, `ROW`).

    Their angles are even, and turned by a quarter of their distance so that no two have the same Doppler shift.
    """
    cosines = np.cos(2 * np.pi * (np.arange(WAVES) + 0.25) / WAVES)
    cycles = moved * cosines[:, None]
    cycles -= np.rint(cycles)
    return _phasor(cycles)


def fading_db(
    rngs: Sequence[np.random.Generator],
    scenario: Propagation,
    los: NDArray[np.bool_],
    scattered: NDArray[np.float64],
    time_s: NDArray[np.float64],
    route: UeRoute,
    direct_m: NDArray[np.float64],
    frequency_hz: float,
    bandwidth_hz: float,
    mean_sinr_db: ArrayLike = USUAL_SINR_DB,
) -> NDArray[np.float64]:
    """Return fading in dB over the mean power, of shape (seeds, n), for a flat channel as good as the wide one.

    Each subband is Rician, by what antennas leave of the scattered waves. Together they count as the
    one SINR at which a channel without fading carries as much, by the mean of log2(1 + SINR): with a low SINR their
    mean, with a high one far less.

    Parameters
    ----------
    rngs : sequence of numpy.random.Generator
        One for each seed.
    scenario : str
        The propagation scenario; nothing fades in free space.
    los : (n,) or (seeds, n) bool
        Whether the line of sight is free of buildings: decides the delay spread.
    scattered : (n,) or (seeds, n) float64
        Fraction of the power that is scattered; 1: Rayleigh fading.
    time_s : (n,) float64
        Time of each step.
    route : UeRoute
        The place at each step.
    direct_m : (n,) float64
        Length of the direct path, which gives the Doppler shift of its wave.
    frequency_hz, bandwidth_hz : float
        Carrier frequency and bandwidth.
    mean_sinr_db : float or (n,) or (seeds, n) float64
        SINR without fading.
    """
    faded = np.zeros((len(rngs), time_s.size))
    if scenario == "free-space":
        return faded
    counts = (
        subbands(bandwidth_hz, delay_spread_s(scenario, False, frequency_hz)),
        subbands(bandwidth_hz, delay_spread_s(scenario, True, frequency_hz)),
    )
    weights = [_weights(rng, max(counts)) for rng in rngs]
    share = np.broadcast_to(scattered, faded.shape)
    moved = wavelengths_moved(time_s, route.walked_m, frequency_hz)
    mean_sinr = np.asarray(10 ** (np.clip(mean_sinr_db, LEAST_SINR_DB, MOST_SINR_DB) / 10), dtype=np.float32)
    mean_sinr = np.broadcast_to(mean_sinr, faded.shape)
    los = np.broadcast_to(los, faded.shape)
    for start in range(0, time_s.size, CHUNK):
        part = slice(start, start + CHUNK)
        waves = _arriving(_rows(moved[part]))
        cycles = _rows(direct_m[part]) * (-frequency_hz / LIGHT_M_PER_S)
        direct = _phasor(cycles - np.rint(cycles))
        for seed, phases in enumerate(weights):
            state, fraction = _rows(los[seed, part]), _rows(share[seed, part])
            own, sinr = faded[seed, part], _rows(mean_sinr[seed, part])
            own[:] = _effective(phases @ waves, direct, fraction, state, counts, sinr).ravel()[: own.size]
    np.maximum(faded, DEEPEST, out=faded)
    return np.multiply(10, np.log10(faded, out=faded), out=faded)


def _effective(
    scattered: NDArray[np.complex64],
    direct: NDArray[np.complex64],
    fraction: NDArray[np.float64],
    los: NDArray[np.bool_],
    counts: tuple[int, int],
    mean_sinr: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Return the effective power of one seed, (rows, 1, `ROW`); `fraction` is what the scattered waves have."""
    small, large = (np.sqrt(part).astype(np.float32) for part in (fraction, 1 - fraction))
    powers = [
        _average(_power(scattered[:, :count], small, direct * large), mean_sinr)
        for count, there in zip(counts, (not los.all(), los.any()), strict=True)
        if there
    ]
    return powers[0] if len(powers) == 1 else np.where(los, powers[1], powers[0])


def _average(power: NDArray[np.float32], mean_sinr: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the power p with log(1 + s·p) the mean over the subbands, s the mean SINR."""
    if power.shape[1] == 1:
        return power
    power *= mean_sinr
    power += 1
    np.log(power, out=power)
    return np.asarray(np.expm1(power.mean(axis=1, keepdims=True)) / mean_sinr)


def _rows(steps: NDArray[Number]) -> NDArray[Number]:
    """Return steps in rows, (rows, 1, `ROW`); the last value fills the last row."""
    return np.pad(steps, (0, -steps.size % ROW), mode="edge").reshape(-1, 1, ROW)


def _power(
    scattered: NDArray[np.complex64], small: NDArray[np.float32], direct: NDArray[np.complex64]
) -> NDArray[np.float32]:
    """Return |h|², h = `scattered` times the real `small`, and `direct`; in place, real and imaginary parts alike."""
    parts = scattered.view(np.float32) * np.repeat(small, 2, axis=2)
    parts += direct.view(np.float32)
    np.square(parts, out=parts)
    return np.asarray(parts[..., ::2] + parts[..., 1::2])


def _weights(rng: np.random.Generator, count: int) -> NDArray[np.complex64]:
    """Return the phase of each wave in each subband, (count, `WAVES`), of unit power together."""
    return _phasor(rng.random((count, WAVES))) / np.float32(math.sqrt(WAVES))


def _phasor(cycles: NDArray[np.float64]) -> NDArray[np.complex64]:
    """Return exp(2πj·cycles) in single precision, for at most one cycle either way."""
    angle = cycles.astype(np.float32) * np.float32(2 * np.pi)
    phasor = np.empty(angle.shape, dtype=np.complex64)
    np.cos(angle, out=phasor.real)
    np.sin(angle, out=phasor.imag)
    return phasor
