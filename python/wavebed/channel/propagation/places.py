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

from wavebed.channel.propagation.correlated import POINTS_PER_DISTANCE, walked_m

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["Route", "normal_field"]

WAVES = 256
HIGHEST = 20.0
"""Greatest wave number, times D."""
CHUNK = 128
"""Points at which all waves are computed at once: so few that they stay in the processor's cache."""
GOLDEN = (math.sqrt(5) - 1) / 2


class Route(NamedTuple):
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
    def of(cls, position_m: Floats) -> Route:
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


def normal_field(rngs: Sequence[np.random.Generator], route: Route, correlation_m: float) -> Floats:
    """Return a standard normal field along a route, of shape (seeds, n): a place has the same value whenever met.

    The field is computed at points of the route that are D/40 apart, or at each step if these are fewer, and
    interpolated between them.

    Parameters
    ----------
    rngs : sequence of numpy.random.Generator
        One for each seed.
    route : Route
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
