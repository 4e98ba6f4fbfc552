"""The results of a campaign: its trials, metrics and answers, from its folder alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from wavebed.campaign.decide import answers, design_of, exploration
from wavebed.errors import UserError
from wavebed.experiment.events import BlockEnded
from wavebed.experiment.journal import read_journal
from wavebed.result.metrics import factors_of, read_metrics
from wavebed.result.model import COUNTED
from wavebed.result.read import read_run
from wavebed.stats.exclusions import exclusions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from wavebed.campaign.decide import Answer
    from wavebed.result.campaign import CampaignRecord
    from wavebed.result.model import RunRecord
    from wavebed.stats.exclusions import Exclusions
    from wavebed.stats.paired import Design

__all__ = ["CampaignResults", "read_campaign_results"]


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

    @property
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
    def exploration(self) -> list[Answer]:
        """Findings on all other metrics."""
        return exploration(self.campaign, self.levels, self.metrics, self.ended, complete=self.complete)

    @cached_property
    def exclusions(self) -> Exclusions:
        """Whether cells differ in the number of blocks without a counted trial."""
        blocks = set(self.ended)
        counted: dict[str, set[int]] = {str(treatment["name"]): set() for treatment in self.run.treatments}
        for line in self.run.trials:
            if line.verdict in COUNTED and line.block in blocks:
                counted[line.treatment].add(line.block)
        return exclusions({cell: (len(blocks) - len(its), len(blocks)) for cell, its in counted.items()})


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
