"""Normal random fields in the plane: a value for each place, correlated by exp(-d/D) (TR 38.901 7.4.4, 7.6.3).

A field is a sum of plane waves. Their wave vectors are fixed; their amplitudes are the random part. So every place has
exactly the standard normal distribution, and all places together are jointly normal. The wave numbers are quantiles of
the spectrum of exp(-d/D) in the plane, which is proportional to (1/D² + k²)^(-3/2); the directions are spread evenly by
the golden ratio. The 5 % of the power above k = 20/D is put between 15/D and 25/D, so that the field is smooth at D/40.

Measured with 256 waves, in all directions: the correlation differs from exp(-d/D) by at most 0.03 up to 0.3 D, 0.07 up
to 5 D, 0.10 up to 20 D (rms 0.03) and 0.19 up to 200 D (rms 0.044). 128 waves have 0.16 up to 20 D, 512 have 0.07.
Straight lines between points that are D/40 apart are within 0.006 standard deviations (rms), except near a corner of a
route.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wavebed.channel.propagation.correlated import POINTS_PER_DISTANCE, normal_cdf, walked_m
from wavebed.channel.propagation.pathloss import rural_breakpoint_m

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from wavebed.scene.tables import Propagation, ShadowTable

    Floats = NDArray[np.float64]


WAVES = 256
HIGHEST = 20.0
"""Greatest wave number, times D."""
CHUNK = 128
"""Points at which all waves are computed at once: so few that they stay in the processor's cache."""
GOLDEN = (math.sqrt(5) - 1) / 2


class UeRoute(NamedTuple):
    """Where a UE is at each step.

    Parameters
    ----------
    position_m : (n, 3) float64
        Its places.
    walked_m : (n,) float64
        Distance walked until each step; it never falls.
    """

    position_m: Floats
    walked_m: Floats

    @classmethod
    def of(cls, position_m: Floats) -> UeRoute:
        """Return the route through places."""
        return cls(position_m, walked_m(position_m))


def _wave_vectors() -> Floats:
    """Return the wave vectors, (2, `WAVES`), in cycles per correlation distance; half of the directions are enough."""
    part = (np.arange(WAVES) + 0.5) / WAVES
    number = np.sqrt(1 / (1 - part) ** 2 - 1)  # the spectrum leaves 1/√(1 + k²D²) of the power above k
    high = np.flatnonzero(number > HIGHEST)
    number[high] = HIGHEST * (0.75 + 0.5 * (np.arange(high.size) + 0.5) / high.size)
    angle = np.pi * (np.arange(WAVES) * GOLDEN % 1)
    return np.stack([number * np.cos(angle), number * np.sin(angle)]) / (2 * np.pi)


_VECTORS = _wave_vectors()
_PHASES = (2 * np.pi * _VECTORS).astype(np.float32)


def normal_field(rngs: Sequence[np.random.Generator], route: UeRoute, correlation_m: float) -> Floats:
    """Return a standard normal field along a route, of shape (seeds, n): a place has the same value whenever met.

    The field is computed at points of the route that are D/40 apart, or at each step if these are fewer, and
    interpolated between them.

    Parameters
    ----------
    rngs : sequence of numpy.random.Generator
        One for each seed.
    route : UeRoute
        The places.
    correlation_m : float
        The correlation distance D.
    """
    amplitudes = [rng.standard_normal(2 * WAVES).astype(np.float32) / np.float32(math.sqrt(WAVES)) for rng in rngs]
    walked = route.walked_m - route.walked_m[0]
    spacing = correlation_m / POINTS_PER_DISTANCE
    last = int(walked[-1] / spacing)  # the point before the last one
    if last + 2 >= walked.size:
        return _at(amplitudes, route.position_m / correlation_m)
    points_m = np.minimum(np.arange(last + 2) * spacing, walked[-1])
    points = [np.interp(points_m, walked, route.position_m[:, axis]) / correlation_m for axis in range(2)]
    values = _at(amplitudes, np.stack(points, axis=1))
    place = walked / spacing
    index = place.astype(np.intp)
    place -= index
    rest = points_m[-1] - points_m[-2]
    if rest > 0:
        place[np.searchsorted(index, last) :] *= spacing / rest  # the last point is nearer than the others
    slopes = np.diff(values, axis=1)
    field = np.empty((len(rngs), walked.size))
    rise = np.empty(walked.size)
    for own, start, slope in zip(field, values, slopes, strict=True):  # one seed at a time stays in the cache
        np.take(start, index, out=own, mode="clip")
        np.take(slope, index, out=rise, mode="clip")
        np.multiply(rise, place, out=rise)
        np.add(own, rise, out=own)
    return field


