"""The pictures of a campaign: sets for each primary metric, and series over the time of a trial."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wavebed.campaign.report.answers import strength
from wavebed.campaign.results import CellBounds
from wavebed.config.units import (
    RATE_UNITS,
    SIZE_UNITS,
    TIME_UNITS,
    parse_percentage,
    parse_rate,
    parse_size,
    parse_time,
)
from wavebed.errors import UserError
from wavebed.page import charts
from wavebed.page.charts import ColumnPicture, legend_above, wrapped
from wavebed.result.model import COUNTED
from wavebed.result.names import TRIALS_FOLDER
from wavebed.result.parquet import read_parquet

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from wavebed.campaign.report.answers import ChosenResults
    from wavebed.campaign.results import CampaignAnswer, CampaignResults, Matrix
    from wavebed.page.charts import Axes

    Floats = NDArray[np.float64]

LEAST_SWEPT = 3
LEAST_MAPPED = 4
"""A factor with fewer levels is not worth an axis of a map."""
MOST_LINES = 6
MOST_PANELS = 2
MOST_EFFECTS = 16
MOST_BOXES = 12
MOST_CURVES = 6
MOST_CELLS = 4
MOST_BLOCKS = 12
MOST_SERIES = 4
BINS = 120
_UNNAMED = re.compile(r"[^a-z0-9]+")
_LOGARITHMIC = 20
"""Ratio of the largest to the smallest level from which an axis is logarithmic."""
_KINDS: tuple[tuple[Callable[[str], float], Mapping[str, float], Mapping[str, str]], ...] = (
    (parse_time, TIME_UNITS, {}),
    (parse_rate, RATE_UNITS, {"kbit": "kbit/s", "mbit": "Mbit/s", "gbit": "Gbit/s", "bit": "bit/s"}),
    (parse_size, SIZE_UNITS, {"b": "B", "kb": "kB", "mb": "MB", "gb": "GB", "kib": "KiB", "mib": "MiB", "gib": "GiB"}),
)

Where = tuple[tuple[str, str], ...]
_Key = tuple[str, str, str]
_Series = dict[_Key, tuple["Floats", "Floats"]]


def pictures(chosen: ChosenResults) -> Iterator[tuple[ColumnPicture, str]]:
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


def _effects(chosen: ChosenResults, metric: Matrix, name: str) -> Iterator[tuple[ColumnPicture, str]]:
    answers = [answer for answer in chosen.largest(metric, MOST_EFFECTS) if answer.finding.estimate is not None]
    if answers:
        campaign = chosen.results.campaign
        yield (
            _effect_rows(f"{name}-effects", metric, answers, f"{campaign.factor} {campaign.baseline}"),
            _left_out(len(answers), len(chosen.results.comparisons), "comparisons"),
        )


def _spread(chosen: ChosenResults, metric: Matrix, name: str) -> Iterator[tuple[ColumnPicture, str]]:
    for kind, draw, most in (("values", _boxes, MOST_BOXES), ("distribution", _distributions, MOST_CURVES)):
        cells = chosen.cells(metric, most)
        if cells:
            rows = (metric.values[chosen.row(cell)] for cell in cells)
            values = [row[np.isfinite(row)] for row in rows]
            yield (
                draw(f"{name}-{kind}", metric, cells, values),
                _left_out(len(cells), len(chosen.results.cells), "cells"),
            )


def _swept(chosen: ChosenResults, metric: Matrix, name: str) -> Iterator[tuple[ColumnPicture, str]]:
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
            bounds = CellBounds(*(_picked(of, chosen, cells) for of in medians))
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
            yield _curves(file, metric, swept, axes[swept], drawn, told), " ".join(filter(None, left))


def _axis(levels: Sequence[str]) -> NumericLevels | None:
    return numeric(levels) if len(levels) >= LEAST_SWEPT else None


def _by_levels(chosen: ChosenResults) -> Mapping[frozenset[tuple[str, str]], str]:
    return {frozenset(levels.items()): cell for cell, levels in chosen.results.levels.items()}


def _picked(of: np.ndarray, chosen: ChosenResults, cells: Sequence[str | None]) -> np.ndarray:
    return np.array([np.nan if cell is None else of[chosen.row(cell)] for cell in cells])


def _strongest(chosen: ChosenResults, metric: Matrix, factors: Sequence[str], chances: Sequence[Where]) -> list[Where]:
    """Return the combinations of levels of factors; those with the largest effects first if there are several."""
    if len(chances) <= MOST_PANELS:
        return list(chances)
    best = dict.fromkeys(chances, -2.0)
    for answer in chosen.answers(metric):
        levels = chosen.results.levels[answer.question.pair.cell]
        where = tuple((factor, levels[factor]) for factor in factors)
        best[where] = max(best[where], strength(answer))
    return sorted(best, key=lambda where: -best[where])


def _maps(chosen: ChosenResults, metric: Matrix, name: str) -> Iterator[tuple[ColumnPicture, str]]:
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
    groups: dict[Where, list[CampaignAnswer]] = {}
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
            yield _heat_map(file, metric, rows, columns, found, undecided, what), left


def _grid(
    chosen: ChosenResults, answers: Sequence[CampaignAnswer], axes: tuple[str, str]
) -> tuple[np.ndarray, np.ndarray]:
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


def _effect_rows(name: str, metric: Matrix, answers: Sequence[CampaignAnswer], baseline: str) -> ColumnPicture:
    """Return the effect of each comparison with its interval, beside the margin.

    Parameters
    ----------
    baseline : str
        What the cells are compared with: ``queue droptail``.
    """
    ratio = all(answer.finding.scale == "ratio" for answer in answers)
    found = [answer for answer in answers if (answer.finding.scale == "ratio") == ratio]
    labels = [wrapped(answer.question.pair.cell, 24) for answer in found]
    lines = max(1 + label.count("\n") for label in labels)

    def draw(axes: Axes) -> None:
        margins = {answer.finding.margin for answer in found}
        margin = margins.pop() if len(margins) == 1 else None
        if margin is not None:
            low, high = (1 / margin, margin) if ratio else (-margin, margin)
            axes.axvspan(low, high, facecolor="#e6e6e6", edgecolor="#888888", linewidth=0.6, linestyle=":", zorder=0)
        axes.axvline(1.0 if ratio else 0.0, color="#555555", linewidth=0.8)
        for place, answer in enumerate(found):
            finding = answer.finding
            assert finding.estimate is not None, "only answers with an effect are drawn"
            charts.interval(axes, place, finding.low, finding.high)
            fill = {"undecided": "none", "equivalent": "left", "equal": "left"}.get(finding.verdict, "full")
            axes.plot(
                [finding.estimate], [place], marker="o", markersize=4.5, fillstyle=fill, color="#000000",
                markerfacecoloralt="white",
            )  # fmt: skip
        what = "ratio" if ratio else f"difference, {metric.unit}" if metric.unit else "difference"
        charts.named_rows(axes, labels, wrapped(f"{metric.title}: {what} to {baseline}", 44))

    caption = (
        f"Estimate and interval of each cell beside the same with {baseline}, at the level of its answer. Filled:"
        " better, worse or different; half:"
        " equivalent or equal; empty: undecided. Shaded: within the margin."
    )
    return ColumnPicture(name, f"{metric.title}: effects", caption, draw, 0.85 + len(labels) * max(0.16, 0.125 * lines))


def _boxes(name: str, metric: Matrix, cells: Sequence[str], values: Sequence[Floats]) -> ColumnPicture:
    """Return box plots with all points, one row for each cell."""
    labels = [wrapped(cell) for cell in cells]
    lines = [1 + label.count("\n") for label in labels]

    def draw(axes: Axes) -> None:
        charts.boxes(axes, values)
        charts.named_rows(axes, labels, wrapped(metric.title_with_unit, 44))

    caption = "A point is a block. Box: quartiles and median; whiskers: last values within 1.5 times its length."
    height_in = 0.6 + 0.125 * len(cells) * max(2, *lines)
    return ColumnPicture(name, f"{metric.title}: values by cell", caption, draw, height_in)


def _distributions(name: str, metric: Matrix, cells: Sequence[str], values: Sequence[Floats]) -> ColumnPicture:
    """Return the empirical cumulative distribution of each cell."""
    labels = [wrapped(cell, 26) for cell in cells]

    def draw(axes: Axes) -> None:
        for place, (label, of_cell) in enumerate(zip(labels, values, strict=True)):
            charts.distribution(axes, place, of_cell, label)
        axes.set_ylim(0, 1.02)
        axes.set_xlabel(wrapped(metric.title_with_unit, 44))
        axes.set_ylabel("fraction of blocks")
        axes.grid()
        legend_above(axes, labels)

    lines = sum(1 + label.count("\n") for label in labels)
    title = f"{metric.title}: distribution over the blocks"
    return ColumnPicture(name, title, "The fraction of blocks with at most this value.", draw, 2.0 + 0.13 * lines)


def _curves(
    name: str, metric: Matrix, factor: str, levels: NumericLevels, lines: Mapping[str, CellBounds], where: str
) -> ColumnPicture:
    """Return the medians with intervals over the levels of a numeric factor.

    Parameters
    ----------
    lines : mapping
        Medians with bounds at each level, by the name of the line.
    where : str
        The levels of the other factors.
    """
    order = np.argsort(np.asarray(levels.values))
    xs = np.asarray(levels.values)[order]

    def draw(axes: Axes) -> None:
        for place, (label, bounds) in enumerate(lines.items()):
            ys, low, high = (each[order] for each in bounds)
            charts.line(axes, place, xs, ys, (low, high), label)
        charts.numbered_ticks(axes, xs, logarithmic=levels.logarithmic)
        axes.set_xlabel(f"{factor}, {levels.unit}" if levels.unit else factor)
        axes.set_ylabel(wrapped(metric.title_with_unit, 26))
        axes.grid()
        if len(lines) > 1:
            legend_above(axes, lines)

    title = f"{metric.title} over {factor}" + (f", {where}" if where else "")
    caption = "Median over the blocks with its 95 % interval, where there are at least 6 values."
    return ColumnPicture(name, title, caption, draw, 2.1 + 0.13 * (len(lines) if len(lines) > 1 else 0))


def _heat_map(
    name: str, metric: Matrix, rows: tuple[str, Sequence[str]], columns: tuple[str, Sequence[str]], found: Floats,
    undecided: NDArray[np.bool_], what: str,
) -> ColumnPicture:  # fmt: skip
    """Return the effects of a comparison over the levels of two factors; what is undecided is hatched.

    Parameters
    ----------
    what : str
        The effect: ``download: download time, ratio codel / droptail``.
    """

    def draw(axes: Axes) -> None:
        charts.heat_map(axes, rows, columns, found, undecided, wrapped(what, 52))

    hatched = " Hatched: undecided." if found.size <= charts.MOST_HATCHED and undecided.any() else ""
    caption = f"The estimate of each comparison.{hatched}"
    height_in = min(4.2, 1.7 + 0.22 * min(len(rows[1]), 14))
    return ColumnPicture(name, f"{metric.title} over {rows[0]} and {columns[0]}", caption, draw, height_in)


class NumericLevels(NamedTuple):
    """The levels of a factor as numbers: in `unit`, in the order of the levels."""

    values: Sequence[float]
    unit: str
    logarithmic: bool


def numeric(levels: Sequence[str]) -> NumericLevels | None:
    """Return the levels as numbers; ``None`` if one is none, or two are equal.

    Parameters
    ----------
    levels : sequence of str
        Labels such as ``5ms``, ``20mbit``, ``64kb``, ``1000p``, ``5%`` or ``3``.
    """
    for read, units, names in _KINDS:
        found = _read(levels, read)
        if found is not None:
            unit = _unit(min((level for level, value in zip(levels, found, strict=True) if value), key=read))
            return _levels([value / units[unit] for value in found], names.get(unit, unit))
    found = _read([level.removesuffix("p") for level in levels], float)
    if found is not None:
        return _levels(found, "packets" if all(level.endswith("p") for level in levels) else "")
    found = _read(levels, lambda level: 100 * parse_percentage(level))
    return None if found is None else _levels(found, "%")


def _unit(level: str) -> str:
    return level.strip().lstrip("0123456789.").lower()


def _read(levels: Sequence[str], read: Callable[[str], float]) -> list[float] | None:
    try:
        found = [float(read(level)) for level in levels]
    except (UserError, ValueError):
        return None
    return found if all(map(math.isfinite, found)) and len(set(found)) == len(found) and any(found) else None


def _levels(values: Sequence[float], unit: str) -> NumericLevels:
    low, high = min(values), max(values)
    return NumericLevels(values, unit, low > 0 and high / low >= _LOGARITHMIC)


@dataclass(frozen=True, slots=True, eq=False)
class CellCourse:
    """A series of some cells over time.

    Parameters
    ----------
    title, unit : str
        What it is.
    time_s : float array, shape (bins,)
        Middles of equal intervals of the time of the trials.
    values : mapping
        Values by cell, shape (trials, bins); NaN is missing.
    """

    title: str
    unit: str
    time_s: Floats
    values: Mapping[str, Floats]


def courses(results: CampaignResults, cells: Sequence[str], titles: Collection[str] | None = None) -> list[CellCourse]:
    """Return the series of cells, of the first blocks whose trials have kept them: rate, queue, samples of workloads.

    The link is the one with the longest queues.

    Parameters
    ----------
    titles : collection of str, optional
        The series that are wanted; without it the first ones.
    """
    read = {cell: [each for name in _folders(results, cell) if (each := _series(name)) is not None] for cell in cells}
    read = {cell: trials for cell, trials in read.items() if trials}
    ends = [times[-1] for trials in read.values() for trial in trials for times, _ in trial.values() if len(times)]
    if not ends:
        return []
    first = next(iter(read.values()))[0]
    found = []
    chosen = (
        kept_series([trial for trials in read.values() for trial in trials], list(first))
        if titles is None
        else [key for key in first if key[0] in titles]
    )
    for key in chosen:
        title, unit, how = key
        of_key = [trial[key][0] for trials in read.values() for trial in trials if key in trial]
        edges = np.linspace(0, max(ends) + 1e-9, _bins(of_key, max(ends)) + 1)
        values = {
            cell: np.array([_binned(*trial.get(key, (np.empty(0), np.empty(0))), edges, how) for trial in trials])
            for cell, trials in read.items()
        }
        found.append(CellCourse(title, unit, (edges[1:] + edges[:-1]) / 2, values))
    return found


def _bins(times: Sequence[Floats], end_s: float) -> int:
    """Return how many intervals of time hold at least two samples each of most trials."""
    steps = [float(np.median(np.diff(each))) for each in times if len(each) > 1]
    step_s = float(np.median(steps)) if steps else end_s
    return int(np.clip(end_s / (2 * step_s), 10, BINS)) if step_s > 0 else BINS


def kept_series(trials: Sequence[_Series], names: Sequence[_Key]) -> list[_Key]:
    """Return the series of the bottleneck, and the first ones of workloads."""
    queued: dict[str, float] = {}
    for trial in trials:
        for (title, _, how), (_, values) in trial.items():
            if how == "max":
                link = title.removeprefix("Queue at ")
                queued[link] = queued.get(link, 0.0) + float(np.nansum(values))
    bottleneck = max(queued, key=lambda link: queued[link], default="")
    mine = {f"Throughput of {bottleneck}", f"Queue at {bottleneck}"}
    return [key for key in names if key[0] in mine or key[2] == "mean"][:MOST_SERIES]


def _folders(results: CampaignResults, cell: str) -> list[Path]:
    blocks = set(results.ended)
    names = [
        line.folder
        for line in results.run.trials
        if line.treatment == cell and line.verdict in COUNTED and line.block in blocks
    ]
    return [results.folder / TRIALS_FOLDER / name / "series" for name in names[:MOST_BLOCKS]]


def _series(folder: Path) -> _Series | None:
    """Return times (s) and values of the series of a trial; ``None`` if they were not kept."""
    found: _Series = {}
    try:
        links = read_parquet(folder / "links.parquet", ["time_ms", "link", "delivered_bytes", "queue_peak_bytes"])
        samples = read_parquet(folder / "samples.parquet", ["time_s", "workload", "series", "unit", "value"])
    except UserError:
        return None
    frame = links.to_pandas()
    for link, rows in frame.groupby("link", sort=False):
        time_s = rows["time_ms"].to_numpy(np.float64) / 1e3
        found[(f"Throughput of {link}", "Mbit/s", "sum")] = (
            time_s,
            rows["delivered_bytes"].to_numpy(np.float64) * 8e-6,
        )
        found[(f"Queue at {link}", "MB", "max")] = (time_s, rows["queue_peak_bytes"].to_numpy(np.float64) / 1e6)
    for (workload, series, unit), rows in samples.to_pandas().groupby(["workload", "series", "unit"], sort=False):
        values = rows["value"].to_numpy(np.float64)
        found[(f"{workload}: {series}", str(unit), "mean")] = (rows["time_s"].to_numpy(np.float64), values)
    return found


def _binned(times: Floats, values: Floats, edges: Floats, how: str) -> Floats:
    """Return the rate, the largest or the mean value in each interval of time."""
    known = np.isfinite(values)
    place = np.clip(np.searchsorted(edges, times[known], side="right") - 1, 0, len(edges) - 2)
    count = np.bincount(place, minlength=len(edges) - 1)
    if how == "max":
        out = np.full(len(edges) - 1, -np.inf)
        np.maximum.at(out, place, values[known])
        return np.asarray(np.where(count > 0, out, np.nan))
    total = np.bincount(place, values[known], minlength=len(edges) - 1)
    if how == "sum":
        end = float(times[-1]) if len(times) else -1.0
        return np.asarray(np.where(edges[:-1] <= end, total / (edges[1] - edges[0]), np.nan))
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def over_time(name: str, course: CellCourse) -> ColumnPicture:
    """Return the median over the trials of each cell, and the middle half of them."""

    def draw(axes: Axes) -> None:
        for place, (cell, values) in enumerate(course.values.items()):
            known = np.isfinite(values).any(axis=0)
            low, middle, high = np.nanquantile(values[:, known], (0.25, 0.5, 0.75), axis=0)
            charts.line(axes, place, course.time_s[known], middle, (low, high), cell, dense=True)
        axes.set_xlabel("time in the trial, s")
        axes.set_ylabel(wrapped(f"{course.title}, {course.unit}" if course.unit else course.title, 26))
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.grid()
        legend_above(axes, course.values)

    counts = sorted({len(values) for values in course.values.values()})
    trials = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    several = f"Median over {trials} trials of each cell; shaded: the middle half of them."
    caption = "One trial of each cell." if counts == [1] else several
    return ColumnPicture(name, f"{course.title} over time", caption, draw, 2.0 + 0.13 * len(course.values))
