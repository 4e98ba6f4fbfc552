"""The page that compares remedies, from the folders of their campaigns.

Usage: ``python -m wavebed.reproduce.remedies_page FILE FOLDER…``, with folders of the campaign ``remedies``, or of
parts of it, and of ``edge-…`` campaigns. The summaries are of those over several paths.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wavebed.campaign.results import read_campaign_results
from wavebed.campaign.text import reason_text
from wavebed.errors import WavebedError
from wavebed.output import write_output
from wavebed.page.text import figure
from wavebed.reproduce.remedies_overview import APPLICATION, COSTS, PATH, effect, lost_table, overview, row, told
from wavebed.stats.intervals import fewest_pairs, median_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.campaign.results import CampaignAnswer, CampaignResults
    from wavebed.result.model import PrimaryRecord, TrialLine

_COST_LETTERS = {"delay of other traffic": "d", "processor time": "p"}
_HEAD = """# Remedies compared

*This page is generated from the results of campaigns by `python -m wavebed.reproduce.remedies_page`.*

Each remedy is beside no remedy (`none`: CUBIC) on the same realisation of the channel. A cell has the ratio of the
paired trials, or their difference where zeros have no ratio, its interval, and ▲ better, ▼ worse, ≈ within the margin,
? undecided, = the same. A ratio alone is of one pair of trials. The row `none` has medians. A dash: no trial counted.
[Remedies at the edge](../guides/edge.md#in-scenarios) says what the remedies are; the campaigns are
`remedies.toml` and `edge-*.toml` in `scenarios/campaigns`.
"""

_OVERVIEW = """Over all paths: each path is one pair, the medians of its blocks, and the interval (95 %) is over paths.
An application has the metric by which remedies are ranked. Costs are over all applications: the delay of other traffic
(95th percentile of UDP round trips), and the processor time of the whole machine, applications and emulation included.
"""
_LOST = """
Blocks without a counted trial, over all paths and kinds of other traffic: the application did not end in its time, or
the machine was late in each attempt. What did not end has no ratio above.
"""

_SUMMARY = """For each application, by its first metric: the remedy that is better by most, its ratio or difference, and
its cost in delay of other traffic (d) and processor time (p). No remedy is named where none is better.
"""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of a table: the levels of all factors but the compared one, and the answers there by remedy."""

    levels: Mapping[str, str]
    answers: Mapping[str, CampaignAnswer]
    """Of one metric."""


def remedies_page(campaigns: Sequence[CampaignResults]) -> str:
    """Return the page of these campaigns, as Markdown."""
    parts = [_HEAD]
    over_applications = [each for each in campaigns if {PATH, APPLICATION} <= each.campaign.factors.keys()]
    if over_applications:
        parts += ["\n## What helps\n", _OVERVIEW]
        for results in over_applications:
            lost = lost_table(results)
            parts += [overview(results), *([_LOST, lost] if lost else [])]
    if any(_decides_on_paths(each) for each in campaigns):
        parts += ["\n## What helps on each path\n", summary_table(campaigns)]
    for results in campaigns:
        parts += [f"\n## {results.run.title}\n", _facts(results)]
        for primary in results.campaign.primaries:
            parts += _tables(results, primary)
    return "\n".join(parts)


def _decides_on_paths(results: CampaignResults) -> bool:
    """Return whether a campaign is over several paths and has the blocks for an answer on each."""
    return PATH in results.campaign.factors and len(results.ended) >= fewest_pairs(results.design.level)


def summary_table(campaigns: Sequence[CampaignResults]) -> str:
    """Return, for each application and path, the remedy that helps it most, by how much, and what it costs."""
    over_paths = [each for each in campaigns if _decides_on_paths(each)]
    paths = list(dict.fromkeys(path for each in over_paths for path in each.campaign.factors[PATH]))
    lines = [_SUMMARY, row(["application", *paths]), row(["---"] * (len(paths) + 1))]
    for results in over_paths:
        rows: dict[str, dict[str, str]] = {}
        for primary in _ranking(results):
            for column in _columns(results, primary):
                others = " · ".join(level for factor, level in column.levels.items() if factor != PATH)
                name = others if APPLICATION in column.levels else f"{primary.workload}, {others}".removesuffix(", ")
                rows.setdefault(name, {})[column.levels[PATH]] = _best(results, column)
        lines += [row([name, *(cells.get(path, "–") for path in paths)]) for name, cells in rows.items()]
    return "\n".join(lines) + "\n"


def _ranking(results: CampaignResults) -> list[PrimaryRecord]:
    """Return the metrics that rank remedies: the first of each application that is no cost."""
    firsts: dict[tuple[str, ...], PrimaryRecord] = {}
    for primary in results.campaign.primaries:
        if primary.metric not in COSTS:
            firsts.setdefault(tuple(primary.only.get(APPLICATION, ())), primary)
    return list(firsts.values())


def _best(results: CampaignResults, column: TableColumn) -> str:
    helping = {remedy: answer for remedy, answer in column.answers.items() if answer.finding.verdict == "better"}
    if not helping:
        return "none" if any(answer.finding.estimate is not None for answer in column.answers.values()) else "–"
    has_ratios = all(answer.finding.scale == "ratio" for answer in helping.values())
    remedy = max(helping, key=lambda name: _gain(helping[name], has_ratio=has_ratios))
    costs = []
    for primary in results.campaign.primaries:
        if primary.metric in COSTS:
            found = next(one for one in _columns(results, primary) if one.levels == column.levels)
            costs.append(f"{_COST_LETTERS[COSTS[primary.metric]]} {_effect(found.answers.get(remedy))}")
    return "; ".join([f"**{remedy}** {_effect(helping[remedy])}", *costs])


def _effect(answer: CampaignAnswer | None) -> str:
    return (
        "–"
        if answer is None or answer.finding.estimate is None
        else effect(answer.finding, answer.question.values.unit)
    )


def _gain(answer: CampaignAnswer, *, has_ratio: bool) -> float:
    """Return how much better it is: the logarithm of the ratio, or the median difference where not all have ratios."""
    values, pair = answer.question.values, answer.question.pair
    if has_ratio:
        estimate = answer.finding.estimate
        assert estimate is not None, "a verdict rests on it"
        size = math.log(estimate)
    else:
        before, after = values.by_cell[pair.baseline], values.by_cell[pair.cell]
        size = float(np.median([after[block] - before[block] for block in before.keys() & after.keys()]))
    return -size if values.better == "lower" else size


def _columns(results: CampaignResults, primary: PrimaryRecord) -> list[TableColumn]:
    """Return the answers on a metric, by the levels of all factors but the compared one."""
    factor = results.campaign.factor
    found: dict[tuple[tuple[str, str], ...], dict[str, CampaignAnswer]] = {}
    for cell in results.cells:
        if primary.is_asked_of(results.levels[cell]):
            found.setdefault(_others(results, cell), {})
    for answer in results.answers:
        values, cell = answer.question.values, answer.question.pair.cell
        if (values.workload, values.metric) == (primary.workload, primary.metric):
            found[_others(results, cell)][results.levels[cell][factor]] = answer
    return [TableColumn(dict(levels), answers) for levels, answers in found.items()]


def _others(results: CampaignResults, cell: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, level) for name, level in results.levels[cell].items() if name != results.campaign.factor)


