"""Small-scale fading of a wide channel: sums of sinusoids with the Doppler shifts of the walk."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from wavebed.channel.propagation.pathloss import LIGHT_M_PER_S
from wavebed.channel.propagation.places import normal_field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from wavebed.channel.propagation.places import Route
    from wavebed.scene.tables import Propagation

__all__ = ["delay_spread_s", "fading_db", "k_factor_db", "subbands", "wavelengths_moved"]

Number = TypeVar("Number", np.float64, np.float32, np.bool_)

WAVES = 24
"""Waves that arrive, evenly around the UE: the correlation is that of J0 within 10⁻³ over six wavelengths."""
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
    |R|² = 1/(1 + (2πΔfτ)²). The mean power over the bandwidth then varies as that of
    N = 1/(2·arctan(x)/x - ln(1 + x²)/x²) independent ones, x = 2πBτ. For wide bands N is near 2Bτ.
    """
    x = 2 * math.pi * bandwidth_hz * spread_s
    if x < 1e-3:
        return 1
    count = 1 / (2 * math.atan(x) / x - math.log1p(x * x) / (x * x))
    return max(1, min(MOST_SUBBANDS, round(count)))


def k_factor_db(rngs: Sequence[np.random.Generator], scenario: Propagation, route: Route) -> NDArray[np.float64]:
    """Return the Rician K factor in LOS, of shape (seeds, n): a normal field of places, in dB (Table 7.5-6)."""
    small = _SMALL[scenario]
    return small.k_db + small.k_spread_db * normal_field(rngs, route, small.k_correlation_m)


def wavelengths_moved(
    time_s: NDArray[np.float64], walked_m: NDArray[np.float64], frequency_hz: float
) -> NDArray[np.float64]:
    """Return how many wavelengths the pattern of waves has been crossed until each step.

    The greatest Doppler shift is √(v² + v₀²)·f/c, v the speed and v₀ that of the surroundings, `SURROUNDINGS_M_PER_S`.
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
    route: Route,
    direct_m: NDArray[np.float64],
    frequency_hz: float,
    bandwidth_hz: float,
    mean_sinr_db: ArrayLike = USUAL_SINR_DB,
) -> NDArray[np.float64]:
    """Return fading in dB over the mean power, of shape (seeds, n): that of a flat channel as good as the wide one.

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
    route : Route
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
