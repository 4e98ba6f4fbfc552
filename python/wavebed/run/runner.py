"""Run all trials of a plan in order and store each at its end."""

from __future__ import annotations

from contextlib import closing, contextmanager, nullcontext
from typing import TYPE_CHECKING

from wavebed.errors import WavebedError
from wavebed.experiment.machine_lock import measuring
from wavebed.lab.tools import in_guest
from wavebed.result.model import COUNTED, TrialLine
from wavebed.run.design import Design, next_trial, ordered
from wavebed.run.executor.carrier import RunSession
from wavebed.run.folder import check_programs, in_virtual_time, open_folder, prepare, programs, record_of
from wavebed.run.progress import WAITING
from wavebed.run.resolve import Resolver
from wavebed.run.trial import run_trial
from wavebed.store.disk import KEPT, claimed, explained
from wavebed.store.folder import write_trial
from wavebed.store.journal import Journal, StepBegun, WorkloadBegun, WorkloadEnded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from wavebed.experiment.machine_lock import Neighbours
    from wavebed.lab.protocol import Lab
    from wavebed.result.model import RunRecord, TrialRecord, WorkloadRecord
    from wavebed.run.design import Slot
    from wavebed.run.executor.remote import Executor
    from wavebed.run.play import RunningWorkload
    from wavebed.run.progress import Live
    from wavebed.run.resolve import Resolved
    from wavebed.run.scenario import Plan
    from wavebed.store.folder import Keep, Ledger, RunFolder

AS_RUN = Design()


class Local:
    """The executor of this machine."""

    def check(self, plan: Plan) -> None:
        """Check that the programs and packages of a plan are installed.

        Raises
        ------
        MachineError
            If one is missing.
        """
        check_programs(plan)

    def run(self, session: RunSession) -> str:
        """Run the blocks that are left, one trial after the other, and return the reason of the stop rule, if any.

        Raises
        ------
        MachineError
            If no laboratory can be made here.
        WavebedError
            If the results cannot be written; earlier trials stay readable.
        """
        folder, design = session.folder, session.design
        prepare(session.plan, folder)
        arrived = folder.arrived_blocks()
        with measuring(_told_once(session.live, folder), alone=design.alone) as neighbours:
            for block, slots in session.left().items():
                stopped = design.stop(folder.ledger)
                if stopped:
                    return stopped
                if block in arrived:
                    folder.commit(block)
                    continue
                _run_block(slots, session, neighbours)
                folder.end_block(block)
        return ""


def run_plan(
    plan: Plan,
    folder: Path,
    command_line: Sequence[str],
    live: Live,
    design: Design = AS_RUN,
    executor: Executor | None = None,
) -> RunRecord:
    """Run every trial of a plan, or the rest of them, and write the results into `folder`.

    Parameters
    ----------
    executor : Executor, optional
        Where blocks run: by default on this machine, in real or in virtual time as the plan says.

    Raises
    ------
    MachineError
        If a program or a package is missing, or no laboratory can be made here.
    UserError
        If the folder is not empty, or with `design.resume` not of this plan.
    WavebedError
        If the results cannot be written; earlier trials stay readable.
    """
    with _chosen(plan, live) if executor is None else nullcontext(executor) as chosen:
        chosen.check(plan)
        with claimed(folder):
            return run_claimed(plan, folder, command_line, live, design, chosen)


@contextmanager
def _chosen(plan: Plan, live: Live) -> Iterator[Executor]:
    """Yield the executor of this machine, or the executor of virtual time."""
    if not in_virtual_time(plan) or in_guest():
        yield Local()
        return
    from wavebed.run.executor.guests import Guests
    from wavebed.run.times import guest_bytes_of

    with Guests(live, None, guest_bytes_of(plan)) as guests:
        yield guests


def run_claimed(
    plan: Plan, path: Path, command_line: Sequence[str], live: Live, design: Design, executor: Executor
) -> RunRecord:
    """Run a plan that its executor has checked, as `run_plan`, in a folder that this process has claimed."""
    slots = ordered(plan.treatments, plan.trials, plan.seed)
    record = record_of(plan, command_line, design)
    with Journal(live) as journal:
        folder = open_folder(plan, slots, path, record, journal, design)
        with folder.guarded(), closing(Resolver(plan, path)) as resolver:
            stopped = executor.run(RunSession(plan, slots, programs(plan), folder, resolver, live, design))
            folder.discard_arrived()
        folder.end(stopped)
    if in_virtual_time(plan) and design.until_ns is None:
        _keep_bundles(record, path, live)
    return record


