"""Plan and run the trials of a check, until each requirement is decided."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace as with_values

from wavebed.check.judge import check_names, decide, value_text
from wavebed.check.result import CheckResult
from wavebed.check.trials import last_attempts, link_metrics, most_lateness_s, seen
from wavebed.config.problems import Problem, at
from wavebed.errors import UserError
from wavebed.path.model import chosen_device
from wavebed.path.scenario import read_path
from wavebed.path.traces import Traces
from wavebed.result.identity import read_computing
from wavebed.result.names import TRIALS_FOLDER
from wavebed.run.design import Design
from wavebed.run.devices import check_names as check_device_names
from wavebed.run.devices import on_devices
from wavebed.run.folder import in_virtual_time
from wavebed.run.runner import run_plan
from wavebed.run.scenario import AS_DESCRIBED, Plan, TreatmentPlan
from wavebed.spec.network import MOST_SEED
from wavebed.store.records import read_trial
from wavebed.workload import read_workload
from wavebed.workload.command import EXIT_STATUS, Command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.check.judge import Decision
    from wavebed.check.requirement import Requirement
    from wavebed.check.trials import JudgedTrial
    from wavebed.config.data import Json
    from wavebed.path.model import PathModel
    from wavebed.result.model import TrialLine
    from wavebed.run.progress import Live
    from wavebed.store.folder import Ledger
    from wavebed.workload.model import AnyWorkload


class CheckedCommand(Struct, frozen=True, kw_only=True):
    """A command that is checked.

    Parameters
    ----------
    argv : sequence of str
        The program on the client, or the first device of a cell, and its arguments.
    servers : sequence of str
        Lines for the shell on the server.
    wait_for_port : int or None
        The port that a program on the server opens before the command begins.
    limit : str or None
        Longest time that it may run, as typed.
    drain, grace : str or None
        Longest wait for its last data, and time of the servers from SIGTERM to SIGKILL, as typed.
    confined : bool
        Whether the programs run without privileges, homes and variables.
    device : str or None
        With a cell, the device that is the client; ``None``: the first one.
    """

    argv: Sequence[str]
    servers: Sequence[str] = ()
    wait_for_port: str | None = None
    limit: str | None = None
    drain: str | None = None
    grace: str | None = None
    confined: bool = False
    device: str | None = None


def command_plan(
    command: CheckedCommand,
    requirements: Sequence[Requirement],
    scenario: Path | None,
    options: Mapping[str, object],
    seeds: int,
) -> Plan:
    """Return the plan of a command on a path.

    Parameters
    ----------
    scenario : pathlib.Path or None
        The file or the shipped scenario that its path is from.
    options : mapping
        Path options, by key.
    seeds : int
        How many trials, each with a seed of its own.

    Raises
    ------
    UserError
        If the path is wrong, or there is no such program.
    """
    if shutil.which(command.argv[0]) is None:
        raise UserError(f"{command.argv[0]}: no such program: write it as in a shell, after --")
    traces = Traces()
    try:
        path = read_path(scenario, options, traces)
    finally:
        traces.close()
    device = at("--device", lambda name: chosen_device(name, path), command.device)
    table = _table(command, any_status=any(each.name.endswith(EXIT_STATUS) for each in requirements))
    return plan_on_path(path, read_workload(table), shlex.join(command.argv), seeds, table, traces.notes, device)


def plan_on_path(
    path: PathModel,
    workload: AnyWorkload,
    title: str,
    seeds: int,
    settings: Mapping[str, Json],
    notes: Sequence[str] = (),
    device: str | None = None,
) -> Plan:
    """Return the plan of one workload on a path; with a cell on its first device.

    Parameters
    ----------
    path : PathModel
        With the seed of the first trial.
    title : str
        What it is, for the report.
    seeds : int
        How many trials, each with a seed of its own.
    settings : mapping
        The workload as the results describe it.
    device : str or None
        With a cell, the device that is the client; ``None``: the first one.

    Raises
    ------
    Problem
        If the seeds pass the highest one, or there is no such device.
    """
    if path.cell is not None:
        workload.common = with_values(workload.common, device=chosen_device(device, path))
    if path.seed + seeds - 1 > MOST_SEED:
        raise Problem(f"{path.seed} and the {seeds - 1} after it pass {MOST_SEED}: write a lower one", "--seed")
    (workload,) = on_devices(workload, path.cell)
    check_device_names(path.cell, [workload])
    table: dict[str, Json] = {"name": workload.name, "kind": workload.kind, "settings": dict(settings)}
    if workload.common.device is not None:
        table["device"] = workload.common.device
    return Plan(
        scenario=Path("check"),
        text="",
        title=title if title.isprintable() else repr(title),
        source="",
        overrides={},
        trials=seeds,
        seed=path.seed,
        treatments=(TreatmentPlan(AS_DESCRIBED, {}, path, (workload,)),),
        tables=[table],
        notes=tuple(notes),
    )


def _table(command: CheckedCommand, *, any_status: bool) -> dict[str, Json]:
    """Return the workload as a scenario would describe it."""
    if any("\0" in each for each in command.argv):
        raise UserError("--: an argument has a zero byte: leave it out")
    table: dict[str, Json] = {
        "kind": Command.kind,
        "run": list(command.argv),
        "servers": list(command.servers),
        "folder": os.getcwd(),  # noqa: PTH109 - a text is wanted
        "parser": "printed",
        "wall-time": True,
        "any-status": any_status,
        "confined": command.confined,
    }
    times = {"limit": command.limit, "drain": command.drain, "grace": command.grace}
    table |= {key: given for key, given in times.items() if given is not None}
    if command.wait_for_port is not None:
        if not command.servers:
            raise Problem("there is no --server to open it: leave it out", "--wait-for-port")
        from wavebed.config.values import number

        table["wait-for-port"] = at("--wait-for-port", number(0, 65535), command.wait_for_port)
    return table


def perform_check(
    plan: Plan,
    requirements: Sequence[Requirement],
    folder: Path,
    command_line: Sequence[str],
    live: Live,
    *,
    attempts: int = 1,
    fail_fast: bool = False,
) -> CheckResult:
    """Run a plan and decide.

    Parameters
    ----------
    attempts : int
        Most attempts at a trial, with its seed, until the machine was not late.
    fail_fast : bool
        Whether it ends as soon as a requirement fails whatever the other seeds give.

    Raises
    ------
    Problem
        If a metric of a requirement is not in the results; found after the first trial.
    WavebedError
        As `wavebed.run.runner.run_plan`.
    """
    if requirements:
        plan = replace(plan, primary=requirements[0].name)
    trials = _Trials(folder, requirements, plan.trials, fail_fast=fail_fast)
    design = Design(attempts=attempts, is_repeated=trials.was_late, stop=trials.reason_to_stop)
    record = run_plan(plan, folder, command_line, live, design)
    found = trials.read([line.folder for line in record.trials])
    check_names(requirements, found)
    decisions = decide(requirements, found, plan.trials)
    if in_virtual_time(plan):
        _keep_bundles(folder, decisions, found, live)
    return CheckResult(
        title=plan.title,
        seeds=range(plan.seed, plan.seed + plan.trials),
        decisions=decisions,
        trials=found,
        folder=folder,
        stopped=trials.stopped,
    )


def _keep_bundles(folder: Path, decisions: Sequence[Decision], trials: Sequence[JudgedTrial], live: Live) -> None:
    """Keep a bundle of each measured trial that breaks a requirement which fails."""
    from wavebed.run.bundle import write_bundles

    broken: dict[str, list[tuple[str, str]]] = {}
    names = {(trial.treatment, trial.seed): trial.folder for trial in trials if trial.state == "measured"}
    for each in decisions:
        requirement, bound = each.requirement, each.bound
        if each.outcome != "fail" or requirement is None or bound is None:
            continue
        for seed, value in each.values.items():
            name = names.get((each.treatment, seed))
            if name is not None and not requirement.holds(value, bound):
                measured = f"{requirement.text}: {value_text(value, each.unit)}"
                broken.setdefault(name, []).append((requirement.text, measured))
    found = [(name, [why for _, why in each], [text for text, _ in each]) for name, each in broken.items()]
    for line in write_bundles(folder, found):
        live.note(line)


class _Trials:
    """The trials of a check so far; each is read once."""

    def __init__(self, folder: Path, requirements: Sequence[Requirement], seeds: int, *, fail_fast: bool) -> None:
        self._folder = folder / TRIALS_FOLDER
        self._requirements = requirements
        self._seeds = seeds
        self._fail_fast = fail_fast
        self._seen: dict[str, JudgedTrial] = {}
        self.stopped = ""

    def read(self, folders: Sequence[str]) -> list[JudgedTrial]:
        """Return the trials in these folders, the attempt that counts of each."""
        for name in folders:
            if name not in self._seen:
                folder = self._folder / name
                trial = read_trial(folder)
                self._seen[name] = seen(
                    trial, link_metrics(trial, folder), most_lateness_s(trial, folder), read_computing(folder)
                )
        return last_attempts([self._seen[name] for name in folders])

    def was_late(self, line: TrialLine) -> bool:
        """Return whether a trial leads to another attempt: its machine was late, a little or much."""
        (trial,) = self.read([line.folder])
        return trial.is_late or trial.delayed_s > 0

    def reason_to_stop(self, ledger: Ledger) -> str:
        """Return why no further trial is needed, or nothing."""
        trials = self.read([one.line.folder for one in ledger.stored()])
        check_names(self._requirements, trials)
        if self._fail_fast:
            failed = next(
                (each for each in decide(self._requirements, trials, self._seeds) if each.outcome == "fail"), None
            )
            if failed is not None:
                self.stopped = f"stopped after {len(trials)} trials: {failed.text!r} fails whatever the others give"
        return self.stopped
