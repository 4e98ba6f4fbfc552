"""Charts of one value against another: lines with marks, intervals as bars, on linear or logarithmic axes.

As in the figures over time, lines are SVG that stretches to the page's width and all text is HTML beside it. A mark
is a line of no length with a round end, so that it stays round when the drawing is stretched.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING

from wavebed.report.numbers import figure, nice_ticks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Axis", "Chart", "Line", "json_island", "linear", "logarithmic", "style_of"]

WIDE = 1000
"""Units from the left end of an axis to the right; their size depends on the page."""
STYLES = 6
"""The style sheet has so many colours; further lines are dashed."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale from `low` to `high` and its ticks: value and text."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    log: bool = False

    def fraction(self, value: float) -> float:
        """Return where a value is: 0 at the low end, 1 at the high one; values outside are at the ends."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        at = low if self.log and value <= 0 else self._scaled(value)
        return min(max((at - low) / (high - low), 0.0), 1.0)

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self.log else value


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart.

    Parameters
    ----------
    style : str
        Its classes in the style sheet.
    points : sequence of (float, float)
        In order of x; the line breaks at NaN.
    told : mapping
        The text of the read-out at an x; by default the y with three digits.
    bars : sequence of (float, float, float)
        Intervals: x, low, high.
    stepped : bool
        Whether a value holds until the next.
    marks : bool
        Whether each point has a mark.
    joined : bool
        Whether its points are joined.
    read : bool
        Whether the read-out has this line.
    """

    name: str
    style: str
    points: Sequence[tuple[float, float]]
    told: Mapping[float, str] | None = None
    bars: Sequence[tuple[float, float, float]] = ()
    stepped: bool = False
    marks: bool = True
    joined: bool = True
    read: bool = True


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines on two axes; `x_label` has the unit of x.

    Parameters
    ----------
    named : bool
        Whether the ticks of x are names; a point then belongs to the nearest.
    """

    title: str
    unit: str
    x_label: str
    x: Axis
    y: Axis
    lines: Sequence[Line]
    height: int = 230
    legend: bool = True
    named: bool = False

    def render(self) -> str:
        """Return the HTML."""
        kind = "xy named" if self.named else "xy"
        label = escape(f"{self.title}; arrow keys read values")
        levels = "".join(
            f'<span style="top:{100 * (1 - self.y.fraction(value)):.2f}%">{escape(text)}</span>'
            for value, text in self.y.ticks
        )
        places = "".join(
            f'<span style="left:{100 * self.x.fraction(value):.2f}%">{escape(text)}</span>'
            for value, text in self.x.ticks
        )
        grid = "".join(f"M0 {self._y(value)}H{WIDE}" for value, _ in self.y.ticks)
        grid += "".join(f"M{self._x(value)} 0V{self.height}" for value, _ in self.x.ticks)
        keys = "".join(
            f'<span class="item">{_swatch(line)}{escape(line.name)}</span>' for line in self.lines if self.legend
        )
        unit = f', <span class="unit">{escape(self.unit)}</span>' if self.unit else ""
        return (
            f'<figure class="chart still {kind}" tabindex="0" role="group" aria-label="{label}"><div class="plot">'
            f'<div class="panel"><div class="title"><b>{escape(self.title)}{unit}</b>{keys}</div>'
            f'<div class="area" style="height:{self.height}px"><div class="ticks" aria-hidden="true">{levels}</div>'
            f'<svg class="lines" viewBox="0 0 {WIDE} {self.height}" preserveAspectRatio="none" role="img"'
            f' aria-label="{escape(self.title)}"><path class="grid" d="{grid}"/>'
            f"{''.join(self._line(line) for line in self.lines)}</svg>"
            '<div class="cursor" hidden></div></div></div>'
            f'<div class="axis"><div class="times" aria-hidden="true">{places}</div>{escape(self.x_label)}</div></div>'
            f'<div class="readout" aria-live="polite"></div>{json_island("data", self._data())}</figure>'
        )

    def _x(self, value: float) -> str:
        return f"{self.x.fraction(value) * WIDE:.1f}"

    def _y(self, value: float) -> str:
        return f"{(1 - self.y.fraction(value)) * self.height:.1f}"

    def _line(self, line: Line) -> str:
        places = [(self._x(x), self._y(y)) for x, y in line.points if not math.isnan(y)]
        if not places:
            return ""
        path, begins = "", True
        for x, y in line.points:
            if math.isnan(y):
                begins = True
                continue
            way = "M{} {}" if begins else "H{}V{}" if line.stepped else "L{} {}"
            path += way.format(self._x(x), self._y(y))
            begins = False
        drawn = f'<path class="line {line.style}" d="{path}"/>' if line.joined else ""
        if line.bars:
            bars = "".join(f"M{self._x(x)} {self._y(low)}V{self._y(high)}" for x, low, high in line.bars)
            drawn += f'<path class="spread {line.style}" d="{bars}"/>'
        if line.marks:
            marks = "".join(f"M{x} {y}h.01" for x, y in places)
            drawn += f'<path class="mark-at {line.style}" d="{marks}"/>'
            drawn += f'<path class="hole" d="{marks}"/>' if not line.joined and " d" in line.style else ""
        return drawn

    def _data(self) -> dict[str, object]:
        """Return the data of the read-out: at each x of any line its place, its text, and each line's value."""
        read = [self._at_names(line) if self.named else line for line in self.lines if line.read]
        xs = sorted({x for line in read for x, y in line.points if not math.isnan(y)})
        texts = dict(self.x.ticks)
        lines = []
        for line in read:
            values = {x: y for x, y in line.points if not math.isnan(y)}
            told = line.told or {}
            if line.stepped:
                values = {x: y for x in xs if (y := _held(line.points, x)) is not None}
            said = [told.get(x) or (figure(values[x]) if x in values else None) for x in xs]
            lines.append({"name": line.name, "style": line.style, "values": said})
        return {
            "places": [round(self.x.fraction(x), 4) for x in xs],
            "texts": [texts.get(x) or figure(x) for x in xs],
            "label": self.x_label,
            "unit": "" if self.named else self.unit.partition(",")[0],
            "lines": lines,
        }

    def _at_names(self, line: Line) -> Line:
        def name_of(x: float) -> float:
            return min((tick for tick, _ in self.x.ticks), key=lambda tick: abs(tick - x))

        told = {name_of(x): text for x, text in (line.told or {}).items()}
        return replace(line, points=[(name_of(x), y) for x, y in line.points], told=told)


