"""Charts inside pages: figures over time, of panels under one time axis; and charts of one value against another.

Lines are SVG that stretches to the page's width; all text is HTML beside it, so that it is legible on a phone too. A
mark is a line of no length with a round end, so that it stays round when the drawing is stretched. Colours come from
the page's style sheet by class: ``t0`` … are treatments, ``d0`` … kinds of line. That picture is what is printed, and
what a page without script shows. ``report.js`` reads the values of a figure over time back from the paths and draws
them with uPlot, which zooms and pans; ``chart.js`` reads values of a chart out.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from wavebed.page.document import filled
from wavebed.page.points import ThinnedPoints, held, thinned
from wavebed.page.text import figure, nice_ticks, tick_text, ticks_between

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from markupsafe import Markup
    from numpy.typing import NDArray

WIDE = 100_000
"""Units from the left end of the time axis to the right; their size depends on the page."""
HIGH = 10_000
"""Units from the lower end of a value axis to the upper one."""
BINS = 1000
TICK_PX = 38
"""About how far apart the labels of an axis are."""
LEAST_LABEL = 0.045
"""A bar that is shorter than this share of the axis has no text inside."""
CHART_WIDE = 1000
STYLES = 6
"""Number of colours in the style sheet; further lines are dashed."""
_TEMPLATE = "page/plots.html.j2"


class _Swatch(NamedTuple):
    """The properties of a line that its legend shows."""

    style: str
    is_area: bool = False
    joined: bool = True
    marks: bool = False
    hollow: bool = False


def swatch(style: str) -> Markup:
    """Return a small piece of a line of a style, for legends."""
    return filled(_TEMPLATE, "swatch", _Swatch(style))


def style_of(index: int) -> str:
    """Return the style of the n-th line: six colours, then the same dashed."""
    dashes = index // STYLES % 4
    return f"t{index % STYLES}" + (f" d{dashes}" if dashes else "")


@dataclass(frozen=True, slots=True)
class PanelLine:
    """One line of a panel.

    Parameters
    ----------
    name : str
        What the legend calls it; empty for a line that the legend leaves out.
    style : str
        Its classes in the style sheet.
    points : ThinnedPoints
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
    points: ThinnedPoints
    stepped: bool = False
    filled: bool = False
    holds: bool = False
    is_area: ClassVar[bool] = False
    joined: ClassVar[bool] = True
    marks: ClassVar[bool] = False
    hollow: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: its title and unit, and its lines.

    Parameters
    ----------
    stacked : bool
        Whether each line is the sum of its own values and the line before it; an area between two shows its own.
    """

    title: str
    unit: str
    lines: Sequence[PanelLine]
    height: int = 140
    stacked: bool = False

    @property
    def named(self) -> list[PanelLine]:
        """The lines of the legend."""
        return [line for line in self.lines if line.name]


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
class TimeFigure:
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
    SHADE: ClassVar[str] = f"0 0 {WIDE} 10"

    def render(self) -> Markup:
        """Return the HTML."""
        shades: dict[str, str] = {}
        for bar in self.shades:
            shades[bar.style] = shades.get(bar.style, "") + self._box(bar)
        strips = [
            (strip, self._side(strip), [[self._bar(bar) for bar in row] for row in strip.rows]) for strip in self.strips
        ]
        places = [
            (f"{100 * self._fraction(tick):.2f}", tick_text(tick)) for tick in ticks_between(self.start_s, self.end_s)
        ]
        return filled(_TEMPLATE, "time_figure", self, shades.items(), strips, map(self._panel, self.panels), places)

    @property
    def start(self) -> str:
        """The start of the axis, for the script."""
        return f"{self.start_s:.6g}"

    @property
    def end(self) -> str:
        """The end of the axis, for the script."""
        return f"{self.end_s:.6g}"

    def _fraction(self, time_s: float) -> float:
        return min(max((time_s - self.start_s) / (self.end_s - self.start_s), 0.0), 1.0)

    def _box(self, bar: Bar) -> str:
        left = self._fraction(bar.start_s) * WIDE
        right = self._fraction(self.end_s if bar.end_s is None else bar.end_s) * WIDE
        return f"M{left:.0f} 0H{max(right, left + 30):.0f}V10H{left:.0f}Z"

    def _side(self, strip: Strip) -> str:
        """Return where the title of a strip is: at its first bar, or at its last one if the first is far right."""
        bars = [bar for row in strip.rows for bar in row]
        first = self._fraction(min((bar.start_s for bar in bars), default=self.start_s))
        if first < 0.7:
            return f"left:{100 * first:.2f}%"
        last = max((self._fraction(bar.end_s or bar.start_s) for bar in bars), default=1.0)
        return f"right:{100 - 100 * last:.2f}%"

    def _bar(self, bar: Bar) -> tuple[Bar, str, str, str, bool]:
        """Return a bar with its place, its class, its time in words, and whether there is room for its text."""
        left = self._fraction(bar.start_s)
        place = f"left:{100 * left:.2f}%"
        if bar.end_s is None:
            return bar, place, "moment ", f"{bar.start_s:.2f} s", False
        wide = self._fraction(bar.end_s) - left
        until = f"{bar.start_s:.2f} to {bar.end_s:.2f} s"
        return bar, f"{place};width:{100 * wide:.2f}%", "", until, wide >= LEAST_LABEL

    def _panel(self, panel: Panel) -> tuple[object, ...]:
        lines = [(line, line.points.between(self.start_s, self.end_s)) for line in panel.lines]
        lines = [(line, _with_first(line, points, self.start_s, self.end_s)) for line, points in lines]
        highest = [float(np.nanmax(points.value)) for _, points in lines if np.isfinite(points.value).any()]
        lowest = [float(np.nanmin(points.value)) for _, points in lines if np.isfinite(points.value).any()]
        ticks = nice_ticks(min([0.0, *lowest]), max(highest, default=1.0), round(panel.height / TICK_PX))
        low, high = ticks[0], ticks[-1]
        levels = [(f"{100 * (high - tick) / (high - low):.2f}", tick_text(tick)) for tick in ticks]
        grid = "".join(f"M0 {HIGH * (high - tick) / (high - low):.0f}h{WIDE}" for tick in ticks)
        drawn = [(line, *self._line(line, points, low, high)) for line, points in lines]
        if panel.stacked:
            # The highest one first: each covers those behind it, and its own part remains.
            drawn.reverse()
        return panel, f"0 0 {WIDE} {HIGH}", levels, grid, f"{low:.6g}", f"{high:.6g}", drawn

    def _line(self, line: PanelLine, points: ThinnedPoints, low: float, high: float) -> tuple[str, str]:
        """Return the paths of the area below a line, and of the line; empty where there is none."""
        if not line.stepped or len(points) > 4 * BINS:
            points = thinned(points, self.start_s, self.end_s, BINS)
        fill = path = ""
        for run in _runs(points):
            xs = np.rint((run.time_s - self.start_s) / (self.end_s - self.start_s) * WIDE).astype(np.int64)
            ys = np.rint((high - run.value) / (high - low) * HIGH).astype(np.int64)
            steps = _steps(xs, ys, stepped=line.stepped)
            path += f"M{xs[0]} {ys[0]}{steps}"
            if line.filled:
                fill += f"M{xs[0]} {HIGH}V{ys[0]}{steps}V{HIGH}Z"
        return fill, path


def _with_first(line: PanelLine, points: ThinnedPoints, start_s: float, end_s: float) -> ThinnedPoints:
    """Extend a stepped line to the start of the axis, and to its end if it holds."""
    if not line.stepped or not len(line.points):
        return points
    first = held(line.points, np.array([start_s]))
    if not np.isnan(first[0]) and (not len(points) or points.time_s[0] > start_s):
        points = ThinnedPoints(np.append(start_s, points.time_s), np.append(first, points.value))
    if line.holds and len(points) and line.points.time_s[-1] <= end_s:
        points = ThinnedPoints(np.append(points.time_s, end_s), np.append(points.value, points.value[-1]))
    return points


def _runs(points: ThinnedPoints) -> list[ThinnedPoints]:
    """Split at the gaps."""
    cuts = np.flatnonzero(np.diff(np.isnan(points.value).astype(np.int8))) + 1
    pieces = zip(np.split(points.time_s, cuts), np.split(points.value, cuts), strict=True)
    return [ThinnedPoints(time_s, value) for time_s, value in pieces if len(value) and not np.isnan(value[0])]


def _steps(xs: NDArray[np.int64], ys: NDArray[np.int64], *, stepped: bool) -> str:
    """Return the path from the first point on, in relative steps; a single point is a short line."""
    form = "h{}v{}" if stepped else "l{} {}"
    steps = zip(np.diff(xs).tolist(), np.diff(ys).tolist(), strict=True)
    return "".join(form.format(*step) for step in steps) if len(xs) > 1 or stepped else "h10"


@dataclass(frozen=True, slots=True)
class Scale:
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


PERCENT = Scale(0, 100, [(float(each), str(each)) for each in (0, 25, 50, 75, 100)])


def linear(values: Sequence[float], *, zero: bool = True, about: int = 5) -> Scale:
    """Return a linear scale that holds the values, from 0 if `zero`."""
    low, high = min([*values, 0.0] if zero else values), max(values)
    ticks = nice_ticks(low, high if high > low else low + 1, about)
    return Scale(ticks[0], ticks[-1], [(tick, tick_text(tick)) for tick in ticks])


def logarithmic(values: Sequence[float], ticks: Sequence[float] | None = None) -> Scale:
    """Return a logarithmic scale that holds the values, which are above 0.

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
    return Scale(low, high, [(tick, tick_text(tick)) for tick in ticks], log=True)


