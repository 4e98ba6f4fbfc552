"""Pictures of the values of cells: box plots with all points, and empirical distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.campaign.report.picture import STYLES, Picture, columns_of, jitter, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from wavebed.campaign.results import Matrix

    Floats = NDArray[np.float64]

MOST_BOXES = 12
MOST_CURVES = 6
LEAST_FOR_BOX = 5
"""With fewer values a box would suggest a shape that is not known."""
_MOST_POINTS = 300


def boxes(name: str, metric: Matrix, cells: Sequence[str], values: Sequence[Floats]) -> Picture:
    """Return box plots with all points, one row for each cell.

    Parameters
    ----------
    values : sequence of float array
        Values of each cell.
    """
    labels = [wrapped(cell) for cell in cells]
    lines = [1 + label.count("\n") for label in labels]

    def draw(axes: Axes) -> None:
        for place, of_cell in enumerate(values):
            style = STYLES[place % len(STYLES)]
            if len(of_cell) >= LEAST_FOR_BOX:
                drawn = axes.boxplot(
                    [of_cell], positions=[place], orientation="horizontal", widths=0.62, showfliers=False,
                    patch_artist=True, medianprops={"color": "#000000", "linewidth": 1.6},
                )  # fmt: skip
                for box in drawn["boxes"]:
                    box.set(facecolor="#f2f2f2", edgecolor="#444444", hatch=style.hatch, linewidth=0.8)
            elif len(of_cell):
                axes.plot([np.median(of_cell)] * 2, [place - 0.3, place + 0.3], color="#000000", linewidth=1.6)
            shown = of_cell[:: max(1, -(-len(of_cell) // _MOST_POINTS))]
            offsets = [place + 0.44 * each for each in jitter(len(shown))]
            axes.plot(
                shown, offsets, style.marker, markersize=2.8, markerfacecolor="white", markeredgecolor=style.colour,
                markeredgewidth=0.7, linestyle="none",
            )  # fmt: skip
        axes.set_yticks(range(len(cells)), labels)
        axes.set_ylim(len(cells) - 0.4, -0.6)
        axes.set_xlabel(wrapped(metric.title_with_unit, 44))
        axes.grid(axis="x")

    caption = "A point is a block. Box: quartiles and median; whiskers: last values within 1.5 times its length."
    return Picture(name, f"{metric.title}: values by cell", caption, draw, 0.6 + 0.125 * len(cells) * max(2, *lines))


def distributions(name: str, metric: Matrix, cells: Sequence[str], values: Sequence[Floats]) -> Picture:
    """Return the empirical cumulative distribution of each cell."""
    labels = [wrapped(cell, 26) for cell in cells]

    def draw(axes: Axes) -> None:
        for place, (label, of_cell) in enumerate(zip(labels, values, strict=True)):
            style = STYLES[place % len(STYLES)]
            ordered = np.sort(of_cell)
            shares = np.arange(1, len(ordered) + 1) / len(ordered)
            axes.plot(
                np.append(ordered[:1], ordered), np.append(0.0, shares), drawstyle="steps-post", color=style.colour,
                linestyle=style.line, marker=style.marker, markevery=(place + 1, max(2, len(ordered) // 5)),
                markerfacecolor="white", label=label,
            )  # fmt: skip
        axes.set_ylim(0, 1.02)
        axes.set_xlabel(wrapped(metric.title_with_unit, 44))
        axes.set_ylabel("fraction of blocks")
        axes.grid()
        axes.figure.legend(loc="outside upper left", ncols=columns_of(labels))

    lines = sum(1 + label.count("\n") for label in labels)
    caption = "The fraction of blocks with at most this value."
    return Picture(name, f"{metric.title}: distribution over the blocks", caption, draw, 2.0 + 0.13 * lines)
