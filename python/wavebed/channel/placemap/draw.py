"""Draw walks from a map."""

from __future__ import annotations

from dataclasses import replace
from math import erf, sqrt
from typing import TYPE_CHECKING

import numpy as np

from wavebed.channel.placemap.levels import Context, advanced
from wavebed.channel.placemap.model import QUANTILES
from wavebed.channel.propagation.random_streams import generators
from wavebed.pattern.model import steps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wavebed.channel.placemap.levels import Floats, Integers
    from wavebed.channel.placemap.model import PlaceMap
    from wavebed.pattern.model import Pattern

__all__ = ["chosen", "draw_walks", "moved", "next_contexts", "pattern_of", "rates_within", "to_pattern"]

_NS_PER_S = 10**9


def draw_walks(learned: PlaceMap, seeds: Sequence[int]) -> Floats:
    """Return the rates of new walks, Mbit/s, (seeds, seconds); a seed gives the same walk alone or among others."""

    def drawn(stage: str, draw: Callable[[np.random.Generator], Floats]) -> Floats:
        return np.array([draw(generator) for generator in generators(seeds, f"map {stage}")])

    seconds = learned.seconds
    course = chosen(
        np.broadcast_to(learned.weights, (len(seeds), len(learned.weights))), drawn("course", _uniform(1))[:, 0]
    )
    places = _places(learned, drawn("moves", _uniform(int(np.ceil(seconds / learned.step_s)))))
    level = _levels(learned, course, places, drawn("levels", _uniform(seconds)))
    scores = drawn("rates", lambda generator: generator.standard_normal(seconds))
    for second in range(1, seconds):
        scores[:, second] = learned.stay * scores[:, second - 1] + sqrt(1 - learned.stay**2) * scores[:, second]
    return rates_within(learned, level, _normal_cdf(scores))


def to_pattern(learned: PlaceMap, seed: int) -> Pattern:
    """Return the downlink's pattern of the walk of a seed, in steps of a second."""
    return pattern_of(learned, seed, draw_walks(learned, [seed])[0])


def pattern_of(learned: PlaceMap, seed: int, rates_mbps: Floats) -> Pattern:
    """Return the pattern of a walk that was drawn with a seed."""
    pattern = steps(
        np.arange(len(rates_mbps), dtype=np.int64) * _NS_PER_S,
        len(rates_mbps) * _NS_PER_S,
        rate_bps=np.rint(rates_mbps * 1e6).astype(np.int64),
    )
    header = (
        ("title", learned.title),
        ("source", f"map {learned.name}: {learned.source}"),
        ("seed", str(seed)),
        ("direction", "down"),
    )
    return replace(pattern, header=header)


def _uniform(count: int) -> Callable[[np.random.Generator], Floats]:
    return lambda generator: generator.random(count)


def chosen(weights: Floats, drawn: Floats) -> Integers:
    """Return a place in each row of weights, by a uniform number of each row."""
    total = np.cumsum(weights, axis=-1)
    places = (total <= drawn[..., None] * total[..., -1:]).sum(axis=-1)
    return np.asarray(np.minimum(places, weights.shape[-1] - 1), dtype=np.int64)


def moved(learned: PlaceMap, place: Integers, move: Integers, drawn: Floats) -> tuple[Integers, Integers]:
    """Return the places after a step, and how many were passed; a walk waits at its last place."""
    move = chosen(learned.moves[move], drawn)
    return np.minimum(place + move, learned.places - 1), move


def next_contexts(learned: PlaceMap, before: Context, tilts: Floats, drawn: Floats) -> Context:
    """Return the contexts of the next second, given the `tilts` of the places there."""
    chances = learned.transitions[before.level, before.age_class, before.side] * tilts
    return advanced(before, chosen(chances, drawn))


def _places(learned: PlaceMap, drawn: Floats) -> Integers:
    """Return the place of each second: a walk at changing speed."""
    walks, count = drawn.shape
    places = np.zeros((walks, count), dtype=np.int64)
    move = np.ones(walks, dtype=np.int64)
    for step in range(1, count):
        places[:, step], move = moved(learned, places[:, step - 1], move, drawn[:, step])
    return places[:, (np.arange(learned.seconds) / learned.step_s).astype(np.int64)]


def _levels(learned: PlaceMap, course: Integers, places: Integers, drawn: Floats) -> Integers:
    tilts = learned.tilts()
    ones = np.ones(len(course), dtype=np.int64)
    now = Context(chosen(learned.shares[course, places[:, 0]], drawn[:, 0]), ones, 0 * ones)
    levels = [now.level]
    for second in range(1, places.shape[1]):
        now = next_contexts(learned, now, tilts[course, places[:, second]], drawn[:, second])
        levels.append(now.level)
    return np.stack(levels, axis=1)


def rates_within(learned: PlaceMap, level: Integers, shares: Floats) -> Floats:
    """Return the rates, Mbit/s, at quantiles `shares` of the rates within each level; arrays of one shape."""
    logs = np.log1p(learned.quantiles_mbps)
    upper = np.clip(np.searchsorted(QUANTILES, shares, side="right"), 1, len(QUANTILES) - 1)
    low, high = np.asarray(QUANTILES)[upper - 1], np.asarray(QUANTILES)[upper]
    below, above = logs[level, upper - 1], logs[level, upper]
    return np.asarray(np.expm1(below + (shares - low) / (high - low) * (above - below)), dtype=np.float64)


def _normal_cdf(scores: Floats) -> Floats:
    """Return Φ; SciPy is not needed to draw."""
    return np.asarray(np.reshape([(1 + erf(score / sqrt(2))) / 2 for score in scores.ravel()], scores.shape))
