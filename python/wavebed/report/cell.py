"""The figure of a cell: who had the slots, and the rates, waits and fairness of its devices beneath."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wavebed.page.plots import Panel, PanelLine, TimeFigure
from wavebed.page.points import ThinnedPoints, middles, summed
from wavebed.page.text import nice_step
from wavebed.result.devices import cell_of, users_of
from wavebed.result.transport import jain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.page.points import Floats
    from wavebed.report.source import ReportedTrial

STYLES = 6
"""Colours of devices; with more devices the last colour has all those with the least air time."""
_MODELLED = "ink"
"""Style of modelled users, which are one band."""
STEPS = 200
LEAST_STEP_S = 0.05
FAIR_STEP_S = 1.0
"""Jain's index of rates over a shorter time says who was served just now, not who is served less."""
_SIDES = (("down", "downlink"), ("up", "uplink"))


class Shown(NamedTuple):
    """Devices that one line stands for.

    Parameters
    ----------
    name : str
        Of the device, or how many there are.
    style : str
        Its class in the style sheet.
    devices : sequence of str
        All of them.
    """

    name: str
    style: str
    devices: Sequence[str]


class DeviceCourse(NamedTuple):
    """A link of a device over time.

    Parameters
    ----------
    rate_mbps : ThinnedPoints
        Of the IP packets that it delivered.
    air_percent : ThinnedPoints or None
        Air time as a part of the time; ``None`` if it was not counted.
    wait_ms : ThinnedPoints
        Mean time in its queue; NaN where nothing left it.
    """

    rate_mbps: ThinnedPoints
    air_percent: ThinnedPoints | None
    wait_ms: ThinnedPoints


def cell_figure(trial: ReportedTrial) -> TimeFigure | None:
    """Return who had the slots of a cell; ``None`` for a trial without a cell of at least two devices."""
    cell, devices = cell_of(trial.record)
    users = {side: users_of(trial.record, side) for side, _ in _SIDES}
    if len(devices) < 2 and not any(users.values()):
        return None
    end_s = trial.end_s
    step_s = max(nice_step(end_s, STEPS), LEAST_STEP_S)
    panels: list[Panel] = []
    of_side = {
        side: {device: _course(trial, f"{cell}.{device}.{side}", step_s, end_s) for device in devices}
        for side, _ in _SIDES
    }
    shown = _shown(of_side, devices)
    for side, name in _SIDES:
        courses = of_side[side]
        modelled = _of_users(trial, f"{cell}.{side}", users[side], step_s, end_s)
        if modelled is None and not any(np.nansum(course.rate_mbps.value) for course in courses.values()):
            continue
        panels += filter(None, [_slots(shown, courses, modelled, name)])
        panels.append(_rates(shown, courses, modelled, name))
        panels.append(_waits(shown, courses, name))
    fair = _fairness(trial, cell, devices, end_s)
    if fair.lines:
        panels.append(fair)
    return TimeFigure(f"Who had the slots of {cell} over time", 0.0, end_s, panels) if panels else None


def _course(trial: ReportedTrial, link: str, step_s: float, end_s: float) -> DeviceCourse:
    rows = trial.of_device(link)
    rate = summed(rows.time_s, rows.delivered_bytes * 8 / 1e6, step_s, end_s)
    air = None if rows.air_ns is None else summed(rows.time_s, rows.air_ns / 1e7, step_s, end_s)
    known = ~np.isnan(rows.wait_ms)
    weight = np.maximum(rows.delivered_segments[known], 1.0)
    waited = summed(rows.time_s[known], weight * rows.wait_ms[known], step_s, end_s)
    segments = summed(rows.time_s[known], weight, step_s, end_s)
    wait = np.divide(waited.value, segments.value, out=np.full(len(waited), np.nan), where=segments.value > 0)
    return DeviceCourse(rate, air, ThinnedPoints(waited.time_s, wait))


def _shown(of_side: Mapping[str, Mapping[str, DeviceCourse]], devices: Sequence[str]) -> list[Shown]:
    """Return the lines: each device, or those with most air time and all others together."""

    def weight(device: str) -> float:
        courses = (courses[device] for courses in of_side.values())
        return float(sum(np.nansum((each.air_percent or each.rate_mbps).value) for each in courses))

    if len(devices) <= STYLES:
        return [Shown(device, f"c{place}", [device]) for place, device in enumerate(devices)]
    first = sorted(devices, key=weight, reverse=True)[: STYLES - 1]
    most = [device for device in devices if device in first]
    others = [device for device in devices if device not in first]
    alone = [Shown(device, f"c{place}", [device]) for place, device in enumerate(most)]
    return [*alone, Shown(f"{len(others)} others", f"c{STYLES - 1}", others)]


