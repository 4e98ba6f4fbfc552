"""Figures of walks, and distances between walks; every rate is the mean of a second, Mbit/s."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from wavebed.channel.placemap.levels import Floats, Integers

__all__ = [
    "autocorrelation",
    "crps",
    "dips",
    "ks_distance",
    "longest_dip_s",
    "minute_means",
    "per_10_min",
    "recoveries",
    "runs_below",
    "share_below",
    "spectrum_slope",
]

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
