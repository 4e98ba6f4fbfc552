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
    TURNS,
    UNKNOWN,
    Context,
    PlaceMap,
    chosen,
    contexts,
    contexts_of_walks,
    decode_map,
    draw_walks,
    encode_map,
    level_of,
    next_chances,
    rates_of_walks,
    rates_within,
    tilted,
    turns,
    walk_numbers,
)
from wavebed.channel.propagation.correlated import generator
from wavebed.errors import UserError
from wavebed.fit import judge
from wavebed.fit.applications import SHORT_BUFFER, Volumes, watch
from wavebed.fit.laps import STEP_S, align, find_courses, forecast, places_of_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from wavebed.channel.placemap import Floats, Integers, WalkNumbers
    from wavebed.fit.laps import Alignment, Lap, LapCourse


STATE_EDGES_MBPS = (1.0, 5.0, 100.0)
"""Below the first: silence; below the second: no service; below the third: LTE, or a mmWave link about to fail."""
LEVELS = 14
LOWEST_QUANTILE_MBPS = 5.0
WIDEST = 1.5
"""Ratio of neighbouring edges: wider levels are halved, and the halves keep the age and side of the whole. Within a
wide level the order of the rates would be lost."""
LEAST_S = 300
"""Of measurements in each half."""
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
FEWEST_SCORES = 20
TILT_WALKS = 100
CALIBRATIONS = 6
CALIBRATED_WALKS = 20
"""With fewer walks the shares without one of them differ too much from all, and levels are entered too often."""
FIRST_SEED = 1_000_000
"""The first seed of the walks that are compared with the fitted ones while learning."""
SIMULATED_WALKS = 500
STALLING_WALKS = 2500
"""Few walks have most of the time stalled: its mean over these has a standard error of 2 %."""
SIMULATIONS = 4
MOST_SIMULATED_S = 2_400_000
"""Seconds of all compared walks: fewer walks are drawn if they are long."""
SIMULATED_STARTS = 0.05
"""Fraction of the seconds of simulated walks at which a video starts, chosen at random."""
USUAL_RISE = -1.3
"""A factor of f on leaving low levels changes the time stalled by f to this power, in the first try."""
MOST_HASTE = 0.7
"""The largest logarithm of the factor on leaving low levels, either way."""
_MOVES = 3


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """A map, and what tells of further walks.

    Parameters
    ----------
    places : PlaceMap
        What was learned.
    courses : sequence of LapCourse
        To align further walks with.
    ahead : PlaceMap
        The same with the likeliest tilt, for forecasts.
    """

    places: PlaceMap
    courses: Sequence[LapCourse]
    ahead: PlaceMap


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
        See `find_courses`; receives 0 after the last round.

    Raises
    ------
    UserError
        If there are too few walks.
    """
    if len(laps) < FEWEST_LAPS:
        raise UserError(f"{len(laps)} walk to learn from: name at least {FEWEST_LAPS} beside those held out")
    count = min(MOST_COURSES, max(1, len(laps) // WALKS_PER_COURSE))
    courses, found = find_courses(laps, count, generator(0, "fit courses"), tell)
    tell(0)
    edges, groups = _edges(np.concatenate([lap.known for lap in laps]))
    walks = [
        _Walk(
            lap.rates,
            contexts(level_of(lap.rates, edges), groups),
            each.course,
            places_of_seconds(each, len(lap.rates)),
        )
        for lap, each in zip(laps, found, strict=True)
    ]
    levels = len(edges) + 1
    near = np.zeros((count, len(courses[0].mean), levels))
    for walk in walks:
        near[walk.course] += _near(walk, near.shape[1:])
    known = np.concatenate([walk.contexts.level for walk in walks])
    overall = np.bincount(known[known != UNKNOWN], minlength=levels) / (known != UNKNOWN).sum()
    quantiles, stay, lean = _within(walks, levels)
    counts = _counts([_pairs(walk) for walk in walks], levels)
    places = PlaceMap(
        name=name,
        title=title,
        source=source,
        duration_s=float(np.median([len(lap.rates) for lap in laps])),
        step_s=float(STEP_S),
        edges_mbps=edges,
        quantiles_mbps=quantiles,
        groups=groups,
        stay=stay,
        lean=lean,
        transitions=_transitions(counts),
        tilt=0.0,
        weights=np.bincount([each.course for each in found], minlength=count) / len(laps),
        shares=_shares(near, overall),
        moves=_moves(found),
    )
    moves = _moves_of(walks, near, overall)
    choices = [replace(places, tilt_holds=holds) for holds in (False, True)]
    (tilt, _), places = min(((_likeliest_tilt(each, moves), each) for each in choices), key=lambda choice: choice[0][1])
    ahead = _calibrated(places, moves, tilt)
    places = _calibrated(places, moves, _tilt(places, moves, laps))
    if len(laps) >= CALIBRATED_WALKS:
        places = _simulated(places, counts, laps)
    return Learned(decode_map(encode_map(places), name), courses, ahead)


def _edges(rates: Floats) -> tuple[Floats, Integers]:
    """Return the edges of the levels, and the group of each level.

    Groups have the edges of the states, and between them quantiles of the rates. Wide groups have several levels.
    """
    ordered = np.sort(rates)
    edges: list[float] = []
    for edge in (*STATE_EDGES_MBPS, *np.quantile(rates, np.arange(1, LEVELS) / LEVELS).tolist()):
        state = edge in STATE_EDGES_MBPS
        wide = state or (
            edge > LOWEST_QUANTILE_MBPS and all(abs(np.log(edge / other)) > np.log(NARROWEST) for other in edges)
        )
        if wide and ordered[0] < edge <= ordered[-1]:
            edges = sorted([*edges, edge])
    # A level without any rate would have no quantiles.
    ends = np.searchsorted(ordered, edges)
    of_groups = np.array(edges)[np.diff(ends, prepend=0) > 0]
    found = np.array(_halved(of_groups.tolist(), ordered))
    return found, np.searchsorted(of_groups, np.concatenate(([-np.inf], found)), side="right")


def _halved(edges: list[float], ordered: Floats) -> list[float]:
    """Halve wide levels, again and again, as long as each half has enough rates."""
    for place, low in enumerate(edges):
        high = edges[place + 1] if place + 1 < len(edges) else float(np.quantile(ordered, 0.999))
        middle = round(float(np.sqrt(low * high)), 3)
        first, cut, last = np.searchsorted(ordered, (low, middle, high))
        if high > WIDEST * low and min(cut - first, last - cut) >= LEAST_S:
            return _halved([*edges[: place + 1], middle, *edges[place + 1 :]], ordered)
    return edges


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


def _transitions(counts: Floats) -> Floats:
    """Return the probabilities of the next level; a context that was seen rarely borrows from the wider one."""
    overall = counts.sum(axis=(0, 1, 2)) / counts.sum()
    by_level = _shrunk(counts.sum(axis=(1, 2)), overall, PRIOR_OVERALL)
    by_age = _shrunk(counts.sum(axis=2), by_level[:, None], PRIOR_COUNTS)
    return _shrunk(counts, by_age[:, :, None], PRIOR_COUNTS)


def _counts(pairs: Sequence[tuple[Context, Integers, Integers]], levels: int) -> Floats:
    """Return how often each level follows each context, (levels, ages, sides, levels)."""
    shape = (levels, len(AGES) + 1, SIDES, levels)
    counts = np.zeros(np.prod(shape))
    for before, _, after in pairs:
        places = np.ravel_multi_index((before.level, before.age_class, before.side, after), shape)
        counts += np.bincount(places.ravel(), minlength=len(counts))
    return counts.reshape(shape)


def _pairs(walk: _Walk) -> tuple[Context, Integers, Integers]:
    """Return the contexts of seconds, and the places and levels of the next ones, where both are known."""
    level = walk.contexts.level
    both = np.flatnonzero((level[:-1] != UNKNOWN) & (level[1:] != UNKNOWN))
    return walk.contexts.at(both), walk.place[both + 1], level[both + 1]


def _shrunk(counts: Floats, towards: Floats, weight: float) -> Floats:
    return np.asarray((counts + weight * towards) / (counts.sum(axis=-1, keepdims=True) + weight), dtype=np.float64)


def _within(walks: Sequence[_Walk], levels: int) -> tuple[Floats, Floats, Floats]:
    """Return quantiles of the rates in each level, how a rate keeps its rank while the level holds, and how it leans.

    See `PlaceMap` for `stay` and `lean`.
    """
    rates = np.concatenate([walk.rates for walk in walks])
    level = np.concatenate([walk.contexts.level for walk in walks])
    ordered = [np.sort(rates[level == number]) for number in range(levels)]
    quantiles = np.array([np.quantile(each, QUANTILES) for each in ordered])
    scores = [_ranked(walk, ordered) for walk in walks]
    before, after = (np.concatenate(each) for each in zip(*(turns(walk.contexts.level) for walk in walks), strict=True))
    score = np.concatenate(scores)
    lean = np.zeros((TURNS, TURNS, 2))
    for turn in np.ndindex(TURNS, TURNS):
        here = score[(before == turn[0]) & (after == turn[1]) & ~np.isnan(score)]
        lean[turn] = (here.mean(), here.std()) if len(here) >= FEWEST_SCORES else (0.0, 1.0)
    mean, spread = np.moveaxis(lean[before, after], -1, 0)
    cuts = np.cumsum([len(walk.rates) for walk in walks])[:-1]
    left = np.split((score - mean) / np.maximum(spread, 1e-9), cuts)
    stay = np.zeros(levels)
    for number in range(levels):
        pairs = []
        for walk, each in zip(walks, left, strict=True):
            held = (walk.contexts.level[1:] == number) & (walk.contexts.level[:-1] == number)
            pairs.append(np.stack([each[:-1][held], each[1:][held]]))
        stay[number] = _correlation(np.concatenate(pairs, axis=1))
    return quantiles, stay, lean


def _ranked(walk: _Walk, ordered: Sequence[Floats]) -> Floats:
    """Return the normal score of each rate within its level; equal rates have one score."""
    score = np.full(len(walk.rates), np.nan)
    for number, each in enumerate(ordered):
        here = walk.contexts.level == number
        below, upto = (np.searchsorted(each, walk.rates[here], side=side) for side in ("left", "right"))
        score[here] = ndtri((below + upto) / 2 / len(each))
    return score


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


@dataclass(frozen=True, slots=True, eq=False)
class _Moves:
    """Seconds of all walks, and the next ones: contexts, levels, and the logarithm of the places' share over all."""

    before: Context
    after: Integers
    ratios: Floats
    walks: int


