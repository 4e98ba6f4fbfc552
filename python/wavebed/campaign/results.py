"""The results of a campaign, from its folder alone: metrics by cell and block, answers, explored metrics."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import numpy as np

from wavebed.errors import UserError
from wavebed.result.model import COUNTED, CellPair, comparisons
from wavebed.stats.family import Primary, explore, settle
from wavebed.stats.intervals import median_interval
from wavebed.stats.looks import Anytime
from wavebed.stats.paired import SignedRanks, exclusions, worst_case
from wavebed.stats.verdict import Margin, percentile
from wavebed.store.journal import BlockEnded, read_journal
from wavebed.store.metrics import factors_of, read_metrics
from wavebed.store.records import read_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from wavebed.result.model import CampaignRecord, PrimaryRecord, RunRecord
    from wavebed.stats.paired import Exclusions, PairedDesign
    from wavebed.stats.verdict import Better, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class CellBounds(NamedTuple):
    """Estimates by cell with their bounds; NaN where the sample does not bear them.

    Parameters
    ----------
    estimate, low, high : float array, shape (cells,)
        In the unit of the metric.
    """

    estimate: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """The values of one metric.

    Parameters
    ----------
    workload, metric, unit, definition : str
        Which.
    better : str
        ``higher``, ``lower`` or ``neither``.
    values : float array, shape (cells, blocks)
        Of counted trials; NaN is missing.
    """

    workload: str
    metric: str
    unit: str
    definition: str
    better: Literal["higher", "lower", "neither"]
    values: Floats

    @property
    def key(self) -> tuple[str, str]:
        """Workload and metric."""
        return self.workload, self.metric

    @property
    def title(self) -> str:
        """What people read: ``ping: rtt loaded p95``, or the metric alone if it names its workload."""
        return metric_title(self.workload, self.metric)

    @property
    def title_with_unit(self) -> str:
        """The title and the unit."""
        return f"{self.title}, {self.unit}" if self.unit else self.title

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of values of each cell, shape (cells,)."""
        return np.asarray(np.isfinite(self.values).sum(axis=1), dtype=np.int64)

    def medians(self) -> CellBounds:
        """Return the median of each cell with its interval by order statistics at 95 %."""
        return self._ranked(_median_ranks)

    def percentiles(self, probability: float) -> CellBounds:
        """Return a percentile of each cell that bears it, with the 95 % bound towards its tail."""
        return self._ranked(lambda count: _percentile_ranks(count, probability))

    def _ranked(self, ranks: Callable[[int], tuple[float, float, float]]) -> CellBounds:
        """Return values at places of the ordered sample, which depend on its size alone."""
        ordered = np.sort(self.values, axis=1)  # NaN is last
        counts = self.counts
        found = np.full((3, len(counts)), np.nan)
        for count in np.unique(counts[counts > 0]).tolist():
            rows = np.flatnonzero(counts == count)
            for of, place in zip(found, ranks(count), strict=True):
                if np.isfinite(place):
                    below, above = int(np.floor(place)), int(np.ceil(place))
                    low, high = ordered[rows, below], ordered[rows, above]
                    of[rows] = low + (high - low) * (place - below)
        return CellBounds(*found)


def _median_ranks(count: int) -> tuple[float, float, float]:
    found = median_interval(range(count))
    return _place(found.estimate), _place(found.low), _place(found.high)


def _percentile_ranks(count: int, probability: float) -> tuple[float, float, float]:
    found = percentile(range(count), probability)
    return _place(found.estimate), _place(found.low), _place(found.high)


def _place(value: float | None) -> float:
    return float("nan") if value is None else value


