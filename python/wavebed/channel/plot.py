"""The picture of realisations: the map, the series below it, and the table of states."""

from __future__ import annotations

import html
import io
import json
import re
import textwrap
import warnings
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wavebed.channel.plot_map import draw_map, region_of
from wavebed.channel.summary import COLUMNS, cells
from wavebed.pattern.plot import COLOURS, DARK, FAINT, INK, STATE_COLOURS, STATE_SHADE, curve_data, drawable_outages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from wavebed.channel.plot_data import Panel, View
    from wavebed.channel.plot_map import Region


DPI = 150
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
#: Inches that a letter of the table needs.
LETTER = 0.064


def table_rows(view: View) -> list[tuple[str, ...]]:
    """Write the rows of the table of states; where there are too many, the longest times are kept."""
    rows = list(view.summary.rows)
    kept = rows
    if len(rows) > MOST_ROWS:
        least = sorted((row.duration_s.median for row in rows), reverse=True)[MOST_ROWS - 1]
        kept = [row for row in rows if row.duration_s.median >= least][:MOST_ROWS]
    return [cells(row) for row in (*kept, view.summary.whole)]


class _Page:
    """A figure whose parts are placed in inches from the top left."""

    def __init__(self, height: float, width: float = WIDTH) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.height = height
        self.width = width
        self.figure: Figure = Figure(figsize=(width, height), dpi=DPI)
        self.renderer = FigureCanvasAgg(self.figure).get_renderer()  # type: ignore[no-untyped-call]

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


def _lines(view: View) -> list[str]:
    return [line for note in view.notes for line in textwrap.wrap(note, 165)]


def _build(view: View) -> Figure:
    region = region_of(view.scene)
    rows = table_rows(view)
    lines = _lines(view)
    plan = _Plan(region, LETTER * sum(_widths(rows)), len(rows), len(lines))
    page = _Page(plan.height)
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


def _draw_table(page: _Page, plan: _Plan, rows: Sequence[tuple[str, ...]]) -> None:
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


def _draw_series(page: _Page, view: View, top: float) -> None:
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


def _shades(view: View) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """Yield the states and their spans, as begin and length, none too narrow to be seen."""
    least = view.scene.duration_s / 1500
    for state, spans in view.spans.items():
        yield state, [(start, max(end - start, least)) for start, end in drawable_outages(spans, least)]


def _draw_strip(axes: Axes, view: View) -> None:
    for state, spans in _shades(view):
        axes.broken_barh(spans, (0, 1), color=STATE_COLOURS[state], lw=0, label=state)
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


def _draw_panel(axes: Axes, panel: Panel, view: View) -> None:
    for state, spans in _shades(view):
        if state != "los":
            place = axes.get_xaxis_transform()
            axes.broken_barh(
                spans, (0, 1), transform=place, color=STATE_COLOURS[state], alpha=STATE_SHADE, lw=0, zorder=0.6
            )
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


class _Styled:
    """A context in which pictures have the project's style."""

    def __enter__(self) -> None:
        """Set the style."""
        from matplotlib import rc_context, rc_params_from_file

        with resources.as_file(resources.files("wavebed.pattern").joinpath("picture.mplstyle")) as file:
            self._context = rc_context(rc_params_from_file(file, use_default_template=False))
        self._context.__enter__()

    def __exit__(self, *error: object) -> None:
        """Set the style back."""
        self._context.__exit__(None, None, None)


def _save(figure: Figure, kind: str, *, clear: bool = False) -> bytes:
    out = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else {"Software": "wavebed"}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name may have letters that the font lacks
        figure.savefig(out, format=kind, dpi=DPI, facecolor="none" if clear else "white", metadata=metadata)
    return out.getvalue()


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


def render_map(view: View) -> MapPicture:
    """Draw the map alone."""
    with _Styled():
        region = region_of(view.scene)
        plan = _Plan(region, 0.0, 0, 0)
        page = _Page(plan.map_height + MAP_TOP + MAP_BELOW, LEFT + plan.map_width + RIGHT)
        axes = page.axes(LEFT, MAP_TOP, plan.map_width, plan.map_height)
        draw_map(axes, view.scene, region, view.walk, page.renderer)
        svg = _save(page.figure, "svg", clear=True).decode()
        fractions = (
            LEFT / page.width,
            MAP_TOP / page.height,
            plan.map_width / page.width,
            plan.map_height / page.height,
        )
        return MapPicture(_for_a_page(svg), region, fractions)


def _for_a_page(svg: str) -> str:
    """Leave out what an SVG within a page does not need: the document's head, metadata and name spaces."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    return re.sub(r"<!--.*?-->\s*", "", re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg), flags=re.DOTALL)


def render_picture(view: View, kind: str = "png") -> bytes:
    """Draw everything into one picture; the same view makes the same bytes.

    Parameters
    ----------
    kind : {"png", "svg"}
        The file format.
    """
    with _Styled():
        return _save(_build(view), kind)


HEIGHTS = {"SINR": 190, "MCS": 150, "capacity": 230, "BLER": 150}


def render_page(view: View) -> bytes:
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
    page = resources.files("wavebed.pattern").joinpath("plot_page.html").read_text(encoding="utf-8")
    fields = {
        "__TITLE__": html.escape(view.scene.title),
        "__TOP__": _top(view, picture),
        "__MAPWIDTH__": "1180px" if picture.region.width > picture.region.height else "640px",
        "__TABLE__": _table(view),
        "__FOOT__": "<br>".join(html.escape(note) for note in view.notes),
        "__DATA__": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    }
    for name, value in fields.items():
        page = page.replace(name, value)
    return page.encode()


def _panel(panel: Panel, view: View) -> dict[str, object]:
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
            {"colour": STATE_COLOURS[state], "spans": drawable_outages(spans, least)}
            for state, spans in view.spans.items()
            if state != "los"
        ],
        "curves": curves,
    }


def _walk(view: View, picture: MapPicture) -> dict[str, list[float]]:
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


def _top(view: View, picture: MapPicture) -> str:
    dots = " ".join(
        f'<i class="dot state" style="background:{STATE_COLOURS[state]}"></i>{state}' for state in view.spans
    )
    curves = " ".join(
        f'<i class="dot state" data-series="{series}"></i>{name}' for series, name in enumerate(("down", "up"))
    )
    return (
        f'<p class="hint">{html.escape(view.subtitle)}</p>'
        f'<div class="map">{picture.svg}<i id="here" hidden></i></div>'
        f"<p>Radio: {dots} &nbsp; Lines: {curves}</p>"
    )


def _table(view: View) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in COLUMNS)
    rows = ["<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in table_rows(view)]
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"
