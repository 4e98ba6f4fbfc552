"""One trial: a laboratory, its workloads, the tables of its series, and its verdict."""

from __future__ import annotations

import math
import subprocess
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from wavebed.beneath import make_folder, remove_tree
from wavebed.errors import WavebedError
from wavebed.lab.confine import take_back
from wavebed.lab.protocol import LIMITS, LaboratoryGoneError, LaboratoryHungError, Limits
from wavebed.lab.tools import in_guest
from wavebed.output import replace_file
from wavebed.result.devices import device_metrics, of_groups
from wavebed.result.identity import computing_json
from wavebed.result.model import TrialRecord, WorkloadRecord
from wavebed.result.names import COMPUTING_FILE
from wavebed.result.tables import write_tables
from wavebed.result.transport import second_radio_links, second_radio_metrics, transport_metrics
from wavebed.run.backend import lab_checks, lab_metrics, start_lab
from wavebed.run.checks import backlog_check, capacity_steps, partial_check, processor_check, verdict
from wavebed.run.devices import allow_files
from wavebed.run.hosts import MODEM, modem_events, modem_series
from wavebed.run.play import StoppedError, open_all, outcomes, perform, settle
from wavebed.run.remedies import Remedies
from wavebed.run.stopped import STATE_FILE, state_of
from wavebed.spec.network import cell_links, devices
from wavebed.spec.part import plain
from wavebed.workload.model import Event, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Lab
    from wavebed.lab.tools import Computing
    from wavebed.result.model import Check
    from wavebed.run.backend import StartLab
    from wavebed.run.checks import Steps
    from wavebed.run.design import Slot
    from wavebed.run.play import RunningWorkload
    from wavebed.run.resolve import Resolved
    from wavebed.spec.types import Network
    from wavebed.workload.model import Metric


def run_trial(
    slot: Slot,
    resolved: Resolved,
    partial: Path,
    look: Callable[[Lab, Sequence[RunningWorkload]], None],
    of_machine: Callable[[], Sequence[Check]] = tuple,
    limits: Limits = LIMITS,
    start: StartLab = start_lab,
    until_s: float = math.inf,
) -> TrialRecord:
    """Run a trial and write its series and raw outputs into the folder `partial`.

    Parameters
    ----------
    slot : Slot
        The trial.
    resolved : Resolved
        Its specification, and the patterns of its network.
    partial : pathlib.Path
        An empty folder.
    look : callable
        Called a few times a second during the trial.
    of_machine : callable, optional
        Called at the end; returns checks of the machine.
    limits : Limits
        Limits of the waits for the laboratory.
    start : callable
        Makes the laboratory.
    until_s : float
        When to stop, seconds since time zero; the state then is in the raw outputs (`wavebed.run.stopped`).

    Raises
    ------
    WavebedError
        If no laboratory can be made here. Later errors, and a laboratory that hangs or is killed, are in the record.
    """
    began = time.monotonic()
    started = datetime.now(UTC).isoformat(timespec="seconds")
    partial = partial.absolute()  # programs inside have other working folders
    allow_files(slot.treatment.workloads)
    log, raw = partial / "log", partial / "raw"
    steps = capacity_steps(resolved.network)
    remedies = Remedies(resolved.spec.remedies, devices(resolved.spec.network))
    course = _perform(slot, lambda: start(resolved, log, limits), raw, look, limits, remedies, until_s)
    make_folder(raw)
    course.problem = course.problem or _take_back(raw)
    replace_file(raw / "laboratory.log", course.messages.encode())
    if course.stopped:
        replace_file(raw / STATE_FILE, course.stopped)
    found = outcomes(course.running)
    workloads = _records(course.running, found)
    capacity = [each.until(round(course.end_s * 1e9)) for each in steps]
    tables = _write_series(partial, log, capacity, course, workloads)
    network = resolved.spec.network
    checks, transport = _judge(
        tables, capacity, workloads, network, lab_checks(resolved.spec.lab, course.summary, course.messages)
    )
    of_devices = _of_devices(tables, workloads, network)
    transport += lab_metrics(resolved.spec.lab, course.summary)
    if course.computing is not None:
        replace_file(partial / COMPUTING_FILE, computing_json(course.computing))
    checks.extend(course.remedies.checks())
    checks.extend(of_machine())
    remove_tree(log)
    found_verdict, reasons = verdict(checks, workloads)
    if course.problem:
        found_verdict, reasons = "failed", [course.problem, *reasons]
    return TrialRecord(
        folder=slot.folder,
        block=slot.block,
        treatment=slot.treatment.name,
        seed=slot.seed,
        started=started,
        wall_s=round(time.monotonic() - began, 3),
        verdict=found_verdict,
        reasons=reasons,
        checks=checks,
        workloads=workloads,
        transport=transport,
        engine=course.summary,
        resolved=plain(resolved.spec),
        attempt=slot.attempt,
        devices=of_devices,
    )


@dataclass(slots=True)
class _Course:
    """The end of a trial's laboratory and its workloads.

    Parameters
    ----------
    remedies : Remedies
        The remedies of the trial.
    end_s : float
        End of the last workload, seconds since time zero.
    problem : str
        The reason of a failure.
    summary, messages, computing
        From the laboratory.
    stopped : bytes
        The state when the trial was stopped, if it was.
    """

    remedies: Remedies
    running: list[RunningWorkload] = field(default_factory=list)
    end_s: float = 0.0
    problem: str = ""
    summary: Mapping[str, Json] = field(default_factory=dict)
    messages: str = ""
    computing: Computing | None = None
    stopped: bytes = b""