def _powers(low: float, high: float) -> list[float]:
    factors = (1.0,) if math.log10(high / low) > 3 else (1.0, 2.0, 5.0)
    found = (
        factor * 10.0**power
        for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for factor in factors
    )
    return [float(f"{tick:.6g}") for tick in found if low * 0.9999 <= tick <= high * 1.0001]


@dataclass(frozen=True, slots=True)
class ChartLine:
    """A line of a chart, or the area between two.

    Parameters
    ----------
    name : str
        What the legend calls it; empty for a line that the legend leaves out.
    style : str
        Its classes in the style sheet.
    points : sequence of (float, float)
        In order of x; the line breaks at NaN.
    told : mapping
        The text of the read-out at an x; by default the y with three digits.
    bars : sequence of (float, float, float)
        Intervals: x, low, high.
    upper : sequence of float
        The upper edge of an area, at each point.
    stepped : bool
        Whether a value holds until the next.
    marks : bool
        Whether each point has a mark.
    joined : bool
        Whether its points are joined.
    """

    name: str
    style: str
    points: Sequence[tuple[float, float]]
    told: Mapping[float, str] | None = None
    bars: Sequence[tuple[float, float, float]] = ()
    upper: Sequence[float] = ()
    stepped: bool = False
    marks: bool = True
    joined: bool = True

    @property
    def is_area(self) -> bool:
        """Whether it is the area between two lines."""
        return bool(self.upper)

    @property
    def hollow(self) -> bool:
        """Whether its marks are rings."""
        return self.marks and not self.joined and " d" in self.style


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines on two axes; `x_label` has the unit of x.

    Parameters
    ----------
    named : bool
        Whether the ticks of x are names; a point then belongs to the nearest.
    read : bool
        Whether a reader can ask for values, for which the page needs ``chart.js`` and ``chart.css``.
    upright : bool
        Whether the grid has lines at the ticks of x.
    label : str
        Its text for screen readers; by default its title.
    """

    title: str
    unit: str
    x_label: str
    x: Scale
    y: Scale
    lines: Sequence[ChartLine]
    height: int = 230
    legend: bool = True
    named: bool = False
    read: bool = True
    upright: bool = True
    label: str = ""

    def render(self, below: Markup | str = "") -> Markup:
        """Return the HTML; `below` stands below the chart, in its figure."""
        levels = [(f"{100 * (1 - self.y.fraction(value)):.2f}", text) for value, text in self.y.ticks]
        places = [(f"{100 * self.x.fraction(value):.2f}", text) for value, text in self.x.ticks]
        grid = "".join(f"M0 {self._y(value)}H{CHART_WIDE}" for value, _ in self.y.ticks)
        if self.upright:
            grid += "".join(f"M{self._x(value)} 0V{self.height}" for value, _ in self.x.ticks)
        lines = [(line, *self._paths(line)) for line in self.lines]
        frame, data = f"0 0 {CHART_WIDE} {self.height}", self._data() if self.read else None
        return filled(_TEMPLATE, "chart", self, frame, levels, places, grid, lines, data, below)

    @property
    def told_lines(self) -> list[ChartLine]:
        """The lines of the legend."""
        return [line for line in self.lines if self.legend and line.name]

    def _x(self, value: float) -> str:
        return f"{self.x.fraction(value) * CHART_WIDE:.1f}"

    def _y(self, value: float) -> str:
        return f"{(1 - self.y.fraction(value)) * self.height:.1f}"

    def _paths(self, line: ChartLine) -> tuple[str, str, str, str]:
        """Return the paths of area, line, intervals and marks; empty where there are none."""
        places = [(self._x(x), self._y(y)) for x, y in line.points if not math.isnan(y)]
        if not places:
            return "", "", "", ""
        if line.is_area:
            back = [(self._x(x), self._y(y)) for (x, _), y in zip(line.points, line.upper, strict=True)]
            return "M" + "L".join(f"{x} {y}" for x, y in (*places, *reversed(back))) + "Z", "", "", ""
        path, begins = "", True
        for x, y in line.points:
            if math.isnan(y):
                begins = True
                continue
            way = "M{} {}" if begins else "H{}V{}" if line.stepped else "L{} {}"
            path += way.format(self._x(x), self._y(y))
            begins = False
        bars = "".join(f"M{self._x(x)} {self._y(low)}V{self._y(high)}" for x, low, high in line.bars)
        marks = "".join(f"M{x} {y}h.01" for x, y in places) if line.marks else ""
        return "", path if line.joined else "", bars, marks

    def _data(self) -> dict[str, object]:
        """Return the data of the read-out: at each x of any line its place, its text, and each line's value."""
        read = [self._at_names(line) if self.named else line for line in self.lines]
        xs = sorted({x for line in read for x, y in line.points if not math.isnan(y)})
        texts = dict(self.x.ticks)
        lines = []
        for line in read:
            values = {x: y for x, y in line.points if not math.isnan(y)}
            told = line.told or {}
            if line.stepped:
                values = dict(_held_at(line.points, xs))
            said = [told.get(x) or (figure(values[x]) if x in values else None) for x in xs]
            lines.append({"name": line.name, "style": line.style, "values": said})
        return {
            "places": [round(self.x.fraction(x), 4) for x in xs],
            "texts": [texts.get(x) or figure(x) for x in xs],
            "label": self.x_label,
            "unit": "" if self.named else self.unit.partition(",")[0],
            "lines": lines,
        }

    def _at_names(self, line: ChartLine) -> ChartLine:
        def name_of(x: float) -> float:
            return min((tick for tick, _ in self.x.ticks), key=lambda tick: abs(tick - x))

        told = {name_of(x): text for x, text in (line.told or {}).items()}
        return replace(line, points=[(name_of(x), y) for x, y in line.points], told=told)


def _held_at(points: Sequence[tuple[float, float]], xs: Sequence[float]) -> Iterator[tuple[float, float]]:
    """Yield the values of a stepped line at those x that it has begun before."""
    for x in xs:
        place = bisect_right(points, (x, math.inf))
        if place:
            yield x, points[place - 1][1]
