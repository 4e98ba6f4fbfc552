"""The page that compares remedies, from the folders of their campaigns.

Usage: ``python -m wavebed.reproduce.remedies_page FILE FOLDER…``, with a folder of each ``remedies-…`` or ``edge-…``
campaign. The summary is of those over several paths.
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
from wavebed.report.numbers import figure, signed
from wavebed.stats.intervals import median_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.campaign.decide import Answer
    from wavebed.campaign.results import CampaignResults

__all__ = ["Column", "remedies_page", "summary_table"]

COSTS = {"udp rtt loaded p95": "d", "rtt loaded p95": "d", "processor time": "p"}
"""Metrics that are costs, delay of other traffic and processor time, and their letters in the summary."""
MARKS = {"better": "▲", "worse": "▼", "equivalent": "≈", "equal": "=", "different": "◆", "undecided": "?"}
_HEAD = """# Remedies compared

*This page is generated from the results of campaigns by `python -m wavebed.reproduce.remedies_page`.*

Each remedy is beside no remedy (`none`: CUBIC) on the same realisation of the channel. A cell has the ratio of the
paired trials, or their difference where zeros have no ratio, its interval, and ▲ better, ▼ worse, ≈ within the margin,
? undecided, = the same. The row `none` has medians. A dash: no trial counted.
[Remedies at the edge](../guides/edge.md#in-scenarios) says what the remedies are; the campaigns are
`remedies-*.toml` and `edge-*.toml` in `scenarios/campaigns`.
"""

_SUMMARY = """For each application, by its first metric: the remedy that is better by most, its ratio or difference, and
its cost in delay of other traffic (d) and processor time (p). No remedy is named where none is better.
"""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: the levels of all factors but the compared one, and the answers there by remedy."""

    levels: Mapping[str, str]
    answers: Mapping[str, Answer]
    """Of one metric."""


def remedies_page(campaigns: Sequence[CampaignResults]) -> str:
    """Return the page of these campaigns, as Markdown."""
    parts = [_HEAD]
    if any("path" in each.campaign.factors for each in campaigns):
        parts += ["\n## What helps\n", summary_table(campaigns)]
    for results in campaigns:
        parts += [f"\n## {results.run.title}\n", _facts(results)]
        for workload, metric in _metrics(results):
            parts += _tables(results, workload, metric)
    return "\n".join(parts)


def summary_table(campaigns: Sequence[CampaignResults]) -> str:
    """Return, for each application and path, the remedy that helps it most, by how much, and what it costs."""
    over_paths = [each for each in campaigns if "path" in each.campaign.factors]
    paths = list(dict.fromkeys(path for each in over_paths for path in each.campaign.factors["path"]))
    lines = [
        _SUMMARY,
        _row(["application", *paths]),
        _row(["---"] * (len(paths) + 1)),
    ]
    for results in over_paths:
        workload, metric = next(key for key in _metrics(results) if key[1] not in COSTS)
        rows: dict[str, dict[str, str]] = {}
        for column in _columns(results, workload, metric):
            others = " · ".join(level for factor, level in column.levels.items() if factor != "path")
            rows.setdefault(f"{workload}, {others}" if others else workload, {})[column.levels.get("path", "")] = _best(
                results, column
            )
        lines += [_row([name, *(cells.get(path, "–") for path in paths)]) for name, cells in rows.items()]
    return "\n".join(lines) + "\n"


def _best(results: CampaignResults, column: Column) -> str:
    helping = {remedy: answer for remedy, answer in column.answers.items() if answer.finding.verdict == "better"}
    if not helping:
        return "none" if any(answer.finding.estimate is not None for answer in column.answers.values()) else "–"
    has_ratios = all(answer.finding.scale == "ratio" for answer in helping.values())
    remedy = max(helping, key=lambda name: _gain(helping[name], has_ratio=has_ratios))
    costs = []
    for key in _metrics(results):
        if key[1] in COSTS:
            found = next(one for one in _columns(results, *key) if one.levels == column.levels)
            costs.append(f"{COSTS[key[1]]} {_effect(found.answers.get(remedy))}")
    return "; ".join([f"**{remedy}** {_effect(helping[remedy])}", *costs])


def _gain(answer: Answer, *, has_ratio: bool) -> float:
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


def _metrics(results: CampaignResults) -> list[tuple[str, str]]:
    return [(each.workload, each.metric) for each in results.campaign.primaries]


def _columns(results: CampaignResults, workload: str, metric: str) -> list[Column]:
    """Return the answers on a metric, by the levels of all factors but the compared one."""
    factor = results.campaign.factor
    found: dict[tuple[tuple[str, str], ...], dict[str, Answer]] = {}
    for cell in results.cells:
        found.setdefault(_others(results, cell), {})
    for answer in results.answers:
        values, cell = answer.question.values, answer.question.pair.cell
        if (values.workload, values.metric) == (workload, metric):
            found[_others(results, cell)][results.levels[cell][factor]] = answer
    return [Column(dict(levels), answers) for levels, answers in found.items()]


def _others(results: CampaignResults, cell: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, level) for name, level in results.levels[cell].items() if name != results.campaign.factor)


