"""The answers of a campaign: a finding for each comparison and primary metric, from the metrics of its trials."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from wavebed.errors import UserError
from wavebed.result.campaign import Comparison, comparisons
from wavebed.stats.anytime import Anytime
from wavebed.stats.exclusions import worst_case
from wavebed.stats.family import Primary, settle
from wavebed.stats.paired import SignedRanks
from wavebed.stats.verdict import Margin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from wavebed.result.campaign import CampaignRecord, PrimaryRecord
    from wavebed.stats.paired import Design
    from wavebed.stats.verdict import Better, Finding

__all__ = ["LEVEL", "Answer", "Question", "Values", "answer_of", "answers", "design_of", "is_decided", "margin_of"]
__all__ += ["metric_title", "questions", "values_of"]

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
class Question:
    """A comparison, a primary metric, and the margin that matters, also as it was written."""

    pair: Comparison
    values: Values
    margin: Margin
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
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

    question: Question
    missing: tuple[int, int]
    finding: Finding
    worst: Finding | None


def design_of(record: CampaignRecord, *, complete: bool = True) -> Design:
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


def questions(record: CampaignRecord, levels: Mapping[str, Mapping[str, str]], metrics: pa.Table) -> list[Question]:
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
        Question(pair, values, margin, primary.margin_text)
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
) -> list[Answer]:
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


def _primary(question: Question, ended: Sequence[int]) -> Primary:
    a, b = _both(question)
    blocks = [block for block in ended if block in a and block in b]
    first, second = [a[block] for block in blocks], [b[block] for block in blocks]
    return Primary(first, second, question.margin, question.values.direction)


def _both(question: Question) -> tuple[Mapping[int, float], Mapping[int, float]]:
    by_cell = question.values.by_cell
    return by_cell.get(question.pair.baseline, {}), by_cell.get(question.pair.cell, {})


def answer_of(question: Question, finding: Finding, ended: Sequence[int], design: Design) -> Answer:
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
    return Answer(question, missing, finding, worst)


def is_decided(
    record: CampaignRecord, levels: Mapping[str, Mapping[str, str]], metrics: pa.Table, ended: Sequence[int]
) -> bool:
    """Return whether every question is settled; one without any value is open."""
    pairs = comparisons(levels, record.factor, record.baseline)
    asked = sum(primary.is_asked_of(levels[pair.cell]) for primary in record.primaries for pair in pairs)
    found = answers(record, levels, metrics, ended)
    return len(found) == asked > 0 and all(answer.finding.settled for answer in found)