def _perform(
    slot: Slot,
    start: Callable[[], Lab],
    raw: Path,
    look: Callable[[Lab, Sequence[RunningWorkload]], None],
    limits: Limits,
    remedies: Remedies,
    until_s: float,
) -> _Course:
    """Make the laboratory, run the workloads, and end it."""
    course = _Course(remedies)
    try:
        lab = start()
    except (LaboratoryHungError, LaboratoryGoneError) as error:
        course.problem = str(error)
        return course
    pulse = _Pulse(lab, limits.look_s)

    def watch() -> None:
        pulse.look()
        look(lab, course.running)

    try:
        with lab:
            if remedies.start(lab, raw):
                course.running = open_all(
                    slot.treatment.workloads, lab, raw, slot.seed, remedies.host_for_workloads(lab)
                )
            if in_guest():
                _await_whole_second()
            lab.begin()
            try:
                perform(course.running, lab, watch, until_s)
            except StoppedError as stopped:
                course.problem = str(stopped)
                course.stopped = state_of(lab)
            finally:
                course.end_s = lab.clock.now_s()
                remedies.stop()
    except WavebedError as error:
        course.problem = str(error)
    course.problem = lab.problem or course.problem
    course.summary, course.messages, course.computing = lab.summary or {}, lab.messages, lab.computing
    settle(course.running, lab.clock)
    return course


def _await_whole_second() -> None:
    """Wait for the next second of the clock: the time that a guest's programs took to start moves nothing after it."""
    time.sleep(1 - time.time() % 1)


class _Pulse:
    """Sends a request to the laboratory every few seconds; a laboratory that does not answer is killed."""

    def __init__(self, lab: Lab, every_s: float) -> None:
        self._lab = lab
        self._every_s = every_s
        self._next_s = lab.clock.monotonic_s() + every_s

    def look(self) -> None:
        """Send the request, if it is due.

        Raises
        ------
        WavebedError
            If it does not answer.
        """
        if self._lab.clock.monotonic_s() >= self._next_s:
            self._lab.show()
            self._next_s = self._lab.clock.monotonic_s() + self._every_s


def _take_back(raw: Path) -> str:
    """Take ownership of the raw outputs before they are read; on failure remove them and return the reason."""
    try:
        take_back(raw)
    except (OSError, WavebedError, RecursionError) as error:
        subprocess.run(["rm", "-rf", "--", str(raw)], check=False)
        make_folder(raw)
        reason = "folders are nested too deeply" if isinstance(error, RecursionError) else str(error)
        return f"the raw outputs of a program cannot be stored: {reason}"
    return ""


def _records(running: Sequence[RunningWorkload], found: Sequence[Outcome]) -> list[WorkloadRecord]:
    records = []
    for one, outcome in zip(running, found, strict=True):
        if one.limited and outcome.status == "ok":
            told = replace(outcome, status="partial", reason=f"stopped at its limit of {one.context.limit_s:g} s")
        else:
            told = outcome
        records.append(WorkloadRecord(one.workload.name, one.workload.kind, one.span, told))
    return records


def _write_series(
    partial: Path, log: Path, capacity: Sequence[Steps], course: _Course, workloads: Sequence[WorkloadRecord]
) -> dict[str, pa.Table]:
    states = {
        steps.link: [Event("state", start_s, stop_s, state) for start_s, stop_s, state in steps.spans(course.end_s)]
        for steps in capacity
    }
    return write_tables(
        partial / "series",
        log,
        capacity=[row for steps in capacity for row in steps.rows()],
        samples={MODEM: modem_series(course.summary), **{each.name: each.outcome.series for each in workloads}},
        events={
            MODEM: modem_events(course.summary),
            **states,
            **{each.name: each.outcome.events for each in workloads},
        },
    )


def _judge(
    tables: Mapping[str, pa.Table],
    capacity: Sequence[Steps],
    workloads: Sequence[WorkloadRecord],
    network: Network,
    of_engine: Sequence[Check],
) -> tuple[list[Check], list[Metric]]:
    spans = {each.name: each.span for each in workloads if each.span is not None}
    checks = [*of_engine, partial_check(workloads)]
    busy = tables["cpu"].group_by("time_ns", use_threads=False).aggregate([("busy", "mean")]).sort_by("time_ns")
    checks.append(processor_check([share for share in busy.column("busy_mean").to_pylist() if share is not None]))
    checks.extend(backlog_check(tables["links"], course) for course in capacity if not course.by_radio)
    aside, clients = [*second_radio_links(network), *cell_links(network)], devices(network) or ("client",)
    metrics = transport_metrics(tables, spans, aside, clients)
    return checks, [*metrics, *second_radio_metrics(tables, network)]


def _of_devices(
    tables: Mapping[str, pa.Table], workloads: Sequence[WorkloadRecord], network: Network
) -> dict[str, Sequence[Metric]]:
    """Return the metrics of the devices of a cell, and of their groups; none without a cell."""
    if network.cell is None:
        return {}
    spans = {each.name: each.span for each in workloads if each.span is not None}
    of_workloads = of_groups({each.name: each.outcome.metrics for each in workloads}, devices(network))
    return {**device_metrics(tables, spans, network), **of_workloads}
