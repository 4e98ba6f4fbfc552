"""Choose the trials for figures: at most six seeds, spread over the run's results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wavebed.report.source import whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wavebed.report.source import LinkCourse, Results, Trial

__all__ = ["MOST_VIEWS", "View", "headline", "headlines", "views"]

MOST_VIEWS = 6

_HEADLINES = {
    "download": ("download time", "time", "goodput"),
    "bulk": ("goodput",),
    "latency": ("loaded latency increase p95", "rtt loaded p95", "rtt idle p50"),
    "voice": ("mos", "r factor"),
    "call": ("frozen", "freezes", "frame rate"),
    "video": ("stalled time", "mean bitrate"),
    "web": ("speed index", "on load"),
}
"""The main metric of a workload, by kind: beginnings of names, the first measured one counts."""


@dataclass(frozen=True, slots=True)
class View:
    """Trials with the same channel, drawn together.

    Parameters
    ----------
    label : str
        ``seed 3``, and the rank of its result.
    """

    label: str
    trials: list[Trial]


def headlines(results: Results) -> Iterator[tuple[str, str]]:
    """Yield workload and name of the main metric of each measured workload."""
    for workload, kind in results.workloads:
        valued: dict[str, None] = {}
        for trial in results.counted:
            record = trial.workload(workload)
            if record is not None:
                valued |= {metric.name: None for metric in record.outcome.metrics if metric.value is not None}
        name = headline(kind, list(valued))
        if name is not None:
            yield workload, name


def headline(kind: str, names: Sequence[str]) -> str | None:
    """Return the main metric of a kind of workload among those that were measured; ``None`` without any."""
    wanted = [name for begins in _HEADLINES.get(kind, ()) for name in names if name.lower().startswith(begins)]
    return next(iter([*wanted, *names]), None)


def views(results: Results, most: int = MOST_VIEWS) -> tuple[list[View], int]:
    """Return at most `most` views, and the number of all views.

    If there are more seeds than views, seeds are taken at equally spaced ranks of the first main metric of the first
    treatment, with the lowest, the middle and the highest.
    """
    blocks: dict[int, list[Trial]] = {}
    order = results.treatments
    for trial in sorted(whole(results.trials), key=lambda trial: order.index(trial.line.treatment)):
        blocks.setdefault(trial.line.block, []).append(trial)
    groups = [group for _, trials in sorted(blocks.items()) for group in _same_channel(trials)]
    if len(groups) <= most:
        return [View(_label(group), group) for group in groups], len(groups)
    head = next(headlines(results), None)
    ranked = sorted(groups, key=lambda group: _rank(group, head))
    places = np.unique(np.linspace(0, len(ranked) - 1, most).round().astype(int))
    chosen = {id(ranked[place]): place for place in places.tolist()}
    what = f"{head[0]}: {head[1]}" if head is not None else ""
    return [
        View(_label(group) + _standing(chosen[id(group)], len(ranked), what), group)
        for group in groups
        if id(group) in chosen
    ], len(groups)


def _label(trials: list[Trial]) -> str:
    seed = f"seed {trials[0].line.seed}"
    names = ", ".join(dict.fromkeys(trial.line.treatment for trial in trials))
    return f"{seed} ({names})" if names else seed


def _standing(place: int, count: int, what: str) -> str:
    return f", rank {place + 1} of {count} by {what}" if what else ""


def _rank(trials: list[Trial], head: tuple[str, str] | None) -> tuple[bool, float]:
    """Return the sort key: the metric; views without one, or without a counted trial, are last."""
    for trial in trials:
        record = trial.workload(head[0]) if head is not None and trial.counts else None
        for metric in record.outcome.metrics if record is not None else ():
            if head is not None and metric.name == head[1] and metric.value is not None:
                return (False, metric.value)
    return (True, float(trials[0].line.seed))


def _same_channel(trials: list[Trial]) -> list[list[Trial]]:
    """Group trials with equal capacity of every link; a treatment may change the path."""
    groups: list[list[Trial]] = []
    for trial in trials:
        for group in groups:
            if _equal(group[0].courses, trial.courses, min(group[0].end_s, trial.end_s)):
                group.append(trial)
                break
        else:
            groups.append([trial])
    return groups


def _equal(one: dict[str, LinkCourse], other: dict[str, LinkCourse], end_s: float) -> bool:
    if one.keys() != other.keys():
        return False
    for link, course in one.items():
        mine, theirs = (each.rate_bps.between(0, end_s - 1e-6) for each in (course, other[link]))
        if len(mine) != len(theirs) or not np.array_equal(mine.value, theirs.value, equal_nan=True):
            return False
    return True
