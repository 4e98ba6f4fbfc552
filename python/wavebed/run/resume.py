"""Go on with a run that was interrupted, in its folder and with the same command."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from wavebed.errors import UserError
from wavebed.experiment.inputs import changes
from wavebed.foreign import MAX_TEXT_BYTES, read_text
from wavebed.result.machine import machine
from wavebed.result.names import RUN_FILE, SCENARIO_FILE
from wavebed.run.design import Design
from wavebed.run.folder import versions_of
from wavebed.secret import redacted_toml, redacted_value
from wavebed.store.records import read_run

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.run.scenario import Plan

__all__ = ["design_in"]

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
