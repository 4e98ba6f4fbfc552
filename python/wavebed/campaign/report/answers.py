"""The answers of a campaign in sentences and tables, and which of its metrics and comparisons are drawn and listed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from wavebed.campaign.text import reason_text
from wavebed.page.tables import Table
from wavebed.page.text import figure, signed
from wavebed.report.source import headline
from wavebed.result.names import TRIALS_FOLDER
from wavebed.stats.verdict import needed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.campaign.results import CampaignAnswer, CampaignResults, Matrix
    from wavebed.page.tables import TableCell

MOST_METRICS = 6
MOST_FILED = 100_000
"""Rows of the table of all metrics; with more it has the primary metrics only."""
_UPPER = (0.9, 0.95, 0.99)
METHODS = {
    "signed-ranks": "Hodges and Lehmann's estimate and Wilcoxon's signed ranks, over pairs of one block",
    "anytime-signed-ranks": "confidence sequence by bets on signed ranks, over pairs of one block; valid at every look",
    "anytime-signs": "confidence sequence from bets on signs, over pairs of one block; valid at every look",
    "planned-signed-ranks": "group-sequential signed ranks, over pairs of one block, at the planned looks",
    "mann-kendall": "Mann and Kendall's test of the order of the blocks",
    "fisher-exact": "Fisher's exact test",
    "chi-square": "Chi-square test by random permutations",
}
_VERDICTS = ("better", "worse", "different", "equivalent", "equal", "undecided")
_TWICE = 2.0


def strength(answer: CampaignAnswer) -> float:
    """Return the effect in units of its margin, on logarithms for a ratio; -1 without an effect."""
    finding = answer.finding
    if finding.estimate is None:
        return -1.0
    if finding.scale == "ratio":
        size = abs(math.log(finding.estimate))
        return size / math.log(finding.margin) if finding.margin and finding.margin > 1 else size
    return abs(finding.estimate) / finding.margin if finding.margin else abs(finding.estimate)


@dataclass(frozen=True)
class ChosenResults:
    """The results of a campaign, and what of them is drawn."""

    results: CampaignResults

    @cached_property
    def metrics(self) -> list[Matrix]:
        """The primary metrics that were measured; without any, the main metric of each workload."""
        known = self.results.matrices
        primaries = [
            known[key] for each in self.results.campaign.primaries if (key := (each.workload, each.metric)) in known
        ]
        return primaries or self._headlines[:MOST_METRICS]

    @property
    def drawn(self) -> list[Matrix]:
        """Those that have figures."""
        return self.metrics[:MOST_METRICS]

    @property
    def primary(self) -> bool:
        """Whether the metrics are primary ones."""
        return any((each.workload, each.metric) in self.results.matrices for each in self.results.campaign.primaries)

    @cached_property
    def _headlines(self) -> list[Matrix]:
        found = []
        for workload in self.results.run.workloads:
            names = [name for of, name in self.results.matrices if of == workload["name"]]
            name = headline(str(workload.get("kind", "")), names)
            if name is not None:
                found.append(self.results.matrices[(str(workload["name"]), name)])
        return found

    def answers(self, metric: Matrix) -> list[CampaignAnswer]:
        """Return the answers on a metric, in the order of the comparisons."""
        return self._by_metric.get(metric.key, [])

    @cached_property
    def _by_metric(self) -> dict[tuple[str, str], list[CampaignAnswer]]:
        found: dict[tuple[str, str], list[CampaignAnswer]] = {}
        for answer in self.results.answers:
            found.setdefault((answer.question.values.workload, answer.question.values.metric), []).append(answer)
        return found

    def largest(self, metric: Matrix, most: int) -> list[CampaignAnswer]:
        """Return the answers on a metric; if there are more than `most`, those with the largest effects."""
        found = self.answers(metric)
        if len(found) <= most:
            return found
        return sorted(found, key=lambda answer: -strength(answer))[:most]

    def cells(self, metric: Matrix, most: int) -> list[str]:
        """Return at most `most` cells with values: all, or the cells of the comparisons with the largest effects."""
        counts = dict(zip(self.results.cells, metric.counts.tolist(), strict=True))
        measured = [cell for cell, count in counts.items() if count]
        if len(measured) <= most:
            return measured
        wanted: dict[str, None] = {}
        for answer in self.largest(metric, most):
            pair = {answer.question.pair.baseline: None, answer.question.pair.cell: None}
            if len(wanted | pair) <= most:
                wanted |= pair
        return [cell for cell in wanted if counts[cell]] or measured[:most]

    def row(self, cell: str) -> int:
        """Return the row of a cell in a matrix."""
        return self._rows[cell]

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {cell: place for place, cell in enumerate(self.results.cells)}


def level_text(level: float | None) -> str:
    """Return a level: ``95 %``, ``99.9 %``."""
    if level is None:
        return "–"
    text = f"{100 * level:.6f}".rstrip("0").rstrip(".")
    return f"{text} %" if len(text) <= 5 else f"{100 * level:.4g} %"


def effect_words(answer: CampaignAnswer) -> str:
    """Return the effect: ``20 % lower``, ``2.10 times as high``, ``12.3 ms higher``."""
    finding, unit = answer.finding, answer.question.values.unit
    if finding.estimate is None:
        return "no value"
    if finding.scale == "ratio":
        if finding.estimate >= _TWICE:
            return f"{figure(finding.estimate)} times as high"
        percent = 100 * (finding.estimate - 1)
        return f"{figure(abs(percent))} % {'lower' if percent < 0 else 'higher'}" if percent else "the same"
    if not finding.estimate:
        return "the same"
    way = "lower" if finding.estimate < 0 else "higher"
    return f"{figure(abs(finding.estimate))}{f' {unit}' if unit else ''} {way}"


def interval_words(answer: CampaignAnswer) -> str:
    """Return the interval: ``ratio 0.780 to 0.820``, ``+11 to +13 ms``; empty without one."""
    finding, unit = answer.finding, answer.question.values.unit
    if finding.low is None or finding.high is None:
        return ""
    if finding.scale == "ratio":
        return f"ratio {figure(finding.low)} to {figure(finding.high)}"
    return f"{signed(finding.low)} to {signed(finding.high)}{f' {unit}' if unit else ''}"


def sentence(answer: CampaignAnswer, level: float | None = None) -> str:
    """Return an answer in plain words, with effect and interval.

    Parameters
    ----------
    level : float, optional
        Level of the interval, where the interval covers this answer alone.
    """
    question, finding = answer.question, answer.finding
    pair = question.pair
    workload, metric = question.values.workload, question.values.metric
    metric = metric if metric.lower().startswith(workload.lower()) else f"{metric} of {workload}"
    interval = interval_words(answer)
    kind = "interval" if level is None else f"{level_text(level)} interval"
    told = f"{effect_words(answer)} ({f'{kind}: {interval}' if interval else 'no interval'})"
    match finding.verdict:
        case "better" | "worse":
            return f"{pair.cell} is {finding.verdict} than {pair.baseline}: {metric} is {told}."
        case "different":
            return f"{pair.cell} differs from {pair.baseline}: {metric} is {told}."
        case "equivalent":
            return f"{pair.cell} is equivalent to {pair.baseline} within {question.text}: {metric} is {told}."
        case "equal":
            return f"{pair.cell} equals {pair.baseline}: {metric} is the same in all {finding.count} blocks."
        case _:
            why = reason_text(answer)
            return (
                f"Undecided whether {pair.cell} is better than {pair.baseline}: {metric} is {told}, margin"
                f" {question.text}{f'; {why}' if why else ''}."
            )


def counted(answers: Sequence[CampaignAnswer]) -> str:
    """Return the number of answers of each verdict in a sentence: ``Of 6 comparisons 4 are better, 2 undecided.``."""
    counts = {verdict: sum(answer.finding.verdict == verdict for answer in answers) for verdict in _VERDICTS}
    told = [f"{count} {verdict}" for verdict, count in counts.items() if count]
    first, *rest = told
    number, verdict = first.split(" ", 1)
    verb = "is" if number == "1" else "are"
    return f"Of {len(answers)} comparisons {', '.join([f'{number} {verb} {verdict}', *rest])}."


def summary(title: str, answers: Sequence[CampaignAnswer]) -> str:
    """Return the number of answers of each verdict on a metric."""
    counts = {verdict: sum(answer.finding.verdict == verdict for answer in answers) for verdict in _VERDICTS}
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    return f"{title}, {len(answers)} comparisons: {told}."


def covered(results: CampaignResults) -> str:
    """Return what an interval covers."""
    if results.campaign.replicate == "channel":
        return (
            "Each block is another realisation of the channel: intervals cover realisations of the channel, on the"
            " machines that ran them."
        )
    if results.campaign.replicate == "start":
        return "Each block begins elsewhere in the same pattern: intervals cover parts of it, not other patterns."
    return (
        "The channel is the same in every block: intervals cover the variation of this host alone, not other"
        " realisations of the channel."
    )


def state_words(results: CampaignResults) -> str:
    """Return why the campaign ended, or that it has not."""
    ended, planned = len(results.ended), results.run.blocks
    if results.campaign.stopped:
        return f"stopped after {ended} of at most {planned} blocks: {results.campaign.stopped}"
    if results.complete:
        rule = "the stop rule was not met" if results.campaign.stop == "decided" else "as planned"
        return f"ended after all {planned} blocks, {rule}"
    return f"not complete: {ended} of {planned} blocks"


def answers_table(answers: Sequence[CampaignAnswer], name: str = "answers") -> Table:
    """Return the answers as a table with all digits."""
    head_ = ["metric", "cell", "against", "verdict", "estimate", "low", "high", "scale", "unit", "level", "margin"]
    head_ += ["pairs", "p", "p adjusted", "missing", "at the worst", "limits"]
    rows: list[Sequence[TableCell]] = []
    for answer in answers:
        question, finding = answer.question, answer.finding
        rows.append(
            [
                question.values.title,
                question.pair.cell,
                question.pair.baseline,
                finding.verdict,
                finding.estimate,
                finding.low,
                finding.high,
                finding.scale,
                "" if finding.scale == "ratio" else question.values.unit,
                finding.level,
                question.text,
                finding.count,
                finding.p,
                finding.adjusted,
                sum(answer.missing),
                answer.worst.verdict if answer.worst is not None else "",
                reason_text(answer),
            ]
        )
    return Table(name, "Answers: the effect of a cell beside its baseline, as difference or ratio.", head_, rows)


def summary_table(chosen: ChosenResults) -> Table:
    """Return a row for each cell and metric; of all metrics, or of the primary ones if that is too many."""
    every = list(chosen.results.matrices.values())
    metrics = every if len(every) * len(chosen.results.cells) <= MOST_FILED else chosen.metrics
    first = [metric.key for metric in chosen.metrics]
    ordered = [*chosen.metrics, *(metric for metric in metrics if metric.key not in first)]
    rows: list[Sequence[TableCell]] = []
    shares = borne_tails(ordered)
    for metric in ordered:
        rows += summary_rows(chosen, metric, chosen.results.cells, shares)
    caption = "Values of each cell over the blocks: median with its 95 % interval by order statistics."
    return Table("summary", caption, summary_head(shares), rows)


def summary_head(shares: Sequence[float]) -> list[str]:
    """Return the columns of a summary, with two for each percentile of `shares`."""
    head = ["metric", "unit", "cell", "n", "median", "low", "high", "least", "largest"]
    return head + [text for share in shares for text in (_named(share), f"{_named(share)} bound")]


def _named(share: float) -> str:
    return f"tail {100 * share:g} %"


def borne_tails(metrics: Sequence[Matrix]) -> list[float]:
    """Return the tails that at least one cell has values enough for."""
    most = max((int(metric.counts.max(initial=0)) for metric in metrics), default=0)
    return [share for share in _UPPER if most >= needed(share)]


def summary_rows(
    chosen: ChosenResults, metric: Matrix, cells: Sequence[str], shares: Sequence[float]
) -> list[Sequence[TableCell]]:
    """Return a row for each cell: its counted blocks, and its values of a metric with their bounds."""
    measured = metric.counts > 0
    medians = metric.medians()
    filled = np.where(np.isfinite(metric.values), metric.values, np.nan)
    least = np.min(np.where(np.isnan(filled), np.inf, filled), axis=1, initial=np.inf)
    largest = np.max(np.where(np.isnan(filled), -np.inf, filled), axis=1, initial=-np.inf)
    columns = [medians.estimate, medians.low, medians.high, least, largest]
    for share in shares:
        # The tail that matters: large values, but small ones where more is better.
        found = metric.percentiles(1 - share if metric.better == "higher" else share)
        columns += [found.estimate, found.low if metric.better == "higher" else found.high]
    numbers = np.column_stack(columns)
    counts = metric.counts.tolist()
    return [
        [metric.title, metric.unit, cell, counts[row], *(_known(value) for value in numbers[row].tolist())]
        for cell in cells
        if measured[row := chosen.row(cell)]
    ]


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None


def trials_table(chosen: ChosenResults) -> Table:
    """Return a row for each attempt."""
    factors = list(chosen.results.campaign.factors)
    levels = chosen.results.levels
    rows: list[Sequence[TableCell]] = [
        [
            f"{TRIALS_FOLDER}/{line.folder}",
            line.treatment,
            *(levels.get(line.treatment, {}).get(factor, "") for factor in factors),
            line.block,
            line.seed,
            line.attempt,
            line.verdict,
            "; ".join(line.reasons),
        ]
        for line in chosen.results.run.trials
    ]
    head = ["folder", "cell", *factors, "block", "seed", "attempt", "verdict", "reasons"]
    return Table("trials", "Every attempt at a trial.", head, rows)
