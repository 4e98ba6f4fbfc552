"""Find the places that each walk passes, from its rates alone: walks of one course are warped onto each other.

Walks without positions pass the same places at a varying speed, in one of a few orders (*courses*: the two directions
of a loop, or other sides of a street). A course is a template: mean and spread of the smoothed log rate at each place.
Templates, and the path of each walk through its template, are found in turn (Viterbi training: Rabiner 1989, "A
tutorial on hidden Markov models", III.B; dynamic time warping: Sakoe and Chiba 1978).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.ndimage import gaussian_filter1d

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from wavebed.channel.placemap.levels import Floats, Integers
    from wavebed.fit.laps import Lap

__all__ = ["STEP_S", "Alignment", "Course", "align", "find_courses", "places_of_seconds"]

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
LATEST_START = 25
LEAST_SPREAD = 0.22
ROUNDS = 6
_COARSE_ROUNDS = 3
_RESTARTS = 20
_PRIOR_SECONDS = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Course:
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


def align(courses: Sequence[Course], laps: Sequence[Lap]) -> list[Alignment]:
    """Return the likeliest course of each walk and its likeliest path through it."""
    return _aligned(courses, [_steps_of(lap) for lap in laps])


def _aligned(courses: Sequence[Course], steps: Sequence[Floats]) -> list[Alignment]:
    paths = [_paths(course, steps) for course in courses]
    costs = np.array([cost for _, cost in paths])
    best = costs.argmin(axis=0).tolist()
    return [
        Alignment(course, paths[course][0][walk][: len(each)], float(costs[course, walk]))
        for walk, (course, each) in enumerate(zip(best, steps, strict=True))
    ]


def _paths(course: Course, steps: Sequence[Floats]) -> tuple[Integers, Floats]:
    """Return the likeliest places of all walks, (walks, steps), and the mean cost of a step of each (Viterbi)."""
    count, lengths = len(course.mean), np.array([len(each) for each in steps])
    table = np.full((len(steps), lengths.max()), np.nan)
    for walk, each in enumerate(steps):
        table[walk, : len(each)] = each
    start = min(LATEST_START, count)
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


def _costs(course: Course, values: Floats) -> Floats:
    """Return the negative log-likelihood of values at each place, (values, places); 0 for those that are NaN."""
    costs = ((values[:, None] - course.mean) / course.spread) ** 2 / 2 + np.log(course.spread)
    return np.where(np.isnan(values)[:, None], 0.0, costs)


def find_courses(
    laps: Sequence[Lap], count: int, random: np.random.Generator, tell: Callable[[int], None]
) -> tuple[list[Course], list[Alignment]]:
    """Return the courses of walks, and the places that each walk passes.

    Parameters
    ----------
    count : int
        How many courses.
    random : Generator
        Where the search begins.
    tell : callable
        Is told the number of rounds that are left, before each of the `ROUNDS`.
    """
    steps = [_steps_of(lap) for lap in laps]
    length = round(float(np.median([len(each) for each in steps]))) + MARGIN
    chosen = _clusters(steps, count, random)
    found = [
        Alignment(int(course), np.minimum(np.arange(len(each)), length - 1), 0.0)
        for course, each in zip(chosen, steps, strict=True)
    ]
    courses: list[Course] = []
    for turn in range(ROUNDS):
        tell(ROUNDS - turn)
        width = 6.0 if turn < _COARSE_ROUNDS else 3.0
        courses = [_template(steps, found, number, length, width) for number in range(count)]
        found = _aligned(courses, steps)
    return courses, found


def _template(steps: Sequence[Floats], found: Sequence[Alignment], course: int, length: int, width: float) -> Course:
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
    return Course(mean, np.sqrt(np.maximum(square - mean**2, LEAST_SPREAD**2)))


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
