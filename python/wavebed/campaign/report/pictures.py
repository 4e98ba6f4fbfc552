"""Choose the pictures of a campaign: one set for each primary metric, and series over time."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import numpy as np

from wavebed.campaign.report.chosen import strength
from wavebed.campaign.report.levels import numeric
from wavebed.campaign.report.plot_effects import MOST_EFFECTS, curves, effects, heat_map
from wavebed.campaign.report.plot_spread import MOST_BOXES, MOST_CURVES, boxes, distributions
from wavebed.campaign.report.plot_time import MOST_CELLS, courses, over_time
from wavebed.campaign.results import Bounds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wavebed.campaign.report.chosen import Chosen
    from wavebed.campaign.report.levels import Axis
    from wavebed.campaign.report.picture import Picture
    from wavebed.campaign.results import Answer, Matrix

LEAST_SWEPT = 3
LEAST_MAPPED = 4
"""A factor with fewer levels is not worth an axis of a map."""
MOST_LINES = 6
MOST_PANELS = 2
_UNNAMED = re.compile(r"[^a-z0-9]+")
Where = tuple[tuple[str, str], ...]


def pictures(chosen: Chosen) -> Iterator[tuple[Picture, str]]:
    """Yield the pictures, each with a sentence on what it leaves out."""
    for metric in chosen.drawn:
        name = _UNNAMED.sub("-", f"{metric.workload} {metric.metric}".lower()).strip("-")
        yield from _effects(chosen, metric, name)
        yield from _spread(chosen, metric, name)
        yield from _swept(chosen, metric, name)
        yield from _maps(chosen, metric, name)
    if chosen.drawn:
        cells = chosen.cells(chosen.drawn[0], MOST_CELLS)
        for number, course in enumerate(courses(chosen.results, cells), 1):
            yield over_time(f"time-{number}", course), _left_out(len(course.values), len(chosen.results.cells), "cells")


def _left_out(shown: int, of: int, what: str) -> str:
    return f"{shown} of {of} {what}, those of the largest effects." if shown < of else ""


def _effects(chosen: Chosen, metric: Matrix, name: str) -> Iterator[tuple[Picture, str]]:
    answers = [answer for answer in chosen.largest(metric, MOST_EFFECTS) if answer.finding.estimate is not None]
    if answers:
        campaign = chosen.results.campaign
        yield (
            effects(f"{name}-effects", metric, answers, f"{campaign.factor} {campaign.baseline}"),
            _left_out(len(answers), len(chosen.pairs), "comparisons"),
        )


def _spread(chosen: Chosen, metric: Matrix, name: str) -> Iterator[tuple[Picture, str]]:
    for kind, draw, most in (("values", boxes, MOST_BOXES), ("distribution", distributions, MOST_CURVES)):
        cells = chosen.cells(metric, most)
        if cells:
            rows = (metric.values[chosen.row(cell)] for cell in cells)
            values = [row[np.isfinite(row)] for row in rows]
            yield (
                draw(f"{name}-{kind}", metric, cells, values),
                _left_out(len(cells), len(chosen.results.cells), "cells"),
            )


def _swept(chosen: Chosen, metric: Matrix, name: str) -> Iterator[tuple[Picture, str]]:
    """Yield curves over the numeric factor with the most levels; a line is a level of the compared one or the next."""
    factors, compared = chosen.results.campaign.factors, chosen.results.campaign.factor
    axes = {factor: axis for factor, levels in factors.items() if (axis := _axis(levels)) is not None}
    if not axes:
        return
    swept = max(axes, key=lambda factor: (factor != compared, len(factors[factor])))
    others = sorted((factor for factor in factors if factor != swept), key=lambda factor: factor != compared)
    lines, rest = others[:1], others[1:]
    medians = metric.medians()
    by_levels = _by_levels(chosen)
    chances = [tuple(zip(rest, levels, strict=True)) for levels in itertools.product(*(factors[each] for each in rest))]
    wheres = _strongest(chosen, metric, rest, chances)
    for number, where in enumerate(wheres[:MOST_PANELS], 1):
        shown = factors[lines[0]][:MOST_LINES] if lines else [""]
        drawn = {}
        for level in shown:
            fixed = dict(where) | ({lines[0]: level} if lines else {})
            cells = [by_levels.get(frozenset({**fixed, swept: each}.items())) for each in factors[swept]]
            bounds = Bounds(*(_picked(of, chosen, cells) for of in medians))
            if np.isfinite(bounds.estimate).any():
                drawn[f"{lines[0]} {level}" if lines else metric.metric] = bounds
        if drawn:
            told = ", ".join(f"{factor} {level}" for factor, level in where)
            left = [_left_out(min(MOST_PANELS, len(wheres)), len(chances), "combinations of the other factors")]
            left += (
                [f"{len(shown)} of {len(factors[lines[0]])} levels of {lines[0]}."]
                if lines and len(shown) < len(factors[lines[0]])
                else []
            )
            file = f"{name}-over-{_UNNAMED.sub('-', swept)}" + (f"-{number}" if len(wheres) > 1 else "")
            yield curves(file, metric, swept, axes[swept], drawn, told), " ".join(filter(None, left))


def _axis(levels: Sequence[str]) -> Axis | None:
    return numeric(levels) if len(levels) >= LEAST_SWEPT else None


def _by_levels(chosen: Chosen) -> Mapping[frozenset[tuple[str, str]], str]:
    return {frozenset(levels.items()): cell for cell, levels in chosen.results.levels.items()}


def _picked(of: np.ndarray, chosen: Chosen, cells: Sequence[str | None]) -> np.ndarray:
    return np.array([np.nan if cell is None else of[chosen.row(cell)] for cell in cells])


def _strongest(chosen: Chosen, metric: Matrix, factors: Sequence[str], chances: Sequence[Where]) -> list[Where]:
    """Return the combinations of levels of factors; those with the largest effects first if there are several."""
    if len(chances) <= MOST_PANELS:
        return list(chances)
    best = dict.fromkeys(chances, -2.0)
    for answer in chosen.answers(metric):
        levels = chosen.results.levels[answer.question.pair.cell]
        where = tuple((factor, levels[factor]) for factor in factors)
        best[where] = max(best[where], strength(answer))
    return sorted(best, key=lambda where: -best[where])


def _maps(chosen: Chosen, metric: Matrix, name: str) -> Iterator[tuple[Picture, str]]:
    """Yield maps of the effect over the two other factors with the most levels."""
    campaign = chosen.results.campaign
    wide = sorted(
        (
            factor
            for factor, levels in campaign.factors.items()
            if factor != campaign.factor and len(levels) >= LEAST_MAPPED
        ),
        key=lambda factor: -len(campaign.factors[factor]),
    )
    if len(wide) < 2:
        return
    across, down = wide[:2]
    rest = [factor for factor in campaign.factors if factor not in (across, down)]
    groups: dict[Where, list[Answer]] = {}
    for answer in chosen.answers(metric):
        levels = chosen.results.levels[answer.question.pair.cell]
        groups.setdefault(tuple((factor, levels[factor]) for factor in rest), []).append(answer)
    ranked = sorted(groups, key=lambda where: -max(strength(answer) for answer in groups[where]))
    for number, where in enumerate(ranked[:MOST_PANELS], 1):
        found, undecided = _grid(chosen, groups[where], (down, across))
        if np.isfinite(found).any():
            answer = groups[where][0]
            told = ", ".join(level for _, level in where)
            ratio = answer.finding.scale == "ratio"
            effect = "ratio" if ratio else f"difference, {metric.unit}" if metric.unit else "difference"
            what = f"{metric.title}: {effect}, {told} to {campaign.baseline}"
            rows, columns = ((factor, campaign.factors[factor]) for factor in (down, across))
            left = _left_out(min(MOST_PANELS, len(ranked)), len(ranked), "combinations of the other factors")
            file = f"{name}-map" + (f"-{number}" if len(ranked) > 1 else "")
            yield heat_map(file, metric, rows, columns, found, undecided, what), left


def _grid(chosen: Chosen, answers: Sequence[Answer], axes: tuple[str, str]) -> tuple[np.ndarray, np.ndarray]:
    factors = chosen.results.campaign.factors
    place = [{level: index for index, level in enumerate(factors[factor])} for factor in axes]
    found = np.full((len(place[0]), len(place[1])), np.nan)
    undecided = np.zeros(found.shape, bool)
    for answer in answers:
        levels = chosen.results.levels[answer.question.pair.cell]
        at = place[0][levels[axes[0]]], place[1][levels[axes[1]]]
        if answer.finding.estimate is not None:
            found[at] = answer.finding.estimate
            undecided[at] = answer.finding.verdict == "undecided"
    return found, undecided
