"""Figures of walks, and distances between walks; every rate is the mean of a second, Mbit/s."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wavebed.channel.placemap import Floats, Integers

    Walks: TypeAlias = Sequence[Sequence[Floats]]

SPECTRUM_HZ = (0.01, 0.4)
_BINS = 12


def ks_distance(first: Floats, other: Floats) -> float:
    """Return the Kolmogorov-Smirnov distance of two samples; NaN if one is empty."""
    if not len(first) or not len(other):
        return float("nan")
    first, other = np.sort(first), np.sort(other)
    both = np.concatenate((first, other))
    below = [np.searchsorted(each, both, side="right") / len(each) for each in (first, other)]
    return float(np.abs(below[0] - below[1]).max())


def dips(rates: Floats, threshold: float) -> Floats:
    """Return the durations of the times below a threshold, seconds."""
    return runs_below(rates, threshold)[1].astype(np.float64)


def runs_below(rates: Floats, threshold: float) -> tuple[Integers, Integers]:
    """Return the starts and the durations of the times below a threshold, seconds; a hidden second (NaN) is not."""
    below = np.concatenate(([False], rates < threshold, [False]))
    edges = np.flatnonzero(below[1:] != below[:-1]).astype(np.int64)
    return edges[::2], edges[1::2] - edges[::2]


def per_10_min(rates: Floats, threshold: float) -> float:
    """Return how often in 10 minutes the rate falls below a threshold."""
    return len(dips(rates, threshold)) / len(rates) * 600


def longest_dip_s(rates: Floats, threshold: float) -> float:
    """Return the longest time below a threshold, seconds."""
    return float(max(dips(rates, threshold), default=0.0))


def share_below(rates: Floats, threshold: float) -> float:
    """Return the fraction of seconds below a threshold."""
    return float((rates < threshold).mean())


def autocorrelation(rates: Floats, lag_s: int) -> float:
    """Return the correlation of the rate with that `lag_s` later."""
    if rates.std() == 0:
        return float("nan")
    centred = rates - rates.mean()
    return float((centred[lag_s:] * centred[:-lag_s]).sum() / (centred**2).sum())


def recoveries(rates: Floats, low: float, high: float) -> tuple[Floats, int]:
    """Return the times from the end of each dip below `low` to `high`, seconds, and the number of dips that end.

    Only dips after which the rate reaches `high` before it falls below `low` again have a time; 0 is at once.
    """
    times: list[int] = []
    starts, durations = runs_below(rates, low)
    ends = [int(end) for end in starts + durations if end < len(rates)]
    for end in ends:
        for second in range(end, len(rates)):
            if rates[second] >= high:
                times.append(second - end)
                break
            if rates[second] < low:
                break
    return np.array(times, dtype=np.float64), len(ends)


def spectrum_slope(rates: Floats) -> float:
    """Return the slope of the power spectrum in a log-log plot, 0.01 to 0.4 Hz."""
    power = np.abs(np.fft.rfft((rates - rates.mean()) * np.hanning(len(rates)))) ** 2
    frequency = np.fft.rfftfreq(len(rates))
    within = (frequency >= SPECTRUM_HZ[0]) & (frequency <= SPECTRUM_HZ[1]) & (power > 0)
    if within.sum() < 2:
        return float("nan")
    return float(np.polyfit(np.log(frequency[within]), np.log(power[within]), 1)[0])


def minute_means(rates: Floats) -> Floats:
    """Return the means of whole minutes."""
    count = len(rates) // 60
    return np.asarray(rates[: count * 60].reshape(count, 60).mean(axis=1), dtype=np.float64)


def crps(samples: Floats, measured: Floats) -> Floats:
    """Return the continuous ranked probability score of each row of samples (Gneiting and Raftery 2007, eq. 20)."""
    ordered = np.sort(samples, axis=-1)
    count = ordered.shape[-1]
    error = np.abs(ordered - measured[..., None]).mean(axis=-1)
    spread = (ordered * (2 * np.arange(1, count + 1) - count - 1)).sum(axis=-1) / count**2
    return np.asarray(error - spread, dtype=np.float64)


FAST_MBPS = 400.0
"""Networks with at least this 95th percentile are mmWave."""


@dataclass(frozen=True, slots=True)
class FitNetwork:
    """Thresholds of the figures, Mbit/s, and the targets of a fit.

    Parameters
    ----------
    none_mbps : float
        Below there is no service.
    low_mbps : float
        Below is an outage of the fast carrier.
    high_mbps : float
        From here on the rate has recovered.
    targets : mapping
        Bounds of distances and predictions, by their keys.
    """

    name: str
    none_mbps: float
    low_mbps: float
    high_mbps: float
    targets: Mapping[str, float]


MMWAVE = FitNetwork(
    "mmWave",
    5.0,
    100.0,
    400.0,
    {
        "ks_median": 0.20,
        "ks_p90": 0.30,
        "ks_dips": 0.20,
        "ks_quarter": 0.30,
        "correlation": 0.6,
        "mae": 300.0,
        "gain": 0.20,
    },
)
LTE = FitNetwork("LTE", 1.0, 5.0, 20.0, {"ks_median": 0.35})


def network_of(rates: Floats) -> FitNetwork:
    """Return the kind of network that gives these rates, Mbit/s."""
    return MMWAVE if np.quantile(rates, 0.95) >= FAST_MBPS else LTE


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


def distances(drawn: Walks, fitted: Walks, held_out: Walks, network: FitNetwork, *, quarter: bool) -> list[Distance]:
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
        found = [ks_distance(pooled([walk]), pool) for walk in walks]
        return float(np.percentile(found, percentile)) if found else float("nan")

    def of_dips(walks: Walks, others: Walks) -> float:
        return ks_distance(_dips(walks, network.low_mbps), _dips(others, network.low_mbps))

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
            lambda walks, others: ks_distance(pooled(walks), pooled(others)),
        ),
        row("ks_dips", f"KS of durations below {network.low_mbps:g} Mbit/s", of_dips),
    ]


def _dips(walks: Walks, threshold: float) -> Floats:
    found = [dips(part, threshold) for walk in walks for part in walk]
    return np.concatenate(found) if found else np.empty(0)


def traits(
    drawn: Sequence[Floats], fitted: Sequence[Floats], held_out: Sequence[Floats], network: FitNetwork
) -> list[Trait]:
    """Return the figures of whole walks."""
    low, high, none = network.low_mbps, network.high_mbps, network.none_mbps

    def row(name: str, unit: str, of: Callable[[Floats], float]) -> Trait:
        return Trait(name, unit, *(_band([of(walk) for walk in walks]) for walks in (drawn, fitted, held_out)))

    def recovered(rates: Floats) -> float:
        times, ends = recoveries(rates, low, high)
        return len(times) / ends if ends else float("nan")

    def recovery_s(rates: Floats) -> float:
        times, _ = recoveries(rates, low, high)
        return float(np.mean(times)) if len(times) else float("nan")

    return [
        *(row(f"autocorrelation at {lag} s", "", lambda r, lag=lag: autocorrelation(r, lag)) for lag in LAGS_S),  # type: ignore[misc]
        row(f"times below {low:g} Mbit/s in 10 min", "", lambda rates: per_10_min(rates, low)),
        row(f"time below {low:g} Mbit/s", "%", lambda rates: 100 * share_below(rates, low)),
        row(f"time below {none:g} Mbit/s", "%", lambda rates: 100 * share_below(rates, none)),
        row(f"longest time below {low:g} Mbit/s", "s", lambda rates: longest_dip_s(rates, low)),
        row(f"recovered to {high:g} Mbit/s before the next", "%", lambda rates: 100 * recovered(rates)),
        row(f"mean recovery to {high:g} Mbit/s", "s", recovery_s),
        row("slope of the spectrum, 0.01 to 0.4 Hz", "", spectrum_slope),
    ]


def _band(values: Sequence[float]) -> Band:
    known = [value for value in values if not np.isnan(value)]
    return Band(*np.percentile(known, _PERCENTILES).tolist()) if known else Band(*[float("nan")] * 3)
