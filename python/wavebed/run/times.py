"""In which time trials run: the choice between this machine's and that of a guest."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Final, Literal, cast, get_args

import msgspec

from wavebed.errors import UserError
from wavebed.path.model import PathModel
from wavebed.result.names import RUN_FILE
from wavebed.result.read import read_run
from wavebed.spec.lab import HostsLab, NamespacesLab, Time
from wavebed.virtual.guest import outside_of_path
from wavebed.virtual.kernel import NO_LANDLOCK, find_kernel, has_landlock

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.run.scenario import Plan, TreatmentPlan

__all__ = ["TIME_KEY", "TIME_VARIABLE", "chosen_time", "default_time", "kept_time", "with_time"]

TIME_KEY: Final = "lab.time"
"""The key that the options change."""
TIME_VARIABLE: Final = "WAVEBED_TIME"
_OF_HOST = 'with processor = "host" computing takes this machine\'s time: no two runs are the same'
_COMPUTING = "programs compute in no time: judge what computes in real time"


def default_time(of_command: Time) -> Time:
    """Return the time where neither an option nor the scenario names one.

    Parameters
    ----------
    of_command : str
        The default of the command; the variable overrides it.

    Raises
    ------
    UserError
        If the variable has another value.
    """
    given = os.environ.get(TIME_VARIABLE) or of_command
    if given not in get_args(Time):
        raise UserError(f"{TIME_VARIABLE}: {given!r} is no time: write auto, real or virtual")
    return cast("Time", given)


def kept_time(folder: Path) -> Time | None:
    """Return the time that an option or a choice gave a run in its folder; ``None``: as its scenario says.

    Raises
    ------
    UserError
        If the record of the run is damaged.
    """
    if not (folder / RUN_FILE).exists():
        return None
    kept = read_run(folder, trials=False).overrides.get(TIME_KEY)
    return cast("Time", kept) if kept in get_args(Time) else None


def with_time(plan: Plan, asked: Time | None = None, otherwise: Time = "real", outside: str = "") -> Plan:
    """Return the plan with a time for each treatment.

    Parameters
    ----------
    asked : str, optional
        What an option says; it overrides the scenario.
    otherwise : str
        The time of treatments whose scenario names none.
    outside : str
        Why this command needs real time; empty: it does not.

    Raises
    ------
    UserError
        If a plan that needs the outside is asked to be virtual.
    """
    words: list[Time] = [asked or each.time or otherwise for each in plan.treatments]
    notes: tuple[str, ...] = ()
    if "auto" in words:
        chosen, why = _choice(outside or _outside_of(plan))
        words = [chosen if word == "auto" else word for word in words]
        notes = (f"time: {chosen}, since {why}",)
    if "virtual" in words:
        if (why := _outside_of(plan)) and asked == "virtual":
            raise UserError(f"--virtual-time: {why}: leave the option out")
        if why:
            raise UserError(f"{TIME_KEY}: {why}: remove the key, or write --real-time")
        slow = any(isinstance(each.lab, NamespacesLab) and each.lab.processor == "host" for each in plan.treatments)
        confined = () if has_landlock() else (NO_LANDLOCK,)
        notes = (*notes, *confined, f"in virtual time {_OF_HOST if slow else _COMPUTING}")
    treatments = tuple(map(_in_time, plan.treatments, words))
    overrides = dict(plan.overrides)
    if any(word != (each.time or "real") for word, each in zip(words, plan.treatments, strict=True)):
        overrides[TIME_KEY] = words[0]
    return dataclasses.replace(plan, treatments=treatments, overrides=overrides, notes=(*plan.notes, *notes))


def _outside_of(plan: Plan) -> str:
    """Return why a plan needs real time, since a part of it is outside of any guest; empty: it does not."""
    for each in plan.treatments:
        if isinstance(each.lab, HostsLab):
            return "real hosts have real time"
        if why := outside_of_path(each.path if isinstance(each.path, PathModel) else each.path.spec.network):
            return why
    return ""


def chosen_time(path: PathModel | None, asked: Time) -> Literal["real", "virtual"]:
    """Return the time of laboratories with a path; ``None``: with any that needs nothing outside.

    Raises
    ------
    UserError
        If it is asked to be virtual, and needs the outside.
    """
    why = "" if path is None else outside_of_path(path)
    if why and asked == "virtual":
        raise UserError(f"virtual time: {why}: run it in real time")
    return _choice(why)[0] if asked == "auto" else asked


def _choice(outside: str) -> tuple[Literal["real", "virtual"], str]:
    """Return the time that ``auto`` chooses, and why."""
    if outside:
        return "real", outside
    if find_kernel() is None:
        return "real", "the guest kernel is not installed (wavebed kernel build)"
    return "virtual", "the guest kernel is installed (--real-time for this machine's time)"


def _in_time(treatment: TreatmentPlan, word: Time) -> TreatmentPlan:
    if not isinstance(treatment.lab, NamespacesLab):
        return treatment
    is_virtual = word == "virtual"
    if treatment.lab.processor != "exact" and not is_virtual:
        raise UserError("lab.processor: is for virtual time: add --virtual-time, or remove the key")
    lab = msgspec.structs.replace(treatment.lab, time="virtual" if is_virtual else "real")
    return dataclasses.replace(treatment, lab=lab)
