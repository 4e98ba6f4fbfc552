"""Compare drawn walks with measured ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from wavebed.fit import metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wavebed.channel.placemap.levels import Floats
    from wavebed.fit.network import Network

    Walks: TypeAlias = Sequence[Sequence[Floats]]

__all__ = ["Band", "Distance", "Trait", "distances", "pooled", "traits"]

LAGS_S = (1, 5, 10, 30)
_PERCENTILES = (10, 50, 90)


@dataclass(frozen=True, slots=True)
class Distance:
    """A Kolmogorov-Smirnov distance of drawn walks to measured ones.

    Parameters
    ----------
    key : str
        Of the target.
    fitted, held_out : float
        To the walks learned from, and to those held out; NaN where there are none.
    floor : float
        Of the held-out walks to the pooled fitted walks: the distance between real walks.
    target : float or None
        The distance to the held-out walks should not be larger.
    """

    key: str
    name: str
    fitted: float
    held_out: float
    floor: float
    target: float | None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; ``None`` without one, or without held-out walks."""
        return None if self.target is None or np.isnan(self.held_out) else self.held_out <= self.target


@dataclass(frozen=True, slots=True)
class Band:
    """The percentiles 10, 50 and 90 of a figure over walks; NaN without any."""

    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class Trait:
    """A figure of each walk, over drawn, fitted and held-out walks."""

    name: str
    unit: str
    drawn: Band
    fitted: Band
    held_out: Band

    @property
    def met(self) -> bool:
        """Whether the median of drawn walks is within the band of the fitted walks."""
        return self.fitted.low <= self.drawn.median <= self.fitted.high


def pooled(walks: Walks) -> Floats:
    """Return all known rates of walks, each a sequence of its parts without a gap."""
    parts = [part for walk in walks for part in walk]
    return np.concatenate(parts) if parts else np.empty(0)


def distances(drawn: Walks, fitted: Walks, held_out: Walks, network: Network, *, quarter: bool) -> list[Distance]:
    """Return the distances of drawn walks.

    Parameters
    ----------
    drawn, fitted, held_out : sequence
        Walks as their parts without a gap.
    quarter : bool
        Whether a quarter of the loop is held out. Then `drawn` are the same part of drawn walks.
    """
    pairs = ((fitted, drawn), (held_out, drawn), (held_out, fitted))

    def row(key: str, name: str, of: Callable[[Walks, Walks], float]) -> Distance:
        target = network.targets.get(key) if not quarter or key == "ks_quarter" else None
        to_fitted, to_held_out, floor = (of(*pair) for pair in pairs)
        return Distance(key, name, to_fitted, to_held_out, floor, target)

    def of_walks(walks: Walks, others: Walks, percentile: float) -> float:
        pool = pooled(others)
        found = [metrics.ks_distance(pooled([walk]), pool) for walk in walks]
        return float(np.percentile(found, percentile)) if found else float("nan")

    def of_dips(walks: Walks, others: Walks) -> float:
        return metrics.ks_distance(_dips(walks, network.low_mbps), _dips(others, network.low_mbps))

    return [
        row(
            "ks_quarter" if quarter else "ks_median",
            "KS of 1 s rates, median of walks",
            lambda walks, others: of_walks(walks, others, 50),
        ),
        row("ks_p90", "KS of 1 s rates, 90th percentile", lambda walks, others: of_walks(walks, others, 90)),
        row(
            "ks_pooled",
            "KS of 1 s rates, all walks pooled",
            lambda walks, others: metrics.ks_distance(pooled(walks), pooled(others)),
        ),
        row("ks_dips", f"KS of durations below {network.low_mbps:g} Mbit/s", of_dips),
    ]


def _dips(walks: Walks, threshold: float) -> Floats:
    found = [metrics.dips(part, threshold) for walk in walks for part in walk]
    return np.concatenate(found) if found else np.empty(0)


def traits(
    drawn: Sequence[Floats], fitted: Sequence[Floats], held_out: Sequence[Floats], network: Network
) -> list[Trait]:
    """Return the figures of whole walks."""
    low, high, none = network.low_mbps, network.high_mbps, network.none_mbps

    def row(name: str, unit: str, of: Callable[[Floats], float]) -> Trait:
        return Trait(name, unit, *(_band([of(walk) for walk in walks]) for walks in (drawn, fitted, held_out)))

    def recovered(rates: Floats) -> float:
        times, ends = metrics.recoveries(rates, low, high)
        return len(times) / ends if ends else float("nan")

    def recovery_s(rates: Floats) -> float:
        times, _ = metrics.recoveries(rates, low, high)
        return float(np.mean(times)) if len(times) else float("nan")

    return [
        *(row(f"autocorrelation at {lag} s", "", lambda r, lag=lag: metrics.autocorrelation(r, lag)) for lag in LAGS_S),  # type: ignore[misc]
        row(f"times below {low:g} Mbit/s in 10 min", "", lambda rates: metrics.per_10_min(rates, low)),
        row(f"time below {low:g} Mbit/s", "%", lambda rates: 100 * metrics.share_below(rates, low)),
        row(f"time below {none:g} Mbit/s", "%", lambda rates: 100 * metrics.share_below(rates, none)),
        row(f"longest time below {low:g} Mbit/s", "s", lambda rates: metrics.longest_dip_s(rates, low)),
        row(f"recovered to {high:g} Mbit/s before the next", "%", lambda rates: 100 * recovered(rates)),
        row(f"mean recovery to {high:g} Mbit/s", "s", recovery_s),
        row("slope of the spectrum, 0.01 to 0.4 Hz", "", metrics.spectrum_slope),
    ]


def _band(values: Sequence[float]) -> Band:
    known = [value for value in values if not np.isnan(value)]
    return Band(*np.percentile(known, _PERCENTILES).tolist()) if known else Band(*[float("nan")] * 3)
