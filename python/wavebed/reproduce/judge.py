"""Published figures beside measured ones: their values, hypotheses on the difference, and the judgement."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from msgspec import Struct

from wavebed.reproduce.tcp_models import HEADERS
from wavebed.spec.types import BottleneckStage, ConstantDelay, ConstantRate, DelayStage, IndependentLoss, LossStage
from wavebed.stats.intervals import median_interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from wavebed.campaign.results import CampaignResults, Matrix
    from wavebed.reproduce.studies import Expected, Hypothesis, StudyPart
    from wavebed.spec.trial import TrialSpec, WorkloadSpec
    from wavebed.spec.types import Leg, Stage
    from wavebed.stats.intervals import Interval


def beside_published(
    results: CampaignResults, rows: Sequence[PublishedFigure], factor: str = "", hypothesis: Hypothesis | None = None
) -> list[Beside]:
    """Return each published figure and ours; a figure without a cell in the campaign has no value.

    Parameters
    ----------
    factor : str
        Factor of the campaign that the figures do not have.
    hypothesis : Hypothesis, optional
        Says its level, and which of our levels stand for published ones.
    """
    cells = {tuple(sorted(levels.items())): cell for cell, levels in results.levels.items()}
    found = []
    for row in rows:
        of = [cells.get(tuple(sorted(levels.items())), "") for levels in cells_beside(row.levels, factor, hypothesis)]
        values = _values(results, row, of) if all(of) else np.empty(0)
        found.append(judged(row, of[0], values[np.isfinite(values)].tolist()))
    return found


def cells_beside(
    published: Mapping[str, str], factor: str = "", hypothesis: Hypothesis | None = None
) -> list[dict[str, str]]:
    """Return the levels of the cells of a published figure.

    That is one cell; or those whose geometric mean it is; for a ratio, those above and then as many below the line.
    """
    levels = dict(published)
    if hypothesis is not None:
        levels = {name: hypothesis.read.get(name, {}).get(level, level) for name, level in levels.items()}
        levels[factor] = hypothesis.level
    found = [levels]
    for sign in (MEAN, RATIO):  # the ratio last: its halves are one behind the other
        for name, level in levels.items():
            if sign in level:
                found = [{**each, name: one} for one in level.split(sign) for each in found]
    return found


def without_published(
    results: CampaignResults, rows: Sequence[PublishedFigure], all_rows: Sequence[PublishedFigure]
) -> list[tuple[Mapping[str, str], Matrix, Interval]]:
    """Return our medians of the cells that have no published figure of their own.

    Parameters
    ----------
    rows : sequence of PublishedFigure
        The figures that are compared: their metrics are returned.
    all_rows : sequence of PublishedFigure
        All published figures of the campaign.

    Returns
    -------
    list of tuple
        Levels of a cell, the metric, and the median of its counted trials.
    """
    own = {(tuple(sorted(row.levels.items())), row.workload, row.metric) for row in all_rows}
    found = []
    for cell, levels in results.levels.items():
        for key in dict.fromkeys((row.workload, row.metric) for row in rows):
            matrix = results.matrices.get(key)
            if matrix is None or (tuple(sorted(levels.items())), *key) in own:
                continue
            found.append((levels, matrix, median_of(matrix.values[results.cells.index(cell)])))
    return found


def median_of(values: NDArray[np.float64]) -> Interval:
    """Return the median of the values that are not missing, and its interval."""
    return median_interval(values[np.isfinite(values)].tolist())


def _values(results: CampaignResults, row: PublishedFigure, cells: Sequence[str]) -> NDArray[np.float64]:
    """Return a value for each block."""
    matrix = results.matrices.get((row.workload, row.metric))
    if matrix is None:
        return np.empty(0)
    values: list[NDArray[np.float64]] = [matrix.values[results.cells.index(cell)] for cell in cells]
    if not row.is_ratio:
        return _geometric_mean(values)
    half = len(values) // 2
    return _geometric_mean(values[:half]) / _geometric_mean(values[half:])


def _geometric_mean(values: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    product: NDArray[np.float64] = np.prod(values, axis=0)
    return product ** (1 / len(values))


RATIO = " / "
"""Between two levels of a factor: the figure is the ratio of these two cells."""
MEAN = " & "
"""Between levels of a factor: the figure is the geometric mean over these cells."""

_COLUMNS = ("figure", "workload", "metric", "unit", "published", "reading-error", "bound")


class PublishedFigure(Struct, frozen=True):
    """A published figure.

    Parameters
    ----------
    figure : str
        Number of the figure or table in the publication.
    levels : mapping
        Level of each factor of the campaign that repeats it.
    workload, metric, unit : str
        The metric that it is compared with.
    value : float
        In this unit.
    error : float
        How far it may be off because it was read off a picture, in this unit.
    at_least : bool
        Whether the publication says "at least": larger figures reproduce it too.
    """

    figure: str
    levels: Mapping[str, str]
    workload: str
    metric: str
    unit: str
    value: float
    error: float
    at_least: bool = False

    @property
    def is_ratio(self) -> bool:
        """Whether it is the ratio of two cells."""
        return any(RATIO in level for level in self.levels.values())


def published_of(part: StudyPart) -> tuple[str, list[PublishedFigure]]:
    """Return the source of the published figures of a part of a study, and those that it repeats."""
    if part.figures == "none":
        return "", []
    source, rows = read_published(part.figures or part.campaign)
    return source, [
        row
        for row in rows
        if (not part.metrics or row.metric in part.metrics)
        and all(row.levels[factor] in levels for factor, levels in part.only.items())
    ]


def read_published(name: str) -> tuple[str, list[PublishedFigure]]:
    """Return the source of published figures, the first line of their file, and the figures."""
    text = resources.files("wavebed.reproduce").joinpath("published", f"{name}.csv").read_text(encoding="utf-8")
    source, *lines = text.splitlines()
    rows = [
        PublishedFigure(
            row["figure"],
            {key: value for key, value in row.items() if key not in _COLUMNS},
            row["workload"],
            row["metric"],
            row["unit"],
            float(row["published"]),
            float(row["reading-error"]),
            row.get("bound") == "at least",
        )
        for row in csv.DictReader(lines)
    ]
    return source.removeprefix("# "), rows


METRIC: Final = "metric"
"""Stands for the metric among the factors of fitted figures."""
SAME: Final = 0.05
"""Distances that differ by less are called the same: 5 % of each figure on average."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A hypothesis and what its run gave.

    Parameters
    ----------
    hypothesis : Hypothesis
        Which.
    beside : sequence of Beside
        Each published figure, and ours with the change.
    fitted, held_out : float or None
        Mean of ``|ln(ours / published)|`` over the figures to which a change was fitted, and over all others;
        ``None`` without any.
    counts : tuple of int
        Number of figures of both kinds.
    compared : int
        Held-out figures that have a value with and without the change.
    within : tuple of int
        Figures of both kinds whose median is within the tolerance.
    inside, outside : int
        Held-out figures whose median the change moves inside the tolerance, and out of it.
    """

    hypothesis: Hypothesis
    beside: Sequence[Beside]
    fitted: float | None
    held_out: float | None
    counts: tuple[int, int]
    compared: int
    within: tuple[int, int]
    inside: int
    outside: int
    found: Expected | None

    @property
    def explains(self) -> bool:
        """Whether the change alone moves held-out figures inside the tolerance and none out, and all of them closer."""
        return self.inside > 0 and self.outside == 0 and self.found == "closer"

    @property
    def trials(self) -> int:
        """The most trials of a figure."""
        return max((each.ours.count for each in self.beside), default=0)


def tried(part: StudyPart, runs: Sequence[tuple[Hypothesis, Sequence[Beside]]]) -> list[Tried]:
    """Return what the run of each hypothesis gave; the first changes nothing, and all are compared with it."""
    if not runs:
        return []
    _, described = runs[0]
    return [_tried(part, hypothesis, described, beside) for hypothesis, beside in runs]


def _tried(part: StudyPart, hypothesis: Hypothesis, described: Sequence[Beside], beside: Sequence[Beside]) -> Tried:
    fitted = [each for each in beside if _is_fitted(part, each)]
    held_out = [(was, now) for was, now in zip(described, beside, strict=True) if not _is_fitted(part, now)]
    # Trials may be missing: only figures that both have are compared.
    both = [(was, now) for was, now in held_out if logarithm(was) is not None and logarithm(now) is not None]
    before, after = _distance(was for was, _ in both), _distance(now for _, now in both)
    return Tried(
        hypothesis,
        beside,
        _distance(fitted),
        _distance(now for _, now in held_out),
        (len(fitted), len(held_out)),
        len(both),
        (sum(each.within for each in fitted), sum(now.within for _, now in held_out)),
        sum(now.within and not was.within for was, now in both),
        sum(was.within and not now.within for was, now in both),
        None if beside is described else _moved(before, after),
    )


def _is_fitted(part: StudyPart, each: Beside) -> bool:
    levels = {**each.published.levels, METRIC: each.published.metric}
    return any(levels[factor] in fitted for factor, fitted in part.fitted.items())


def _distance(figures: Iterable[Beside]) -> float | None:
    far = [abs(ratio) for each in figures if (ratio := logarithm(each)) is not None]
    return math.fsum(far) / len(far) if far else None


def _moved(before: float | None, after: float | None) -> Expected | None:
    if before is None or after is None:
        return None
    if abs(after - before) < SAME:
        return "no change"
    return "closer" if after < before else "farther"


@dataclass(frozen=True, slots=True)
class Steady:
    """A path that does not change, and the flows on it.

    Parameters
    ----------
    rtt : float
        Round trip of an empty path, seconds.
    loss : float
        Probability that a packet towards the receiver is lost, from 0 to 1; losses are independent.
    link_mbps : float or None
        Least rate towards the receiver, Mbit/s of IP packets; None: no limit.
    flows : int
        How many.
    mss : int
        Bytes of payload of a segment.
    """

    rtt: float
    loss: float
    link_mbps: float | None
    flows: int
    mss: int


def steady_of(spec: TrialSpec) -> Steady | None:
    """Return what models know of the first TCP transfer of a trial; None if its path changes or has other stages."""
    bulk = next((each for each in spec.workloads if each.kind == "bulk" and each.options["protocol"] == "tcp"), None)
    if bulk is None or bulk.options["direction"] not in ("down", "up"):
        return None
    legs = _legs(spec.network.legs, bulk)
    if not legs:
        return None
    streams = bulk.options["streams"]
    assert isinstance(streams, int)
    rtt_ns, kept, rates = 0, 1.0, []
    for towards, stage in _stages(legs):
        is_data = towards == bulk.options["direction"]
        match stage:
            case DelayStage(delay=ConstantDelay(delay_ns=delay_ns), limit_packets=None):
                rtt_ns += delay_ns
            case BottleneckStage(rate=ConstantRate(rate_bps=rate_bps)):
                rates += [rate_bps / 1e6] if is_data else []
            case LossStage(model=IndependentLoss(probability=probability), unit="packet"):
                kept *= 1 - probability if is_data else 1
            case _:
                return None
    return Steady(rtt_ns / 1e9, 1 - kept, min(rates, default=None), streams, spec.network.mtu - HEADERS)


def _legs(legs: Sequence[Leg], bulk: WorkloadSpec) -> list[Leg]:
    """Return the legs of a chain of hosts from the server of a workload to its client; empty if there is no chain."""
    after = {leg.start: leg for leg in reversed(legs)}  # the first of two that leave a host
    found: list[Leg] = []
    here = bulk.server
    while here != bulk.client:
        leg = after.get(here)
        if leg is None or leg in found:
            return []
        found.append(leg)
        here = leg.end
    return found


def _stages(legs: Sequence[Leg]) -> Iterator[tuple[str, Stage]]:
    """Yield each stage and its direction."""
    for leg in legs:
        for hop in leg.hops:
            yield from (("down", stage) for stage in hop.down)
            yield from (("up", stage) for stage in hop.up)


TOLERANCE: Final = 0.25
"""Share of the published figure within which ours reproduces it; the reading error where that is larger."""

Verdict = Literal["reproduced", "not reproduced", "undecided", "one trial only", "no value"]


@dataclass(frozen=True, slots=True)
class Beside:
    """A published figure and ours.

    Parameters
    ----------
    published : PublishedFigure
        The published one.
    cell : str
        The cell of the campaign.
    ours : Interval
        Median of the counted trials and its interval, by order statistics.
    verdict : str
        Reproduced: the whole interval is within the tolerance; not: none of it is.
    """

    published: PublishedFigure
    cell: str
    ours: Interval
    verdict: Verdict

    @property
    def ratio(self) -> float | None:
        """Ours divided by the published figure, if that is not 0."""
        published = self.published.value
        return None if self.ours.estimate is None or published == 0 else self.ours.estimate / published

    @property
    def order(self) -> str:
        """Whether the whole interval of a ratio is on the published side of 1; empty for what is no ratio."""
        if not self.published.is_ratio:
            return ""
        low, high = self.ours.low, self.ours.high
        if low is None or high is None or low <= 1 <= high:
            return "order undecided"
        return "order holds" if (high < 1) == (self.published.value < 1) else "other order"

    @property
    def within(self) -> bool:
        """Whether the estimate is within the tolerance, however little is known of it."""
        least, most = tolerated(self.published)
        return self.ours.estimate is not None and least <= self.ours.estimate <= most


def logarithm(beside: Beside) -> float | None:
    """Return the natural logarithm of our figure divided by the published one; ``None`` without a value above 0.

    It is 0 where ours is above a published "at least".
    """
    ratio = beside.ratio
    if ratio is None or ratio <= 0:
        return None
    return min(math.log(ratio), 0) if beside.published.at_least else math.log(ratio)


def tolerated(published: PublishedFigure) -> tuple[float, float]:
    """Return the least and the largest value that reproduce a figure."""
    off = max(TOLERANCE * published.value, published.error)
    return published.value - off, math.inf if published.at_least else published.value + off


def judged(published: PublishedFigure, cell: str, values: Sequence[float]) -> Beside:
    """Return a published figure beside the values of our trials."""
    ours = median_interval(values)
    return Beside(published, cell, ours, _verdict(published, ours))


def _verdict(published: PublishedFigure, ours: Interval) -> Verdict:
    if ours.estimate is None:
        return "no value"
    if ours.count == 1:
        return "one trial only"
    if ours.low is None or ours.high is None:
        return "undecided"
    least, most = tolerated(published)
    if least <= ours.low and ours.high <= most:
        return "reproduced"
    return "not reproduced" if ours.high < least or ours.low > most else "undecided"