class UsersCourse(NamedTuple):
    """All modelled users of a direction together, over time: their mean rate, their air time."""

    name: str
    rate_mbps: ThinnedPoints
    air_percent: ThinnedPoints


def _of_users(trial: ReportedTrial, cell: str, users: Sequence[str], step_s: float, end_s: float) -> UsersCourse | None:
    rates, airs, time_s = [], [], np.empty(0)
    for user in users:
        at_s, served_bytes, air_ns = trial.of_user(cell, user)
        rate = summed(at_s, served_bytes * 8 / 1e6, step_s, end_s)
        rates.append(rate.value)
        airs.append(summed(at_s, air_ns / 1e7, step_s, end_s).value)
        time_s = rate.time_s
    if not users or not np.nansum(airs):
        return None
    name = users[0] if len(users) == 1 else f"{len(users)} modelled users"
    rate, air = ThinnedPoints(time_s, np.mean(rates, axis=0)), ThinnedPoints(time_s, np.sum(airs, axis=0))
    return UsersCourse(name, rate, air)


def _slots(
    shown: Sequence[Shown], courses: Mapping[str, DeviceCourse], modelled: UsersCourse | None, name: str
) -> Panel | None:
    known = {device: course.air_percent for device, course in courses.items() if course.air_percent is not None}
    if len(known) < len(courses):
        return None
    lines = []
    total: Floats = np.zeros(1)
    for each in shown:
        total = total + np.sum([known[device].value for device in each.devices], axis=0)
        time_s = known[each.devices[0]].time_s
        lines.append(PanelLine(each.name, each.style, ThinnedPoints(time_s, total), filled=True))
    if modelled is not None:
        total = total + modelled.air_percent.value
        lines.append(
            PanelLine(modelled.name, _MODELLED, ThinnedPoints(modelled.air_percent.time_s, total), filled=True)
        )
    return Panel(f"Who had the slots, {name}: air time", "% of the time", lines, 190, stacked=True)


def _rates(
    shown: Sequence[Shown], courses: Mapping[str, DeviceCourse], modelled: UsersCourse | None, name: str
) -> Panel:
    lines = []
    for each in shown:
        rates = [courses[device].rate_mbps for device in each.devices]
        mean = np.mean([rate.value for rate in rates], axis=0)
        lines.append(PanelLine(_mean_of(each), each.style, ThinnedPoints(rates[0].time_s, mean)))
    if modelled is not None:
        several = modelled.name.endswith("modelled users")
        lines.append(PanelLine(f"mean of {modelled.name}" if several else modelled.name, _MODELLED, modelled.rate_mbps))
    return Panel(f"Rates, {name}", "Mbit/s", lines)


def _waits(shown: Sequence[Shown], courses: Mapping[str, DeviceCourse], name: str) -> Panel:
    lines = []
    for each in shown:
        waits = np.array([courses[device].wait_ms.value for device in each.devices])
        known = ~np.isnan(waits)
        count = known.sum(axis=0)
        mean = np.divide(np.nansum(waits, axis=0), count, out=np.full(len(count), np.nan), where=count > 0)
        time_s = courses[each.devices[0]].wait_ms.time_s
        lines.append(PanelLine(_mean_of(each), each.style, ThinnedPoints(time_s, mean)))
    return Panel(f"Delays, {name}: mean time in the queue of the radio", "ms", lines)


def _mean_of(each: Shown) -> str:
    return each.name if len(each.devices) == 1 else f"mean of {each.name}"


def _fairness(trial: ReportedTrial, cell: str, devices: Sequence[str], end_s: float) -> Panel:
    """Return Jain's index of the devices' rates in each second, of those that received or sent in it."""
    lines = []
    step_s = min(FAIR_STEP_S, end_s)
    for place, (side, name) in enumerate(_SIDES):
        rates = []
        for device in devices:
            rows = trial.of_device(f"{cell}.{device}.{side}")
            rates.append(summed(rows.time_s, rows.delivered_bytes, step_s, end_s).value)
        index = [jain([rate for rate in step if rate > 0]) for step in np.array(rates).T.tolist()]
        values = np.array([np.nan if each is None else each for each in index])
        if not np.isnan(values).all():
            points = ThinnedPoints(middles(0.0, step_s, len(values)), values)
            lines.append(PanelLine(name, f"ink d{place}", points))
    return Panel("Fairness: Jain's index of the rates of active devices in each second, 1 is equal", "", lines, 110)
