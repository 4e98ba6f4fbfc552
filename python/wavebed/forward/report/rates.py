"""Rates by frame size: a table, all units, and the chart against line rate."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from wavebed.forward.checks import CEILING_FRACTION
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
from wavebed.forward.result import sizes_text
from wavebed.report.numbers import MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.forward.frames import Rates
    from wavebed.forward.parts import OverloadFinding
    from wavebed.forward.result import DeviceResult
    from wavebed.forward.search import SizeFinding
    from wavebed.stats.intervals import Interval

__all__ = ["rates_section", "size_axis"]

_STYLES = {"pdr": "t2", "ndr": "t0", "rfc2544": "t1 d1"}
"""Drawn in this order: they often lie on each other."""
_NO_CEILING = "ink d2"


def rates_section(result: DeviceResult) -> str:
    """Return the section with the results by frame size."""
    if not result.sizes and not result.overload:
        return section("results", "Rates by frame size", "<p>Nothing was measured.</p>")
    rows = _rows(result)
    goals = [goal.name for goal in result.settings.goals if result.sizes]
    words = "".join(f"{GOAL_WORDS[name]}; " for name in goals)
    told = (
        f'<p class="soft">Frames per second. {escape(words)}overload: the rate that is forwarded when line rate, or'
        " all that the tester can, is offered.</p>"
    )
    parts = (told, _table(rows, goals), _chart(result), _units(rows, goals))
    return section("results", "Rates by frame size", *parts)


def size_axis(sizes: Sequence[int]) -> Axis:
    """Return the axis of frame sizes, with each of them written."""
    return logarithmic([float(size) for size in sizes], [float(size) for size in sorted(set(sizes))])


@dataclass(frozen=True, slots=True)
class _Row:
    """One size or mix: its search, its overload test, or both."""

    name: str
    line: Rates | None
    search: SizeFinding | None
    overload: OverloadFinding | None


def _rows(result: DeviceResult) -> list[_Row]:
    """Return a row for each size in order, then the mixes."""
    tests = {one.sizes_bytes: one for one in result.overload}
    found = {
        size.sizes_bytes: _Row(size.name, size.line_rate, size, tests.get(size.sizes_bytes)) for size in result.sizes
    }
    for sizes, one in tests.items():
        found.setdefault(sizes, _Row(str(sizes[0]), one.asked, None, one))
    return [found[sizes] for sizes in sorted(found, key=lambda sizes: (len(sizes) > 1, sizes))]


def _table(rows: Sequence[_Row], goals: Sequence[str]) -> str:
    head = ["frame size", "line rate", *(GOAL_NAMES[name] for name in goals), "overload"]
    return table("Rates by frame size, frames per second", head, [_table_row(row, goals) for row in rows], "rates")


def _table_row(row: _Row, goals: Sequence[str]) -> str:
    line = None if row.line is None else row.line.pps
    genome = f"<br>{code(row.search.genome)}" if row.search is not None and row.search.genome else ""
    cells = [f"<th scope=row>{escape(sizes_text(row.name))}{genome}</th>", cell(frames(line))]
    for name in goals:
        finding = None if row.search is None else row.search.goal(name)
        text, below = goal_text(finding)
        if finding is not None and finding.rate is not None and line is not None and not below:
            below = percent(finding.rate.pps / line)
        why = finding.refusal.reason if finding is not None and finding.refusal is not None else ""
        cells.append(cell(text, below, "refused" if text == "refused" else "", why))
    return f"<tr>{''.join(cells)}{_overload_cell(row.overload)}</tr>"


def _overload_cell(finding: OverloadFinding | None) -> str:
    if finding is None:
        return cell(MISSING)
    why = finding.refusals[0] if finding.refusals else None
    if finding.received is None:
        return cell("refused", why.code.replace("_", " ") if why else "", "refused", why.reason if why else "")
    refused = len(finding.trials) - finding.received_pps.count
    told = f", {refused} of {len(finding.trials)} refused" if refused > 0 else ""
    lost = percent(finding.loss_ratio.estimate)
    return cell(frames(finding.received.pps), f"{lost} lost{told}", title=why.reason if why else "")


def _units(rows: Sequence[_Row], goals: Sequence[str]) -> str:
    """Return every rate in all units, each named."""
    body = [line for row in rows for line in _unit_rows(row.name, _entries(row, goals))]
    if not body:
        return ""
    head = ["frame size", "measure", "pps"]
    head += ["Mbit/s at L1", "Mbit/s of frames", "Mbit/s of payload", "known to be within, pps"]
    note = (
        '<p class="soft">L1 counts preamble, frame with FCS and gap (frame + 20 bytes): at line rate it is the speed of'
        " the link. Frames count FCS. Payload is UDP payload, as iperf3 prints. Within: the bounds of the search, or"
        " the 95 % interval of the median.</p>"
    )
    shown = table("Every rate in all units", head, body, "units", [1])
    return f"<details open><summary>The same in all units</summary>{note}{shown}</details>"


def _entries(row: _Row, goals: Sequence[str]) -> list[tuple[str, Rates, str]]:
    """Return the figures of a size: name, rate and bounds."""
    entries: list[tuple[str, Rates, str]] = []
    if row.line is not None:
        entries.append(("line rate", row.line, "by arithmetic"))
    for name in goals:
        goal = None if row.search is None else row.search.goal(name)
        if goal is None or goal.rate is None:
            continue
        upper = goal.upper.offered.pps if goal.upper is not None else None
        between = f"{frames(goal.rate.pps)} to {frames(upper)}" if upper else "no load above it"
        entries.append((GOAL_NAMES[name], goal.rate, between))
    if row.overload is not None and row.overload.received is not None:
        received = row.overload.received_pps
        trials = f"{received.count} trial{'s' if received.count != 1 else ''}"
        entries.append(("overload, received", row.overload.received, f"{_within(received)}, {trials}"))
    return entries


def _within(interval: Interval) -> str:
    return "no interval" if interval.low is None else bounds(interval, whole=True)


def _unit_rows(name: str, entries: Sequence[tuple[str, Rates, str]]) -> list[str]:
    rows = []
    span = f'<th scope=rowgroup rowspan="{len(entries)}">{escape(sizes_text(name))}</th>'
    for place, (measure, rate, within) in enumerate(entries):
        cells = (frames(rate.pps), mbps(rate.l1_mbps), mbps(rate.frame_mbps), mbps(rate.payload_mbps), within)
        head = span if place == 0 else ""
        rows.append(f"<tr>{head}<td class=word>{escape(measure)}</td>{''.join(cell(text) for text in cells)}</tr>")
    return rows


def _chart(result: DeviceResult) -> str:
    """Return rate by frame size, both logarithmic: line rate falls straight, a limit of packets is level."""
    sizes = sorted((size for size in result.sizes if len(size.sizes_bytes) == 1), key=lambda size: size.sizes_bytes)
    if len(sizes) < 2:
        return ""
    lines = []
    if all(size.line_rate is not None for size in sizes):
        points = [(float(size.sizes_bytes[0]), size.line_rate.pps) for size in sizes if size.line_rate is not None]
        lines.append(_line("line rate", "capacity band", points, marks=False))
    points = [(float(size.sizes_bytes[0]), CEILING_FRACTION * size.ceiling.pps) for size in sizes]
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