def json_island(kind: str, value: object) -> str:
    """Return a script element that holds data, from which nothing can break out."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json" class="{kind}">{text}</script>'


def linear(values: Sequence[float], *, zero: bool = True, about: int = 5) -> Axis:
    """Return a linear axis that holds the values, from 0 if `zero`."""
    low, high = min([*values, 0.0] if zero else values), max(values)
    ticks = nice_ticks(low, high if high > low else low + 1, about)
    return Axis(ticks[0], ticks[-1], [(tick, _tick(tick)) for tick in ticks])


def logarithmic(values: Sequence[float], ticks: Sequence[float] | None = None) -> Axis:
    """Return a logarithmic axis that holds the values, which are above 0.

    Parameters
    ----------
    ticks : sequence of float, optional
        The ticks; by default powers of ten, with 2 and 5 times them where there is room.
    """
    low, high = min(values), max(values)
    margin = 10 ** max(0.04 * math.log10(high / low), 0.01)
    low, high = low / margin, high * margin
    if ticks is None:
        ticks = _powers(low, high)
        if len(ticks) < 2:
            low, high = 10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high))
            ticks = _powers(low, high)
    return Axis(low, high, [(tick, _tick(tick)) for tick in ticks], log=True)


def _powers(low: float, high: float) -> list[float]:
    factors = (1.0,) if math.log10(high / low) > 3 else (1.0, 2.0, 5.0)
    found = (
        factor * 10.0**power
        for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for factor in factors
    )
    return [float(f"{tick:.6g}") for tick in found if low * 0.9999 <= tick <= high * 1.0001]


def style_of(index: int) -> str:
    """Return the style of the n-th line: six colours, then the same dashed."""
    dashes = index // STYLES % 4
    return f"t{index % STYLES}" + (f" d{dashes}" if dashes else "")


def _held(points: Sequence[tuple[float, float]], x: float) -> float | None:
    """Return the value of a stepped line at `x`."""
    place = bisect_right(points, (x, math.inf))
    return points[place - 1][1] if place else None


def _swatch(line: Line) -> str:
    mark = f'<path class="mark-at {line.style}" d="M11 4h.01"/>' if line.marks else ""
    if line.marks and not line.joined and " d" in line.style:
        mark += '<path class="hole" d="M11 4h.01"/>'
    joined = f'<path class="line {escape(line.style)}" d="M0 4H22"/>' if line.joined else ""
    return f'<svg class="swatch" viewBox="0 0 22 8" width="22" height="8" aria-hidden="true">{joined}{mark}</svg>'


def _tick(value: float) -> str:
    return figure(value) if abs(value) >= 10_000 else f"{value:.6g}".replace("-", "−")
