"""Time figures: panels one above the other under one time axis, with the radio's states behind.

Lines are SVG that stretches to the page's width; all text is HTML beside it, so that it is legible on a phone too.
Colours come from the page's style sheet by class: ``t0`` … are treatments, ``d0`` … kinds of line. That picture is what
is printed, and what a page without script shows. The page's script reads the values back from the paths and draws them
with uPlot, which zooms and pans.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from wavebed.report.numbers import figure, nice_ticks, ticks_between
from wavebed.report.thin import Points, held, thinned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Bar", "Figure", "Line", "Panel", "Strip", "swatch"]

WIDE = 100_000
"""Units from the left end of the time axis to the right; their size depends on the page."""
HIGH = 10_000
"""Units from the lower end of a value axis to the upper one."""
BINS = 1000
TICK_PX = 38
"""About how far apart the labels of an axis are."""
LEAST_LABEL = 0.045
"""A bar that is shorter than this share of the axis has no text inside."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a panel.

    Parameters
    ----------
    name : str
        What the legend calls it; empty for a line that the legend leaves out.
    style : str
        Its classes in the style sheet.
    points : Points
        The line breaks at NaN.
    stepped : bool
        Whether a value holds until the next.
    filled : bool
        Whether the area below is filled.
    holds : bool
        Whether the last value of a stepped line holds to the end of the axis.
    """

    name: str
    style: str
    points: Points
    stepped: bool = False
    filled: bool = False
    holds: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: its title and unit, and its lines."""

    title: str
    unit: str
    lines: Sequence[Line]
    height: int = 140


