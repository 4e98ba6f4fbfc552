"""Which remedy helps which application, over all paths of a campaign: a table for each kind of other traffic.

Usage: ``python -m wavebed.reproduce.remedies_overview FOLDER…``, with folders of the campaign ``remedies`` or of parts
of it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean, geometric_mean, median
from typing import TYPE_CHECKING

from wavebed.campaign.results import read_campaign_results
from wavebed.errors import UserError, WavebedError
from wavebed.page.text import figure, signed
from wavebed.stats.paired import paired_finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wavebed.campaign.results import CampaignAnswer, CampaignResults
    from wavebed.stats.verdict import Finding

COSTS = {"udp rtt loaded p95": "delay of other traffic", "rtt loaded p95": "delay of other traffic"}
COSTS |= {"processor time": "processor time"}
"""Metrics that are costs, and what people read."""
MARKS = {"better": "▲", "worse": "▼", "equivalent": "≈", "equal": "=", "different": "◆", "undecided": "?"}
PATH = "path"
APPLICATION = "application"


def overview(results: CampaignResults) -> str:
    """Return a table for each kind of other traffic: remedies in rows, applications and costs in columns."""
    return "\n".join(_tables(results))


def lost_table(results: CampaignResults) -> str:
    """Return how many blocks have no counted trial, by remedy and application; nothing if none is lost."""
    lost = [(results.levels[cell], count, of) for cell, count, of in results.lost]
    applications = [each for each in results.campaign.factors[APPLICATION] if _sum(lost, APPLICATION, each)[0]]
    if not applications:
        return ""
    factor = results.campaign.factor
    lines = [row(["did not end", *applications]), row(["---"] * (len(applications) + 1))]
    for remedy in results.campaign.factors[factor]:
        of_remedy = [each for each in lost if each[0][factor] == remedy]
        counts = [_sum(of_remedy, APPLICATION, each) for each in applications]
        if any(count for count, _ in counts):
            lines.append(row([remedy, *(f"{count} of {of}" for count, of in counts)]))
    return "\n".join(lines) + "\n"


def _sum(lost: Sequence[tuple[Mapping[str, str], int, int]], factor: str, level: str) -> tuple[int, int]:
    its = [(count, of) for levels, count, of in lost if levels[factor] == level]
    return sum(count for count, _ in its), sum(of for _, of in its)


def _tables(results: CampaignResults) -> Iterator[str]:
    compared = results.campaign.factor
    others = [name for name in results.campaign.factors if name not in (compared, PATH, APPLICATION)]
    groups: dict[tuple[str, ...], list[CampaignAnswer]] = {}
    for answer in results.answers:
        groups.setdefault(tuple(answer.question.pair.at[name] for name in others), []).append(answer)
    for levels, group in groups.items():
        columns = _columns(results, group)
        if others:
            yield f"**{', '.join(f'{name} {level}' for name, level in zip(others, levels, strict=True))}**\n"
        yield row([compared, *columns])
        yield row(["---"] * (len(columns) + 1))
        for remedy in results.campaign.factors[compared]:
            if remedy != results.campaign.baseline:
                found = [_over_paths(results, remedy, its) for its in columns.values()]
                yield row([remedy, *(told(*each) if each is not None else "–" for each in found)])
        yield ""


def _columns(results: CampaignResults, group: Sequence[CampaignAnswer]) -> dict[str, list[CampaignAnswer]]:
    """Return the answers of each column: each application by its first metric, then each cost over all applications."""
    columns: dict[str, list[CampaignAnswer]] = {}
    costs: dict[str, list[CampaignAnswer]] = {}
    for application in results.campaign.factors[APPLICATION]:
        its = [answer for answer in group if answer.question.pair.at[APPLICATION] == application]
        of_application = [answer for answer in its if answer.question.values.metric not in COSTS]
        if of_application:
            first = of_application[0].question.values
            columns[f"{application}: {first.metric}"] = [
                answer
                for answer in of_application
                if (answer.question.values.workload, answer.question.values.metric) == (first.workload, first.metric)
            ]
        for answer in its:
            if answer.question.values.metric in COSTS:
                costs.setdefault(COSTS[answer.question.values.metric], []).append(answer)
    return columns | costs


def _over_paths(results: CampaignResults, remedy: str, group: Sequence[CampaignAnswer]) -> tuple[Finding, str] | None:
    """Return the finding on a remedy with a path as one pair, and the unit of the metric; None without any pair.

    The values of a path are the medians of its blocks; over several applications, their geometric means.
    """
    pairs: dict[str, list[tuple[float, float]]] = {}
    its = [answer for answer in group if results.levels[answer.question.pair.cell][results.campaign.factor] == remedy]
    for answer in its:
        pair, by_cell = answer.question.pair, answer.question.values.by_cell
        base, cell = by_cell.get(pair.baseline, {}), by_cell.get(pair.cell, {})
        both = sorted(base.keys() & cell.keys())
        if both:
            medians = median(base[block] for block in both), median(cell[block] for block in both)
            pairs.setdefault(pair.at[PATH], []).append(medians)
    if not pairs:
        return None
    question = its[0].question
    before, after = ([_mean([pair[side] for pair in of_path]) for of_path in pairs.values()] for side in (0, 1))
    return paired_finding(before, after, question.margin, question.values.direction), question.values.unit


def _mean(values: Sequence[float]) -> float:
    """Return the geometric mean; the arithmetic one where a value is not positive."""
    return geometric_mean(values) if min(values) > 0 else fmean(values)


def effect(finding: Finding, unit: str) -> str:
    """Return the size of an effect: a ratio, or a difference with its unit."""
    if finding.scale == "ratio":
        return f"×{figure(finding.estimate)}"
    return f"{signed(finding.estimate)} {unit}".strip()


def told(finding: Finding, unit: str) -> str:
    """Return effect, interval or else the number of pairs, and verdict; of one pair the effect."""
    if finding.estimate is None:
        return "–"
    text = effect(finding, unit)
    if finding.count == 1:
        return text
    if finding.low is not None and finding.high is not None:
        bounds = figure if finding.scale == "ratio" else signed
        text += f" ({bounds(finding.low)} to {bounds(finding.high)})"
    elif finding.reason is not None:
        text += f" (n = {finding.count})"
    return f"{text} {MARKS[finding.verdict]}"


def row(cells: Sequence[str]) -> str:
    """Return a row of a table in Markdown."""
    return f"| {' | '.join(cells)} |"


def main(folders: Sequence[str]) -> None:
    """Print the tables of each folder.

    Raises
    ------
    WavebedError
        If a folder has no results of a campaign over paths and applications.
    """
    for folder in folders:
        results = read_campaign_results(Path(folder))
        if not {PATH, APPLICATION} <= results.campaign.factors.keys():
            raise UserError(
                f"{folder}: has no factors {PATH!r} and {APPLICATION!r}: name a folder of the campaign remedies"
            )
        print(overview(results), lost_table(results), sep="\n")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python -m wavebed.reproduce.remedies_overview FOLDER…")
    try:
        main(sys.argv[1:])
    except WavebedError as error:
        sys.exit(str(error))
