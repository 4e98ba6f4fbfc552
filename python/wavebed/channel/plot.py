"""The picture of realisations: the map, the series below it, and the table of states."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from markupsafe import Markup

from wavebed.channel.plot_map import draw_map, region_of
from wavebed.channel.summary import COLUMNS, cells
from wavebed.page.charts import (
    COLOURS,
    FAINT,
    INK,
    STATE_COLOURS,
    Picture,
    blank,
    figure_bytes,
    joined_spans,
    spans,
    styled,
)
from wavebed.page.document import curves_page, filled
from wavebed.pattern.plot import DARK, TEMPLATE, curve_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.channel.plot_data import ChannelPanel, ChannelView
    from wavebed.channel.plot_map import Region
    from wavebed.page.charts import Axes, Figure

WIDTH = 11.0
LEFT, RIGHT = 0.8, 0.25
HEADER = 0.78
STRIP = 0.17
PANEL_HEIGHTS = {"SINR": 1.35, "MCS": 0.95, "capacity": 1.55, "BLER": 0.95}
GAP = 0.16
ROW = 0.185
MOST_ROWS = 26
#: A map at least this many times as wide as high gets the full width, and the table its place below the series.
WIDE = 1.75
TALLEST = 5.2
LOW = 4.2
MAP_TOP, MAP_BELOW = 0.12, 0.5
TABLE_WIDTH = 5.25
#: A span is drawn at least as wide as the whole time divided by this, so that it can be seen.
LEAST_SPAN = 1500
#: Inches that a letter of the table needs.
LETTER = 0.064


def table_rows(view: ChannelView) -> list[tuple[str, ...]]:
    """Write the rows of the table of states; where there are too many, the longest times are kept."""
    rows = list(view.summary.rows)
    kept = rows
    if len(rows) > MOST_ROWS:
        least = sorted((row.duration_s.median for row in rows), reverse=True)[MOST_ROWS - 1]
        kept = [row for row in rows if row.duration_s.median >= least][:MOST_ROWS]
    return [cells(row) for row in (*kept, view.summary.whole)]


class Sheet:
    """A figure whose parts are placed in inches from the top left."""

    def __init__(self, height: float, width: float = WIDTH) -> None:
        self.height = height
        self.width = width
        self.figure, self.renderer = blank(width, height)

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Add axes."""
        box = (left / self.width, (self.height - top - height) / self.height, width / self.width, height / self.height)
        axes: Axes = self.figure.add_axes(box)
        return axes

    def text(self, left: float, top: float, text: str, **options: object) -> None:
        """Write text whose upper left corner is there."""
        self.figure.text(left / self.width, 1 - top / self.height, text, va="top", **options)  # type: ignore[arg-type]


class _Plan:
    """Where everything goes, in inches from the top left."""

    def __init__(self, region: Region, table_width: float, rows: int, notes: int) -> None:
        shape = region.width / region.height
        self.wide = shape >= WIDE or table_width > TABLE_WIDTH
        table = (rows + 1) * ROW
        room = WIDTH - LEFT - RIGHT - (0.0 if self.wide else TABLE_WIDTH + 0.35)
        self.map_width = min(room, (LOW if self.wide else TALLEST) * shape)
        self.map_height = self.map_width / shape
        self.map_left = LEFT + (room - self.map_width) / 2
        self.table_left = LEFT if self.wide else LEFT + room + 0.35
        upper = self.map_height if self.wide else max(self.map_height, table)
        self.series_top = HEADER + upper + 0.8
        series = STRIP + 0.07 + sum(PANEL_HEIGHTS.values()) + GAP * len(PANEL_HEIGHTS)
        below = self.series_top + series + 0.48
        self.table_top = below if self.wide else HEADER
        self.table_width = min(table_width, WIDTH - LEFT - RIGHT) if self.wide else TABLE_WIDTH
        self.notes_top = below + (table + 0.25 if self.wide else 0.0)
        self.height = self.notes_top + 0.165 * notes + 0.12


def _lines(view: ChannelView) -> list[str]:
    return [line for note in view.notes for line in textwrap.wrap(note, 165)]