def _moves_of(walks: Sequence[_Walk], near: Floats, overall: Floats) -> _Moves:
    """Return the moves of the walks, with the shares of places in the other walks."""
    pairs = [_pairs(walk) for walk in walks]
    ratios = [
        np.log(_shares(near[walk.course] - _near(walk, near.shape[1:]), overall) / overall)[place]
        for walk, (_, place, _) in zip(walks, pairs, strict=True)
    ]
    level, age, side = (
        np.concatenate([getattr(before, name) for before, _, _ in pairs]) for name in ("level", "age", "side")
    )
    return _Moves(
        Context(level, age, side), np.concatenate([after for *_, after in pairs]), np.concatenate(ratios), len(walks)
    )


def _calibrated(places: PlaceMap, moves: _Moves, tilt: float) -> PlaceMap:
    """Return the map with a tilt, and transitions with which each level is entered as often as by the walks.

    A tilt alone makes levels rarer that belong to few places.
    """
    levels = len(places.groups)
    same = places.groups == places.groups[:, None]
    left = ~same[moves.before.level, moves.after]
    wanted = np.bincount(moves.after[left], minlength=levels) + PRIOR_COUNTS
    tilts, here = np.exp(tilt * moves.ratios), same[moves.before.level]
    factors = np.ones(levels)
    found = places
    for _ in range(CALIBRATIONS if moves.walks >= CALIBRATED_WALKS else 0):
        chances = next_chances(found, moves.before, tilts)
        entered = np.where(here, 0.0, chances / chances.sum(axis=1, keepdims=True)).sum(axis=0)
        factors *= wanted / (entered + PRIOR_COUNTS)
        found = replace(places, transitions=tilted(places.transitions, same[:, None, None], factors))
    return replace(found, tilt=tilt)


