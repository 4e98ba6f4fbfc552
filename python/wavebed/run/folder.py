"""The folder of a run's results: begun, continued after a kill, and ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from wavebed._core import find_edge
from wavebed.errors import MachineError, UserError
from wavebed.experiment.ledger import Ledger, Stored, read_ledger, reconciled, set_aside
from wavebed.experiment.trials import Trials
from wavebed.extras import require
from wavebed.hosts.address import host_address
from wavebed.lab.tools import missing, not_found
from wavebed.remedy.model import EDGE
from wavebed.result.campaign import Group
from wavebed.result.machine import machine, versions
from wavebed.result.model import COUNTED, RunRecord, TrialLine
from wavebed.run.arrived import commit_begun
from wavebed.run.expected import expected_s
from wavebed.run.remedies import remedy_programs
from wavebed.run.write import open_run, write_head, write_run
from wavebed.spec.lab import HostsLab, is_virtual
from wavebed.store.disk import KEPT, explained
from wavebed.store.journal import BlockEnded, Part, RunBegun, RunEnded, RunResumed
from wavebed.store.metrics import blocks_with_metrics, factors_of, keep_metrics, merge_metrics
from wavebed.store.records import read_run
from wavebed.virtual.kernel import needed_kernel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.lab.tools import End
    from wavebed.run.design import Design
    from wavebed.run.order import Slot
    from wavebed.run.scenario import Plan, TreatmentPlan
    from wavebed.spec.lab import LabSpec
    from wavebed.store.journal import Journal

__all__ = ["Opened", "Outcome", "check_programs", "in_virtual_time", "open_folder", "programs", "versions_of"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run."""

    record: RunRecord

    @property
    def counted(self) -> dict[str, int]:
        """Number of counted (valid or suspect) trials of each treatment."""
        found = {str(treatment["name"]): 0 for treatment in self.record.treatments}
        for trial in self.record.trials:
            found[trial.treatment] += trial.verdict in COUNTED
        return found


@dataclass(frozen=True, slots=True)
class Opened:
    """The folder of a run that is under way.

    Parameters
    ----------
    trials : Trials
        Its trials in order.
    ledger : Ledger
        Those that are stored.
    record : RunRecord
        Its ``run.json``.
    """

    trials: Trials
    ledger: Ledger
    record: RunRecord

    def stored(self, line: TrialLine, number: int, wall_s: float) -> None:
        """Record that a trial is on the disk under its final name."""
        self.trials.stored(number, line.verdict, wall_s, line.reasons, line.attempt)
        self.ledger.add(Stored(line, number, wall_s))

    def end_block(self, block: int, where: str = "") -> list[TrialLine]:
        """Store the metrics of a block whose trials are stored, record its end, and return its attempts.

        Raises
        ------
        WavebedError
            If they cannot be written.
        """
        lines = [one.line for one in self.ledger.of_block(block)]
        with explained(self.trials.folder, KEPT):
            keep_metrics(self.trials.folder, block, lines, self.ledger.group, where)
        self.trials.journal.emit(BlockEnded(block=block, machine=where))
        self.ledger.ended[block] = self.ledger.group
        self.ledger.machines[block] = where
        return lines

    def end(self, stopped: str) -> Outcome:
        """Write the last ``run.json`` and all metrics.

        Raises
        ------
        WavebedError
            If they cannot be written.
        """
        record, ledger = self.record, self.ledger
        record.trials = [one.line for one in ledger.stored()]
        record.ended = datetime.now(UTC).isoformat(timespec="seconds")
        if record.campaign is not None:
            record.campaign.stopped = stopped
        with explained(self.trials.folder, KEPT):
            merge_metrics(self.trials.folder, sorted(ledger.ended), factors_of(record))
        write_run(self.trials.folder, record)
        self.trials.journal.emit(RunEnded(trials=len(record.trials), stopped=stopped))
        return Outcome(record)


