"""The runs of a recording: what is recorded, the same workloads live, and over the recording."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec.structs import replace as with_values

from wavebed.config.problems import Problem
from wavebed.errors import UserError
from wavebed.path.scenario import read_document, read_path_of
from wavebed.path.traces import Traces
from wavebed.record.folder import PATHS
from wavebed.run.scenario import AS_DESCRIBED, TreatmentPlan
from wavebed.spec.trial import IN_NAMESPACES
from wavebed.workload import read_workload

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.run.scenario import Plan
    from wavebed.workload.model import AnyWorkload

LIVE, RECORDING = "live", "recording"
_LIMIT_S = 30.0
"""Beyond its duration, a recording has this long to begin and to end."""


def recording_plan(plan: Plan, settings: Mapping[str, object]) -> Plan:
    """Return the plan that records the access of a scenario instead of running its workloads.

    Raises
    ------
    UserError
        If a setting is wrong, or the scenario has treatments.
    """
    return _with(plan, (_recording(_only(plan), settings, AS_DESCRIBED),), [_table(settings)])


def judged_plan(plan: Plan, settings: Mapping[str, object]) -> Plan:
    """Return the plan that records the access and runs the workloads live, in turn, in random order in each block."""
    given = _only(plan)
    live = replace(given, name=LIVE)
    return _with(plan, (live, _recording(given, settings, RECORDING)), [*plan.tables, _table(settings)])


def replay_plan(plan: Plan, recording: Path, *, every: bool, spread_s: int) -> Plan:
    """Return the plan that runs the workloads of a scenario over a recording.

    Parameters
    ----------
    recording : pathlib.Path
        The folder of the recording.
    every : bool
        Whether the rate alone is replayed too, beside the recording.
    spread_s : int
        Each trial begins at a whole second of the recording up to this one, drawn with its seed.

    Raises
    ------
    UserError
        If the recording is none, or the scenario has treatments.
    """
    given = _only(plan)
    treatments = []
    for kind, name in PATHS.items():
        if kind == "replay" or every:
            file = recording / name
            traces = Traces()
            try:
                options = {"start-at": f"0s..{spread_s}s"} if spread_s else {}
                path = read_path_of(read_document(file), file, options, traces)
            finally:
                traces.close()
            treatments.append(replace(given, name=kind, path=path, lab=IN_NAMESPACES))
    return _with(plan, tuple(treatments), list(plan.tables))


def _only(plan: Plan) -> TreatmentPlan:
    if len(plan.treatments) != 1 or plan.treatments[0].name != AS_DESCRIBED:
        names = ", ".join(each.name for each in plan.treatments)
        raise UserError(f"{plan.scenario}: has treatments ({names}): a recording is of one access: remove them")
    if plan.treatments[0].devices:
        raise UserError(f"{plan.scenario}: device: a recording is of one client: remove [cell] and [[device]]")
    return plan.treatments[0]


def _recording(given: TreatmentPlan, settings: Mapping[str, object], name: str) -> TreatmentPlan:
    try:
        workload: AnyWorkload = read_workload({"kind": "record", **settings})
    except Problem as problem:
        raise UserError(f"--{problem}") from None
    limit_s = workload.expected_s() + _LIMIT_S
    workload.common = with_values(workload.common, limit_s=limit_s)
    return replace(given, name=name, workloads=(workload,))


def _table(settings: Mapping[str, object]) -> Mapping[str, Json]:
    told: dict[str, Json] = {key: str(value) for key, value in settings.items()}
    return {"name": "record", "kind": "record", "settings": told}


def _with(plan: Plan, treatments: tuple[TreatmentPlan, ...], tables: list[Mapping[str, Json]]) -> Plan:
    return replace(plan, treatments=treatments, tables=tables)