def _simulated(places: PlaceMap, measured: Floats, laps: Sequence[Lap]) -> PlaceMap:
    """Return the map whose drawn walks have the moves of the fitted walks, and stall as long.

    A drawn walk meets places that remember whole silences, so it stays silent longer than `_calibrated` expects: that
    looks from fitted walks at the places of the others.

    Parameters
    ----------
    measured : float array (levels, ages, sides, levels)
        See `_counts`.
    """
    numbers = _numbers(places, SIMULATED_WALKS)
    for _ in range(SIMULATIONS):
        drawn = contexts_of_walks(places, numbers)
        before, after = drawn.at((slice(None), slice(-1))), drawn.level[:, 1:]
        places = _nearer(places, measured, _counts([(before, after, after)], len(places.groups)))
    return _stalling(places, laps)


def _numbers(places: PlaceMap, walks: int) -> WalkNumbers:
    return walk_numbers(places, range(FIRST_SEED, FIRST_SEED + max(1, min(walks, MOST_SIMULATED_S // places.seconds))))


def _nearer(places: PlaceMap, measured: Floats, drawn: Floats) -> PlaceMap:
    """Return the map with factors on the moves that drawn walks make too often or too rarely.

    A group is left at each age, and a level is entered, as often as by the measured walks.
    """
    groups = places.groups
    same = (groups == groups[:, None])[:, None, None]
    members = np.eye(groups[-1] + 1)[groups]

    def by_group(counts: Floats) -> Floats:
        return np.asarray(np.einsum("lg,lasn->ga", members, counts), dtype=np.float64)

    seconds, drawn_s = by_group(measured), by_group(drawn)
    hazard = by_group(np.where(same, 0.0, drawn)) / np.maximum(drawn_s, 1.0)
    left = np.where(drawn_s > 0, by_group(np.where(same, 0.0, measured)), 0.0)
    haste = (left + PRIOR_COUNTS) / (hazard * seconds + PRIOR_COUNTS)
    hastened = _hastened(places.transitions, same, haste[groups][:, :, None, None])
    wanted, entered = (np.where(same, 0.0, counts).sum(axis=(0, 1, 2)) for counts in (measured, drawn))
    entered *= wanted.sum() / max(entered.sum(), 1.0)
    factors = (wanted + PRIOR_COUNTS) / (entered + PRIOR_COUNTS)
    return replace(places, transitions=tilted(hastened, same, factors))


def _hastened(transitions: Floats, same: NDArray[np.bool_], haste: Floats) -> Floats:
    """Return transitions whose odds of leaving the group are multiplied by `haste`."""
    found = np.where(same, transitions, transitions * haste)
    return np.asarray(found / found.sum(axis=-1, keepdims=True), dtype=np.float64)


def _stalling(places: PlaceMap, laps: Sequence[Lap]) -> PlaceMap:
    """Return the map whose drawn walks stall a short-buffer video for the same time as the fitted walks.

    A factor on leaving all levels without service makes their stretches shorter or longer.
    """
    low = np.append(places.edges_mbps, np.inf) <= STATE_EDGES_MBPS[1]
    if not low.any() or any(np.isnan(lap.rates).any() for lap in laps):
        return places
    numbers = _numbers(places, STALLING_WALKS)
    wanted = _stalled_share([lap.rates for lap in laps], 1.0)
    same = (places.groups == places.groups[:, None])[:, None, None]

    def hastened(haste: float) -> PlaceMap:
        factors = np.where(low, np.exp(haste), 1.0)[:, None, None, None]
        return replace(places, transitions=_hastened(places.transitions, same, factors))

    def excess(haste: float) -> float:
        found = hastened(haste)
        rates = rates_of_walks(found, numbers, contexts_of_walks(found, numbers).level)
        return float(np.log(_stalled_share(list(rates), SIMULATED_STARTS) / wanted))

    def bounded(haste: float) -> float:
        return float(np.clip(haste, -MOST_HASTE, MOST_HASTE))

    with np.errstate(divide="ignore"):
        found = excess(0.0) if wanted else 0.0
        if not found or np.isinf(found):
            return places
        first = bounded(-found / USUAL_RISE)
        left = excess(first)
    rise = min((left - found) / first, USUAL_RISE / 4)
    return hastened(bounded(first - left / rise))


def _stalled_share(walks: Sequence[Floats], some: float) -> float:
    """Return the mean fraction of time that videos with a short buffer stall, from some of the starts."""
    volumes = Volumes(walks)
    walk, start_s = volumes.starts()
    chosen_starts = generator(0, "fit starts").random(len(walk)) < some
    if not chosen_starts.any():
        return 0.0
    stalled_s = watch(volumes, walk[chosen_starts], start_s[chosen_starts], SHORT_BUFFER).stalled_s
    return float((stalled_s / (SHORT_BUFFER.duration_s + stalled_s)).mean())


def _likeliest_tilt(places: PlaceMap, moves: _Moves) -> tuple[float, float]:
    """Return the weight of the place that makes the next seconds likeliest, and their mean cost.

    It is lower than the tilt of `_tilt`. Most of what a second tells of the next does not depend on the place.
    """
    everyone = np.arange(len(moves.after))

    def cost(tilt: float) -> float:
        chances = next_chances(places, moves.before, np.exp(tilt * moves.ratios))
        return -float(np.log(chances[everyone, moves.after] / chances.sum(axis=1)).mean())

    found = minimize_scalar(cost, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-3})
    return float(found.x), float(found.fun)


def _tilt(places: PlaceMap, moves: _Moves, laps: Sequence[Lap]) -> float:
    """Return the weight of the place with which drawn walks forget as slowly as the walks."""
    measured = _memory([lap.parts for lap in laps])

    def cost(tilt: float) -> float:
        drawn = draw_walks(_calibrated(places, moves, tilt), range(1, TILT_WALKS + 1))
        parts = [_alike(rates, laps[number % len(laps)]).parts for number, rates in enumerate(drawn)]
        return float(np.nansum((_memory(parts) - measured) ** 2))

    return float(minimize_scalar(cost, bounds=(0.0, 1.0), method="bounded", options={"xatol": 0.02}).x)


def _alike(rates: Floats, lap: Lap) -> Lap:
    """Hide of a drawn walk what is hidden of a measured one."""
    seconds = min(len(rates), len(lap.rates))
    return replace(lap, rates=np.where(np.isnan(lap.rates[:seconds]), np.nan, rates[:seconds]))


def _memory(walks: Sequence[Sequence[Floats]]) -> Floats:
    """Return the median autocorrelation of walks at each lag; NaN where no part is long enough."""
    found = []
    for lag in judge.LAGS_S:
        values = [judge.autocorrelation(part, lag) for parts in walks for part in parts if len(part) > 2 * lag]
        known = [value for value in values if not np.isnan(value)]
        found.append(float(np.median(known)) if known else float("nan"))
    return np.array(found)


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
            _score(forecast(learned.ahead, laps, AHEAD_S, generator(1, "fit forecast")), laps),
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
