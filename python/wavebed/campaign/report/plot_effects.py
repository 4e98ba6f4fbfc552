"""Pictures of comparisons: effects with their intervals, curves over a swept factor, and maps over two factors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.campaign.report.picture import STYLES, Picture, columns_of, wrapped
from wavebed.report.numbers import figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from wavebed.campaign.report.levels import Axis
    from wavebed.campaign.results import Answer, Bounds, Matrix

    Floats = NDArray[np.float64]

MOST_EFFECTS = 16
_MOST_TEXTS = 9, 16
"""Columns and rows of a map whose cells can have a number."""
_MOST_HATCHED = 400
_MOST_BARS = 20
"""Levels of a curve with a bar for each interval; with more they are a band."""
_MOST_TICKS = 8


def effects(name: str, metric: Matrix, answers: Sequence[Answer], baseline: str) -> Picture:
    """Return the effect of each comparison with its interval, beside the margin.

    Parameters
    ----------
    baseline : str
        What the cells are compared with: ``queue droptail``.
    """
    found = [answer for answer in answers if answer.finding.estimate is not None]
    ratio = all(answer.finding.scale == "ratio" for answer in found)
    found = [answer for answer in found if (answer.finding.scale == "ratio") == ratio]
    labels = [wrapped(answer.question.pair.cell, 24) for answer in found]
    lines = max(1 + label.count("\n") for label in labels)

    def draw(axes: Axes) -> None:
        neutral = 1.0 if ratio else 0.0
        margins = {answer.finding.margin for answer in found}
        margin = margins.pop() if len(margins) == 1 else None
        if margin is not None:
            low, high = (1 / margin, margin) if ratio else (-margin, margin)
            axes.axvspan(low, high, facecolor="#e6e6e6", edgecolor="#888888", linewidth=0.6, linestyle=":", zorder=0)
        axes.axvline(neutral, color="#555555", linewidth=0.8)
        for place, answer in enumerate(found):
            _interval(axes, place, answer)
        axes.set_yticks(range(len(found)), labels)
        axes.set_ylim(len(found) - 0.4, -0.6)
        what = "ratio" if ratio else f"difference, {metric.unit}" if metric.unit else "difference"
        axes.set_xlabel(wrapped(f"{metric.title}: {what} to {baseline}", 44))
        axes.grid(axis="x")

    caption = (
        f"Estimate and interval of each cell beside the same with {baseline}, at the level of its answer. Filled:"
        " better, worse or different; half:"
        " equivalent or equal; empty: undecided. Shaded: within the margin."
    )
    return Picture(name, f"{metric.title}: effects", caption, draw, 0.85 + len(labels) * max(0.16, 0.125 * lines))


def _interval(axes: Axes, place: int, answer: Answer) -> None:
    finding = answer.finding
    assert finding.estimate is not None, "only answers with an effect are drawn"
    if finding.low is not None and finding.high is not None:
        axes.plot([finding.low, finding.high], [place, place], color="#000000", marker="|", markersize=5)
    fill = {"undecided": "none", "equivalent": "left", "equal": "left"}.get(finding.verdict, "full")
    axes.plot(
        [finding.estimate], [place], marker="o", markersize=4.5, fillstyle=fill, color="#000000",
        markerfacecoloralt="white",
    )  # fmt: skip


def curves(name: str, metric: Matrix, factor: str, axis: Axis, lines: Mapping[str, Bounds], where: str) -> Picture:
    """Return the medians with intervals over the levels of a numeric factor.

    Parameters
    ----------
    lines : mapping
        Medians with bounds at each level, by the name of the line.
    where : str
        The levels of the other factors.
    """
    order = np.argsort(np.asarray(axis.values))
    xs = np.asarray(axis.values)[order]

    def draw(axes: Axes) -> None:
        for place, (label, bounds) in enumerate(lines.items()):
            style = STYLES[place % len(STYLES)]
            ys, low, high = (each[order] for each in bounds)
            known = np.isfinite(ys)
            every = None
            if len(xs) <= _MOST_BARS:
                errors = np.nan_to_num(np.array([ys - low, high - ys])[:, known], nan=0.0)
                axes.errorbar(xs[known], ys[known], errors, fmt="none", ecolor=style.colour, capsize=2, elinewidth=0.8)
            else:
                axes.fill_between(xs, low, high, facecolor=style.colour, alpha=0.16, linewidth=0)
                every = (3 * place, max(1, len(xs) // 8))
            axes.plot(
                xs[known], ys[known], color=style.colour, linestyle=style.line, marker=style.marker,
                markerfacecolor="white", markevery=every, label=wrapped(label, 26),
            )  # fmt: skip
        if axis.logarithmic:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
        if len(xs) <= _MOST_TICKS:
            axes.set_xticks(xs, [f"{x:g}" for x in xs])
            axes.minorticks_off()
        axes.set_xlabel(f"{factor}, {axis.unit}" if axis.unit else factor)
        axes.set_ylabel(wrapped(metric.title_with_unit, 26))
        axes.grid()
        if len(lines) > 1:
            axes.figure.legend(loc="outside upper left", ncols=columns_of(lines))

    title = f"{metric.title} over {factor}" + (f", {where}" if where else "")
    caption = "Median over the blocks with its 95 % interval, where there are at least 6 values."
    rows = len(lines) if len(lines) > 1 else 0
    return Picture(name, title, caption, draw, 2.1 + 0.13 * rows)


def heat_map(
    name: str, metric: Matrix, rows: tuple[str, Sequence[str]], columns: tuple[str, Sequence[str]], found: Floats,
    undecided: NDArray[np.bool_], what: str,
) -> Picture:  # fmt: skip
    """Return the effects of a comparison over the levels of two factors.

    Parameters
    ----------
    rows, columns : (str, sequence of str)
        A factor and its levels.
    found : float array, shape (rows, columns)
        The estimates; NaN is missing.
    undecided : bool array, shape (rows, columns)
        Which are undecided.
    what : str
        The effect: ``download: download time, ratio codel / droptail``.
    """

    def draw(axes: Axes) -> None:
        many = found.size > _MOST_HATCHED
        mesh = axes.pcolormesh(np.ma.masked_invalid(found), cmap="cividis", rasterized=many)
        axes.figure.colorbar(mesh, ax=axes, pad=0.02)
        axes.set_title(wrapped(what, 52), loc="left")
        if not many:
            for row, column in np.argwhere(undecided & np.isfinite(found)).tolist():
                axes.fill(
                    [column, column + 1, column + 1, column], [row, row, row + 1, row + 1], fill=False, linewidth=0,
                    hatch="////", edgecolor="#ffffff",
                )  # fmt: skip
        if found.shape[1] <= _MOST_TEXTS[0] and found.shape[0] <= _MOST_TEXTS[1]:
            _write(axes, found)
        for put, (factor, levels), label in (
            (axes.set_xticks, columns, axes.set_xlabel),
            (axes.set_yticks, rows, axes.set_ylabel),
        ):
            step = -(-len(levels) // _MOST_TICKS)
            put([place + 0.5 for place in range(0, len(levels), step)], [wrapped(each, 12) for each in levels[::step]])
            label(factor)
        axes.tick_params(axis="x", rotation=0 if max(map(len, columns[1])) <= 6 else 30)

    hatched = " Hatched: undecided." if found.size <= _MOST_HATCHED and undecided.any() else ""
    caption = f"The estimate of each comparison.{hatched}"
    height = min(4.2, 1.7 + 0.22 * min(len(rows[1]), 14))
    return Picture(name, f"{metric.title} over {rows[0]} and {columns[0]}", caption, draw, height)


def _write(axes: Axes, found: Floats) -> None:
    low, high = float(np.nanmin(found)), float(np.nanmax(found))
    for row, column in np.argwhere(np.isfinite(found)).tolist():
        value = found[row, column]
        dark = (value - low) < 0.55 * (high - low)
        axes.text(
            column + 0.5, row + 0.5, figure(value), ha="center", va="center", fontsize=7,
            color="#ffffff" if dark else "#000000",
        )  # fmt: skip
