"""Pictures as files: the style of all, and the kinds of charts; only this module imports Matplotlib.

The same data make the same bytes. There are two styles: ``screen``, for pictures as wide as a screen, and ``column``,
for a column of a paper, whose lines and boxes differ by line style, marker or hatch beside their colour, so that they
can be told apart in grey.
"""

from __future__ import annotations

import io
import os
import textwrap
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from wavebed.errors import UserError
from wavebed.output import write_output
from wavebed.page.text import figure as number_text
from wavebed.page.text import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from matplotlib.axes import Axes as Axes  # noqa: PLC0414 - for the modules that draw
    from matplotlib.backend_bases import RendererBase as RendererBase  # noqa: PLC0414
    from matplotlib.figure import Figure as Figure  # noqa: PLC0414
    from matplotlib.patheffects import AbstractPathEffect
    from matplotlib.transforms import Transform
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

COLOURS = ("#1f5fa8", "#d9722e", "#2f8f5b", "#8a4fa3", "#b8860b", "#1d8a99", "#b23a48", "#5c6b73")
INK = "#1d2733"
FAINT = "#5d6b7a"
STATE_COLOURS = {
    "los": "#0072b2",
    "nlos": "#e69f00",
    "blocked": "#cc79a7",
    "outage": "#a3151a",
    "handover": "#1d2733",
    "fallback": "#009e73",
}
"""One colour for each state of the radio, told apart also by the colour-blind (Okabe and Ito's palette, darkened)."""
STATE_SHADE = 0.2
DPI = 150
WIDTH_IN = 3.5
"""A column of IEEE and ACM pages."""
LEAST_FOR_BOX = 5
"""With fewer values a box would suggest a shape that is not known."""
MOST_HATCHED = 400
"""Fields of a map that can be hatched one by one."""
_MOST_TEXTS = 9, 16
"""Columns and rows of a map whose fields can have a number."""
_MOST_TICKS = 8
_MOST_POINTS = 300
_MOST_BARS = 20
"""Places of a line with a bar for each interval; with more they are a band."""
_GOLDEN = 0.6180339887498949
_MOST_LINES = 3
_LABEL = 20
_HALF = 20
"""Characters that fit into half of the width of a column, beside the line."""


class LineStyle(NamedTuple):
    """What distinguishes a line or a box."""

    colour: str
    line: str | tuple[int, tuple[float, ...]]
    marker: str
    hatch: str


STYLES = (
    LineStyle("#000000", "-", "o", ""),
    LineStyle("#0072b2", "--", "s", "///"),
    LineStyle("#d55e00", ":", "^", ".."),
    LineStyle("#009e73", "-.", "D", "xxx"),
    LineStyle("#7f5f00", (0, (6, 1.5, 1, 1.5, 1, 1.5)), "v", "---"),
    LineStyle("#8a4a9e", (0, (1, 1)), "P", "+++"),
)


@contextmanager
def styled(style: Literal["screen", "column"] = "screen") -> Iterator[None]:
    """Set the style of pictures that are made and saved inside."""
    from matplotlib import rc_context, rc_params_from_file

    with resources.as_file(resources.files("wavebed.page").joinpath(f"{style}.mplstyle")) as file:
        params = rc_params_from_file(file, use_default_template=False)
    with rc_context(params), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name may have letters that the font lacks
        yield