def _build(view: ChannelView) -> Figure:
    region = region_of(view.scene)
    rows = table_rows(view)
    lines = _lines(view)
    plan = _Plan(region, LETTER * sum(_widths(rows)), len(rows), len(lines))
    page = Sheet(plan.height)
    page.text(
        LEFT - 0.45, 0.16, textwrap.shorten(view.scene.title, 105, placeholder=" …"), fontsize=13, fontweight="bold"
    )
    page.text(LEFT - 0.45, 0.43, textwrap.shorten(view.subtitle, 170, placeholder=" …"), fontsize=9, color=FAINT)
    axes = page.axes(plan.map_left, HEADER, plan.map_width, plan.map_height)
    draw_map(axes, view.scene, region, view.walk, page.renderer)
    _draw_table(page, plan, rows)
    _draw_series(page, view, plan.series_top)
    for number, line in enumerate(lines):
        colour = "#8a3b00" if line.startswith("Warning") else FAINT
        page.text(LEFT - 0.45, plan.notes_top + 0.165 * number, line, fontsize=8, color=colour)
    return page.figure


def _widths(rows: Sequence[tuple[str, ...]]) -> list[int]:
    """Letters that each column of the table needs."""
    return [2 + max(len(row[column]) for row in (COLUMNS, *rows)) for column in range(len(COLUMNS))]


def _draw_table(page: Sheet, plan: _Plan, rows: Sequence[tuple[str, ...]]) -> None:
    left, width = plan.table_left, plan.table_width
    widths = _widths(rows)
    ends = [0.0, *(sum(widths[: column + 1]) / sum(widths) for column in range(1, len(widths)))]
    for number, row in enumerate([COLUMNS, *rows]):
        top = plan.table_top + number * ROW
        if number == len(rows):
            rule = page.axes(left, top - 0.035, width, 0.001)
            rule.axhline(0, color="#9aa7b4", lw=0.8)
            rule.set_axis_off()
        for text, end in zip(row, ends, strict=True):
            page.figure.text(
                (left + end * width) / WIDTH,
                1 - top / page.height,
                text,
                ha="left" if end == 0 else "right",
                va="top",
                fontsize=7.6,
                color=FAINT if number == 0 else INK,
                fontweight="bold" if end == 0 else "normal",
            )


def _draw_series(page: Sheet, view: ChannelView, top: float) -> None:
    width = WIDTH - LEFT - RIGHT
    strip = page.axes(LEFT, top, width, STRIP)
    _draw_strip(strip, view)
    top += STRIP + 0.07
    for number, panel in enumerate(view.panels):
        height = PANEL_HEIGHTS[panel.name]
        axes = page.axes(LEFT, top, width, height)
        _draw_panel(axes, panel, view)
        top += height + GAP
        if number < len(view.panels) - 1:
            axes.tick_params(labelbottom=False)
        else:
            axes.set_xlabel("time  (s)")


def _draw_strip(axes: Axes, view: ChannelView) -> None:
    least = view.scene.duration_s / LEAST_SPAN
    for state, times in view.spans.items():
        wide = [(start, max(end - start, least)) for start, end in joined_spans(times, least)]
        axes.broken_barh(wide, (0, 1), color=STATE_COLOURS[state], lw=0, label=state)
    axes.set_xlim(0, view.scene.duration_s)
    axes.set_ylim(0, 1)
    axes.set_axis_off()
    axes.text(-0.008, 0.5, "radio", transform=axes.transAxes, ha="right", va="center", color=INK, fontsize=9.5)
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=len(STATE_COLOURS),
        frameon=False,
        fontsize=9,
        borderaxespad=0.35,
        borderpad=0,
        handlelength=1.4,
    )


