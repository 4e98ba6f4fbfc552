"""Forecast the rate some seconds ahead, knowing the map and the measurements up to now.

The course and the place of the walk follow from its rates so far: a particle filter (Gordon, Salmond and Smith 1993,
"Novel approach to nonlinear/non-Gaussian Bayesian state estimation"). It uses no second later than the present one, so
that a forecast cannot be fitted to what it forecasts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.channel.placemap.draw import chosen, moved, next_contexts, rates_within
from wavebed.channel.placemap.levels import UNKNOWN, Context, contexts, level_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.channel.placemap import PlaceMap
    from wavebed.channel.placemap.levels import Floats, Integers
    from wavebed.fit.laps import Lap

__all__ = ["PARTICLES", "forecast"]

PARTICLES = 200
LATEST_START = 15
"""Places; a walk begins anywhere among the first."""
_LEAST_WEIGHT = 1e-12
"""Keeps the weights of a walk above zero when no particle explains what was measured."""


class _Walkers:
    """Guesses of where walks are: course, place, and how many places the last step passed; (walks, particles)."""

    def __init__(self, learned: PlaceMap, walks: int, random: np.random.Generator) -> None:
        self._learned = learned
        self._random = random
        self._step = round(learned.step_s)
        self.shape = (walks, PARTICLES)
        weights = learned.weights / learned.weights.sum()
        self.course = random.choice(len(weights), self.shape, p=weights)
        self.place = random.integers(0, min(LATEST_START, learned.places), self.shape)
        self.move = np.ones(self.shape, dtype=np.int64)

    def go_to(self, second: int) -> None:
        """Go on by a second; at the end of a step, to the next place."""
        if second % self._step == 0:
            self.place, self.move = moved(self._learned, self.place, self.move, self._random.random(self.shape))

    def keep(self, chosen: Integers) -> None:
        """Keep those particles of each walk, each as often as it is chosen."""
        self.course, self.place, self.move = (
            np.take_along_axis(each, chosen, axis=1) for each in (self.course, self.place, self.move)
        )

    def copy(self) -> _Walkers:
        """Return walkers that go on alone."""
        other = object.__new__(_Walkers)
        other.__dict__.update(self.__dict__)
        return other


def forecast(learned: PlaceMap, laps: Sequence[Lap], ahead_s: int, random: np.random.Generator) -> list[Floats]:
    """Return guesses of each walk's rates, Mbit/s, (seconds, `PARTICLES`): row t is second t, known `ahead_s` before.

    The first `ahead_s` rows are what the map says without any measurement.
    """
    tilts = learned.tilts()
    seconds = max(len(lap.rates) for lap in laps)
    known = _contexts(learned, laps, seconds)
    found = np.empty((seconds, len(laps), PARTICLES), dtype=np.float32)
    walkers = _Walkers(learned, len(laps), random)
    for second in range(min(ahead_s, seconds)):
        found[second] = _unmeasured(learned, walkers, random)
    for second in range(seconds - ahead_s):
        if second:
            walkers.go_to(second)
            _filter(learned, tilts, walkers, known, second, random)
        found[second + ahead_s] = _ahead(learned, tilts, walkers.copy(), known, second, ahead_s, random)
    return [found[: len(lap.rates), walk].astype(np.float64) for walk, lap in enumerate(laps)]


def _contexts(learned: PlaceMap, laps: Sequence[Lap], seconds: int) -> Context:
    """Return the contexts of all seconds of all walks, (seconds, walks); unknown after the end of a walk."""
    each = [
        contexts(level_of(np.append(lap.rates, [np.nan] * (seconds - len(lap.rates))), learned.edges_mbps))
        for lap in laps
    ]
    return Context(*(np.stack([getattr(one, name) for one in each], axis=1) for name in ("level", "age", "side")))


def _filter(
    learned: PlaceMap, tilts: Floats, walkers: _Walkers, known: Context, second: int, random: np.random.Generator
) -> None:
    """Keep the particles that explain the level of this second; all where it or the one before is unknown."""
    before, level = known.at(second - 1), known.level[second]
    chances = learned.transitions[before.level, before.age_class, before.side]
    weighted = chances[:, None] * tilts[walkers.course, walkers.place]
    weight = np.take_along_axis(weighted, np.maximum(level, 0)[:, None, None], axis=2)[..., 0] / weighted.sum(axis=2)
    weight += _LEAST_WEIGHT
    weight[(level == UNKNOWN) | (before.level == UNKNOWN)] = 1.0
    walkers.keep(_resampled(weight, random))


def _resampled(weight: Floats, random: np.random.Generator) -> Integers:
    """Return the particles of each row that go on (systematic resampling: Kitagawa 1996)."""
    walks, count = weight.shape
    total = np.cumsum(weight, axis=1)
    at = (np.arange(count) + random.random((walks, 1))) / count
    # One search for all rows: each row has its own unit of length.
    rows = np.arange(walks)[:, None]
    found = np.searchsorted((total / total[:, -1:] + rows).ravel(), (at + rows).ravel()).reshape(walks, count)
    return np.asarray(np.clip(found - rows * count, 0, count - 1), dtype=np.int64)


def _unmeasured(learned: PlaceMap, walkers: _Walkers, random: np.random.Generator) -> Floats:
    level = chosen(learned.shares[walkers.course, walkers.place], random.random(walkers.shape))
    return rates_within(learned, level, random.random(walkers.shape))


def _ahead(
    learned: PlaceMap,
    tilts: Floats,
    walkers: _Walkers,
    known: Context,
    second: int,
    ahead_s: int,
    random: np.random.Generator,
) -> Floats:
    ones = np.ones(walkers.shape, dtype=np.int64)
    here = known.at(second)
    now = Context(*(each[:, None] * ones for each in (np.maximum(here.level, 0), here.age, here.side)))
    for later in range(second + 1, second + ahead_s + 1):
        walkers.go_to(later)
        now = next_contexts(learned, now, tilts[walkers.course, walkers.place], random.random(walkers.shape))
    return rates_within(learned, now.level, random.random(walkers.shape))