def figure_bytes(figure: Figure, kind: str, *, clear: bool = False, dpi: float | Literal["figure"] = DPI) -> bytes:
    """Return a figure as a file, without the time at which it was made.

    Parameters
    ----------
    clear : bool
        Without a background.
    """
    out = io.BytesIO()
    metadata = {
        "svg": {"Date": None},
        "pdf": {"CreationDate": None, "Producer": None},
        "png": {"Software": "wavebed"},
    }[kind]
    figure.savefig(out, format=kind, dpi=dpi, facecolor="none" if clear else "white", metadata=metadata)
    return out.getvalue()


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture from Python: a notebook shows it, `save` writes it, and `figure` is Matplotlib's, for changes."""

    figure: Figure
    caption: str

    def __repr__(self) -> str:
        """Name what it shows."""
        return f"Picture: {self.caption}; save(FILE) writes it"

    def _repr_png_(self) -> bytes:
        with styled():
            return figure_bytes(self.figure, "png", dpi=_NOTEBOOK_DPI)

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the picture.

        Parameters
        ----------
        file : path
            Its ending, ``.svg``, ``.png`` or ``.pdf``, is the format.

        Raises
        ------
        UserError
            If it has another ending, or cannot be written.
        """
        kind = Path(file).suffix.removeprefix(".").lower()
        if kind not in _KINDS:
            raise UserError(f"{os.fspath(file)}: no format has this ending: end the name in .svg, .png or .pdf")
        write_output(file, self._drawn(kind), "save()")

    def _drawn(self, kind: str) -> bytes:
        with styled():
            return figure_bytes(self.figure, kind)


_KINDS = ("svg", "png", "pdf")
_NOTEBOOK_DPI = 100
"""Of pictures in notebooks, which keep them as text."""


def picture(draw: Callable[[Axes], None], caption: str, height_in: float) -> Picture:
    """Return a picture as wide as a column of a paper, with one pair of axes."""
    from matplotlib.figure import Figure

    with styled("column"):
        figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
        draw(figure.subplots())
    return Picture(figure, caption)


def panels(heights: Sequence[float], height_in: float, h_pad: float | None = None) -> tuple[Figure, list[Axes]]:
    """Return a figure for a screen, and its panels one above the other.

    Parameters
    ----------
    heights : sequence of float
        Of the panels, inches.
    height_in : float
        Height of the figure, with what is above, between and below them.
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(11, height_in), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=h_pad))
    axes = figure.subplots(len(heights), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
    return figure, list(axes[:, 0])


def blank(
    width_in: float, height_in: float, dpi: int = DPI, *, is_laid_out: bool = False
) -> tuple[Figure, RendererBase]:
    """Return an empty figure, and what measures the texts on it.

    Parameters
    ----------
    is_laid_out : bool
        Whether the parts of the figure make room for each other.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), dpi=dpi, layout="constrained" if is_laid_out else None)
    return figure, FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call] # Matplotlib has no type for it


def raised(axes: Axes, points: float) -> Transform:
    """Return the coordinates of axes, raised by points."""
    from matplotlib.transforms import ScaledTranslation

    return axes.transAxes + ScaledTranslation(0, points / 72, axes.figure.dpi_scale_trans)


@dataclass(frozen=True, slots=True)
class ColumnPicture:
    """A picture as wide as a column of a paper.

    Parameters
    ----------
    name : str
        Of its files, without their endings.
    title, caption : str
        What it shows, and how to read it.
    draw : callable
        Draws it on axes.
    height_in : float
        Height in inches.
    """

    name: str
    title: str
    caption: str
    draw: Callable[[Axes], None]
    height_in: float = 2.3


def drawn(picture: ColumnPicture) -> tuple[bytes, bytes]:
    """Return a picture as SVG and as PDF."""
    from matplotlib.figure import Figure

    with styled("column"):
        figure = Figure(figsize=(WIDTH_IN, picture.height_in), layout="constrained")
        picture.draw(figure.subplots())
        svg = figure_bytes(figure, "svg", dpi="figure")
        figure.set_layout_engine("none")  # the first file has laid it out, which takes as long as drawing
        return svg, figure_bytes(figure, "pdf", dpi="figure")


def wrapped(name: str, width: int = _LABEL) -> str:
    """Return a name in at most three lines of at most `width` characters, broken between its words."""
    lines = [""]
    for word in words(name):
        for piece in textwrap.wrap(word, width, drop_whitespace=False) or [word]:
            if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > width:
                lines.append("")
            lines[-1] += piece
    shown = [line.rstrip() for line in lines]
    return "\n".join(shown if len(shown) <= _MOST_LINES else [*shown[: _MOST_LINES - 1], shown[_MOST_LINES - 1] + "…"])


def columns_of(labels: Iterable[str]) -> int:
    """Return the number of columns of a legend above the axes."""
    longest = max(len(line) for label in labels for line in label.split("\n"))
    return 2 if longest <= _HALF else 1


def legend_above(axes: Axes, labels: Iterable[str]) -> None:
    """Put the legend of a column's picture above its axes."""
    axes.figure.legend(loc="outside upper left", ncols=columns_of(labels))


def named_rows(axes: Axes, labels: Sequence[str], across: str) -> None:
    """Name the rows of a picture, the first at the top, and its horizontal axis."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xlabel(across)
    axes.grid(axis="x")


def interval(axes: Axes, place: int, low: float | None, high: float | None) -> None:
    """Draw an interval in a row, if there is one."""
    if low is not None and high is not None:
        axes.plot([low, high], [place, place], color="#000000", marker="|", markersize=5)


def boxes(axes: Axes, values: Sequence[Floats]) -> None:
    """Draw box plots with all points, one row for each list of values."""
    for place, of_row in enumerate(values):
        style = STYLES[place % len(STYLES)]
        if len(of_row) >= LEAST_FOR_BOX:
            box_plot = axes.boxplot(
                [of_row], positions=[place], orientation="horizontal", widths=0.62, showfliers=False,
                patch_artist=True, medianprops={"color": "#000000", "linewidth": 1.6},
            )  # fmt: skip
            for box in box_plot["boxes"]:
                box.set(facecolor="#f2f2f2", edgecolor="#444444", hatch=style.hatch, linewidth=0.8)
        elif len(of_row):
            axes.plot([np.median(of_row)] * 2, [place - 0.3, place + 0.3], color="#000000", linewidth=1.6)
        shown = of_row[:: max(1, -(-len(of_row) // _MOST_POINTS))]
        # Spread evenly, and the same each time.
        offsets = [place + 0.44 * ((point * _GOLDEN + 0.5) % 1 - 0.5) for point in range(len(shown))]
        axes.plot(
            shown, offsets, style.marker, markersize=2.8, markerfacecolor="white", markeredgecolor=style.colour,
            markeredgewidth=0.7, linestyle="none",
        )  # fmt: skip


def value_rows(axes: Axes, rows: Sequence[tuple[str, Floats]], across: str) -> None:
    """Draw named box plots with all points, from 0 on where no value is negative."""
    boxes(axes, [values for _, values in rows])
    named_rows(axes, [name for name, _ in rows], across)
    if min((float(values.min()) for _, values in rows if len(values)), default=-1.0) >= 0:
        axes.set_xlim(left=0)


def distribution(axes: Axes, place: int, values: Floats, label: str) -> None:
    """Draw the fraction of values that is at most x, as the line of this place among its kind."""
    style = STYLES[place % len(STYLES)]
    ordered = np.sort(values)
    shares = np.arange(1, len(ordered) + 1) / len(ordered)
    axes.plot(
        np.append(ordered[:1], ordered), np.append(0.0, shares), drawstyle="steps-post", color=style.colour,
        linestyle=style.line, marker=style.marker, markevery=(place + 1, max(2, len(ordered) // 5)),
        markerfacecolor="white", label=label,
    )  # fmt: skip


def line(
    axes: Axes, place: int, xs: Floats, ys: Floats, bounds: tuple[Floats, Floats], label: str, *, dense: bool = False
) -> None:
    """Draw a line with marks, and its intervals as bars, or as a band where there are many.

    Parameters
    ----------
    place : int
        Which style it has.
    bounds : (float array, float array)
        Lower and upper ends of the intervals; NaN is missing.
    dense : bool
        Whether it is a course over time, always with a band and small marks.
    """
    style = STYLES[place % len(STYLES)]
    known = np.isfinite(ys)
    low, high = bounds
    every: tuple[int, int] | None = (3 * place, max(1, len(xs) // 8))
    if dense or len(xs) > _MOST_BARS:
        axes.fill_between(xs, low, high, facecolor=style.colour, alpha=0.16, linewidth=0)
    else:
        errors = np.nan_to_num(np.array([ys - low, high - ys])[:, known], nan=0.0)
        axes.errorbar(xs[known], ys[known], errors, fmt="none", ecolor=style.colour, capsize=2, elinewidth=0.8)
        every = None
    (drawn_line,) = axes.plot(
        xs[known], ys[known], color=style.colour, linestyle=style.line, marker=style.marker, markerfacecolor="white",
        markevery=every, label=wrapped(label, 26),
    )  # fmt: skip
    if dense:
        drawn_line.set_markersize(3)


def numbered_ticks(axes: Axes, xs: Floats, *, logarithmic: bool) -> None:
    """Put a tick at each value of x, if there is room; numbers are in full on a logarithmic axis too."""
    if logarithmic:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    if len(xs) <= _MOST_TICKS:
        axes.set_xticks(xs, [f"{x:g}" for x in xs])
        axes.minorticks_off()


def heat_map(
    axes: Axes, rows: tuple[str, Sequence[str]], columns: tuple[str, Sequence[str]], found: Floats,
    hatched: NDArray[np.bool_], title: str,
) -> None:  # fmt: skip
    """Draw values in a table of coloured fields, each with its number where there is room.

    Parameters
    ----------
    rows, columns : (str, sequence of str)
        What varies, and its values.
    found : float array, shape (rows, columns)
        The values; NaN is missing.
    hatched : bool array, shape (rows, columns)
        Which fields are hatched.
    """
    many = found.size > MOST_HATCHED
    mesh = axes.pcolormesh(np.ma.masked_invalid(found), cmap="cividis", rasterized=many)
    axes.figure.colorbar(mesh, ax=axes, pad=0.02)
    axes.set_title(title, loc="left")
    if not many:
        for row, column in np.argwhere(hatched & np.isfinite(found)).tolist():
            axes.fill(
                [column, column + 1, column + 1, column], [row, row, row + 1, row + 1], fill=False, linewidth=0,
                hatch="////", edgecolor="#ffffff",
            )  # fmt: skip
    if found.shape[1] <= _MOST_TEXTS[0] and found.shape[0] <= _MOST_TEXTS[1]:
        low, high = float(np.nanmin(found)), float(np.nanmax(found))
        for row, column in np.argwhere(np.isfinite(found)).tolist():
            is_dark = (found[row, column] - low) < 0.55 * (high - low)
            axes.text(
                column + 0.5, row + 0.5, number_text(found[row, column]), ha="center", va="center", fontsize=7,
                color="#ffffff" if is_dark else "#000000",
            )  # fmt: skip
    for put, (name, levels), label in (
        (axes.set_xticks, columns, axes.set_xlabel),
        (axes.set_yticks, rows, axes.set_ylabel),
    ):
        step = -(-len(levels) // _MOST_TICKS)
        put([place + 0.5 for place in range(0, len(levels), step)], [wrapped(each, 12) for each in levels[::step]])
        label(name)
    axes.tick_params(axis="x", rotation=0 if max(map(len, columns[1])) <= 6 else 30)


def steps(
    axes: Axes, edges: Floats, values: Floats, colour: str, *, label: str | None = None, style: str = "-",
    width: float = 1.3, band: tuple[Floats, Floats] | None = None,
    base: float | None = None,
) -> None:  # fmt: skip
    """Draw values that hold from edge to edge.

    Parameters
    ----------
    band : (float array, float array), optional
        The lowest and the highest value of each step.
    base : float, optional
        Down to which the area is filled, where there is no band.
    """
    if band is not None:
        axes.stairs(band[1], edges, baseline=band[0], fill=True, color=colour, alpha=0.22, lw=0)
    elif base is not None:
        axes.stairs(values, edges, baseline=base, fill=True, color=colour, alpha=0.13, lw=0)
    axes.stairs(values, edges, baseline=None, color=colour, lw=width, ls=style, label=label)


def spans(
    axes: Axes, times: Sequence[tuple[float, float]], least: float, colour: str, *, label: str | None = None,
    alpha: float = STATE_SHADE,
) -> None:  # fmt: skip
    """Shade spans of time over the whole height, none too narrow to be seen."""
    wide = [(start, max(end - start, least)) for start, end in joined_spans(times, least)]
    place = axes.get_xaxis_transform()
    axes.broken_barh(wide, (0, 1), transform=place, color=colour, alpha=alpha, lw=0, label=label, zorder=0.6)


def joined_spans(times: Sequence[tuple[float, float]], least: float) -> list[tuple[float, float]]:
    """Join spans that are closer than can be seen, so that their shades do not pile up."""
    joined: list[tuple[float, float]] = []
    for start, end in times:
        if joined and start - max(joined[-1][1], joined[-1][0] + least) < least:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def rectangle(axes: Axes, corner: tuple[float, float], size: tuple[float, float], fill: str, edge: str) -> None:
    """Draw a thing on a map."""
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle(corner, *size, facecolor=fill, edgecolor=edge, lw=0.9, zorder=2))


def wedge(axes: Axes, middle: tuple[float, float], radius: float, degrees: tuple[float, float], colour: str) -> None:
    """Draw where something looks on a map."""
    from matplotlib.patches import Wedge

    axes.add_patch(Wedge(middle, radius, *degrees, color=colour, alpha=0.06, lw=0))


def polylines(
    axes: Axes, lines: Sequence[Floats], colour: str, width: float, *, cap: Literal["butt", "round"], order: float
) -> None:
    """Draw lines through points, shape (points, 2), as one thing."""
    from matplotlib.collections import LineCollection

    axes.add_collection(LineCollection(lines, colors=colour, linewidths=width, capstyle=cap, zorder=order))


def halo(width: float, colour: str) -> list[AbstractPathEffect]:
    """Return the effect of a text that stands out from what is behind it."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=width, foreground=colour)]