def matrices(
    metrics: pa.Table, cells: Sequence[str], blocks: Sequence[int], wanted: Sequence[tuple[str, str]] | None = None
) -> dict[tuple[str, str], Matrix]:
    """Return the metrics by workload and name, in the order in which they first appear.

    Parameters
    ----------
    metrics : pyarrow.Table
        ``metrics.parquet``.
    cells, blocks : sequence
        Rows and columns; values of others are left out.
    wanted : sequence of tuple, optional
        Workload and metric of those that are wanted; all without.
    """
    codes = {name: _codes(metrics, name) for name in ("cell", "workload", "metric", "unit", "better")}
    places = {name: place for place, name in enumerate(cells)}
    row = np.array([places.get(name, -1) for name in codes["cell"][1]] or [-1])[codes["cell"][0]]
    block = metrics.column("block").to_numpy()
    column = np.searchsorted(np.asarray(blocks), block)
    value = metrics.column("value").to_numpy()
    known = np.isin(block, np.asarray(blocks)) & metrics.column("counted").to_numpy() & np.isfinite(value)
    which = codes["workload"][0].astype(np.int64) * max(len(codes["metric"][1]), 1) + codes["metric"][0]
    found = {}
    kinds, firsts, place = np.unique(which, return_index=True, return_inverse=True)
    order = np.argsort(place, kind="stable")
    edges = np.searchsorted(place[order], np.arange(len(kinds) + 1))
    for kind in np.argsort(firsts).tolist():
        first = int(firsts[kind])
        workload, metric, unit, better = (
            codes[name][1][int(codes[name][0][first])] for name in ("workload", "metric", "unit", "better")
        )
        if wanted is not None and (workload, metric) not in wanted:
            continue
        chosen = order[edges[kind] : edges[kind + 1]]
        chosen = chosen[known[chosen] & (row[chosen] >= 0)]
        values = np.full((len(cells), len(blocks)), np.nan)
        values[row[chosen], column[chosen]] = value[chosen]
        definition = str(metrics.column("definition")[first].as_py() or "")
        way = cast("Literal['higher', 'lower', 'neither']", better)
        found[(workload, metric)] = Matrix(workload, metric, unit, definition, way, values)
    return found


def _codes(metrics: pa.Table, name: str) -> tuple[NDArray[np.int32], list[str]]:
    """Return the codes of a column of words, and the words."""
    import pyarrow as pa

    column = metrics.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries().combine_chunks() if column.num_chunks else pa.array([], pa.string())
    if not isinstance(column, pa.DictionaryArray):
        column = column.dictionary_encode()
    return column.indices.to_numpy(zero_copy_only=False), [str(word) for word in column.dictionary.to_pylist()]


LEVEL = 0.95


def metric_title(workload: str, metric: str) -> str:
    """Return what people read: ``ping: rtt loaded p95``, or the metric alone if it names its workload."""
    return metric if metric.lower().startswith(workload.lower()) else f"{workload}: {metric}"


@dataclass(frozen=True, slots=True)
class Values:
    """The values of one metric.

    Parameters
    ----------
    workload, metric, unit : str
        Which.
    better : str
        ``higher``, ``lower`` or ``neither``.
    by_cell : mapping
        Value of each block, by cell, of counted trials that measured it.
    """

    workload: str
    metric: str
    unit: str
    better: Literal["higher", "lower", "neither"]
    by_cell: Mapping[str, Mapping[int, float]]

    @property
    def title(self) -> str:
        """What people read."""
        return metric_title(self.workload, self.metric)

    @property
    def direction(self) -> Better | None:
        """The better direction, if there is one."""
        return None if self.better == "neither" else self.better


@dataclass(frozen=True, slots=True)
class CampaignQuestion:
    """A comparison, a primary metric, and the margin that matters, also as it was written."""

    pair: CellPair
    values: Values
    margin: Margin
    text: str


@dataclass(frozen=True, slots=True)
class CampaignAnswer:
    """The answer to a question: what the cell is beside its baseline in one metric.

    Parameters
    ----------
    missing : tuple of int
        Blocks that have ended without a value of the baseline, and of the cell.
    finding : Finding
        From the blocks in which both have a value.
    worst : Finding or None
        With missing values at their worst, where some are missing.
    """

    question: CampaignQuestion
    missing: tuple[int, int]
    finding: Finding
    worst: Finding | None


def design_of(record: CampaignRecord, *, complete: bool = True) -> PairedDesign:
    """Return the method of a campaign.

    Before the end, or if the end depends on the answers, it is a confidence sequence, which is valid at every look.
    """
    return Anytime(LEVEL) if record.stop == "decided" or not complete else SignedRanks(LEVEL)