def open_folder(
    plan: Plan, slots: Sequence[Slot], folder: Path, command_line: Sequence[str], journal: Journal, design: Design
) -> Opened:
    """Begin the folder of a run, or go on in it.

    Raises
    ------
    UserError
        If it is not empty, or with `design.resume` not of this plan.
    WavebedError
        If it cannot be written.
    """
    record = _record(plan, command_line, design)
    parts = [Part(slot.trial, expected_s(slot.treatment), kind=slot.treatment.name) for slot in slots]
    begun = RunBegun(kind="campaign" if design.record is not None else "run", title=plan.title)
    if not design.resume:
        open_run(folder, record, plan.text, design.texts)
        journal.open(folder)
        journal.emit(begun)
        return Opened(Trials(folder, journal, parts), Ledger(), record)
    planned = {
        slot.trial: TrialLine(slot.trial, slot.block, slot.treatment.name, slot.seed, "failed") for slot in slots
    }
    ledger = read_ledger(folder, planned)
    unlisted = reconciled(ledger, folder, planned)
    journal.reopen(folder)
    if not journal.holds_events:  # the run was killed before its first one
        journal.emit(begun)
    opened = Opened(Trials(folder, journal, parts), ledger, record)
    for number, trial in unlisted:
        opened.stored(TrialLine.of(trial), number, trial.wall_s)
    commit_begun(opened, every=bool(design.changed))
    _keep_lost_metrics(folder, ledger)
    journal.emit(RunResumed(changed=tuple(design.changed), whole=design.whole))
    ledger.resume(design.changed, whole=design.whole)
    set_aside(ledger, folder)
    _keep_earlier(record, ledger, folder)
    for one in ledger.stored():
        opened.trials.known(one.number, one.wall_s)
    write_head(folder, record, plan.text, design.texts)
    return opened


def _keep_earlier(record: RunRecord, ledger: Ledger, folder: Path) -> None:
    """Keep in the record how the run began, and what was set aside since."""
    before = read_run(folder, trials=False)
    record.started, record.command_line = before.started, before.command_line
    record.aside = [one.line for each in ledger.aside for one in each]
    if record.campaign is not None:
        record.campaign.groups = [Group(changed) for changed in ((), *ledger.changes)]


def _keep_lost_metrics(folder: Path, ledger: Ledger) -> None:
    """Store the metrics of ended blocks whose files were removed again."""
    for block in sorted(ledger.ended.keys() - blocks_with_metrics(folder)):
        lines = [one.line for one in ledger.of_block(block)]
        with explained(folder, KEPT):
            keep_metrics(folder, block, lines, ledger.ended[block], ledger.machines[block])


def programs(plan: Plan) -> set[str]:
    """Return the programs that the workloads and remedies of a plan start on this machine, but wavebed's own."""
    of_workloads = {
        program
        for each in plan.treatments
        for workload in each.workloads
        for end in _ends_here(each.lab)
        for program in workload.needed_programs(end)
    }
    return (of_workloads | remedy_programs(plan)) - {EDGE}


def _ends_here(lab: LabSpec) -> list[End]:
    ends: list[End] = ["here"]
    if not isinstance(lab, HostsLab) or host_address(lab.server).is_local:
        ends.append("server")
    if not isinstance(lab, HostsLab) or host_address(lab.client).is_local:
        ends.append("client")
    return ends


def in_virtual_time(plan: Plan) -> bool:
    """Return whether the trials of a plan run in virtual time.

    Raises
    ------
    UserError
        If some of them do.
    """
    virtual = [is_virtual(each.lab) for each in plan.treatments]
    if any(virtual) and not all(virtual):
        real = plan.treatments[virtual.index(False)].name
        raise UserError(
            f'lab.time: treatment {real} is in real time, and others are not: write time = "virtual" for all'
        )
    if len({each.lab for each in plan.treatments if is_virtual(each.lab)}) > 1:
        raise UserError("[lab]: processor or memory is not the same for all treatments: run one scenario for each")
    return all(virtual)


def check_programs(plan: Plan) -> None:
    """Check that the programs and packages of a plan are installed.

    Raises
    ------
    MachineError
        If one is missing.
    """
    for treatment in plan.treatments:
        for workload in treatment.workloads:
            if workload.extra:
                require(workload.extra, f"workload {workload.name}")
    if EDGE in remedy_programs(plan):
        find_edge()
    absent = missing(sorted(programs(plan)))
    if absent:
        raise MachineError(not_found(absent))


def _record(plan: Plan, command_line: Sequence[str], design: Design) -> RunRecord:
    return RunRecord(
        title=plan.title,
        source=plan.source,
        scenario=plan.scenario.name,
        overrides=cast("dict[str, Json]", dict(plan.overrides)),
        command_line=list(command_line),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=plan.seed,
        blocks=plan.trials,
        versions=versions_of(plan) if design.versions is None else design.versions,
        machine=machine() if design.machine is None else design.machine,
        workloads=list(plan.tables),
        treatments=[_treatment(each, design) for each in plan.treatments],
        campaign=design.record,
    )


def versions_of(plan: Plan) -> dict[str, str]:
    """Return the versions of the programs, and of the kernel on which they run."""
    found = versions(programs(plan))
    return {**found, "kernel": needed_kernel()[1].release} if in_virtual_time(plan) else found


def _treatment(treatment: TreatmentPlan, design: Design) -> dict[str, Json]:
    told: dict[str, Json] = {"name": treatment.name, "set": cast("dict[str, Json]", dict(treatment.changes))}
    if design.record is not None:
        told["levels"] = dict(design.levels[treatment.name])
    return told
