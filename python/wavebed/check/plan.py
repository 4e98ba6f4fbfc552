"""The plan of a check: a command on a path, or the workloads of a scenario."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from wavebed.config.problems import Problem, at
from wavebed.errors import UserError
from wavebed.path.scenario import read_path
from wavebed.path.traces import Traces
from wavebed.run.scenario import AS_DESCRIBED, Plan, TreatmentPlan
from wavebed.spec.network import MOST_SEED
from wavebed.workload import read_workload
from wavebed.workload.command import EXIT_STATUS, Command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.check.requirement import Requirement
    from wavebed.config.data import Json
    from wavebed.path.model import PathModel
    from wavebed.workload.model import AnyWorkload

__all__ = ["CheckedCommand", "command_plan", "plan_on_path"]


class CheckedCommand(Struct, frozen=True, kw_only=True):
    """A command that is checked.

    Parameters
    ----------
    argv : sequence of str
        The program on the client and its arguments.
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
    """

    argv: Sequence[str]
    servers: Sequence[str] = ()
    wait_for_port: str | None = None
    limit: str | None = None
    drain: str | None = None
    grace: str | None = None
    confined: bool = False


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
    table = _table(command, any_status=any(each.name.endswith(EXIT_STATUS) for each in requirements))
    return plan_on_path(path, read_workload(table), shlex.join(command.argv), seeds, table, traces.notes)


def plan_on_path(
    path: PathModel,
    workload: AnyWorkload,
    title: str,
    seeds: int,
    settings: Mapping[str, Json],
    notes: Sequence[str] = (),
) -> Plan:
    """Return the plan of one workload on a path.

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

    Raises
    ------
    Problem
        If the seeds pass the highest one.
    """
    if path.seed + seeds - 1 > MOST_SEED:
        raise Problem(f"{path.seed} and the {seeds - 1} after it pass {MOST_SEED}: write a lower one", "--seed")
    return Plan(
        scenario=Path("check"),
        text="",
        title=title if title.isprintable() else repr(title),
        source="",
        overrides={},
        trials=seeds,
        seed=path.seed,
        treatments=(TreatmentPlan(AS_DESCRIBED, {}, path, (workload,)),),
        tables=[{"name": workload.name, "kind": workload.kind, "settings": dict(settings)}],
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