def values_of(metrics: pa.Table, wanted: Sequence[tuple[str, str]] | None = None) -> list[Values]:
    """Return the values of counted trials by metric, in the order in which metrics first appear.

    Parameters
    ----------
    metrics : pyarrow.Table
        ``metrics.parquet``.
    wanted : sequence of tuple, optional
        Workload and metric of those that are wanted; all without.
    """
    import pyarrow.compute as pc

    columns = ["cell", "block", "workload", "metric", "value", "unit", "better"]
    keep = pc.field("counted") & pc.field("value").is_valid()
    if wanted is not None:
        named = pc.scalar(False)
        for workload, metric in wanted:
            named = named | ((pc.field("workload") == workload) & (pc.field("metric") == metric))
        keep = keep & named
    chosen = metrics.filter(keep).select(columns)
    frame = chosen.to_pandas()
    found = []
    for (workload, metric), rows in frame.groupby(["workload", "metric"], sort=False, observed=True):
        cells: dict[str, dict[int, float]] = {}
        values = rows["value"].to_numpy(np.float64)
        for cell, block, value in zip(rows["cell"], rows["block"].tolist(), values.tolist(), strict=True):
            cells.setdefault(str(cell), {})[block] = value
        first = rows.iloc[0]
        better = cast("Literal['higher', 'lower', 'neither']", str(first["better"]))
        found.append(Values(str(workload), str(metric), str(first["unit"]), better, cells))
    return found


def questions(
    record: CampaignRecord, levels: Mapping[str, Mapping[str, str]], metrics: pa.Table
) -> list[CampaignQuestion]:
    """Return the questions of a campaign: comparisons in order, and within each the primary metrics that were measured.

    Parameters
    ----------
    levels : mapping
        Level of each factor, by cell.
    metrics : pyarrow.Table
        The metrics so far.

    Raises
    ------
    UserError
        If a margin is in another unit than its metric.
    """
    wanted = [(each.workload, each.metric) for each in record.primaries]
    known = {(each.workload, each.metric): each for each in values_of(metrics, wanted)}
    asked = [
        (each, known[key], margin_of(each, known[key].unit))
        for key, each in zip(wanted, record.primaries, strict=True)
        if key in known
    ]
    pairs = comparisons(levels, record.factor, record.baseline)
    return [
        CampaignQuestion(pair, values, margin, primary.margin_text)
        for pair in pairs
        for primary, values, margin in asked
        if primary.is_asked_of(levels[pair.cell])
    ]


def answers(
    record: CampaignRecord,
    levels: Mapping[str, Mapping[str, str]],
    metrics: pa.Table,
    ended: Sequence[int],
    *,
    complete: bool = True,
) -> list[CampaignAnswer]:
    """Return the answers to all questions of a campaign.

    Parameters
    ----------
    levels : mapping
        Level of each factor, by cell.
    metrics : pyarrow.Table
        The metrics so far.
    ended : sequence of int
        Blocks that have ended, in order.
    complete : bool
        Whether every planned block has ended.

    Raises
    ------
    UserError
        If a margin is in another unit than its metric.
    """
    asked = questions(record, levels, metrics)
    design = design_of(record, complete=complete)
    families = [asked]
    if record.family == "comparison":
        families = [list(group) for _, group in itertools.groupby(asked, key=lambda question: question.pair)]
    found = []
    for family in families:
        findings = settle([_primary(question, ended) for question in family], design)
        found += [
            answer_of(question, finding, ended, design) for question, finding in zip(family, findings, strict=True)
        ]
    return found


def margin_of(primary: PrimaryRecord, unit: str, where: str = "primary") -> Margin:
    """Return the margin of a primary metric with this unit.

    Parameters
    ----------
    where : str
        What the error names.

    Raises
    ------
    UserError
        If the margin is in another unit.
    """
    if primary.unit == "%" and unit != "%":
        return Margin(primary.margin / 100, relative=True)
    if primary.unit != unit:
        raise UserError(
            f"{where}: the margin of {primary.workload} {primary.metric} is in {primary.unit or 'no unit'}, the metric"
            f" in {unit or 'no unit'}: write the margin in {unit or 'numbers'} or as a share"
        )
    return Margin(primary.margin)


def _primary(question: CampaignQuestion, ended: Sequence[int]) -> Primary:
    a, b = _both(question)
    blocks = [block for block in ended if block in a and block in b]
    first, second = [a[block] for block in blocks], [b[block] for block in blocks]
    return Primary(first, second, question.margin, question.values.direction)


def _both(question: CampaignQuestion) -> tuple[Mapping[int, float], Mapping[int, float]]:
    by_cell = question.values.by_cell
    return by_cell.get(question.pair.baseline, {}), by_cell.get(question.pair.cell, {})


