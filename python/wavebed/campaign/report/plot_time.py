"""Pictures of series over the time of a trial: the median over blocks, and the middle half of the blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wavebed.campaign.report.picture import STYLES, Picture, columns_of, wrapped
from wavebed.errors import UserError
from wavebed.result.model import COUNTED
from wavebed.result.names import TRIALS_FOLDER
from wavebed.result.parquet import read_parquet

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from wavebed.campaign.results import CampaignResults

    Floats = NDArray[np.float64]

MOST_CELLS = 4
MOST_BLOCKS = 12
MOST_SERIES = 4
BINS = 120


@dataclass(frozen=True, slots=True, eq=False)
class Course:
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


def courses(results: CampaignResults, cells: Sequence[str], titles: Collection[str] | None = None) -> list[Course]:
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
        found.append(Course(title, unit, (edges[1:] + edges[:-1]) / 2, values))
    return found


_Key = tuple[str, str, str]
_Series = dict[_Key, tuple["Floats", "Floats"]]


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
        found[(f"Queue at {link}", "kB", "max")] = (time_s, rows["queue_peak_bytes"].to_numpy(np.float64) / 1e3)
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


def over_time(name: str, course: Course) -> Picture:
    """Return the median over the trials of each cell, and the middle half of them."""

    def draw(axes: Axes) -> None:
        for place, (cell, values) in enumerate(course.values.items()):
            style = STYLES[place % len(STYLES)]
            known = np.isfinite(values).any(axis=0)
            low, middle, high = np.nanquantile(values[:, known], (0.25, 0.5, 0.75), axis=0)
            time_s = course.time_s[known]
            axes.fill_between(time_s, low, high, facecolor=style.colour, alpha=0.16, linewidth=0)
            axes.plot(
                time_s, middle, color=style.colour, linestyle=style.line, marker=style.marker, markersize=3,
                markerfacecolor="white", markevery=(3 * place, max(1, len(time_s) // 8)), label=wrapped(cell, 26),
            )  # fmt: skip
        axes.set_xlabel("time in the trial, s")
        axes.set_ylabel(wrapped(f"{course.title}, {course.unit}" if course.unit else course.title, 26))
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.grid()
        axes.figure.legend(loc="outside upper left", ncols=columns_of(list(course.values)))

    counts = sorted({len(values) for values in course.values.values()})
    trials = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    several = f"Median over {trials} trials of each cell; shaded: the middle half of them."
    caption = "One trial of each cell." if counts == [1] else several
    return Picture(name, f"{course.title} over time", caption, draw, 2.0 + 0.13 * len(course.values))
