"""In which time trials run: the choice between this machine's time and a guest's."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Final, Literal, cast, get_args

import msgspec

from wavebed.config.problems import at
from wavebed.config.units import format_size
from wavebed.errors import UserError
from wavebed.path.model import PathModel
from wavebed.result.names import RUN_FILE
from wavebed.run.lab_table import guest_bytes
from wavebed.spec.trial import GUEST_BYTES, USUAL_GUEST_BYTES, HostsLab, NamespacesLab, Processor, Time
from wavebed.store.records import read_run
from wavebed.virtual.guest import outside_of_path
from wavebed.virtual.kernel import NO_LANDLOCK, find_kernel, has_landlock

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.run.scenario import Plan, TreatmentPlan

TIME_KEY: Final = "lab.time"
MEMORY_KEY: Final = "lab.memory"
_PROCESSOR_KEY: Final = "lab.processor"
"""The keys that the options change."""
_LITTLE = ("bulk", "download", "latency", "voice")
"""Kinds of workloads whose guest needs `_LITTLE_BYTES`. Of browsers and commands nobody knows."""
_LITTLE_BYTES = 2000 << 20
_ONCE_BYTES = 600 << 20
_EACH_BYTES = {"call": 700 << 20, "video": 350 << 20, "web": 350 << 20, **dict.fromkeys(_LITTLE, 10 << 20)}
_OTHER_BYTES = 100 << 20
"""Memory of a guest for the workloads of a cell: once, for each by its kind, and a guess for each of another kind.

Guests of one call and of three used 1223 and 2565 MiB, of one page and of four 855 and 1792, of one video and of three
842 and 1486, of one download and of twenty 221 and 330.
"""
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
    kept = _kept(folder, TIME_KEY)
    return cast("Time", kept) if kept in get_args(Time) else None


def kept_memory(folder: Path) -> int | None:
    """Return the memory of guests that an option gave a run in its folder; ``None``: none did.

    Raises
    ------
    UserError
        If the record of the run is damaged.
    """
    kept = _kept(folder, MEMORY_KEY)
    return None if kept is None else at(MEMORY_KEY, guest_bytes, kept)


def _kept(folder: Path, key: str) -> Json:
    """Return what an option gave a key of a run in its folder; ``None``: nothing, or there is no run yet."""
    return read_run(folder, trials=False).overrides.get(key) if (folder / RUN_FILE).exists() else None


def guest_bytes_of(plan: Plan) -> int | None:
    """Return the memory of each guest of a plan with its time."""
    return next((each.lab.memory_bytes for each in plan.treatments if isinstance(each.lab, NamespacesLab)), None)


def with_time(
    plan: Plan,
    asked: Time | None = None,
    otherwise: Time = "real",
    outside: str = "",
    memory_bytes: int | None = None,
    processor: Processor | None = None,
) -> Plan:
    """Return the plan with a time for each treatment.

    Parameters
    ----------
    asked : str, optional
        What an option says; it overrides the scenario.
    otherwise : str
        The time of treatments whose scenario names none.
    outside : str
        Why this command needs real time; empty: it does not.
    memory_bytes : int, optional
        Memory of a guest, as an option says; it overrides the scenario.
    processor : str, optional
        Processor of a guest, as an option says; it overrides the scenario.

    Raises
    ------
    UserError
        If a plan that needs the outside is asked to be virtual, or one in real time has an option of guests.
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
        processors = [
            processor or each.lab.processor for each in plan.treatments if isinstance(each.lab, NamespacesLab)
        ]
        confined = () if has_landlock() else (NO_LANDLOCK,)
        notes = (*notes, *confined, f"in virtual time {_OF_HOST if 'host' in processors else _COMPUTING}")
    for option, value in (("--guest-memory", memory_bytes), ("--processor", processor)):
        if value is not None and "virtual" not in words:
            raise UserError(f"{option}: is for virtual time: add --virtual-time, or leave it out")
    needed = _needed_bytes(plan)
    treatments = tuple(
        _in_time(each, word, memory_bytes, needed, processor) for each, word in zip(plan.treatments, words, strict=True)
    )
    overrides = dict(plan.overrides)
    if memory_bytes is not None:
        overrides[MEMORY_KEY] = format_size(memory_bytes)
    if processor is not None:
        overrides[_PROCESSOR_KEY] = processor
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


def _needed_bytes(plan: Plan) -> int:
    """Return the memory of a guest that can run each treatment."""
    kinds = {workload.kind for each in plan.treatments for workload in each.workloads}
    usual = _LITTLE_BYTES if kinds <= {*_LITTLE} else USUAL_GUEST_BYTES
    return min(max(usual, *map(crowd_bytes, plan.treatments)), GUEST_BYTES[1])


def crowd_bytes(treatment: TreatmentPlan) -> int:
    """Return about what the workloads of a cell need together; 0 without a cell."""
    kinds = [each.kind for each in treatment.workloads if each.common.device is not None]
    return _ONCE_BYTES + sum(_EACH_BYTES.get(kind, _OTHER_BYTES) for kind in kinds) if kinds else 0


def _in_time(
    treatment: TreatmentPlan, word: Time, memory_bytes: int | None, needed_bytes: int, processor: Processor | None
) -> TreatmentPlan:
    if not isinstance(treatment.lab, NamespacesLab):
        return treatment
    is_virtual = word == "virtual"
    if treatment.lab.processor != "exact" and not is_virtual:
        raise UserError("lab.processor: is for virtual time: add --virtual-time, or remove the key")
    if treatment.lab.memory_bytes is not None and not is_virtual and isinstance(treatment.path, PathModel):
        raise UserError("lab.memory: is for virtual time: add --virtual-time, or remove the key")
    if not is_virtual:
        return dataclasses.replace(
            treatment, lab=msgspec.structs.replace(treatment.lab, time="real", memory_bytes=None)
        )
    memory_bytes = memory_bytes or treatment.lab.memory_bytes or needed_bytes
    processor = processor or treatment.lab.processor
    slower = treatment.lab.slower if processor == "host" else 1.0
    lab = msgspec.structs.replace(
        treatment.lab, time="virtual", processor=processor, slower=slower, memory_bytes=memory_bytes
    )
    return dataclasses.replace(treatment, lab=lab)