def _keep_bundles(record: RunRecord, folder: Path, live: Live) -> None:
    """Keep a bundle of each trial in virtual time that is not counted.

    Raises
    ------
    WavebedError
        If one cannot be written.
    """
    from wavebed.run.bundle import write_bundles

    found = [(line.folder, line.reasons, ()) for line in record.trials if line.verdict not in COUNTED]
    for line in write_bundles(folder, found):
        live.note(line)


def _told_once(live: Live, folder: RunFolder) -> Callable[[str], None]:
    """Return what shows that another run is waited for; the journal says it once."""
    told = False

    def waiting(processes: str) -> None:
        nonlocal told
        if not told:
            folder.journal.emit(StepBegun(step=f"{WAITING} (process {processes})", left_s=folder.trials.left_s))
        told = True
        live.waiting(processes)

    return waiting


def _run_block(slots: Sequence[Slot], session: RunSession, neighbours: Neighbours) -> None:
    resolver, folder, live, design = session.resolver, session.folder, session.live, session.design
    while (slot := next_trial(slots, _repeated(folder.ledger, slots, design), design.attempts)) is not None:
        with resolver.resolved(slot) as resolved:
            if slot.number == 1:
                resolver.draw_scene()
            trial = _one(slot, resolved, folder, live, neighbours, design.keep)
        folder.add(TrialLine.of(trial), slot.number, trial.wall_s)


def _repeated(ledger: Ledger, slots: Sequence[Slot], design: Design) -> dict[int, list[bool]]:
    """Return by number of the trial whether each attempt leads to another one; a deleted one does."""
    attempts = ledger.attempts(slots[0].block)
    return {number: [each is None or design.is_repeated(each) for each in lines] for number, lines in attempts.items()}


def _one(
    slot: Slot, resolved: Resolved, folder: RunFolder, live: Live, neighbours: Neighbours, keep: Keep
) -> TrialRecord:
    """Run a trial and store it; each step is an event."""
    spans = _Spans(slot.folder, folder.journal)

    def look(lab: Lab, running: Sequence[RunningWorkload]) -> None:
        neighbours.look()
        spans.look(running)
        live.look(lab, running)

    with folder.begun(slot.number, slot.attempt, ("series", "raw")) as partial:
        neighbours.look()
        with explained(folder.path, KEPT):
            trial = run_trial(slot, resolved, partial, look, lambda: [neighbours.check()])
        spans.end(trial.workloads)
        write_trial(folder.path, partial, trial, keep)
    folder.failed_checks(trial, slot.folder)
    return trial


class _Spans:
    """Writes the start and the end of each workload of a trial to the journal, once each.

    An error of the journal during the trial ends the run; it is not a fault of the trial.
    """

    def __init__(self, trial: str, journal: Journal) -> None:
        self._trial = trial
        self._journal = journal
        self._begun: set[str] = set()
        self._ended: set[str] = set()
        self._problem: WavebedError | None = None

    def look(self, running: Sequence[RunningWorkload]) -> None:
        """Write what has happened so far."""
        try:
            for one in running:
                self._tell(one.workload.name, one.start_s, one.end_s)
        except WavebedError as error:
            self._problem = error

    def end(self, workloads: Sequence[WorkloadRecord]) -> None:
        """Write the rest after the end of the trial.

        Raises
        ------
        WavebedError
            If the journal could not be written during the trial.
        """
        if self._problem is not None:
            raise self._problem
        for each in workloads:
            if each.span is not None:
                self._tell(each.name, each.span.start_s, each.span.end_s)

    def _tell(self, workload: str, start_s: float | None, end_s: float | None) -> None:
        if start_s is not None and workload not in self._begun:
            self._begun.add(workload)
            self._journal.emit(WorkloadBegun(trial=self._trial, workload=workload, at_s=start_s))
        if end_s is not None and workload not in self._ended:
            self._ended.add(workload)
            self._journal.emit(WorkloadEnded(trial=self._trial, workload=workload, at_s=end_s))