def answer_of(
    question: CampaignQuestion, finding: Finding, ended: Sequence[int], design: PairedDesign
) -> CampaignAnswer:
    """Return the answer with a finding, and with the missing values at their worst.

    Parameters
    ----------
    ended : sequence of int
        Blocks that have ended, in order.
    """
    a, b = _both(question)
    first, second = [a.get(block) for block in ended], [b.get(block) for block in ended]
    missing = (first.count(None), second.count(None))
    worst = None
    if any(missing) and finding.level is not None:
        at = design.at(finding.level)
        worst = worst_case(first, second, question.margin, question.values.direction, at)
    return CampaignAnswer(question, missing, finding, worst)


def is_decided(
    record: CampaignRecord, levels: Mapping[str, Mapping[str, str]], metrics: pa.Table, ended: Sequence[int]
) -> bool:
    """Return whether every question is settled; one without any value is open."""
    pairs = comparisons(levels, record.factor, record.baseline)
    asked = sum(primary.is_asked_of(levels[pair.cell]) for primary in record.primaries for pair in pairs)
    found = answers(record, levels, metrics, ended)
    return len(found) == asked > 0 and all(answer.finding.settled for answer in found)


MOST_EXPLORED = 2000
"""More findings than this cost seconds, and nobody reads them."""


@dataclass(frozen=True, slots=True)
class Exploration:
    """Findings on metrics that are not primary, each by itself.

    Parameters
    ----------
    total : int
        Number of comparisons in all these metrics that have a value.
    answers : sequence of CampaignAnswer
        The findings, by metric and comparison. If there are more than `MOST_EXPLORED`, only the findings with the
        largest differences relative to their spread over the blocks.
    """

    total: int
    answers: Sequence[CampaignAnswer]


