"""Rates by frame size: a table, all units, and the chart against line rate."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from wavebed.forward.checks import CEILING_SHARE
from wavebed.forward.report.chart import Axis, Chart, Line, logarithmic
from wavebed.forward.report.words import (
    GOAL_NAMES,
    GOAL_WORDS,
    bounds,
    cell,
    code,
    frames,
    goal_text,
    mbps,
    percent,
    section,
    table,
)
from wavebed.forward.verdicts import sizes_text
from wavebed.report.numbers import MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.forward.arithmetic import Rates
    from wavebed.forward.findings import DeviceResult, OverloadFinding, SizeFinding

__all__ = ["rates_section", "size_axis"]

_STYLES = {"pdr": "t2", "ndr": "t0", "rfc2544": "t1 d1"}
"""In the order in which they are drawn: they often lie on each other."""
_NO_CEILING = "ink d2"


def rates_section(result: DeviceResult) -> str:
    """Return the section with the results by frame size."""
    if not result.sizes and not result.overload:
        return section("results", "Rates by frame size", "<p>Nothing was measured.</p>")
    goals = [goal.name for goal in result.settings.goals]
    words = "; ".join(GOAL_WORDS[name] for name in goals)
    overload = "Overload is what gets through when line rate is offered: no loss-free rate."
    told = f'<p class="soft">Frames per second. {escape(words)}. {overload}</p>'
    return section("results", "Rates by frame size", told, _table(result, goals), _chart(result), _units(result, goals))


def size_axis(sizes: Sequence[int]) -> Axis:
    """Return the axis of frame sizes, with each of them written."""
    return logarithmic([float(size) for size in sizes], [float(size) for size in sorted(set(sizes))])


def _overload_of(result: DeviceResult, sizes: tuple[int, ...]) -> OverloadFinding | None:
    return next((one for one in result.overload if one.sizes_bytes == sizes), None)


def _table(result: DeviceResult, goals: Sequence[str]) -> str:
    head = ["frame size", "line rate", *(GOAL_NAMES[name] for name in goals), "overload"]
    rows = []
    for size in result.sizes:
        line = None if size.line_rate is None else size.line_rate.pps
        genome = f"<br>{code(size.genome)}" if size.genome else ""
        cells = [f"<th scope=row>{escape(sizes_text(size.name))}{genome}</th>", cell(frames(line))]
        for name in goals:
            finding = size.goal(name)
            text, below = goal_text(finding)
            if finding is not None and finding.rate is not None and line is not None and not below:
                below = percent(finding.rate.pps / line)
            why = finding.refusal.reason if finding is not None and finding.refusal is not None else ""
            cells.append(cell(text, below, "refused" if text == "refused" else "", why))
        cells.append(_overload_cell(_overload_of(result, size.sizes_bytes)))
        rows.append(f"<tr>{''.join(cells)}</tr>")
    for one in result.overload:
        if all(size.sizes_bytes != one.sizes_bytes for size in result.sizes):
            name = sizes_text(str(one.sizes_bytes[0]))
            empty = cell(MISSING) * len(goals)
            line_cell = cell(frames(None if one.asked is None else one.asked.pps))
            rows.append(f"<tr><th scope=row>{escape(name)}</th>{line_cell}{empty}{_overload_cell(one)}</tr>")
    return table("Rates by frame size, frames per second", head, rows, "rates")


def _overload_cell(finding: OverloadFinding | None) -> str:
    if finding is None:
        return cell(MISSING)
    if finding.received is None:
        why = finding.refusals[0] if finding.refusals else None
        return cell("refused", why.code.replace("_", " ") if why else "", "refused", why.reason if why else "")
    return cell(frames(finding.received.pps), f"{percent(finding.loss_ratio.estimate)} lost")


def _units(result: DeviceResult, goals: Sequence[str]) -> str:
    """Return every rate in all units, each named."""
    rows = []
    for size in result.sizes:
        entries: list[tuple[str, Rates, str]] = []
        if size.line_rate is not None:
            entries.append(("line rate", size.line_rate, "by arithmetic"))
        for name in goals:
            goal = size.goal(name)
            if goal is None or goal.rate is None:
                continue
            upper = goal.upper.offered.pps if goal.upper is not None else None
            between = f"{frames(goal.rate.pps)} to {frames(upper)}" if upper else "no load above it"
            entries.append((GOAL_NAMES[name], goal.rate, between))
        overload = _overload_of(result, size.sizes_bytes)
        if overload is not None and overload.received is not None:
            interval = bounds(overload.received_pps, whole=True)
            entries.append(
                ("overload, received", overload.received, f"{interval}, {overload.received_pps.count} trials")
            )
        rows += _unit_rows(size, entries)
    if not rows:
        return ""
    head = [
        "frame size",
        "measure",
        "pps",
        "Mbit/s at L1",
        "Mbit/s of frames",
        "Mbit/s of payload",
        "known to be within, pps",
    ]
    note = (
        '<p class="soft">L1 counts preamble, frame with FCS and gap (frame + 20 bytes): at line rate it is the speed of'
        " the link. Frames count FCS. Payload is UDP payload, as iperf3 prints. Within: the bounds of the search, or"
        " the 95 % interval of the median.</p>"
    )
    body = table("Every rate in all units", head, rows, "units", [1])
    return f"<details open><summary>The same in all units</summary>{note}{body}</details>"


def _unit_rows(size: SizeFinding, entries: Sequence[tuple[str, Rates, str]]) -> list[str]:
    rows = []
    for place, (name, rate, within) in enumerate(entries):
        first = (
            f'<th scope=rowgroup rowspan="{len(entries)}">{escape(sizes_text(size.name))}</th>' if place == 0 else ""
        )
        cells = (frames(rate.pps), mbps(rate.l1_mbps), mbps(rate.frame_mbps), mbps(rate.payload_mbps), within)
        rows.append(f"<tr>{first}<td class=word>{escape(name)}</td>{''.join(cell(text) for text in cells)}</tr>")
    return rows


def _chart(result: DeviceResult) -> str:
    """Return rate by frame size, both logarithmic: line rate falls straight, what limits packets is level."""
    sizes = sorted((size for size in result.sizes if len(size.sizes_bytes) == 1), key=lambda size: size.sizes_bytes)
    if len(sizes) < 2:
        return ""
    lines = []
    if all(size.line_rate is not None for size in sizes):
        points = [(float(size.sizes_bytes[0]), size.line_rate.pps) for size in sizes if size.line_rate is not None]
        lines.append(_line("line rate", "capacity band", points, marks=False))
    points = [(float(size.sizes_bytes[0]), CEILING_SHARE * size.ceiling.pps) for size in sizes]
    lines.append(_line("90 % of the tester's ceiling", _NO_CEILING, points, marks=False))
    for name, style in _STYLES.items():
        found = [(float(size.sizes_bytes[0]), size.goal(name)) for size in sizes]
        points = [(x, one.rate.pps) for x, one in found if one is not None and one.rate is not None]
        if points:
            lines.append(_line(GOAL_NAMES[name], style, points))
    points = [(float(one.sizes_bytes[0]), one.received.pps) for one in result.overload if one.received is not None]
    if points:
        lines.append(_line("overload", "t3", sorted(points), joined=False))
    values = [y for line in lines for _, y in line.points]
    return Chart(
        "Rate by frame size",
        "Mpps",
        "frame size with FCS, bytes",
        size_axis([size.sizes_bytes[0] for size in sizes]),
        logarithmic(values),
        lines,
        280,
    ).render()


def _line(
    name: str, style: str, points: Sequence[tuple[float, float]], *, marks: bool = True, joined: bool = True
) -> Line:
    in_millions = [(x, pps / 1e6) for x, pps in points]
    told = {x: f"{pps / 1e6:.4g}" for x, pps in points}
    return Line(name, style, in_millions, told, marks=marks, joined=joined)
