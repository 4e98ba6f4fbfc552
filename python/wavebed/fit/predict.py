"""Predict the rate of each second of a walk by a map, from what may be known at that time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from wavebed.channel.placemap import draw_walks
from wavebed.channel.placemap.draw import chosen, rates_within
from wavebed.channel.propagation.random_streams import generator
from wavebed.fit import metrics
from wavebed.fit.align import align, places_of_seconds
from wavebed.fit.forecast import forecast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.channel.placemap import PlaceMap
    from wavebed.channel.placemap.levels import Floats
    from wavebed.fit.laps import Lap
    from wavebed.fit.learn import Learned

__all__ = ["AHEAD_S", "Prediction", "predictions"]

AHEAD_S = 10
SAMPLES = 100
"""Of each second's distribution."""
WALKS = 200


@dataclass(frozen=True, slots=True)
class Prediction:
    """How well the rates of walks are predicted, second by second.

    Parameters
    ----------
    key, name : str
        Of the way to predict.
    uses : str
        What it knows.
    mae_mbps : float
        Mean absolute error of the median.
    gain : float
        Reduction of the continuous ranked probability score against pooling, as a fraction.
    correlation : float
        Of the 60 s means of the prediction's mean with the measured ones; NaN for a constant.
    """

    key: str
    name: str
    uses: str
    mae_mbps: float
    gain: float
    correlation: float


@dataclass(frozen=True, slots=True, eq=False)
class _Score:
    """Sums over the seconds of all walks."""

    error: Floats
    crps: Floats
    minutes: Floats
    measured: Floats


def predictions(learned: Learned, pool: Floats, laps: Sequence[Lap]) -> list[Prediction]:
    """Return how each way predicts walks, from the one that knows least.

    Parameters
    ----------
    pool : float array
        All rates of the fitted walks.
    """
    quantiles = np.quantile(pool, _middles())
    pooling = _score([np.broadcast_to(quantiles, (len(lap.rates), SAMPLES)) for lap in laps], laps)
    surrogates = _shifted(laps)
    rows = (
        ("pooling", "pooled rates", "nothing of the walk", pooling, pooling),
        (
            "lap_time",
            "map by lap time",
            "the time since the start",
            _score(_by_lap_time(learned.places, laps), laps),
            pooling,
        ),
        (
            "aligned",
            "map by place",
            "all rates of the walk, to find its places",
            _score(_by_place(learned, laps), laps),
            pooling,
        ),
        (
            "surrogate",
            "the same for shifted walks",
            "control: no place to be found",
            _score(_by_place(learned, surrogates), surrogates),
            pooling,
        ),
        (
            "persistence",
            f"rate {AHEAD_S} s ago",
            f"rates until {AHEAD_S} s before",
            _score(_persistence(laps), laps),
            pooling,
        ),
        (
            "forecast",
            f"map, {AHEAD_S} s ahead",
            f"rates until {AHEAD_S} s before",
            _score(forecast(learned.places, laps, AHEAD_S, generator(1, "fit forecast")), laps),
            pooling,
        ),
    )
    return [
        Prediction(key, name, uses, _mean(score.error), 1 - _mean(score.crps) / _mean(base.crps), _correlation(score))
        for key, name, uses, score, base in rows
    ]


def _mean(values: Floats) -> float:
    return float(values.mean())


def _correlation(score: _Score) -> float:
    if len(score.minutes) < 3 or score.minutes.std() < 1e-6 * abs(score.minutes.mean()) or score.measured.std() == 0:
        return float("nan")
    return float(np.corrcoef(score.minutes, score.measured)[0, 1])


def _middles() -> Floats:
    return np.asarray((np.arange(SAMPLES) + 0.5) / SAMPLES, dtype=np.float64)


def _score(samples: Sequence[Floats], laps: Sequence[Lap]) -> _Score:
    """Score samples of each second, (seconds, samples) of each walk."""
    parts: list[list[Floats]] = [[], [], [], []]
    for found, lap in zip(samples, laps, strict=True):
        parts[0].append(np.abs(np.median(found, axis=1) - lap.rates))
        parts[1].append(metrics.crps(found, lap.rates))
        parts[2].append(metrics.minute_means(found.mean(axis=1)))
        parts[3].append(metrics.minute_means(lap.rates))
    return _Score(*(np.concatenate(part) for part in parts))


def _by_lap_time(places: PlaceMap, laps: Sequence[Lap]) -> list[Floats]:
    """Return the rates of drawn walks at the same second; after their end the last second's."""
    drawn = draw_walks(places, range(1, WALKS + 1))
    return [drawn[:, np.minimum(np.arange(len(lap.rates)), drawn.shape[1] - 1)].T for lap in laps]


def _by_place(learned: Learned, laps: Sequence[Lap]) -> list[Floats]:
    """Return the distribution of the rate at the place of each second."""
    found = []
    for alignment, lap in zip(align(learned.courses, laps), laps, strict=True):
        place = places_of_seconds(alignment, len(lap.rates))
        shares = learned.places.shares[alignment.course, place]
        found.append(_quantiles(learned.places, shares))
    return found


def _quantiles(places: PlaceMap, shares: Floats) -> Floats:
    """Return the quantiles of mixtures of levels, (seconds, samples)."""
    at = np.broadcast_to(_middles(), (len(shares), SAMPLES))
    level = chosen(shares[:, None, :], at)
    total = np.cumsum(shares, axis=1)
    total /= total[:, -1:]
    above = np.take_along_axis(total, level, axis=1)
    share = np.take_along_axis(shares, level, axis=1)
    within = np.clip(1 - (above - at) / share, 0.0, 1.0)
    return rates_within(places, level, within)


def _persistence(laps: Sequence[Lap]) -> list[Floats]:
    return [np.concatenate((np.repeat(lap.rates[:1], AHEAD_S), lap.rates))[: len(lap.rates), None] for lap in laps]


def _shifted(laps: Sequence[Lap]) -> list[Lap]:
    """Return walks that begin elsewhere and end where they began: they have everything of a walk but its places."""
    random = generator(1, "fit surrogates")
    return [
        replace(lap, rates=np.roll(lap.rates, int(random.integers(len(lap.rates) // 4, 3 * len(lap.rates) // 4))))
        for lap in laps
    ]
