"""One trial: a laboratory, its workloads, the tables of its series, and its verdict."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from wavebed.errors import WavebedError
from wavebed.output import replace_file
from wavebed.path.lab import Laboratory
from wavebed.path.laboratory import LabPlan, laboratory_file, random_name
from wavebed.path.traces import Traces
from wavebed.result.model import TrialRecord, WorkloadRecord
from wavebed.result.tables import write_tables
from wavebed.result.transport import transport_metrics
from wavebed.run.backlog import backlog_check
from wavebed.run.capacity import capacity_steps
from wavebed.run.checks import engine_checks, processor_check, verdict
from wavebed.run.play import open_all, outcomes, perform, settle
from wavebed.workload.model import Clock, Event, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from wavebed.path.laboratory import Json
    from wavebed.path.model import PathModel
    from wavebed.result.model import Check
    from wavebed.run.capacity import Steps
    from wavebed.run.order import Slot
    from wavebed.run.play import Act
    from wavebed.workload.model import Metric

__all__ = ["run_trial"]


def run_trial(
    slot: Slot,
    partial: Path,
    look: Callable[[Laboratory, Sequence[Act]], None],
    of_machine: Callable[[], Sequence[Check]] = tuple,
) -> TrialRecord:
    """Run a trial and write its series and raw outputs into the folder `partial`.

    Parameters
    ----------
    slot : Slot
        Which one.
    partial : pathlib.Path
        An empty folder.
    look : callable
        Called a few times a second while it runs.
    of_machine : callable, optional
        Called when it has ended: conditions of its validity that do not lie in the trial.

    Raises
    ------
    WavebedError
        If no laboratory can be made here. What goes wrong later is in the record.
    """
    began = time.monotonic()
    started = datetime.now(UTC).isoformat(timespec="seconds")
    path = replace(slot.arm.path, seed=slot.seed)
    partial = partial.absolute()  # programs inside have other working folders
    log, raw = partial / "log", partial / "raw"
    steps, resolved = _resolve(path)
    lab = Laboratory(path, LabPlan(name=random_name(), log_dir=log, wait=True, sample=True))
    acts: list[Act] = []
    problem, end_s = "", 0.0
    try:
        with lab:
            clock = Clock()
            acts = open_all(slot.arm.workloads, lab, clock, raw, slot.seed)
            clock.begin(lab.begin())
            try:
                perform(acts, lab.is_alive, lambda: look(lab, acts))
            finally:
                end_s = clock.now_s()
    except WavebedError as error:
        problem = str(error)
    settle(acts)
    replace_file(raw / "laboratory.log", lab.messages.encode())
    found = outcomes(acts)
    workloads = _records(acts, found)
    capacity = [course.until(round(end_s * 1e9)) for course in steps]
    tables = _write_series(partial, log, capacity, end_s, workloads)
    checks, transport = _judge(tables, capacity, workloads, engine_checks(lab.summary or {}, lab.messages))
    checks.extend(of_machine())
    shutil.rmtree(log, ignore_errors=True)
    found_verdict, reasons = verdict(checks, workloads)
    if problem:
        found_verdict, reasons = "failed", [problem, *reasons]
    return TrialRecord(
        folder=slot.folder,
        block=slot.block,
        treatment=slot.arm.name,
        seed=slot.seed,
        started=started,
        wall_s=round(time.monotonic() - began, 3),
        verdict=found_verdict,
        reasons=reasons,
        checks=checks,
        workloads=workloads,
        transport=transport,
        engine=lab.summary or {},
        laboratory=resolved,
    )


def _resolve(path: PathModel) -> tuple[list[Steps], dict[str, Json]]:
    """Return the course of every link, and the laboratory file for the record."""
    traces = Traces()
    try:
        resolved = laboratory_file(path, LabPlan(name="resolved"), traces)
        return capacity_steps(resolved), cast("dict[str, Json]", json.loads(json.dumps(resolved)))
    finally:
        traces.close()


def _records(acts: Sequence[Act], found: Sequence[Outcome]) -> list[WorkloadRecord]:
    records = []
    for act, outcome in zip(acts, found, strict=True):
        if act.limited and outcome.status == "ok":
            told = replace(outcome, status="partial", reason=f"stopped at its limit of {act.stage.limit_s:g} s")
        else:
            told = outcome
        records.append(WorkloadRecord(act.workload.name, act.workload.kind, act.span, told))
    return records


def _write_series(
    partial: Path, log: Path, capacity: Sequence[Steps], end_s: float, workloads: Sequence[WorkloadRecord]
) -> dict[str, pa.Table]:
    states = {
        course.link: [Event("state", start_s, stop_s, state) for start_s, stop_s, state in course.spans(end_s)]
        for course in capacity
    }
    return write_tables(
        partial / "series",
        log,
        capacity=[row for course in capacity for row in course.rows()],
        samples={each.name: each.outcome.series for each in workloads},
        events={**states, **{each.name: each.outcome.events for each in workloads}},
    )


def _judge(
    tables: Mapping[str, pa.Table],
    capacity: Sequence[Steps],
    workloads: Sequence[WorkloadRecord],
    of_engine: Sequence[Check],
) -> tuple[list[Check], list[Metric]]:
    spans = {each.name: each.span for each in workloads if each.span is not None}
    checks = list(of_engine)
    cpu = tables["cpu"].to_pandas()
    checks.append(processor_check([float(share) for share in cpu.groupby("time_ns")["busy"].mean()]))
    links = tables["links"].to_pandas()
    checks.extend(backlog_check(links, course) for course in capacity if not course.by_radio)
    return checks, list(transport_metrics(tables, spans))
