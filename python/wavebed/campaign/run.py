"""Run a campaign, or the rest of one; what its trials depend on, and what of that changed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed._core import find_core, find_edge
from wavebed.campaign.results import is_decided
from wavebed.errors import UserError
from wavebed.foreign import open_foreign
from wavebed.remedy.model import EDGE
from wavebed.result.machine import machine, versions
from wavebed.result.model import CampaignRecord
from wavebed.result.names import CAMPAIGN_FILE
from wavebed.run.design import Design
from wavebed.run.folder import programs
from wavebed.run.remedies import remedy_programs
from wavebed.run.runner import Local, run_claimed, run_plan
from wavebed.secret import redacted_toml
from wavebed.store.disk import check_new, claimed
from wavebed.store.metrics import read_metrics
from wavebed.store.records import read_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from wavebed.campaign.read import Campaign
    from wavebed.result.model import RunRecord
    from wavebed.run.executor.block import WorkerMachine
    from wavebed.run.executor.remote import Remote
    from wavebed.run.progress import Live
    from wavebed.store.folder import Ledger

CORE = "wavebed-core"
"""Name of the link engine among the inputs."""
_OF_MACHINE = {"processor", "cores", "memory"}


@dataclass(frozen=True, slots=True)
class Conditions:
    """Digests of the files, versions of programs and kernel, and the machine."""

    inputs: Mapping[str, str]
    versions: Mapping[str, str]
    machine: Mapping[str, str]


def conditions(campaign: Campaign, site: WorkerMachine | None = None) -> Conditions:
    """Return the present conditions of a campaign.

    Parameters
    ----------
    site : WorkerMachine, optional
        A worker, if the campaign does not run here: its machine is not a condition, since each block has its own.

    Raises
    ------
    UserError
        If a file cannot be read.
    """
    if site is not None:
        there = dict(site.versions)
        inputs = {str(file): _digest(file) for file in campaign.inputs} | {CORE: there.pop(CORE)}
        return Conditions(inputs, there, {})
    inputs = digests(campaign.inputs)
    if EDGE in remedy_programs(campaign.plan):
        inputs[EDGE] = _digest(Path(find_edge()))
    return Conditions(inputs, versions(programs(campaign.plan)), machine())


def digests(files: Iterable[Path]) -> dict[str, str]:
    """Return the SHA-256 of each file and of the link engine, by name."""
    found = {str(file): _digest(file) for file in files}
    return found | {CORE: _digest(Path(find_core()))}


def _digest(file: Path) -> str:
    with open_foreign(file, "it must stay as long as the campaign runs") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def changes_since(before: RunRecord, now: Conditions) -> list[str]:
    """Return what changed since a campaign began or was last resumed, a line each; a file that only moved is none.

    Raises
    ------
    UserError
        If the record is not of a campaign.
    """
    if before.campaign is None:
        raise UserError("the folder has no campaign: name one that wavebed campaign run wrote")
    lines = []
    then = _moved(before.campaign.inputs, now.inputs)
    for name, digest in now.inputs.items():
        was = then.get(name)
        if was is None:
            lines.append(f"{name} is new")
        elif was != digest:
            lines.append(f"{name} has other content")
    lines += [f"{name} is no longer read" for name in then if name not in now.inputs]
    for what, old, new in (("", before.versions, now.versions), ("machine: ", before.machine, now.machine)):
        for name in sorted({*old, *new}):
            if what and (name not in _OF_MACHINE or not now.machine or "processor" not in old):
                continue
            if old.get(name) != new.get(name):
                lines.append(f"{what}{name} is {new.get(name, 'missing')}, was {old.get(name, 'missing')}")
    return lines


def _moved(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Return the former inputs, with the present name of each that is in another folder with the same content."""
    new = {(Path(name).name, digest): name for name, digest in now.items() if name not in before}
    return {
        name if name in now else new.pop((Path(name).name, digest), name): digest for name, digest in before.items()
    }


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