def _facts(results: CampaignResults) -> str:
    run = results.run
    verdicts = [line.verdict for line in run.trials]
    counts = ", ".join(f"{verdicts.count(each)} {each}" for each in dict.fromkeys(verdicts))
    state = "" if results.complete else " The campaign is not complete."
    machine = ", ".join(f"{key} {value}" for key, value in run.machine.items())
    ended = f"{len(results.ended)} of {run.blocks} blocks, begun {run.started[:10]}"
    return f"{ended}; trials: {counts}{_doubts(run.trials)}.{state} Machine: {machine}.\n"


def _doubts(trials: Sequence[TrialLine]) -> str:
    """Return which checks made trials suspect, and how many; some have several."""
    counts: dict[str, int] = {}
    for line in trials:
        if line.verdict == "suspect":
            for reason in line.reasons:
                check = reason.removeprefix("check failed: ").partition(":")[0]
                counts[check] = counts.get(check, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return f" ({', '.join(f'{check}: {count}' for check, count in ordered)})" if ordered else ""


def _tables(results: CampaignResults, primary: PrimaryRecord) -> list[str]:
    """Return a table of a metric for each combination of the other factors: remedies in rows, paths in columns."""
    columns = _columns(results, primary)
    groups: dict[str, list[TableColumn]] = {}
    for column in columns:
        title = ", ".join(f"{factor} {level}" for factor, level in column.levels.items() if factor != PATH)
        groups.setdefault(title, []).append(column)
    parts = []
    for title, group in groups.items():
        margin = next((answer.question.text for one in group for answer in one.answers.values()), "")
        head = f"**{primary.workload}: {primary.metric}**{f', {title}' if title else ''}"
        head += f" (margin {margin})\n" if margin else "\n"
        rows = [row(["remedy", *(one.levels.get(PATH, "all") for one in group)]), row(["---"] * (len(group) + 1))]
        factor, baseline = results.campaign.factor, results.campaign.baseline
        rows.append(row([baseline, *(_median(results, primary, one.levels) for one in group)]))
        rows += [
            row([remedy, *(_told(one.answers.get(remedy)) for one in group)])
            for remedy in results.campaign.factors[factor]
            if remedy != baseline
        ]
        parts.append("\n".join([head, *rows, ""]))
    return parts


def _median(results: CampaignResults, primary: PrimaryRecord, levels: Mapping[str, str]) -> str:
    matrix = results.matrices.get((primary.workload, primary.metric))
    wanted = {**levels, results.campaign.factor: results.campaign.baseline}
    cell = next((name for name in results.cells if dict(results.levels[name]) == wanted), None)
    if matrix is None or cell is None:
        return "–"
    values = matrix.values[results.cells.index(cell)]
    found = median_interval(values[np.isfinite(values)].tolist())
    return f"{figure(found.estimate)} {matrix.unit}".strip() if found.estimate is not None else "–"


def _told(answer: CampaignAnswer | None) -> str:
    return "–" if answer is None else told(answer.finding, answer.question.values.unit, reason_text(answer))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python -m wavebed.reproduce.remedies_page FILE FOLDER…")
    try:
        write_output(sys.argv[1], remedies_page([read_campaign_results(Path(each)) for each in sys.argv[2:]]), "FILE")
    except WavebedError as error:
        sys.exit(str(error))
