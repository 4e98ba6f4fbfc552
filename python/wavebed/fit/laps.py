"""Measured walks: the rate of each second, and the rule that holds some of them out."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.ndimage import gaussian_filter1d

from wavebed.channel.placemap import (
    UNKNOWN,
    Context,
    chosen,
    contexts,
    level_of,
    moved,
    next_chances,
    next_contexts,
    rates_within,
)
from wavebed.errors import UserError
from wavebed.pattern.formats import read_trace
from wavebed.pattern.resample import window_rates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from wavebed.channel.placemap import Floats, Integers, PlaceMap


DEFAULT_RULE = "every:4"
RULES = "every:N, last:FRACTION, quarter:N, files:PATH or none"
SHORTEST_S = 60
LONGEST_S = 100_000
QUARTERS = 4
_NS_PER_S = 10**9


@dataclass(frozen=True, slots=True, eq=False)
class Lap:
    """One walk.

    Parameters
    ----------
    name : str
        Of its file.
    rates : float array
        Mean rate of each second, Mbit/s; NaN where the rule hides it.
    """

    name: str
    rates: Floats

    @property
    def known(self) -> Floats:
        """The rates that are not hidden."""
        return self.rates[~np.isnan(self.rates)]

    @property
    def parts(self) -> list[Floats]:
        """The rates as parts without a gap."""
        cuts = np.flatnonzero(np.diff(np.isnan(self.rates).astype(np.int8))) + 1
        return [part for part in np.split(self.rates, cuts) if not np.isnan(part[0])]


@dataclass(frozen=True, slots=True)
class LapSplit:
    """The files to learn from, and those held out; no file has been read.

    Parameters
    ----------
    rule : str
        As it was given.
    fitted, held_out : tuple of pathlib.Path
        Files in the order of their names. By ``quarter:N`` both have all files.
    quarter : int or None
        The quarter of the lap time, from 1, that is hidden from learning; the judge sees nothing else.
    """

    rule: str
    fitted: tuple[Path, ...]
    held_out: tuple[Path, ...]
    quarter: int | None = None

    def fitted_laps(self, notes: list[str]) -> list[Lap]:
        """Read what may be learned from; see `read_laps`."""
        return [self._only(lap, quarter=False) for lap in read_laps(self.fitted, notes)]

    def held_out_laps(self, notes: list[str]) -> list[Lap]:
        """Read what the predictions are judged by; see `read_laps`."""
        return [self._only(lap, quarter=True) for lap in read_laps(self.held_out, notes)]

    def _only(self, lap: Lap, *, quarter: bool) -> Lap:
        if self.quarter is None:
            return lap
        place = np.arange(len(lap.rates)) * QUARTERS // len(lap.rates) + 1
        return replace(lap, rates=np.where((place == self.quarter) == quarter, lap.rates, np.nan))


def find_files(names: Sequence[Path]) -> list[Path]:
    """Return the files of walks, also from folders, each once, in the natural order of their names.

    Raises
    ------
    UserError
        If one does not exist, or a folder has none.
    """
    found: dict[Path, None] = {}
    for name in names:
        inner = [name]
        if not name.exists():
            raise UserError(f"{name}: no such file or directory: name a trace, or a folder of traces")
        if name.is_dir():
            inner = [file for file in name.iterdir() if file.is_file() and not file.name.startswith(".")]
            if not inner:
                raise UserError(f"{name}: has no files: name a folder of traces")
        found.update(dict.fromkeys(inner))
    return sorted(found, key=_natural)


def _natural(file: Path) -> tuple[list[tuple[int, str]], str]:
    parts = [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"([0-9]+)", file.name)]
    return parts, str(file)


def read_laps(files: Sequence[Path], notes: list[str]) -> list[Lap]:
    """Read walks in any format of traces.

    Files that are no trace of a rate, too short or too long are left out, and `notes` gets a line for each.

    Raises
    ------
    UserError
        If there are files, and none can be used: the line of the first.
    """
    laps, problems = [], []
    for file in files:
        try:
            laps.append(_lap(file))
        except UserError as error:
            problems.append(str(error))
    if problems and not laps:
        raise UserError(problems[0])
    notes.extend(f"{problem}: left out" for problem in problems)
    return laps


def _lap(file: Path) -> Lap:
    pattern = read_trace(file)
    if pattern.kind == "packets" or (pattern.rate_bps is None and pattern.size_bytes is None):
        raise UserError(f"{file}: has no rate over time: name traces of rates")
    seconds = pattern.duration_ns // _NS_PER_S
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise UserError(f"{file}: lasts {seconds} s: name walks of {SHORTEST_S} to {LONGEST_S} s")
    rates = window_rates(pattern, _NS_PER_S).rate_bps
    assert rates is not None, "windows have rates"
    return Lap(file.name, np.asarray(rates[:seconds] / 1e6, dtype=np.float64))


def split(files: Sequence[Path], rule: str) -> LapSplit:
    """Divide walks by a rule, by their names only.

    Parameters
    ----------
    rule : str
        ``every:N``: each N-th file; ``last:F``: the last fraction F of the files; ``quarter:N``: the N-th quarter of
        the lap time, from all walks; ``files:PATH``: other files, a trace or a folder of traces; ``none``.

    Raises
    ------
    UserError
        If the rule is none, or leaves no walk on a side.
    """
    files = tuple(files)
    if rule == "none":
        return LapSplit(rule, files, ())
    kind, _, value = rule.partition(":")
    if kind == "quarter" and re.fullmatch("[1-4]", value):
        return LapSplit(rule, files, files, int(value))
    if kind == "files" and value:
        return _by_files(rule, files, Path(value))
    held = _held_out(kind, value, len(files))
    if held is None:
        raise UserError(f"--held-out {rule}: is no rule: write {RULES}, as every:4, last:0.25 or quarter:2")
    if not 0 < len(held) < len(files):
        what = "all walks" if held else "no walk"
        raise UserError(f"--held-out {rule}: holds out {what} of {len(files)}: write another rule, or name more walks")
    chosen = frozenset(held)
    return LapSplit(
        rule,
        tuple(file for place, file in enumerate(files) if place not in chosen),
        tuple(files[place] for place in held),
    )


def _by_files(rule: str, files: tuple[Path, ...], path: Path) -> LapSplit:
    try:
        held_out = tuple(find_files([path]))
    except UserError as error:
        raise UserError(f"--held-out {rule}: {error}") from None
    judging = {file.resolve() for file in held_out}
    fitted = tuple(file for file in files if file.resolve() not in judging)
    if not fitted:
        raise UserError(f"--held-out {rule}: holds out all walks: name other walks to learn from")
    return LapSplit(rule, fitted, held_out)


def _held_out(kind: str, value: str, count: int) -> Sequence[int] | None:
    if kind == "every" and re.fullmatch(r"[1-9][0-9]{0,5}", value):
        return range(int(value) - 1, count, int(value))
    if kind == "last" and re.fullmatch(r"0?\.[0-9]{1,6}", value):
        return range(count - math.floor(float(value) * count + 0.5), count)
    return None


STEP_S = 2
FLOOR_MBPS = 20.0
"""Added before the logarithm: differences among the lowest rates say nothing of the place."""
SMOOTH_S = 3.0
MARGIN = 30
"""Places more than a walk at the mean speed passes."""
MOVE_COST = (4.0, 0.0, 4.0)
"""Of passing 0, 1 or 2 places in a step, in units of the log-likelihood. With 1 or 2 a walk is warped onto a template
that it has nothing to do with: surrogates of walks gain too (docs/models/fit.md)."""
START_COST = 0.05
LATEST_SHARED_START = 25
LEAST_SPREAD = 0.22
ROUNDS = 6
_COARSE_ROUNDS = 3
_RESTARTS = 20
_PRIOR_SECONDS = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class LapCourse:
    """Mean and standard deviation of the smoothed log rate at each place."""

    mean: Floats
    spread: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """The course of a walk, the place of each step, and the cost of a step (negative log-likelihood)."""

    course: int
    places: Integers
    cost: float


def _steps_of(lap: Lap) -> Floats:
    """Return the smoothed log rate of each step; NaN where nothing near is known."""
    known = ~np.isnan(lap.rates)
    logs = np.log(np.where(known, lap.rates, 0.0) + FLOOR_MBPS)
    weight = gaussian_filter1d(known.astype(np.float64), SMOOTH_S)
    smooth = gaussian_filter1d(logs * known, SMOOTH_S) / np.maximum(weight, 1e-9)
    return np.asarray(np.where(known, smooth, np.nan)[::STEP_S], dtype=np.float64)


def places_of_seconds(alignment: Alignment, seconds: int) -> Integers:
    """Return the place of each second of a walk."""
    return alignment.places[np.minimum(np.arange(seconds) // STEP_S, len(alignment.places) - 1)]


def align(courses: Sequence[LapCourse], laps: Sequence[Lap]) -> list[Alignment]:
    """Return the likeliest course of each walk and its likeliest path through it."""
    return _aligned(courses, [_steps_of(lap) for lap in laps])


def _aligned(courses: Sequence[LapCourse], steps: Sequence[Floats]) -> list[Alignment]:
    paths = [_paths(course, steps) for course in courses]
    costs = np.array([cost for _, cost in paths])
    best = costs.argmin(axis=0).tolist()
    return [
        Alignment(course, paths[course][0][walk][: len(each)], float(costs[course, walk]))
        for walk, (course, each) in enumerate(zip(best, steps, strict=True))
    ]


def _paths(course: LapCourse, steps: Sequence[Floats]) -> tuple[Integers, Floats]:
    """Return the likeliest places of all walks, (walks, steps), and the mean cost of a step of each (Viterbi)."""
    count, lengths = len(course.mean), np.array([len(each) for each in steps])
    table = np.full((len(steps), lengths.max()), np.nan)
    for walk, each in enumerate(steps):
        table[walk, : len(each)] = each
    start = min(LATEST_SHARED_START, count)
    total = np.full((len(steps), count), np.inf)
    total[:, :start] = _costs(course, table[:, 0])[:, :start] + START_COST * np.arange(start)
    came = np.zeros((table.shape[1], len(steps), count), dtype=np.int8)
    ways = np.full((len(MOVE_COST), len(steps), count), np.inf)
    last = total.copy()
    for step in range(1, table.shape[1]):
        for move, cost in enumerate(MOVE_COST):
            ways[move, :, move:] = total[:, : count - move] + cost
        came[step] = ways.argmin(axis=0)
        total = ways.min(axis=0) + _costs(course, table[:, step])
        last[lengths == step + 1] = total[lengths == step + 1]
    place = last.argmin(axis=1)
    places = np.zeros(table.shape, dtype=np.int64)
    walks = np.arange(len(steps))
    for step in range(table.shape[1] - 1, -1, -1):
        places[:, step] = place
        place = place - np.where(step < lengths, came[step, walks, place], 0)
    return places, np.asarray(last.min(axis=1) / lengths, dtype=np.float64)


def _costs(course: LapCourse, values: Floats) -> Floats:
    """Return the negative log-likelihood of values at each place, (values, places); 0 for those that are NaN."""
    costs = ((values[:, None] - course.mean) / course.spread) ** 2 / 2 + np.log(course.spread)
    return np.where(np.isnan(values)[:, None], 0.0, costs)


def find_courses(
    laps: Sequence[Lap], count: int, random: np.random.Generator, tell: Callable[[int], None]
) -> tuple[list[LapCourse], list[Alignment]]:
    """Return the courses of walks, and the places that each walk passes.

    Parameters
    ----------
    count : int
        How many courses.
    random : Generator
        Where the search begins.
    tell : callable
        Receives the number of rounds that are left, before each of the `ROUNDS`.
    """
    steps = [_steps_of(lap) for lap in laps]
    length = round(float(np.median([len(each) for each in steps]))) + MARGIN
    chosen = _clusters(steps, count, random)
    found = [
        Alignment(int(course), np.minimum(np.arange(len(each)), length - 1), 0.0)
        for course, each in zip(chosen, steps, strict=True)
    ]
    courses: list[LapCourse] = []
    for turn in range(ROUNDS):
        tell(ROUNDS - turn)
        width = 6.0 if turn < _COARSE_ROUNDS else 3.0
        courses = [_template(steps, found, number, length, width) for number in range(count)]
        found = _aligned(courses, steps)
    return courses, found


def _template(steps: Sequence[Floats], found: Sequence[Alignment], course: int, length: int, width: float) -> LapCourse:
    sums = np.zeros((3, length))
    for each, alignment in zip(steps, found, strict=True):
        if alignment.course == course:
            known = ~np.isnan(each)
            for power in range(3):
                np.add.at(sums[power], alignment.places[known], each[known] ** power)
    weight, total, squares = gaussian_filter1d(sums, width, axis=1)
    everything = np.concatenate(steps)
    weight = weight + _PRIOR_SECONDS
    mean = (total + _PRIOR_SECONDS * np.nanmean(everything)) / weight
    square = (squares + _PRIOR_SECONDS * np.nanmean(everything**2)) / weight
    return LapCourse(mean, np.sqrt(np.maximum(square - mean**2, LEAST_SPREAD**2)))


def _clusters(steps: Sequence[Floats], count: int, random: np.random.Generator) -> Integers:
    """Return a first guess of the courses: clusters of walks by the correlation of their slow changes (k-means)."""
    shortest = min(len(each) for each in steps)
    table = np.array([each[:shortest] for each in steps])
    slow = gaussian_filter1d(np.where(np.isnan(table), np.nanmean(table), table), 7.5, axis=1)
    slow = (slow - slow.mean(axis=1, keepdims=True)) / (slow.std(axis=1, keepdims=True) + 1e-9)
    best, chosen = -np.inf, np.zeros(len(steps), dtype=np.int64)
    for _ in range(_RESTARTS):
        label = random.integers(0, count, len(steps))
        for _ in range(40):
            means = np.array([_mean_of(slow, label == number, random) for number in range(count)])
            likeness = slow @ means.T / (np.linalg.norm(means, axis=1) + 1e-9)
            if (likeness.argmax(axis=1) == label).all():
                break
            label = likeness.argmax(axis=1)
        if likeness.max(axis=1).sum() > best:
            best, chosen = float(likeness.max(axis=1).sum()), label
    return chosen


def _mean_of(slow: Floats, chosen: NDArray[np.bool_], random: np.random.Generator) -> Floats:
    if not chosen.any():
        return np.asarray(slow[random.integers(len(slow))], dtype=np.float64)
    return np.asarray(slow[chosen].mean(axis=0), dtype=np.float64)


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
        contexts(
            level_of(np.append(lap.rates, [np.nan] * (seconds - len(lap.rates))), learned.edges_mbps), learned.groups
        )
        for lap in laps
    ]
    return Context(*(np.stack([getattr(one, name) for one in each], axis=1) for name in ("level", "age", "side")))


def _filter(
    learned: PlaceMap, tilts: Floats, walkers: _Walkers, known: Context, second: int, random: np.random.Generator
) -> None:
    """Keep the particles that explain the level of this second; all where it or the one before is unknown."""
    before, level = known.at(second - 1), known.level[second]
    each = Context(*(values[:, None] for values in (before.level, before.age, before.side)))
    weighted = next_chances(learned, each, tilts[walkers.course, walkers.place])
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