def _at(amplitudes: Sequence[NDArray[np.float32]], places: Floats) -> Floats:
    """Return the field of each seed at places, (m, 2 or more) in correlation distances."""
    values = np.empty((len(amplitudes), len(places)))
    waves = np.empty((min(CHUNK, len(places)), 2 * WAVES), dtype=np.float32)
    for start in range(0, len(places), CHUNK):
        part = places[start : start + CHUNK, :2]
        first = part[0] @ _VECTORS  # in double precision; the others are near it
        near = (part - part[0]).astype(np.float32)
        angle = near[:, :1] * _PHASES[0]
        angle += near[:, 1:] * _PHASES[1]
        angle += ((first - np.rint(first)) * (2 * np.pi)).astype(np.float32)
        some = waves[: len(part)]
        np.cos(angle, out=some[:, :WAVES])
        np.sin(angle, out=some[:, WAVES:])
        for own, amplitude in zip(values, amplitudes, strict=True):
            # Not the linear algebra library, whose threads would fight for a busy machine's processors.
            own[start : start + CHUNK] = np.einsum("pw,w->p", some, amplitude)
    return values


class Shadowing(NamedTuple):
    """Standard deviations (TR 38.901 Table 7.4.1-1) and correlation distances (Table 7.5-6) of shadow fading."""

    los_db: float
    nlos_db: float
    los_m: float
    nlos_m: float


SHADOWING: Mapping[Propagation, Shadowing] = {
    "umi": Shadowing(los_db=4.0, nlos_db=7.82, los_m=10.0, nlos_m=13.0),
    "uma": Shadowing(los_db=4.0, nlos_db=6.0, los_m=37.0, nlos_m=50.0),
    "rma": Shadowing(los_db=4.0, nlos_db=8.0, los_m=37.0, nlos_m=120.0),
    "inh": Shadowing(los_db=3.0, nlos_db=8.03, los_m=10.0, nlos_m=6.0),
    "inh-open": Shadowing(los_db=3.0, nlos_db=8.03, los_m=10.0, nlos_m=6.0),
}

RURAL_FAR_DB = 6.0
"""Standard deviation in LOS beyond the breakpoint of a rural cell (Table 7.4.1-1)."""

LOS_CORRELATION_M: Mapping[Propagation, float] = {
    "umi": 50.0,
    "uma": 50.0,
    "rma": 60.0,
    "inh": 10.0,
    "inh-open": 10.0,
}
"""Correlation distances of the LOS state (TR 38.901 Table 7.6.3.1-2)."""


def los_spread_db(
    scenario: Propagation,
    distance_2d_m: NDArray[np.float64],
    height_bs_m: float,
    height_ut_m: NDArray[np.float64] | float,
    frequency_hz: float,
) -> NDArray[np.float64] | float:
    """Return the standard deviation of shadowing in LOS; in rural cells it grows at the breakpoint."""
    if scenario == "free-space":
        return 0.0
    near = SHADOWING[scenario].los_db
    if scenario != "rma":
        return near
    return np.where(distance_2d_m <= rural_breakpoint_m(height_bs_m, height_ut_m, frequency_hz), near, RURAL_FAR_DB)


def shadowing_db(
    rngs: Sequence[np.random.Generator],
    scenario: Propagation,
    route: UeRoute,
    spread_db: NDArray[np.float64] | float | None = None,
    measured: ShadowTable | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return shadow fading in LOS and in NLOS, in dB (a loss, zero mean), each (seeds, n); zero in free space.

    They are separate fields in the plane.

    Parameters
    ----------
    rngs : sequence of numpy.random.Generator
        One for each seed.
    scenario : str
        The propagation scenario.
    route : UeRoute
        The place at each step.
    spread_db : float or (n,) float64, optional
        Standard deviation in LOS, see `los_spread_db`; by default from the table.
    measured : ShadowTable, optional
        What is known of the place, instead of the tables.
    """
    if scenario == "free-space":
        none = np.zeros((len(rngs), route.walked_m.size))
        return none, none
    values = SHADOWING[scenario]
    if measured is not None and measured.distance_m is not None:
        values = values._replace(los_m=measured.distance_m, nlos_m=measured.distance_m)
    if measured is not None and measured.spread_db is not None:
        values, spread_db = values._replace(nlos_db=measured.spread_db), measured.spread_db
    line = normal_field(rngs, route, values.los_m)
    behind = normal_field(rngs, route, values.nlos_m)
    line *= values.los_db if spread_db is None else spread_db
    behind *= values.nlos_db
    return line, behind


def draw_los(
    rngs: Sequence[np.random.Generator],
    scenario: Propagation,
    probability: NDArray[np.float64],
    route: UeRoute,
) -> NDArray[np.bool_]:
    """Return LOS states of shape (seeds, n): LOS where a correlated uniform number is below its probability.

    The number follows TR 38.901 7.6.3.3 (hard states), correlated over places by Table 7.6.3.1-2.

    Parameters
    ----------
    rngs : sequence of numpy.random.Generator
        One for each seed.
    scenario : str
        The propagation scenario.
    probability : (n,) float64
        Probability of a line of sight at each step.
    route : UeRoute
        The place at each step.
    """
    if scenario == "free-space":
        return np.ones((len(rngs), route.walked_m.size), dtype=np.bool_)
    return normal_cdf(normal_field(rngs, route, LOS_CORRELATION_M[scenario])) < probability
