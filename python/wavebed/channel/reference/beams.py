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

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Complex = NDArray[np.complex128]

__all__ = ["INSTANCES", "SUBBANDS", "SUBBAND_HZ", "gains"]

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