def exploration(
    metrics: Iterable[Matrix],
    pairs: Sequence[CellPair],
    cells: Sequence[str],
    blocks: Sequence[int],
    design: PairedDesign,
) -> Exploration:
    """Return findings on metrics, each by itself: with many of them, some are false alarms.

    Parameters
    ----------
    metrics : iterable of Matrix
        Those that are not primary.
    cells, blocks : sequence
        Rows and columns of the matrices.
    """
    places = {cell: place for place, cell in enumerate(cells)}
    first = np.array([places[pair.baseline] for pair in pairs], np.intp)
    other = np.array([places[pair.cell] for pair in pairs], np.intp)
    each = list(metrics)
    sizes = np.array([_relative_size(one.values[other] - one.values[first]) for one in each]).reshape(
        len(each), len(pairs)
    )
    chosen = np.flatnonzero(np.isfinite(sizes))
    total = len(chosen)
    if total > MOST_EXPLORED:
        largest = np.argsort(-sizes.ravel()[chosen], kind="stable")[:MOST_EXPLORED]
        chosen = np.sort(chosen[largest])
    asked = []
    for place in chosen.tolist():
        metric, pair = each[place // len(pairs)], pairs[place % len(pairs)]
        two = {name: _by_block(metric.values[places[name]], blocks) for name in (pair.baseline, pair.cell)}
        values = Values(metric.workload, metric.metric, metric.unit, metric.better, two)
        asked.append(CampaignQuestion(pair, values, Margin(0.0), ""))
    findings = explore([_bounds(question) for question in asked], design)
    found = [answer_of(question, finding, blocks, design) for question, finding in zip(asked, findings, strict=True)]
    return Exploration(total, found)


def _by_block(values: NDArray[np.float64], blocks: Sequence[int]) -> dict[int, float]:
    return {block: value for block, value in zip(blocks, values.tolist(), strict=True) if np.isfinite(value)}


def _bounds(question: CampaignQuestion) -> Primary:
    first, other = (question.values.by_cell[name] for name in (question.pair.baseline, question.pair.cell))
    both = [block for block in first if block in other]
    a, b = [first[block] for block in both], [other[block] for block in both]
    return Primary(a, b, question.margin, question.values.direction)


def _relative_size(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean difference of each comparison in standard errors; NaN without a pair, 0 if all are 0."""
    known = np.isfinite(differences)
    count = known.sum(axis=1)
    values = np.where(known, differences, 0.0)
    mean = values.sum(axis=1) / np.maximum(count, 1)
    spread = np.sqrt((np.where(known, differences - mean[:, None], 0.0) ** 2).sum(axis=1) / np.maximum(count - 1, 1))
    error = np.maximum(spread, 1e-12 * np.abs(mean)) / np.sqrt(np.maximum(count, 1))
    sizes = np.divide(np.abs(mean), error, out=np.zeros_like(mean), where=error > 0)
    return np.asarray(np.where(count > 0, sizes, np.nan))


MOST_TESTED = 100


@dataclass(frozen=True)
class CampaignResults:
    """The results of a campaign.

    Parameters
    ----------
    folder : pathlib.Path
        Folder of the results.
    run : RunRecord
        Content of ``run.json``.
    campaign : CampaignRecord
        Its design and questions.
    metrics : pyarrow.Table
        ``metrics.parquet``, or its parts before the end.
    ended : sequence of int
        Blocks that have ended, in order.
    """

    folder: Path
    run: RunRecord
    campaign: CampaignRecord
    metrics: pa.Table
    ended: Sequence[int]

    @cached_property
    def levels(self) -> dict[str, Mapping[str, str]]:
        """The level of each factor by cell."""
        return factors_of(self.run)

    @property
    def complete(self) -> bool:
        """Whether the campaign ended as planned: after all blocks, or by its stop rule."""
        return bool(self.campaign.stopped) or len(self.ended) >= self.run.blocks

    @property
    def design(self) -> PairedDesign:
        """The statistical method that gives the answers."""
        return design_of(self.campaign, complete=self.complete)

    @cached_property
    def answers(self) -> list[CampaignAnswer]:
        """The answers on primary metrics."""
        return answers(self.campaign, self.levels, self.metrics, self.ended, complete=self.complete)

    @cached_property
    def cells(self) -> list[str]:
        """Names of the cells, in order."""
        return [str(treatment["name"]) for treatment in self.run.treatments]

    @cached_property
    def comparisons(self) -> list[CellPair]:
        """The pairs of cells that are compared."""
        return comparisons(self.levels, self.campaign.factor, self.campaign.baseline)

    @cached_property
    def matrices(self) -> dict[tuple[str, str], Matrix]:
        """The values of all metrics, by workload and name."""
        return matrices(self.metrics, self.cells, self.ended)

    @cached_property
    def exploration(self) -> Exploration:
        """Findings on all other metrics."""
        primary = {(each.workload, each.metric) for each in self.campaign.primaries}
        others = [matrix for key, matrix in self.matrices.items() if key not in primary]
        return exploration(others, self.comparisons, self.cells, self.ended, self.design)

    @cached_property
    def lost(self) -> list[tuple[str, int, int]]:
        """Of each cell: its name, blocks without a counted trial, and blocks that have ended."""
        blocks = set(self.ended)
        counted: dict[str, set[int]] = {cell: set() for cell in self.cells}
        for line in self.run.trials:
            if line.verdict in COUNTED and line.block in blocks:
                counted[line.treatment].add(line.block)
        return [(cell, len(blocks) - len(its), len(blocks)) for cell, its in counted.items()]

    @property
    def exclusions_between(self) -> str:
        """The groups of trials whose exclusions are tested: cells, or the levels of the compared factor."""
        many = len(self.cells) > MOST_TESTED and self.campaign.factor
        return f"the levels of {self.campaign.factor}" if many else "cells"

    @cached_property
    def exclusions(self) -> Exclusions:
        """Whether cells differ in the number of blocks without a counted trial.

        With more than `MOST_TESTED` cells, whether the levels of the compared factor differ: a test of thousands of
        cells has no power.
        """
        grouped: dict[str, tuple[int, int]] = {}
        for cell, lost, of in self.lost:
            name = cell if self.exclusions_between == "cells" else self.levels[cell][self.campaign.factor]
            before = grouped.get(name, (0, 0))
            grouped[name] = (before[0] + lost, before[1] + of)
        return exclusions(grouped)


def read_campaign_results(folder: Path) -> CampaignResults:
    """Read the results of a campaign.

    Raises
    ------
    UserError
        If the folder has no campaign, or a file is damaged.
    """
    run = read_run(folder)
    if run.campaign is None:
        raise UserError(f"{folder}: has no campaign: name a folder that wavebed campaign run wrote")
    if run.ended is not None:
        ended = {line.block for line in run.trials}
    else:
        ended = {event.block for event in read_journal(folder) if isinstance(event, BlockEnded)}
    return CampaignResults(folder, run, run.campaign, read_metrics(folder, factors_of(run)), sorted(ended))