def _facts(results: CampaignResults) -> str:
    run = results.run
    verdicts = [line.verdict for line in run.trials]
    counts = ", ".join(f"{verdicts.count(each)} {each}" for each in dict.fromkeys(verdicts))
    state = "" if results.complete else " The campaign is not complete."
    return f"{len(results.ended)} of {run.blocks} blocks, begun {run.started[:10]}; trials: {counts}.{state}\n"


def _tables(results: CampaignResults, workload: str, metric: str) -> list[str]:
    """Return a table of a metric for each combination of the other factors: remedies in rows, paths in columns."""
    columns = _columns(results, workload, metric)
    groups: dict[str, list[Column]] = {}
    for column in columns:
        title = ", ".join(f"{factor} {level}" for factor, level in column.levels.items() if factor != "path")
        groups.setdefault(title, []).append(column)
    parts = []
    for title, group in groups.items():
        margin = next((answer.question.text for one in group for answer in one.answers.values()), "")
        head = f"**{workload}: {metric}**{f', {title}' if title else ''}{f' (margin {margin})' if margin else ''}\n"
        rows = [_row(["remedy", *(one.levels.get("path", "all") for one in group)]), _row(["---"] * (len(group) + 1))]
        factor, baseline = results.campaign.factor, results.campaign.baseline
        rows.append(_row([baseline, *(_median(results, workload, metric, one.levels) for one in group)]))
        rows += [
            _row([remedy, *(_told(one.answers.get(remedy)) for one in group)])
            for remedy in results.campaign.factors[factor]
            if remedy != baseline
        ]
        parts.append("\n".join([head, *rows, ""]))
    return parts


def _median(results: CampaignResults, workload: str, metric: str, levels: Mapping[str, str]) -> str:
    matrix = results.matrices.get((workload, metric))
    wanted = {**levels, results.campaign.factor: results.campaign.baseline}
    cell = next((name for name in results.cells if dict(results.levels[name]) == wanted), None)
    if matrix is None or cell is None:
        return "–"
    values = matrix.values[results.cells.index(cell)]
    found = median_interval(values[np.isfinite(values)].tolist())
    return f"{figure(found.estimate)} {matrix.unit}".strip() if found.estimate is not None else "–"


def _effect(answer: Answer | None) -> str:
    if answer is None or answer.finding.estimate is None:
        return "–"
    finding = answer.finding
    if finding.scale == "ratio":
        return f"×{figure(finding.estimate)}"
    return f"{signed(finding.estimate)} {answer.question.values.unit}".strip()


def _told(answer: Answer | None) -> str:
    """Return effect, interval and verdict."""
    if answer is None or answer.finding.estimate is None:
        return "–"
    finding = answer.finding
    text = _effect(answer)
    if finding.low is not None and finding.high is not None:
        bounds = figure if finding.scale == "ratio" else signed
        text += f" ({bounds(finding.low)} to {bounds(finding.high)})"
    elif finding.reason is not None:
        text += f" ({reason_text(answer)})"
    return f"{text} {MARKS[finding.verdict]}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python -m wavebed.reproduce.remedies_page FILE FOLDER…")
    try:
        write_output(sys.argv[1], remedies_page([read_campaign_results(Path(each)) for each in sys.argv[2:]]), "FILE")
    except WavebedError as error:
        sys.exit(str(error))
