"""Run all trials of a plan in order and store each at its end."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from wavebed.errors import MachineError, WavebedError
from wavebed.experiment.disk import explained
from wavebed.experiment.events import CheckFailed, Part, RunBegun, RunEnded, StepBegun, WorkloadBegun, WorkloadEnded
from wavebed.experiment.journal import Journal
from wavebed.experiment.machine_lock import measuring
from wavebed.experiment.store import KEPT
from wavebed.experiment.trials import Trials
from wavebed.extras import require
from wavebed.result.machine import machine, versions
from wavebed.result.model import COUNTED, RunRecord, TrialLine, TrialRecord
from wavebed.run.order import Slot, ordered
from wavebed.run.progress import BROWSER_S, OVERHEAD_S, duration_text
from wavebed.run.resolve import Resolver
from wavebed.run.trial import run_trial
from wavebed.run.write import open_run, write_run, write_trial
from wavebed.workload.tools import PACKAGES, cache_folder, missing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.experiment.machine_lock import Neighbours
    from wavebed.lab.protocol import Lab
    from wavebed.result.model import WorkloadRecord
    from wavebed.run.play import RunningWorkload
    from wavebed.run.progress import Live
    from wavebed.run.resolve import Resolved
    from wavebed.run.scenario import Plan, TreatmentPlan

__all__ = ["Outcome", "expected_s", "plan_text", "run_plan"]


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


def run_plan(plan: Plan, folder: Path, command_line: Sequence[str], live: Live) -> Outcome:
    """Run every trial of a plan and write the results into `folder`.

    Raises
    ------
    MachineError
        If a program or a package is missing, or no laboratory can be made here.
    WavebedError
        If the results cannot be written; earlier trials stay readable.
    """
    _check_packages(plan)
    _check_programs(plan)
    record = _record(plan, command_line)
    open_run(folder, record, plan.text)
    slots = ordered(plan.treatments, plan.trials, plan.seed)
    with Journal(live) as journal:
        journal.open(folder)
        journal.emit(RunBegun(kind="run", title=plan.title))
        trials = Trials(folder, journal, [Part(slot.folder, expected_s(slot.treatment)) for slot in slots])
        _prepare(plan, trials)
        with trials.guarded(), measuring() as neighbours, closing(Resolver(plan, folder)) as resolver:
            for slot in slots:
                with resolver.resolved(slot) as resolved:
                    if slot.number == 1:
                        resolver.draw_scene()
                    trial = _one(slot, resolved, trials, live, neighbours)
                record.trials.append(
                    TrialLine(trial.folder, trial.block, trial.treatment, trial.seed, trial.verdict, trial.reasons)
                )
        record.ended = datetime.now(UTC).isoformat(timespec="seconds")
        write_run(folder, record)
        journal.emit(RunEnded(trials=len(slots)))
    return Outcome(record)


def _prepare(plan: Plan, trials: Trials) -> None:
    """Make the content of the workloads."""
    cache = cache_folder()
    for treatment in plan.treatments:
        for workload in treatment.workloads:
            trials.journal.emit(StepBegun(step=f"preparing {workload.name}", left_s=trials.left_s))
            try:
                workload.prepare(cache)
            except OSError as error:
                what = (error.strerror or "cannot be written").lower()
                raise WavebedError(
                    f"{workload.name}: {error.filename or cache}: {what}: its content cannot be stored; $WAVEBED_CACHE"
                    " can name another folder"
                ) from error


def _one(slot: Slot, resolved: Resolved, trials: Trials, live: Live, neighbours: Neighbours) -> TrialRecord:
    """Run a trial and store it; each step is an event."""
    name, journal = slot.folder, trials.journal
    told = _ToldSpans(name, journal)

    def look(lab: Lab, running: Sequence[RunningWorkload]) -> None:
        neighbours.look()
        told.look(running)
        live.look(lab, running)

    with trials.begun(slot.number, slot.treatment.name, slot.block, slot.seed, ("series", "raw")) as partial:
        neighbours.look()
        with explained(trials.folder, KEPT):
            trial = run_trial(slot, resolved, partial, look, lambda: [neighbours.check()])
        told.end(trial.workloads)
        write_trial(trials.folder, partial, trial)
    for check in trial.checks:
        if not check.holds:
            journal.emit(CheckFailed(trial=name, code=check.code, severity=check.severity, evidence=check.evidence))
    trials.stored(slot.number, trial.verdict, trial.wall_s, trial.reasons)
    return trial


class _ToldSpans:
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


def expected_s(treatment: TreatmentPlan) -> float:
    """Return the expected duration of a trial, seconds."""
    ends: dict[str, float] = {}
    waiting = [workload for workload in treatment.workloads if not workload.endless]
    while waiting:
        for workload in list(waiting):
            after = workload.common.after
            if after is None or after in ends:
                begin_s = workload.common.start_s + (ends[after] if after is not None else 0.0)
                ends[workload.name] = begin_s + min(workload.expected_s(), workload.common.limit_s)
                waiting.remove(workload)
    tail_s = max((workload.tail_s for workload in treatment.workloads), default=0.0)
    browsers = any("chromium" in workload.needed_programs() for workload in treatment.workloads)
    return max(ends.values(), default=0.0) + tail_s + OVERHEAD_S + (BROWSER_S if browsers else 0.0)


def plan_text(plan: Plan) -> str:
    """Return title, number of trials and expected duration in one line."""
    count = plan.trials * len(plan.treatments)
    total_s = plan.trials * sum(expected_s(treatment) for treatment in plan.treatments)
    trials = "1 trial" if count == 1 else f"{count} trials"
    return f"{plan.title}: {trials}, about {duration_text(total_s)}"


def _check_packages(plan: Plan) -> None:
    for treatment in plan.treatments:
        for workload in treatment.workloads:
            if workload.extra:
                require(workload.extra, f"workload {workload.name}")


def _programs(plan: Plan) -> set[str]:
    return {
        program for each in plan.treatments for workload in each.workloads for program in workload.needed_programs()
    }


def _check_programs(plan: Plan) -> None:
    absent = missing(sorted(_programs(plan)))
    if absent:
        packages = " ".join(PACKAGES.get(name, name) for name in absent)
        raise MachineError(f"{', '.join(absent)}: not found: run `apt-get install {packages}`")


def _record(plan: Plan, command_line: Sequence[str]) -> RunRecord:
    return RunRecord(
        title=plan.title,
        source=plan.source,
        scenario=plan.scenario.name,
        overrides=cast("dict[str, Json]", dict(plan.overrides)),
        command_line=list(command_line),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=plan.seed,
        blocks=plan.trials,
        versions=versions(_programs(plan)),
        machine=machine(),
        workloads=list(plan.tables),
        treatments=[
            {"name": each.name, "set": cast("dict[str, Json]", dict(each.changes))} for each in plan.treatments
        ],
    )