def _held(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Repeat the last value, for the edge where it ends."""
    return np.concatenate((values, values[-1:]))


def _draw_panel(axes: Axes, panel: ChannelPanel, view: ChannelView) -> None:
    for state, times in view.spans.items():
        if state != "los":
            spans(axes, times, view.scene.duration_s / LEAST_SPAN, STATE_COLOURS[state])
    for (name, curve), colour in zip(panel.curves, COLOURS, strict=False):
        # Lines and areas in steps: `stairs` would spend more time on its limits than the rest of the picture takes.
        if curve.banded:
            low, high = _held(curve.low), _held(curve.high)
            axes.fill_between(curve.edges, low, high, step="post", color=colour, alpha=0.25, lw=0)
        thin = 0.8 if len(curve.mean) > 600 else 1.3
        axes.plot(curve.edges, _held(curve.mean), drawstyle="steps-post", color=colour, lw=thin, label=name)
    axes.set_xlim(0, view.scene.duration_s)
    axes.set_ylim(panel.low, panel.high)
    axes.set_ylabel(f"{panel.label}  ({panel.unit})" if panel.unit else panel.label)
    axes.yaxis.set_label_coords(-0.048, 0.5)
    axes.grid(axis="y")
    axes.tick_params(length=3)
    if panel.low < 0 < panel.high and panel.unit == "dB":
        axes.axhline(0, color="#9aa7b4", lw=0.7, zorder=0.8)
    if len(panel.curves) > 1:
        axes.legend(
            loc="lower right", bbox_to_anchor=(1, 0.97), ncols=2, frameon=False, fontsize=8.5, borderaxespad=0,
            borderpad=0, handlelength=1.4,
        )  # fmt: skip


class MapPicture(NamedTuple):
    """The map alone, as SVG.

    Parameters
    ----------
    svg : str
        The drawing, without a background.
    region : Region
        What it shows, in metres.
    box : (float, float, float, float)
        Where the region lies in the drawing: left, top, width and height as fractions of its width and height.
    """

    svg: str
    region: Region
    box: tuple[float, float, float, float]


def render_map(view: ChannelView) -> MapPicture:
    """Draw the map alone."""
    with styled():
        region = region_of(view.scene)
        plan = _Plan(region, 0.0, 0, 0)
        page = Sheet(plan.map_height + MAP_TOP + MAP_BELOW, LEFT + plan.map_width + RIGHT)
        axes = page.axes(LEFT, MAP_TOP, plan.map_width, plan.map_height)
        draw_map(axes, view.scene, region, view.walk, page.renderer)
        svg = figure_bytes(page.figure, "svg", clear=True).decode()
        fractions = (
            LEFT / page.width,
            MAP_TOP / page.height,
            plan.map_width / page.width,
            plan.map_height / page.height,
        )
        return MapPicture(for_a_page(svg), region, fractions)


def for_a_page(svg: str) -> str:
    """Leave out what an SVG within a page does not need: the document's head, metadata and name spaces."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    return re.sub(r"<!--.*?-->\s*", "", re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg), flags=re.DOTALL)


def picture_of(view: ChannelView) -> Picture:
    """Draw everything into one picture, for Python."""
    with styled():
        return Picture(_build(view), f"{view.scene.title}: {view.subtitle}")


def render_picture(view: ChannelView, kind: str = "png") -> bytes:
    """Draw everything into one picture; the same view makes the same bytes.

    Parameters
    ----------
    kind : {"png", "svg"}
        The file format.
    """
    with styled():
        return figure_bytes(_build(view), kind)


HEIGHTS = {"SINR": 190, "MCS": 150, "capacity": 230, "BLER": 150}


def render_page(view: ChannelView) -> bytes:
    """Make the page; the same view makes the same bytes."""
    picture = render_map(view)
    data = {
        "names": ["down", "up"],
        "packets": False,
        "end": view.scene.duration_s,
        "colours": COLOURS,
        "dark": DARK,
        "panels": [_panel(panel, view) for panel in view.panels],
        "walk": _walk(view, picture),
    }
    svg = Markup(picture.svg)  # noqa: S704 - drawn by ourselves
    states = [(STATE_COLOURS[state], state) for state in view.spans]
    table = filled(TEMPLATE, "table", COLUMNS, [(None, row) for row in table_rows(view)])
    return curves_page(
        view.scene.title,
        table,
        filled(TEMPLATE, "channel_foot", view.notes),
        data,
        top=filled(TEMPLATE, "channel_top", view.subtitle, svg, states, ("down", "up")),
        map_width="1180px" if picture.region.width > picture.region.height else "640px",
    )


def _panel(panel: ChannelPanel, view: ChannelView) -> dict[str, object]:
    least = view.scene.duration_s / 4000
    curves = [
        {**curve_data(curve, series, 1.0), **({"name": name} if len(panel.curves) > 1 else {"name": ""})}
        for series, (name, curve) in enumerate(panel.curves)
    ]
    return {
        "name": panel.name,
        "unit": panel.unit,
        "label": f"{panel.label} ({panel.unit})" if panel.unit else panel.label,
        "height": HEIGHTS[panel.name],
        "base": panel.low,
        "top": panel.high,
        "outages": [],
        "states": [
            {"colour": STATE_COLOURS[state], "spans": joined_spans(spans, least)}
            for state, spans in view.spans.items()
            if state != "los"
        ],
        "curves": curves,
    }


def _walk(view: ChannelView, picture: MapPicture) -> dict[str, list[float]]:
    """Return times, and places as fractions of the map's width and height."""
    left, top, width, height = picture.box
    region = picture.region
    x = left + (view.walk.position_m[:, 0] - region.left) / region.width * width
    y = top + (region.top - view.walk.position_m[:, 1]) / region.height * height
    return {
        "time": np.round(view.walk.time_s, 4).tolist(),
        "x": np.round(x, 5).tolist(),
        "y": np.round(y, 5).tolist(),
    }
