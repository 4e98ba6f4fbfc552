"""Charts as SVG: panels one above the other under one time axis. Colours come from the page's style sheet."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Band", "Line", "Panel", "nice_ticks", "render"]

WIDTH = 960
LEFT = 58
RIGHT = 14
TOP = 26
GAP = 34
AXIS = 34


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a panel.

    Parameters
    ----------
    key : str
        Its class in the style sheet.
    points : sequence of (float, float or None)
        Time in seconds and value; the line breaks at ``None``.
    stepped : bool
        Whether a value holds until the next point.
    filled : bool
        Whether the area below is filled.
    """

    key: str
    points: Sequence[tuple[float, float | None]]
    stepped: bool = False
    filled: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: a title with the unit, lines, and its height in pixels."""

    title: str
    lines: Sequence[Line]
    height: int = 150
    floor: float = 0.0


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch of time that is shaded in every panel, and what it is called."""

    start_s: float
    end_s: float
    label: str
    key: str = "band"


@dataclass(slots=True)
class _Canvas:
    end_s: float
    parts: list[str] = field(default_factory=list)

    def x(self, time_s: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * time_s / self.end_s


def nice_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round values from at most `low` to at least `high`."""
    if high <= low:
        high = low + 1
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first = math.floor(low / step)
    last = math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, last + 1)]


def render(panels: Sequence[Panel], bands: Sequence[Band], end_s: float, title: str) -> str:
    """Return the SVG element. Its last child is a hidden cursor line for the page's script.

    Parameters
    ----------
    panels : sequence of Panel
        From top to bottom.
    bands : sequence of Band
        What is shaded.
    end_s : float
        Where the time axis ends; it starts at 0.
    title : str
        What the chart is called for those who cannot see it.
    """
    canvas = _Canvas(end_s)
    top = TOP
    for index, panel in enumerate(panels):
        _panel(canvas, panel, bands if index else [], bands, top)
        top += panel.height + GAP
    bottom = top - GAP
    for second in nice_ticks(0, end_s, 8):
        if second <= end_s:
            place = canvas.x(second)
            canvas.parts.append(
                f'<text class="tick" x="{place:.1f}" y="{bottom + 16}" text-anchor="middle">{second:g}</text>'
            )
    middle = (LEFT + WIDTH - RIGHT) / 2
    canvas.parts.append(f'<text class="axis" x="{middle}" y="{bottom + 31}" text-anchor="middle">time, s</text>')
    canvas.parts.append(
        f'<line id="cursor" class="cursor" x1="0" x2="0" y1="{TOP}" y2="{bottom}" visibility="hidden"/>'
    )
    frame = f"{LEFT} {WIDTH - RIGHT} {end_s:g}"
    return (
        f'<svg id="chart" viewBox="0 0 {WIDTH} {bottom + AXIS}" role="img" aria-label="{escape(title)}"'
        f' tabindex="0" data-frame="{frame}">{"".join(canvas.parts)}</svg>'
    )


def _panel(canvas: _Canvas, panel: Panel, unlabelled: Sequence[Band], bands: Sequence[Band], top: int) -> None:
    values = [value for line in panel.lines for _, value in line.points if value is not None]
    ticks = nice_ticks(panel.floor, max(values, default=1.0))
    low, high = ticks[0], ticks[-1]
    bottom = top + panel.height

    def y(value: float) -> float:
        return bottom - panel.height * (value - low) / (high - low)

    for band in bands:
        left, right = canvas.x(band.start_s), canvas.x(min(band.end_s, canvas.end_s))
        canvas.parts.append(
            f'<rect class="{band.key}" x="{left:.1f}" y="{top}" width="{right - left:.1f}" height="{panel.height}"/>'
        )
        if not unlabelled:
            canvas.parts.append(
                f'<text class="bandlabel" x="{(left + right) / 2:.1f}" y="{top + 14}" text-anchor="middle">'
                f"{escape(band.label)}</text>"
            )
    for tick in ticks:
        place = y(tick)
        canvas.parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{place:.1f}" y2="{place:.1f}"/>')
        canvas.parts.append(f'<text class="tick" x="{LEFT - 7}" y="{place + 4:.1f}" text-anchor="end">{tick:g}</text>')
    canvas.parts.append(f'<text class="paneltitle" x="{LEFT}" y="{top - 9}">{escape(panel.title)}</text>')
    for line in panel.lines:
        for run in _runs(line.points):
            places = _steps(run) if line.stepped else run
            path = " ".join(f"{canvas.x(time_s):.1f},{y(value):.1f}" for time_s, value in places)
            if line.filled:
                first, last = canvas.x(places[0][0]), canvas.x(places[-1][0])
                canvas.parts.append(
                    f'<polygon class="fill {line.key}" points="{first:.1f},{bottom} {path} {last:.1f},{bottom}"/>'
                )
            canvas.parts.append(f'<polyline class="line {line.key}" points="{path}"/>')


def _runs(points: Sequence[tuple[float, float | None]]) -> list[list[tuple[float, float]]]:
    runs: list[list[tuple[float, float]]] = [[]]
    for time_s, value in points:
        if value is not None:
            runs[-1].append((time_s, value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _steps(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    places = points[:1]
    for time_s, value in points[1:]:
        places += [(time_s, places[-1][1]), (time_s, value)]
    return places
