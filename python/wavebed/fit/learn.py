"""Learn a map of places from walks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.ndimage import gaussian_filter1d
from scipy.optimize import minimize_scalar
from scipy.special import ndtri

from wavebed.channel.placemap import (
    AGES,
    QUANTILES,
    SIDES,
    UNKNOWN,
    PlaceMap,
    chosen,
    contexts,
    decode_map,
    draw_walks,
    encode_map,
    level_of,
    rates_within,
)
from wavebed.channel.propagation.correlated import generator
from wavebed.errors import UserError
from wavebed.fit import judge
from wavebed.fit.laps import STEP_S, align, find_courses, forecast, places_of_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wavebed.channel.placemap import Context, Floats, Integers
    from wavebed.fit.laps import Alignment, Lap, LapCourse


STATE_EDGES_MBPS = (5.0, 100.0)
"""Below the first: no service; below the second: LTE, or a mmWave link about to fail."""
LEVELS = 14
NARROWEST = 1.12
"""Ratio of neighbouring edges: narrower levels would hold the noise of the measurement."""
MOST_COURSES = 4
WALKS_PER_COURSE = 5
PLACE_WIDTH = 4.0
"""Standard deviation of the window in which the shares of a place are counted, in places."""
PRIOR_SECONDS = 10.0
"""Seconds of the overall shares that are added at each place."""
PRIOR_COUNTS = 5.0
"""Transitions of the wider context that are added to each narrower one."""
PRIOR_OVERALL = 0.5
FEWEST_LAPS = 2
_MOVES = 3


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """A map, and the courses to align further walks with."""

    places: PlaceMap
    courses: Sequence[LapCourse]


@dataclass(frozen=True, slots=True, eq=False)
class _Walk:
    """A walk as the counts see it: its rates, contexts, course and places."""

    rates: Floats
    contexts: Context
    course: int
    place: Integers


def learn(
    laps: Sequence[Lap], name: str, title: str, source: str, tell: Callable[[int], None] = lambda _: None
) -> Learned:
    """Return what walks teach.

    The map has the precision of its file: what is judged is what is saved.

    Parameters
    ----------
    name, title, source : str
        See `PlaceMap`.
    tell : callable
        See `find_courses`.

    Raises
    ------
    UserError
        If there are too few walks.
    """
    if len(laps) < FEWEST_LAPS:
        raise UserError(f"{len(laps)} walk to learn from: name at least {FEWEST_LAPS} beside those held out")
    count = min(MOST_COURSES, max(1, len(laps) // WALKS_PER_COURSE))
    courses, found = find_courses(laps, count, generator(0, "fit courses"), tell)
    edges = _edges(np.concatenate([lap.known for lap in laps]))
    walks = [
        _Walk(lap.rates, contexts(level_of(lap.rates, edges)), each.course, places_of_seconds(each, len(lap.rates)))
        for lap, each in zip(laps, found, strict=True)
    ]
    levels = len(edges) + 1
    near = np.zeros((count, len(courses[0].mean), levels))
    for walk in walks:
        near[walk.course] += _near(walk, near.shape[1:])
    known = np.concatenate([walk.contexts.level for walk in walks])
    overall = np.bincount(known[known != UNKNOWN], minlength=levels) / (known != UNKNOWN).sum()
    quantiles, stay = _within(walks, levels)
    transitions = _transitions(walks, levels)
    places = PlaceMap(
        name=name,
        title=title,
        source=source,
        duration_s=float(np.median([len(lap.rates) for lap in laps])),
        step_s=float(STEP_S),
        edges_mbps=edges,
        quantiles_mbps=quantiles,
        stay=stay,
        transitions=transitions,
        tilt=_tilt(walks, near, overall, transitions),
        weights=np.bincount([each.course for each in found], minlength=count) / len(laps),
        shares=_shares(near, overall),
        moves=_moves(found),
    )
    return Learned(decode_map(encode_map(places), name), courses)


def _edges(rates: Floats) -> Floats:
    """Return the edges of the levels: the edges of the states, and between them quantiles of the rates."""
    ordered = np.sort(rates)
    edges: list[float] = []
    for edge in (*STATE_EDGES_MBPS, *np.quantile(rates, np.arange(1, LEVELS) / LEVELS).tolist()):
        state = edge in STATE_EDGES_MBPS
        wide = state or (
            edge > STATE_EDGES_MBPS[0] and all(abs(np.log(edge / other)) > np.log(NARROWEST) for other in edges)
        )
        if wide and ordered[0] < edge <= ordered[-1]:
            edges = sorted([*edges, edge])
    # A level without any rate would have no quantiles.
    ends = np.searchsorted(ordered, edges)
    return np.array(edges)[np.diff(ends, prepend=0) > 0]


def _near(walk: _Walk, shape: tuple[int, int]) -> Floats:
    """Return the seconds that a walk spends in each level near each place: a moving window, (places, levels)."""
    counts = np.zeros(shape)
    known = walk.contexts.level != UNKNOWN
    np.add.at(counts, (walk.place[known], walk.contexts.level[known]), 1)
    # The window's effective width, in places: 1 / ∫ w² of a Gaussian of unit area.
    wide = PLACE_WIDTH * np.sqrt(4 * np.pi)
    return np.asarray(gaussian_filter1d(counts, PLACE_WIDTH, axis=0, mode="constant") * wide, dtype=np.float64)


def _shares(near: Floats, overall: Floats) -> Floats:
    """Return the shares of the levels at each place."""
    shares = (near + PRIOR_SECONDS * overall) / (near.sum(axis=-1, keepdims=True) + PRIOR_SECONDS)
    return np.asarray(shares, dtype=np.float64)


def _transitions(walks: Sequence[_Walk], levels: int) -> Floats:
    """Return the probabilities of the next level; a context that was seen rarely borrows from the wider one."""
    counts = np.zeros((levels, len(AGES) + 1, SIDES, levels))
    for walk in walks:
        before, _, after = _pairs(walk)
        np.add.at(counts, (before.level, before.age_class, before.side, after), 1)
    overall = counts.sum(axis=(0, 1, 2)) / counts.sum()
    by_level = _shrunk(counts.sum(axis=(1, 2)), overall, PRIOR_OVERALL)
    by_age = _shrunk(counts.sum(axis=2), by_level[:, None], PRIOR_COUNTS)
    return _shrunk(counts, by_age[:, :, None], PRIOR_COUNTS)


def _pairs(walk: _Walk) -> tuple[Context, Integers, Integers]:
    """Return the contexts of seconds, and the places and levels of the next ones, where both are known."""
    level = walk.contexts.level
    both = np.flatnonzero((level[:-1] != UNKNOWN) & (level[1:] != UNKNOWN))
    return walk.contexts.at(both), walk.place[both + 1], level[both + 1]


def _shrunk(counts: Floats, towards: Floats, weight: float) -> Floats:
    return np.asarray((counts + weight * towards) / (counts.sum(axis=-1, keepdims=True) + weight), dtype=np.float64)


def _within(walks: Sequence[_Walk], levels: int) -> tuple[Floats, float]:
    """Return quantiles of the rates in each level, and how the rate keeps its rank while the level holds."""
    rates = np.concatenate([walk.rates for walk in walks])
    level = np.concatenate([walk.contexts.level for walk in walks])
    ordered = [np.sort(rates[level == number]) for number in range(levels)]
    quantiles = np.array([np.quantile(each, QUANTILES) for each in ordered])
    pairs: list[Floats] = []
    for walk in walks:
        score = np.full(len(walk.rates), np.nan)
        for number, each in enumerate(ordered):
            here = walk.contexts.level == number
            rank = np.searchsorted(each, walk.rates[here], side="right")
            score[here] = ndtri((rank - 0.5) / len(each))
        held = (walk.contexts.level[1:] == walk.contexts.level[:-1]) & (walk.contexts.level[1:] != UNKNOWN)
        pairs.append(np.stack([score[:-1][held], score[1:][held]]))
    both = np.concatenate(pairs, axis=1)
    return quantiles, _correlation(both)


def _correlation(both: Floats) -> float:
    first, second = both
    if both.shape[1] < 3 or first.std() == 0 or second.std() == 0:
        return 0.0
    return float(
        np.clip(((first - first.mean()) * (second - second.mean())).mean() / (first.std() * second.std()), 0, 0.99)
    )


def _moves(found: Sequence[Alignment]) -> Floats:
    counts = np.ones((_MOVES, _MOVES))
    for each in found:
        moves = np.diff(each.places)
        np.add.at(counts, (moves[:-1], moves[1:]), 1)
    return np.asarray(counts / counts.sum(axis=1, keepdims=True), dtype=np.float64)


def _tilt(walks: Sequence[_Walk], near: Floats, overall: Floats, transitions: Floats) -> float:
    """Return the weight of the place that makes the walks likeliest, each by the shares of the others."""
    rows, here, after = [], [], []
    for walk in walks:
        others = _shares(near[walk.course] - _near(walk, near.shape[1:]), overall)
        before, place, level = _pairs(walk)
        rows.append(transitions[before.level, before.age_class, before.side])
        here.append(np.log(others / overall)[place])
        after.append(level)
    chances, tilts, found = np.concatenate(rows), np.concatenate(here), np.concatenate(after)
    everyone = np.arange(len(found))

    def cost(tilt: float) -> float:
        weighted = chances * np.exp(tilt * tilts)
        return -float(np.log(weighted[everyone, found] / weighted.sum(axis=1)).mean())

    return float(minimize_scalar(cost, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-3}).x)


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
        Prediction(
            key, name, uses, _mean(score.error), 1 - _mean(score.crps) / _mean(base.crps), _history_correlation(score)
        )
        for key, name, uses, score, base in rows
    ]


def _mean(values: Floats) -> float:
    return float(values.mean())


def _history_correlation(score: _Score) -> float:
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
        parts[1].append(judge.crps(found, lap.rates))
        parts[2].append(judge.minute_means(found.mean(axis=1)))
        parts[3].append(judge.minute_means(lap.rates))
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