@dataclass(frozen=True, slots=True)
class Bar:
    """An interval of time; `end_s` is ``None`` for a moment."""

    start_s: float
    end_s: float | None
    style: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Strip:
    """Rows of bars above the panels. Bars of one row do not overlap."""

    title: str
    rows: Sequence[Sequence[Bar]]
    inside: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels under one time axis.

    Parameters
    ----------
    label : str
        Its text for screen readers.
    start_s, end_s : float
        The axis, seconds since time zero of the trial.
    shades : sequence of Bar
        Intervals shaded behind all panels.
    """

    label: str
    start_s: float
    end_s: float
    panels: Sequence[Panel]
    strips: Sequence[Strip] = ()
    shades: Sequence[Bar] = ()

    def render(self) -> str:
        """Return the HTML."""
        frame = f'tabindex="0" role="group" aria-label="{escape(self.label)}"'
        axis = f'data-start="{self.start_s:.6g}" data-end="{self.end_s:.6g}"'
        parts = [f'<figure class="chart" {frame} {axis}><div class="plot">', self._shade()]
        parts += [self._strip(strip) for strip in self.strips]
        parts += [self._panel(panel) for panel in self.panels]
        parts.append(self._axis())
        parts.append('<div class="cursor" hidden></div></div><div class="readout" aria-live="polite"></div></figure>')
        return "".join(parts)

    def _fraction(self, time_s: float) -> float:
        return min(max((time_s - self.start_s) / (self.end_s - self.start_s), 0.0), 1.0)

    def _shade(self) -> str:
        if not self.shades:
            return ""
        styles = dict.fromkeys(bar.style for bar in self.shades)
        paths = []
        for style in styles:
            path = "".join(self._box(bar) for bar in self.shades if bar.style == style)
            paths.append(f'<path class="shade {style}" d="{path}"/>')
        frame = f'class="track" viewBox="0 0 {WIDE} 10" preserveAspectRatio="none" aria-hidden="true"'
        return f'<div class="shades window"><svg {frame}>{"".join(paths)}</svg></div>'

    def _box(self, bar: Bar) -> str:
        left = self._fraction(bar.start_s) * WIDE
        right = self._fraction(self.end_s if bar.end_s is None else bar.end_s) * WIDE
        return f"M{left:.0f} 0H{max(right, left + 30):.0f}V10H{left:.0f}Z"

    def _strip(self, strip: Strip) -> str:
        rows = []
        for row in strip.rows:
            bars = "".join(self._bar(bar, strip.inside) for bar in row)
            rows.append(f'<div class="bars{" inside" if strip.inside else ""}">{bars}</div>')
        first = min((bar.start_s for row in strip.rows for bar in row), default=self.start_s)
        place = self._fraction(first)
        side = f"left:{100 * place:.2f}%" if place < 0.7 else f"right:{100 - 100 * self._end(strip):.2f}%"
        title = "" if strip.inside else f'<div class="who"><span style="{side}">{escape(strip.title)}</span></div>'
        label = f'<div class="gutter">{escape(strip.title)}</div>' if strip.inside else ""
        track = f'<div class="window"><div class="track">{"".join(rows)}</div></div>'
        return f'<div class="strip">{label}{title}{track}</div>'

    def _end(self, strip: Strip) -> float:
        return max((self._fraction(bar.end_s or bar.start_s) for row in strip.rows for bar in row), default=1.0)

    def _bar(self, bar: Bar, inside: bool) -> str:
        left = self._fraction(bar.start_s)
        place = f"left:{100 * left:.2f}%"
        if bar.end_s is None:
            until = f"{bar.start_s:.2f} s"
            wide = 0.0
            kind = "moment "
        else:
            until = f"{bar.start_s:.2f} to {bar.end_s:.2f} s"
            wide = self._fraction(bar.end_s) - left
            place += f";width:{100 * wide:.2f}%"
            kind = ""
        text = escape(bar.text) if inside and wide >= LEAST_LABEL else ""
        tip = escape(f"{bar.text}, {until}" if bar.text else until)
        return f'<span class="bar {kind}{bar.style}" style="{place}" title="{tip}">{text}</span>'

    def _panel(self, panel: Panel) -> str:
        lines = [(line, line.points.between(self.start_s, self.end_s)) for line in panel.lines]
        lines = [(line, _with_first(line, points, self.start_s, self.end_s)) for line, points in lines]
        highest = [float(np.nanmax(points.value)) for _, points in lines if np.isfinite(points.value).any()]
        lowest = [float(np.nanmin(points.value)) for _, points in lines if np.isfinite(points.value).any()]
        ticks = nice_ticks(min([0.0, *lowest]), max(highest, default=1.0), round(panel.height / TICK_PX))
        low, high = ticks[0], ticks[-1]

        grid = "".join(f"M0 {HIGH * (high - tick) / (high - low):.0f}h{WIDE}" for tick in ticks)
        drawn = "".join(self._line(line, points, low, high) for line, points in lines)
        labels = "".join(
            f'<span style="top:{100 * (high - tick) / (high - low):.2f}%">{_tick(tick)}</span>' for tick in ticks
        )
        named = [line for line in panel.lines if line.name]
        legend = "".join(f'<span class="item">{swatch(line.style)}{escape(line.name)}</span>' for line in named)
        unit = f', <span class="unit">{escape(panel.unit)}</span>' if panel.unit else ""
        return (
            f'<div class="panel"><div class="title"><b>{escape(panel.title)}{unit}</b>{legend}</div>'
            f'<div class="area" style="height:{panel.height}px"><div class="ticks" aria-hidden="true">{labels}</div>'
            f'<svg class="lines" viewBox="0 0 {WIDE} {HIGH}" preserveAspectRatio="none" role="img"'
            f' aria-label="{escape(panel.title)}" data-low="{low:.6g}" data-high="{high:.6g}">'
            f'<path class="grid" d="{grid}"/>{drawn}</svg></div></div>'
        )

    def _line(self, line: Line, points: Points, low: float, high: float) -> str:
        if not line.stepped or len(points) > 4 * BINS:
            points = thinned(points, self.start_s, self.end_s, BINS)
        runs = []
        for run in _runs(points):
            xs = np.rint((run.time_s - self.start_s) / (self.end_s - self.start_s) * WIDE).astype(np.int64)
            ys = np.rint((high - run.value) / (high - low) * HIGH).astype(np.int64)
            runs.append((xs, ys, _steps(xs, ys, stepped=line.stepped)))
        filled = "".join(f"M{xs[0]} {HIGH}V{ys[0]}{steps}V{HIGH}Z" for xs, ys, steps in runs) if line.filled else ""
        fill = f'<path class="fill {line.style}" d="{filled}"/>' if filled else ""
        path = "".join(f"M{xs[0]} {ys[0]}{steps}" for xs, ys, steps in runs)
        return f'{fill}<path class="line {line.style}" data-name="{escape(line.name)}" d="{path}"/>' if path else ""

    def _axis(self) -> str:
        ticks = ticks_between(self.start_s, self.end_s)
        labels = "".join(f'<span style="left:{100 * self._fraction(tick):.2f}%">{_tick(tick)}</span>' for tick in ticks)
        return f'<div class="axis"><div class="times" aria-hidden="true">{labels}</div>time in the trial, s</div>'


def swatch(style: str) -> str:
    """Return a small piece of a line of a style, for legends."""
    return (
        f'<svg class="swatch" viewBox="0 0 22 8" width="22" height="8" aria-hidden="true">'
        f'<path class="line {escape(style)}" d="M0 4H22"/></svg>'
    )


def _with_first(line: Line, points: Points, start_s: float, end_s: float) -> Points:
    """Extend a stepped line to the start of the axis, and to its end if it holds."""
    if not line.stepped or not len(line.points):
        return points
    first = held(line.points, np.array([start_s]))
    if not np.isnan(first[0]) and (not len(points) or points.time_s[0] > start_s):
        points = Points(np.append(start_s, points.time_s), np.append(first, points.value))
    if line.holds and len(points) and line.points.time_s[-1] <= end_s:
        points = Points(np.append(points.time_s, end_s), np.append(points.value, points.value[-1]))
    return points


def _runs(points: Points) -> list[Points]:
    """Split at the gaps."""
    cuts = np.flatnonzero(np.diff(np.isnan(points.value).astype(np.int8))) + 1
    pieces = zip(np.split(points.time_s, cuts), np.split(points.value, cuts), strict=True)
    return [Points(time_s, value) for time_s, value in pieces if len(value) and not np.isnan(value[0])]


def _steps(xs: NDArray[np.int64], ys: NDArray[np.int64], *, stepped: bool) -> str:
    """Return the path from the first point on, in relative steps; a single point is a short line."""
    form = "h{}v{}" if stepped else "l{} {}"
    steps = zip(np.diff(xs).tolist(), np.diff(ys).tolist(), strict=True)
    return "".join(form.format(*step) for step in steps) if len(xs) > 1 or stepped else "h10"


def _tick(value: float) -> str:
    if abs(value) >= 10_000:
        return figure(value)
    return f"{value:g}".replace("-", "−")
