"""A whole run: every trial in its order, stored as it ends; the report at the end."""

from __future__ import annotations

import secrets
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from wavebed.errors import MachineError, WavebedError
from wavebed.extras import require
from wavebed.result.machine import machine, versions
from wavebed.result.model import RunRecord, TrialLine, TrialRecord
from wavebed.result.write import new_partial, open_run, write_run, write_trial
from wavebed.run.guard import guarded
from wavebed.run.machine_lock import Neighbours, measuring
from wavebed.run.order import Slot, ordered
from wavebed.run.progress import BROWSER_S, OVERHEAD_S, Estimate, Live, duration_text
from wavebed.run.resolve import Resolver
from wavebed.run.trial import run_trial
from wavebed.workload.tools import PACKAGES, cache_folder, missing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Lab
    from wavebed.run.play import Act
    from wavebed.run.resolve import Resolved
    from wavebed.run.scenario import Arm, Plan
    from wavebed.workload.model import AnyWorkload

__all__ = ["Outcome", "expected_s", "plan_text", "run_plan"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run."""

    record: RunRecord
    report: Path | None

    @property
    def counted(self) -> dict[str, int]:
        """How many trials of each treatment count: valid and doubtful ones."""
        found = {str(treatment["name"]): 0 for treatment in self.record.treatments}
        for trial in self.record.trials:
            found[trial.treatment] += trial.verdict in ("valid", "doubtful")
        return found


def run_plan(
    plan: Plan,
    folder: Path,
    command_line: Sequence[str],
    live: Live,
    report: Callable[[Path], Path] | None = None,
) -> Outcome:
    """Run every trial of a plan and write the results into `folder`.

    Parameters
    ----------
    report : callable, optional
        Makes the report of a folder of results, and returns its file.

    Raises
    ------
    MachineError
        If a program or a package is missing, or no laboratory can be made here.
    WavebedError
        If the results cannot be written; what was written before stays readable.
    """
    _check_packages(plan)
    _check_programs(plan)
    record = _record(plan, command_line)
    open_run(folder, record, plan.text)
    slots = ordered(plan.arms, plan.trials, plan.seed)
    cache = cache_folder()
    for arm in plan.arms:
        for workload in arm.workloads:
            live.say(f"preparing {workload.name}")
            _prepare(workload, cache)
    estimate = Estimate([expected_s(slot.arm) for slot in slots])
    place = _Place(folder, secrets.token_hex(4), len(slots))
    with guarded(folder, place.mark), measuring() as neighbours, closing(Resolver(plan, folder)) as resolver:
        for slot in slots:
            live.new_trial()
            with resolver.resolved(slot) as resolved:
                if slot.number == 1:
                    resolver.draw_scene()
                trial = _one(slot, resolved, place, estimate, live, neighbours)
            estimate.done(trial.wall_s)
            record.trials.append(
                TrialLine(trial.folder, trial.block, trial.treatment, trial.seed, trial.verdict, trial.reasons)
            )
            if trial.verdict != "valid":
                live.note(
                    f"trial {slot.number} of {len(slots)} ({trial.folder}) is {trial.verdict}: {trial.reasons[0]}"
                )
    record.ended = datetime.now(UTC).isoformat(timespec="seconds")
    write_run(folder, record)
    page = _report(report, folder, live) if report is not None else None
    live.clear()
    return Outcome(record, page)


def _prepare(workload: AnyWorkload, cache: Path) -> None:
    try:
        workload.prepare(cache)
    except OSError as error:
        what = (error.strerror or "cannot be written").lower()
        raise WavebedError(
            f"{workload.name}: {error.filename or cache}: {what}: what it needs cannot be made; $WAVEBED_CACHE may name"
            " another folder"
        ) from error


def _report(report: Callable[[Path], Path], folder: Path, live: Live) -> Path | None:
    live.say("writing the report")
    try:
        return report(folder)
    except (WavebedError, OSError) as error:
        live.note(f"no report: {error}: the results are there: `wavebed report {folder}` tries again")
        return None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the trials go: the folder of the run, the mark of its partial trials, and how many there will be."""

    folder: Path
    mark: str
    count: int


def _one(
    slot: Slot, resolved: Resolved, place: _Place, estimate: Estimate, live: Live, neighbours: Neighbours
) -> TrialRecord:
    partial = new_partial(place.folder, slot.folder, place.mark)
    began = time.monotonic()
    head = f"trial {slot.number} of {place.count} ({slot.arm.name}, seed {slot.seed})"

    def look(lab: Lab, acts: Sequence[Act]) -> None:
        neighbours.look()
        live.look(head, estimate.left_s(time.monotonic() - began), lab, acts)

    neighbours.look()
    try:
        trial = run_trial(slot, resolved, partial, look, lambda: [neighbours.check()])
    except OSError as error:
        what = (error.strerror or "cannot be written").lower()
        raise WavebedError(f"{place.folder}: {what}: the trials that had ended can be read") from error
    write_trial(place.folder, partial, trial)
    return trial


def expected_s(arm: Arm) -> float:
    """Return about how long a trial takes, seconds."""
    ends: dict[str, float] = {}
    waiting = [workload for workload in arm.workloads if not workload.endless]
    while waiting:
        for workload in list(waiting):
            after = workload.common.after
            if after is None or after in ends:
                begin_s = workload.common.start_s + (ends[after] if after is not None else 0.0)
                ends[workload.name] = begin_s + min(workload.expected_s(), workload.common.limit_s)
                waiting.remove(workload)
    tail_s = max((workload.tail_s for workload in arm.workloads), default=0.0)
    browsers = any("chromium" in workload.needed_programs() for workload in arm.workloads)
    return max(ends.values(), default=0.0) + tail_s + OVERHEAD_S + (BROWSER_S if browsers else 0.0)


def plan_text(plan: Plan) -> str:
    """Return what will be run, in one line."""
    count = plan.trials * len(plan.arms)
    total_s = plan.trials * sum(expected_s(arm) for arm in plan.arms)
    trials = "1 trial" if count == 1 else f"{count} trials"
    return f"{plan.title}: {trials}, about {duration_text(total_s)}"


def _check_packages(plan: Plan) -> None:
    for arm in plan.arms:
        for workload in arm.workloads:
            if workload.extra:
                require(workload.extra, f"workload {workload.name}")


def _programs(plan: Plan) -> set[str]:
    return {program for arm in plan.arms for workload in arm.workloads for program in workload.needed_programs()}


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
        treatments=[{"name": arm.name, "set": cast("dict[str, Json]", dict(arm.changes))} for arm in plan.arms],
    )
