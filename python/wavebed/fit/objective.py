"""Figures of walks as ratios of sums, and how far those of a scene are from those of measured walks.

Every figure is a distribution or a moment of whole walks or of eighths of them, never the value of a second. As a
ratio of sums over walks it is known at once for any resample of the walks, which is what the bootstrap needs. A second
that a rule hides is NaN and counts nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wavebed.fit.metrics import dips, runs_below

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.fit.network import Network

    Floats = NDArray[np.float64]

__all__ = ["Figures", "Target", "figures"]

LAGS_S = (1, 5, 10, 30)
DURATIONS_S = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 40.0)
RECOVERIES_S = (1.0, 2.0, 4.0, 8.0)
PARTS = 8
RATES_COUNT = 3
"""The distribution of the rates counts as much as this many of the other metrics."""
_PART_QUANTILES = (0.25, 0.5, 0.75)
_QUANTILES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_RESAMPLES = 200
_LEAST_SPREAD = 0.05
"""A figure that hardly differs between walks is not held to better than this."""
_UNKNOWN_SPREADS = 3.0
"""Distance, in spreads, of a figure that a scene does not have, such as the duration of outages without any."""


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """The figures of some walks.

    Parameters
    ----------
    above, below : (walks, figures) float64
        Numerators and denominators.
    groups : (figures,) str
        The metric to which each figure belongs.
    """

    above: Floats
    below: Floats
    groups: NDArray[np.str_]

    def values(self, walks: NDArray[np.intp] | slice = slice(None)) -> Floats:
        """Return the figures over some walks; NaN where there is nothing to count."""
        below = self.below[walks].sum(axis=0)
        return np.asarray(np.where(below > 0, self.above[walks].sum(axis=0) / np.maximum(below, 1e-12), np.nan))


class Target:
    """Measured walks, and the distance of a scene from them.

    Parameters
    ----------
    walks : sequence of (seconds,) float64
        Rates of each second, Mbit/s.
    network : Network
        Its thresholds divide the seconds.
    seed : int
        Keys the resamples.
    """

    def __init__(self, walks: Sequence[Floats], network: Network, seed: int = 1) -> None:
        self.network = network
        known = np.concatenate([walk[~np.isnan(walk)] for walk in walks])
        self.thresholds = np.unique(np.quantile(known, _QUANTILES))
        self.part_thresholds = np.unique(np.quantile(known, _PART_QUANTILES))
        self.mean = float(known.mean())
        self.measured = self.figures(walks)
        self.values = self.measured.values()
        random = np.random.default_rng(seed)
        resampled = np.array([self.measured.values(self._some(random)) for _ in range(_RESAMPLES)])
        spread = np.ma.masked_invalid(resampled).std(axis=0).filled(0.0) * np.sqrt(len(walks))
        sizes = {group: int((self.measured.groups == group).sum()) for group in np.unique(self.measured.groups)}
        size = np.array([sizes[group] / (RATES_COUNT if group == "rates" else 1) for group in self.measured.groups])
        self.known = ~np.isnan(self.values)
        self.weight = np.where(self.known, 1 / (np.maximum(spread, _LEAST_SPREAD) * np.sqrt(size)), 0.0)

    def _some(self, random: np.random.Generator) -> NDArray[np.intp]:
        count = len(self.measured.above)
        return random.integers(0, count, count)

    def figures(self, walks: Sequence[Floats]) -> Figures:
        """Return the figures of walks, with the thresholds of the measured ones."""
        return figures(walks, self.network, self.thresholds, self.part_thresholds, self.mean)

    def residuals(self, values: Floats, measured: Floats | None = None) -> Floats:
        """Return how far figures are from the measured ones: in spreads between walks."""
        wanted = self.values if measured is None else measured
        missing = _UNKNOWN_SPREADS / np.maximum(np.sqrt(self._size()), 1.0)
        gap = (values - wanted) * self.weight
        return np.where(self.known, np.where(np.isnan(gap), missing, gap), 0.0)

    def _size(self) -> Floats:
        groups = self.measured.groups
        return np.array([(groups == group).sum() for group in groups], dtype=np.float64)

    def resampled(self, random: np.random.Generator) -> Floats:
        """Return the figures of as many walks, drawn with replacement."""
        return self.measured.values(self._some(random))


def figures(
    walks: Sequence[Floats], network: Network, thresholds: Floats, part_thresholds: Floats, mean: float
) -> Figures:
    """Return the figures of walks.

    Parameters
    ----------
    walks : sequence of (seconds,) float64
        Rates of each second, Mbit/s; NaN where hidden.
    network : Network
        Its thresholds divide the seconds.
    thresholds, part_thresholds : (k,) float64
        Where the distributions of a whole walk and of its parts are compared.
    mean : float
        From which the mean rate of a walk may differ.
    """
    rows = [_of_walk(walk, network, thresholds, part_thresholds, mean) for walk in walks]
    groups = [group for group, pairs in rows[0] for _ in pairs]
    pairs = np.array([[pair for _, part in row for pair in part] for row in rows], dtype=np.float64)
    return Figures(pairs[..., 0], pairs[..., 1], np.array(groups))


def _of_walk(
    walk: Floats, network: Network, thresholds: Floats, part_thresholds: Floats, mean: float
) -> list[tuple[str, list[tuple[float, float]]]]:
    known = ~np.isnan(walk)
    seconds = float(known.sum())
    rates = walk[known]
    durations = dips(walk, network.low_mbps)
    shares = [(float((rates < level).sum()), seconds) for level in (network.none_mbps, network.low_mbps)]
    count = float(durations.size)
    outages = [(float((durations <= most).sum()), count) for most in DURATIONS_S]
    return [
        ("rates", [(float((rates <= threshold).sum()), seconds) for threshold in thresholds]),
        ("shares", shares),
        ("outages", [*outages, (10 * count, seconds)]),
        ("autocorrelation", _autocorrelation(walk, known)),
        ("recovery", _recovery(walk, network)),
        ("spread", [(float(rates.mean() - mean) ** 2, float(((rates - mean) ** 2).mean()))]),
        ("places", _places(walk, known, part_thresholds)),
    ]


def _autocorrelation(walk: Floats, known: NDArray[np.bool_]) -> list[tuple[float, float]]:
    centred = np.where(known, walk - np.nanmean(walk), 0.0)
    power = float((centred**2).sum())
    return [(float((centred[lag:] * centred[:-lag]).sum()), power) for lag in LAGS_S]


def _places(walk: Floats, known: NDArray[np.bool_], thresholds: Floats) -> list[tuple[float, float]]:
    part = np.arange(walk.size) * PARTS // walk.size
    found = []
    for number in range(PARTS):
        rates = walk[(part == number) & known]
        found += [(float((rates <= threshold).sum()), float(rates.size)) for threshold in thresholds]
    return found


def _recovery(walk: Floats, network: Network) -> list[tuple[float, float]]:
    """Return which outages end in a recovery before the next one, and how soon."""
    begin, durations = runs_below(walk, network.low_mbps)
    end = begin + durations
    recovered = np.flatnonzero(walk >= network.high_mbps)
    ended = end[end < walk.size]
    following = np.append(begin[1:], walk.size)[: ended.size]
    place = np.searchsorted(recovered, ended)
    reached = np.append(recovered, 2 * walk.size)[place]
    back = reached < following
    times = (reached - ended)[back]
    count = float(back.sum())
    return [(count, float(ended.size)), *((float((times <= most).sum()), count) for most in RECOVERIES_S)]
