"""Run a campaign, or the rest of one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from wavebed.campaign.decide import is_decided
from wavebed.campaign.inputs import changes_since, conditions
from wavebed.errors import UserError
from wavebed.result.campaign import CampaignRecord
from wavebed.result.names import CAMPAIGN_FILE
from wavebed.run.design import Design
from wavebed.run.folder import programs
from wavebed.run.runner import Local, run_claimed, run_plan
from wavebed.secret import redacted_toml
from wavebed.store.disk import check_new, claimed
from wavebed.store.metrics import read_metrics
from wavebed.store.records import read_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from wavebed.campaign.inputs import Conditions
    from wavebed.campaign.read import Campaign
    from wavebed.result.model import RunRecord
    from wavebed.run.executor.remote import Remote
    from wavebed.run.progress import Live
    from wavebed.store.folder import Ledger

DECIDED = "every primary metric is decided"


def run_campaign(
    campaign: Campaign, folder: Path, command_line: Sequence[str], live: Live, remote: Remote | None = None
) -> RunRecord:
    """Run a campaign into a new folder.

    Parameters
    ----------
    remote : Remote, optional
        The workers that run its blocks; by default it runs here.

    Raises
    ------
    UserError
        If the folder is not empty, or an input cannot be read.
    MachineError, WavebedError
        As `wavebed.run.runner.run_plan`.
    """
    if remote is not None:  # before waiting for a worker
        check_new(folder)
    design = _placed(campaign, folder, _conditions(campaign, remote), remote)
    return run_plan(campaign.plan, folder, command_line, live, design, remote)


def resume_campaign(
    campaign: Campaign,
    folder: Path,
    command_line: Sequence[str],
    live: Live,
    remote: Remote | None = None,
    *,
    accept: bool = False,
) -> RunRecord:
    """Run the rest of a campaign in its folder.

    Parameters
    ----------
    remote : Remote, optional
        The workers that run its blocks; by default it goes on here, wherever it began. Blocks that were begun here
        begin again on a worker.
    accept : bool
        Whether changed inputs, programs or kernel are accepted: blocks that have not ended begin again, and the report
        tells the blocks before and after apart.

    Raises
    ------
    UserError
        If the folder is of another campaign, is in use, or something changed that was not accepted.
    MachineError, WavebedError
        As `wavebed.run.runner.run_plan`.
    """
    with claimed(folder):
        return _resumed(campaign, folder, command_line, live, remote, accept=accept)


def _resumed(
    campaign: Campaign,
    folder: Path,
    command_line: Sequence[str],
    live: Live,
    remote: Remote | None,
    *,
    accept: bool,
) -> RunRecord:
    before = read_run(folder, trials=False)
    now = _conditions(campaign, remote)
    changed = changes_since(before, now)
    if [treatment["name"] for treatment in before.treatments] != [cell.name for cell in campaign.cells]:
        raise UserError(f"{folder}: has other cells than {campaign.file}: run it into a new folder")
    if before.seed != campaign.plan.seed:
        raise UserError(f"{folder}: began with seed {before.seed}, not {campaign.plan.seed}: run into a new folder")
    if changed and not accept:
        more = f", and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise UserError(
            f"{folder}: {changed[0]}{more}: its blocks would differ: restore it, or accept with --accept-changes"
        )
    executor = remote or Local()
    executor.check(campaign.plan)
    design = _placed(campaign, folder, now, remote)
    design = replace(design, resume=True, changed=changed, machine={**before.machine, **now.machine})
    return run_claimed(campaign.plan, folder, command_line, live, design, executor)


def _conditions(campaign: Campaign, remote: Remote | None) -> Conditions:
    return conditions(campaign, None if remote is None else remote.site(sorted(programs(campaign.plan))))


def _placed(campaign: Campaign, folder: Path, now: Conditions, remote: Remote | None) -> Design:
    design = design_of(campaign, folder, now)
    return design if remote is None else replace(design, whole=True, versions=now.versions, machine=now.machine)


def record_of(campaign: Campaign, inputs: Mapping[str, str]) -> CampaignRecord:
    """Return the record of a campaign; `inputs` has the digests of its files."""
    table = campaign.table
    return CampaignRecord(
        file=str(campaign.file.absolute()),
        text=redacted_toml(campaign.text),
        factors={factor.name: list(factor.levels) for factor in campaign.factors},
        factor=campaign.compared[0],
        baseline=campaign.compared[1],
        family=table.compare.family,
        primaries=list(campaign.primaries),
        stop=table.stop.when,
        least_blocks=table.stop.least,
        attempts=table.campaign.attempts,
        keep=table.campaign.keep,
        inputs=inputs,
        replicate=campaign.replicate,
        only=campaign.only,
    )


def design_of(campaign: Campaign, folder: Path, now: Conditions) -> Design:
    """Return how the plan of a campaign is run."""
    table, record = campaign.table, record_of(campaign, now.inputs)
    return Design(
        attempts=table.campaign.attempts,
        keep=table.campaign.keep,
        alone=True,
        stop=_stop(campaign, folder, record) if table.stop.when == "decided" else Design().stop,
        record=record,
        levels=campaign.levels,
        texts={CAMPAIGN_FILE: campaign.text},
    )


def _stop(campaign: Campaign, folder: Path, record: CampaignRecord) -> Callable[[Ledger], str]:
    def stop(ledger: Ledger) -> str:
        if len(ledger.ended) < record.least_blocks or not record.primaries:
            return ""
        metrics = read_metrics(folder, {})
        return DECIDED if is_decided(record, campaign.levels, metrics, sorted(ledger.ended)) else ""

    return stop
