"""Time figures: panels one above the other under one time axis, with the radio's states behind and a read-out below.

Lines are SVG that stretches to the page's width; all text is HTML beside it, so that it is legible on a phone too.
Colours come from the page's style sheet by class: ``t0`` … are treatments, ``d0`` … kinds of line.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from wavebed.report.numbers import figure, nice_step, nice_ticks, ticks_between
from wavebed.report.thin import Points, held, in_steps, middles, thinned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.report.thin import Floats, How

__all__ = ["Bar", "Figure", "Line", "Panel", "Strip", "json_island", "swatch"]

WIDE = 1000
"""Units from the left end of the time axis to the right; their size depends on the page."""
READOUT_STEPS = 400
BINS = 400
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
        What the read-out calls it; empty for a line that the read-out leaves out.
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
    how : {"mean", "max", "last"}
        What the read-out tells of a step of time.
    """

    name: str
    style: str
    points: Points
    stepped: bool = False
    filled: bool = False
    holds: bool = False
    how: How = "mean"


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: its title and unit, its lines, and what its kinds of line mean (style and text)."""

    title: str
    unit: str
    lines: Sequence[Line]
    legend: Sequence[tuple[str, str]] = ()
    height: int = 140


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of time; `end_s` is ``None`` for a moment."""

    start_s: float
    end_s: float | None
    style: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Strip:
    """A row of bars above the panels. Bars of one `lane` never lie on each other."""

    title: str
    lanes: Sequence[Sequence[Bar]]
    inside: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels under one time axis.

    Parameters
    ----------
    label : str
        What it is called for those who cannot see it.
    start_s, end_s : float
        The axis, seconds since time zero of the trial.
    shades : sequence of Bar
        What is shaded behind all panels.
    """

    label: str
    start_s: float
    end_s: float
    panels: Sequence[Panel]
    strips: Sequence[Strip] = ()
    shades: Sequence[Bar] = ()

    def render(self) -> str:
        """Return the HTML."""
        label = escape(f"{self.label}; arrow keys read values")
        parts = [
            f'<figure class="chart" tabindex="0" role="group" aria-label="{label}"><div class="plot">',
            self._shade(),
        ]
        parts += [self._strip(strip) for strip in self.strips]
        parts += [self._panel(panel) for panel in self.panels]
        parts.append(self._axis())
        parts.append('<div class="cursor" hidden></div></div><div class="readout" aria-live="polite"></div>')
        parts.append(json_island("data", self._data()))
        parts.append("</figure>")
        return "".join(parts)

    def _share(self, time_s: float) -> float:
        return min(max((time_s - self.start_s) / (self.end_s - self.start_s), 0.0), 1.0)

    def _x(self, times_s: Floats) -> Floats:
        return (times_s - self.start_s) / (self.end_s - self.start_s) * WIDE

    def _shade(self) -> str:
        if not self.shades:
            return ""
        styles = dict.fromkeys(bar.style for bar in self.shades)
        paths = []
        for style in styles:
            path = "".join(self._box(bar) for bar in self.shades if bar.style == style)
            paths.append(f'<path class="shade {style}" d="{path}"/>')
        frame = f'class="shades" viewBox="0 0 {WIDE} 10" preserveAspectRatio="none" aria-hidden="true"'
        return f"<svg {frame}>{''.join(paths)}</svg>"

    def _box(self, bar: Bar) -> str:
        left = self._share(bar.start_s) * WIDE
        right = self._share(self.end_s if bar.end_s is None else bar.end_s) * WIDE
        return f"M{left:.1f} 0H{max(right, left + 0.3):.1f}V10H{left:.1f}Z"

    def _strip(self, strip: Strip) -> str:
        lanes = []
        for lane in strip.lanes:
            bars = "".join(self._bar(bar, strip.inside) for bar in lane)
            lanes.append(f'<div class="lane{" inside" if strip.inside else ""}">{bars}</div>')
        first = min((bar.start_s for lane in strip.lanes for bar in lane), default=self.start_s)
        place = self._share(first)
        side = f"left:{100 * place:.2f}%" if place < 0.7 else f"right:{100 - 100 * self._end(strip):.2f}%"
        title = "" if strip.inside else f'<div class="who"><span style="{side}">{escape(strip.title)}</span></div>'
        label = f'<div class="gutter">{escape(strip.title)}</div>' if strip.inside else ""
        return f'<div class="strip">{label}{title}{"".join(lanes)}</div>'

    def _end(self, strip: Strip) -> float:
        return max((self._share(bar.end_s or bar.start_s) for lane in strip.lanes for bar in lane), default=1.0)

    def _bar(self, bar: Bar, inside: bool) -> str:
        left = self._share(bar.start_s)
        place = f"left:{100 * left:.2f}%"
        if bar.end_s is None:
            until = f"{bar.start_s:.2f} s"
            wide = 0.0
            kind = "moment "
        else:
            until = f"{bar.start_s:.2f} to {bar.end_s:.2f} s"
            wide = self._share(bar.end_s) - left
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

        def y(values: Floats) -> Floats:
            return panel.height * (high - values) / (high - low)

        grid = "".join(f"M0 {panel.height * (high - tick) / (high - low):.1f}H{WIDE}" for tick in ticks)
        drawn = "".join(self._line(line, points, y, float(panel.height)) for line, points in lines)
        labels = "".join(
            f'<span style="top:{100 * (high - tick) / (high - low):.2f}%">{_tick(tick)}</span>' for tick in ticks
        )
        legend = "".join(f'<span class="item">{swatch(style)}{escape(text)}</span>' for style, text in panel.legend)
        unit = f', <span class="unit">{escape(panel.unit)}</span>' if panel.unit else ""
        return (
            f'<div class="panel"><div class="title"><b>{escape(panel.title)}{unit}</b>{legend}</div>'
            f'<div class="area" style="height:{panel.height}px"><div class="ticks" aria-hidden="true">{labels}</div>'
            f'<svg class="lines" viewBox="0 0 {WIDE} {panel.height}" preserveAspectRatio="none" role="img"'
            f' aria-label="{escape(panel.title)}"><path class="grid" d="{grid}"/>{drawn}</svg></div></div>'
        )

    def _line(self, line: Line, points: Points, y: object, floor: float) -> str:
        assert callable(y), "a scale"
        if not line.stepped or len(points) > 4 * BINS:
            points = thinned(points, self.start_s, self.end_s, BINS)
        out = []
        for run in _runs(points):
            xs, ys = self._x(run.time_s), y(run.value)
            path = _stepped(xs, ys) if line.stepped else _straight(xs, ys)
            if line.filled:
                out.append(f'<path class="fill {line.style}" d="M{xs[0]:.1f} {floor:.1f}L{path[1:]}V{floor:.1f}Z"/>')
            if len(run) == 1 and not line.stepped:
                path += "h.1"
            out.append(f'<path class="line {line.style}" d="{path}"/>')
        return "".join(out)

    def _axis(self) -> str:
        ticks = ticks_between(self.start_s, self.end_s)
        labels = "".join(f'<span style="left:{100 * self._share(tick):.2f}%">{_tick(tick)}</span>' for tick in ticks)
        return f'<div class="axis"><div class="times" aria-hidden="true">{labels}</div>time in the trial, s</div>'

    def _data(self) -> dict[str, object]:
        step_s = nice_step(self.end_s - self.start_s, READOUT_STEPS)
        count = max(1, math.ceil((self.end_s - self.start_s) / step_s - 1e-9))
        moments_s = middles(self.start_s, step_s, count)
        panels = []
        for panel in self.panels:
            lines = []
            for line in panel.lines:
                if not line.name:
                    continue
                if line.stepped:
                    values = held(line.points, moments_s)
                else:
                    values = in_steps(line.points, self.start_s, step_s, count, line.how)
                lines.append({"name": line.name, "style": line.style, "values": [_short(value) for value in values]})
            panels.append({"title": panel.title, "unit": panel.unit, "lines": lines})
        states = [bar for bar in self.shades if bar.text]
        shades = [[round(bar.start_s, 3), _round(bar.end_s), bar.text] for bar in states[:READOUT_STEPS]]
        return {"start": self.start_s, "end": self.end_s, "step": step_s, "panels": panels, "states": shades}


def swatch(style: str) -> str:
    """Return a small piece of a line of a style, for legends."""
    return (
        f'<svg class="swatch" viewBox="0 0 22 8" width="22" height="8" aria-hidden="true">'
        f'<path class="line {escape(style)}" d="M0 4H22"/></svg>'
    )


def json_island(kind: str, value: object) -> str:
    """Return a script element that holds data, from which nothing can break out."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json" class="{kind}">{text}</script>'


