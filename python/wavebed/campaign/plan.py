"""Plan a campaign: how many blocks its questions need, from a pilot or from former results."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING

from wavebed.campaign.results import LEVEL, questions
from wavebed.campaign.run import record_of
from wavebed.errors import UserError
from wavebed.experiment.estimate import duration_text, in_blocks
from wavebed.result.names import TRIALS_FOLDER
from wavebed.run.design import expected_s
from wavebed.stats.family import advise
from wavebed.stats.paired import Pairs
from wavebed.store.journal import TrialStored, read_journal
from wavebed.store.metrics import factors_of, read_metrics
from wavebed.store.records import read_run
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from wavebed.campaign.read import Campaign
    from wavebed.config.data import Json
    from wavebed.result.model import CellPair
    from wavebed.stats.family import Advice

MOST_ROWS = 30
_WORDS = {
    "too-few": "the pilot has too few pairs",
    "constant": "the pilot's differences are all the same",
    "no-margin": "the margin has no value here",
    "too-many": "more than 100 000",
}


@dataclass(frozen=True, slots=True)
class Sizing:
    """The blocks that one question needs."""

    comparison: CellPair
    workload: str
    metric: str
    margin: str
    advice: Advice


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    """A plan.

    Parameters
    ----------
    expected_s : sequence of float
        Expected duration of a trial of each cell.
    disk_bytes : float or None
        Of all blocks; ``None`` without a pilot.
    first : sequence of str
        Cells of the first block in the order in which they run.
    sizings : sequence of Sizing
        For each question whose metric the pilot measured; empty without a pilot.
    has_pilot : bool
        Whether there is one.
    """

    campaign: Campaign
    expected_s: Sequence[float]
    disk_bytes: float | None
    first: Sequence[str]
    sizings: Sequence[Sizing]
    has_pilot: bool

    @property
    def trials(self) -> int:
        """Trials of all blocks, without repetitions."""
        return len(self.campaign.cells) * self.campaign.plan.trials

    @property
    def total_s(self) -> float:
        """Expected duration of all blocks, without repetitions."""
        return sum(self.expected_s) * self.campaign.plan.trials

    @property
    def blocks_needed(self) -> int | None:
        """The most blocks that a question needs; ``None`` if one is not known."""
        needed = [sizing.advice.blocks for sizing in self.sizings]
        known = [blocks for blocks in needed if blocks is not None]
        return max(known) if known and len(known) == len(needed) else None


def plan_campaign(campaign: Campaign, pilot: Pilot | None) -> CampaignPlan:
    """Plan a campaign.

    Parameters
    ----------
    pilot : Pilot or None
        An earlier run or campaign of the same cells.

    Raises
    ------
    UserError
        If a margin is in another unit than its metric.
    """
    plan = campaign.plan
    seconds = [expected_s(treatment) for treatment in plan.treatments]
    disk = None
    sizings: list[Sizing] = []
    if pilot is not None:
        seconds = [pilot.wall_s.get(cell.name, known) for cell, known in zip(campaign.cells, seconds, strict=True)]
        sizes = [pilot.disk_bytes.get(cell.name) for cell in campaign.cells]
        known_sizes = [size for size in sizes if size is not None]
        if known_sizes:
            disk = sum(known_sizes) / len(known_sizes) * len(sizes) * plan.trials
        sizings = _sizings(campaign, pilot)
    (first,) = in_blocks([cell.name for cell in campaign.cells], 1, plan.seed)
    return CampaignPlan(campaign, seconds, disk, first, sizings, has_pilot=pilot is not None)


def _sizings(campaign: Campaign, pilot: Pilot) -> list[Sizing]:
    asked = questions(record_of(campaign, {}), campaign.levels, pilot.metrics)
    of_pair = Counter(question.pair.cell for question in asked)
    blocks = sorted(set(pilot.metrics.column("block").to_pylist()))
    found = []
    for question in asked:
        family = len(asked) if campaign.table.compare.family == "all" else of_pair[question.pair.cell]
        a, b = (
            question.values.by_cell.get(question.pair.baseline, {}),
            question.values.by_cell.get(question.pair.cell, {}),
        )
        both = [block for block in blocks if block in a and block in b]
        pairs = Pairs.of([a[block] for block in both], [b[block] for block in both], question.margin)
        advice = advise(pairs.values, pairs.margin, LEVEL, 0.8, family)
        found.append(Sizing(question.pair, question.values.workload, question.values.metric, question.text, advice))
    return found


def plan_text(plan: CampaignPlan) -> str:
    """Return a plan for people."""
    campaign = plan.campaign
    cells, blocks = len(campaign.cells), campaign.plan.trials
    at_most = "at most " if campaign.table.stop.when == "decided" else ""
    size = f"{_count(cells, 'cell')} in {at_most}{_count(blocks, 'block')}, {plan.trials} trials"
    seeds = f"seeds {campaign.plan.seed} to {campaign.plan.seed + blocks - 1}, one for each block"
    lines = [
        f"{campaign.plan.title}: {size}, about {duration_text(plan.total_s)}",
        f"{seeds}; blocks differ in {_REPLICATE[campaign.replicate]}",
        "disk: " + ("not known without --pilot" if plan.disk_bytes is None else f"about {_bytes(plan.disk_bytes)}"),
        f"order of the first block: {', '.join(plan.first[:MOST_ROWS])}{' …' if cells > MOST_ROWS else ''}",
    ]
    lines += _cells(plan)
    lines += _questions(plan)
    return "\n".join(lines)


_REPLICATE = {
    "channel": "the realisation of the channel",
    "start": "where in the pattern they begin: intervals cover parts of this pattern, and random losses",
    "host": "the seed alone: the pattern is the same, so intervals cover this machine and random losses",
}


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _bytes(size: float) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size / 1e3:.0f} kB"


def _cells(plan: CampaignPlan) -> list[str]:
    campaign = plan.campaign
    names = [factor.name for factor in campaign.factors]
    rows = [["cell", *names, "trial"]]
    for cell, seconds in list(zip(campaign.cells, plan.expected_s, strict=True))[:MOST_ROWS]:
        rows.append([cell.name, *(cell.levels[name] for name in names), duration_text(seconds)])
    more = len(campaign.cells) - MOST_ROWS
    return ["", table_text(rows, left=True), *([f"and {more} more"] if more > 0 else [])]


def _questions(plan: CampaignPlan) -> list[str]:
    campaign = plan.campaign
    if not campaign.primaries:
        return ["", "no primary metrics: everything is exploratory; add [[primary]] to decide"]
    asked = ", ".join(f"{each.workload} {each.metric} (margin {each.margin_text})" for each in campaign.primaries)
    pairs = len(campaign.comparisons)
    lines = [
        "",
        f"decided: {asked}, {campaign.compared[0]} against {campaign.compared[1]}, {_count(pairs, 'comparison')}",
    ]
    known = {(sizing.workload, sizing.metric) for sizing in plan.sizings}
    if plan.has_pilot:
        absent = [each for each in campaign.primaries if (each.workload, each.metric) not in known]
        lines += [f"the pilot did not measure {each.workload} {each.metric} in these cells" for each in absent]
    elif not plan.sizings:
        return [*lines, "blocks needed: not known without --pilot DIR, the results of a few blocks"]
    if not plan.sizings:
        return lines
    rows = [["comparison", "metric", "margin", "blocks needed"]]
    for sizing in plan.sizings[:MOST_ROWS]:
        pair = f"{sizing.comparison.cell} against {sizing.comparison.baseline}"
        rows.append([pair, f"{sizing.workload} {sizing.metric}", sizing.margin, _needed(sizing.advice)])
    lines += [table_text(rows, left=True)]
    needed = plan.blocks_needed
    if needed is not None and needed > campaign.plan.trials:
        lines.append(
            f"{_count(campaign.plan.trials, 'block')}: fewer than {needed}; a difference as large as the margin would"
            f" be missed more often than one time in five; write blocks = {needed}, or a larger margin"
        )
    return lines


def _needed(advice: Advice) -> str:
    return (
        str(advice.blocks)
        if advice.blocks is not None
        else f"not known: {_WORDS.get(advice.reason or '', advice.reason)}"
    )


def plan_json(plan: CampaignPlan) -> dict[str, Json]:
    """Return a plan for programs."""
    campaign = plan.campaign
    return {
        "title": campaign.plan.title,
        "cells": [
            {"name": cell.name, "levels": dict(cell.levels), "expected_s": seconds}
            for cell, seconds in zip(campaign.cells, plan.expected_s, strict=True)
        ],
        "blocks": campaign.plan.trials,
        "trials": plan.trials,
        "seed": campaign.plan.seed,
        "expected_s": plan.total_s,
        "disk_bytes": plan.disk_bytes,
        "replicate": campaign.replicate,
        "first_block": list(plan.first),
        "comparisons": len(campaign.comparisons),
        "blocks_needed": plan.blocks_needed,
        "questions": [
            {
                "baseline": sizing.comparison.baseline,
                "cell": sizing.comparison.cell,
                "workload": sizing.workload,
                "metric": sizing.metric,
                "margin": sizing.margin,
                "blocks_needed": sizing.advice.blocks,
                "reason": sizing.advice.reason,
            }
            for sizing in plan.sizings
        ],
    }


@dataclass(frozen=True, slots=True)
class Pilot:
    """The results of a pilot.

    Parameters
    ----------
    wall_s, disk_bytes : mapping
        Mean duration and size of a trial, by treatment.
    metrics : pyarrow.Table
        Its metrics.
    blocks : int
        Blocks that have ended.
    """

    wall_s: Mapping[str, float]
    disk_bytes: Mapping[str, float]
    metrics: pa.Table
    blocks: int


def read_pilot(folder: Path) -> Pilot:
    """Read the results of a run or campaign as a pilot.

    Raises
    ------
    UserError
        If the folder has no run, or one without a block that has ended.
    """
    record = read_run(folder)
    treatments = {line.folder: line.treatment for line in record.trials}
    walls: dict[str, list[float]] = {}
    sizes: dict[str, list[int]] = {}
    for event in read_journal(folder):
        if isinstance(event, TrialStored) and event.trial in treatments:
            walls.setdefault(treatments[event.trial], []).append(event.wall_s)
    for name, treatment in treatments.items():
        files = (folder / TRIALS_FOLDER / name).rglob("*")
        sizes.setdefault(treatment, []).append(sum(file.stat().st_size for file in files if file.is_file()))
    metrics = read_metrics(folder, factors_of(record))
    blocks = len(set(metrics.column("block").to_pylist()))
    if not blocks:
        raise UserError(f"{folder}: no block has ended: a pilot needs some")
    return Pilot(
        {name: mean(each) for name, each in walls.items()},
        {name: mean(each) for name, each in sizes.items()},
        metrics,
        blocks,
    )
