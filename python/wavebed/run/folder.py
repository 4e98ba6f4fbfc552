"""The folder of a run: begun, or resumed with the same plan; the programs and the machine that its record names."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from wavebed._core import find_edge
from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.experiment.inputs import changes
from wavebed.extras import require
from wavebed.foreign import MAX_TEXT_BYTES, read_text
from wavebed.hosts.agent import host_address
from wavebed.lab.tools import cache_folder, missing, not_found
from wavebed.remedy.model import EDGE
from wavebed.result.machine import machine, versions
from wavebed.result.model import Group, RunRecord
from wavebed.result.names import RUN_FILE, SCENARIO_FILE
from wavebed.run.design import Design, expected_s
from wavebed.run.devices import SharedContent
from wavebed.run.remedies import remedy_programs
from wavebed.secret import redacted_toml, redacted_value
from wavebed.spec.trial import HostsLab, is_virtual
from wavebed.store.folder import PlannedTrial, RunFolder, head_files
from wavebed.store.journal import RunBegun, StepBegun
from wavebed.store.records import read_run
from wavebed.virtual.kernel import needed_kernel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.lab.tools import End
    from wavebed.run.design import Slot
    from wavebed.run.scenario import Plan, TreatmentPlan
    from wavebed.spec.trial import LabSpec
    from wavebed.store.journal import Journal


def open_folder(
    plan: Plan, slots: Sequence[Slot], path: Path, record: RunRecord, journal: Journal, design: Design
) -> RunFolder:
    """Begin the folder of a run, or go on in it.

    Raises
    ------
    UserError
        If it is not empty, or with `design.resume` not of this plan.
    WavebedError
        If it cannot be written.
    """
    planned = [
        PlannedTrial(slot.number, slot.block, slot.treatment.name, slot.seed, expected_s(slot.treatment))
        for slot in slots
    ]
    begun = RunBegun(kind="campaign" if design.record is not None else "run", title=plan.title)
    folder = RunFolder(path, planned, journal, record)
    if not design.resume:
        folder.begin(begun, head_files(record, plan.text, design.texts))
        return folder
    folder.resume(begun, design.changed, whole=design.whole)
    before = read_run(path, trials=False)
    record.started, record.command_line = before.started, before.command_line
    record.aside = [one.line for each in folder.ledger.aside for one in each]
    if record.campaign is not None:
        record.campaign.groups = [Group(changed) for changed in ((), *folder.ledger.changes)]
    folder.write(head_files(record, plan.text, design.texts))
    return folder


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


def record_of(plan: Plan, command_line: Sequence[str], design: Design) -> RunRecord:
    """Return the record with which a run begins."""
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
        primary=plan.primary,
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


_OF_MACHINE = ("processor", "cores", "memory")


def design_in(folder: Path, plan: Plan) -> Design:
    """Return how a plan runs in a folder: from its first trial, or the rest of it if the folder has its run.

    Raises
    ------
    UserError
        If the folder has another run, or programs, kernel or machine are others now.
    """
    if not (folder / RUN_FILE).exists():
        return Design()
    before = read_run(folder, trials=False)
    if before.campaign is not None:
        raise UserError(f"{folder}: has a campaign: go on with wavebed campaign run --resume {folder}")
    scenario = folder / SCENARIO_FILE
    stored = read_text(scenario, "name a new folder", most=MAX_TEXT_BYTES) if scenario.exists() else plan.text
    asked = {
        "seed": (before.seed, plan.seed),
        "number of trials": (before.blocks, plan.trials),
        "values of --set": (dict(before.overrides), dict(plan.overrides)),
        "workloads": ([dict(each) for each in before.workloads], [dict(each) for each in plan.tables]),
        "treatments": (
            [[each["name"], each["set"]] for each in before.treatments],
            [[each.name, dict(each.changes)] for each in plan.treatments],
        ),
        "scenario": (redacted_toml(stored), redacted_toml(plan.text)),
    }
    for what, (then, now) in asked.items():
        if redacted_value(then) != redacted_value(now):  # a secret is in no record: nobody can tell whether it differs
            raise UserError(f"{folder}: has another run: its {what} differs: name a new folder")
    changed = [
        *changes(before.versions, versions_of(plan)),
        *changes(*({key: one[key] for key in _OF_MACHINE if key in one} for one in (before.machine, machine()))),
    ]
    if changed:
        raise UserError(f"{folder}: {changed[0]}: its trials would differ: restore it, or name a new folder")
    return Design(resume=True, machine=cast("dict[str, str]", dict(before.machine)))


def prepare(plan: Plan, folder: RunFolder) -> None:
    """Make the content of the workloads."""
    cache = cache_folder()
    told: set[str] = set()
    content = SharedContent(cache)
    for treatment in plan.treatments:
        for workload in treatment.workloads:
            if workload.name not in told and not content.has(workload):
                step = StepBegun(step=f"preparing {workload.name}", left_s=folder.trials.left_s)
                folder.journal.emit(step)
                told.add(workload.name)
            try:
                content.prepare(workload)
            except OSError as error:
                what = (error.strerror or "cannot be written").lower()
                raise WavebedError(
                    f"{workload.name}: {error.filename or cache}: {what}: its content cannot be stored; $WAVEBED_CACHE"
                    " can name another folder"
                ) from error
