"""Pictures at the width of a column of a paper, as SVG and PDF; the same data make the same bytes.

Lines and boxes differ by line style, marker or hatch beside their colour, so that they can be told apart in grey.
"""

from __future__ import annotations

import io
import textwrap
import warnings
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from wavebed.report.names import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from matplotlib.axes import Axes

WIDTH_IN = 3.5
"""A column of IEEE and ACM pages."""
_GOLDEN = 0.6180339887498949
_MOST_LINES = 3
_LABEL = 20
_HALF = 20
"""Characters that fit into half of the width, beside the line."""


class Style(NamedTuple):
    """What distinguishes a line or a box."""

    colour: str
    line: str | tuple[int, tuple[float, ...]]
    marker: str
    hatch: str


STYLES = (
    Style("#000000", "-", "o", ""),
    Style("#0072b2", "--", "s", "///"),
    Style("#d55e00", ":", "^", ".."),
    Style("#009e73", "-.", "D", "xxx"),
    Style("#7f5f00", (0, (6, 1.5, 1, 1.5, 1, 1.5)), "v", "---"),
    Style("#8a4a9e", (0, (1, 1)), "P", "+++"),
)


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of a campaign.

    Parameters
    ----------
    name : str
        Of its files in ``figures``, without their endings.
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


def drawn(picture: Picture) -> tuple[bytes, bytes]:
    """Return a picture as SVG and as PDF."""
    from matplotlib import rc_context, rc_params_from_file
    from matplotlib.figure import Figure

    with resources.as_file(resources.files("wavebed.campaign.report").joinpath("column.mplstyle")) as file:
        style = rc_params_from_file(file, use_default_template=False)
    with rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name may have letters that the font lacks
        figure = Figure(figsize=(WIDTH_IN, picture.height_in), layout="constrained")
        picture.draw(figure.subplots())
        found = []
        for kind, metadata in (("svg", {"Date": None}), ("pdf", {"CreationDate": None, "Producer": None})):
            out = io.BytesIO()
            figure.savefig(out, format=kind, facecolor="white", metadata=metadata)
            found.append(out.getvalue())
            figure.set_layout_engine("none")  # the first file has laid it out, which takes as long as drawing
    return found[0], found[1]


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


def jitter(count: int) -> list[float]:
    """Return offsets from -0.5 to 0.5, spread evenly and the same each time."""
    return [(place * _GOLDEN + 0.5) % 1 - 0.5 for place in range(count)]
