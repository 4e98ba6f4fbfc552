"""The results of a campaign: its trials, metrics and answers, from its folder alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from wavebed.campaign.decide import answers, design_of
from wavebed.campaign.explore import exploration
from wavebed.campaign.matrix import matrices
from wavebed.errors import UserError
from wavebed.result.campaign import comparisons
from wavebed.result.model import COUNTED
from wavebed.stats.exclusions import exclusions
from wavebed.store.journal import BlockEnded, read_journal
from wavebed.store.metrics import factors_of, read_metrics
from wavebed.store.records import read_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from wavebed.campaign.decide import Answer
    from wavebed.campaign.explore import Exploration
    from wavebed.campaign.matrix import Matrix
    from wavebed.result.campaign import CampaignRecord, Comparison
    from wavebed.result.model import RunRecord
    from wavebed.stats.exclusions import Exclusions
    from wavebed.stats.paired import Design

__all__ = ["CampaignResults", "read_campaign_results"]

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
    def design(self) -> Design:
        """The method of the answers."""
        return design_of(self.campaign, complete=self.complete)

    @cached_property
    def answers(self) -> list[Answer]:
        """The answers on primary metrics."""
        return answers(self.campaign, self.levels, self.metrics, self.ended, complete=self.complete)

    @cached_property
    def cells(self) -> list[str]:
        """Names of the cells, in order."""
        return [str(treatment["name"]) for treatment in self.run.treatments]

    @cached_property
    def comparisons(self) -> list[Comparison]:
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