def _with_first(line: Line, points: Points, start_s: float, end_s: float) -> Points:
    """Let a stepped line begin with what holds at the start, and hold to the end if it does."""
    if not line.stepped or not len(line.points):
        return points
    first = held(line.points, np.array([start_s]))
    if not np.isnan(first[0]) and (not len(points) or points.time_s[0] > start_s):
        points = Points(np.append(start_s, points.time_s), np.append(first, points.value))
    if line.holds and len(points) and line.points.time_s[-1] <= end_s:
        points = Points(np.append(points.time_s, end_s), np.append(points.value, points.value[-1]))
    return points


def _runs(points: Points) -> list[Points]:
    """Cut at the gaps."""
    cuts = np.flatnonzero(np.diff(np.isnan(points.value).astype(np.int8))) + 1
    pieces = zip(np.split(points.time_s, cuts), np.split(points.value, cuts), strict=True)
    return [Points(time_s, value) for time_s, value in pieces if len(value) and not np.isnan(value[0])]


def _straight(xs: Floats, ys: Floats) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(xs.tolist(), ys.tolist(), strict=True))


def _stepped(xs: Floats, ys: Floats) -> str:
    first = f"M{xs[0]:.1f} {ys[0]:.1f}"
    return first + "".join(f"H{x:.1f}V{y:.1f}" for x, y in zip(xs[1:].tolist(), ys[1:].tolist(), strict=True))


def _tick(value: float) -> str:
    if abs(value) >= 10_000:
        return figure(value)
    return f"{value:g}".replace("-", "−")


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _short(value: float) -> float | int | None:
    if math.isnan(value):
        return None
    short = float(f"{value:.3g}") if abs(value) < 1000 else round(value)
    return int(short) if short == int(short) else short
