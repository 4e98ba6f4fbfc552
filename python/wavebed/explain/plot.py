"""A picture of an explanation: the causes of the delay, stacked over time, and the losses."""

from __future__ import annotations

import io
import warnings
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from wavebed.explain.causes import CAUSES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from wavebed.explain.causes import Cause
    from wavebed.explain.model import Explanation, OfDirection, Stall

__all__ = ["explanation_png"]

_COLOURS: dict[Cause, str] = {
    "propagation": "#d5dae0",
    "transmission": "#aab4bf",
    "queue": "#1f5fa8",
    "slot": "#7fb3e0",
    "grant": "#1d8a99",
    "connection": "#5c6b73",
    "outage": "#a3151a",
    "handover": "#1d2733",
    "harq": "#e69f00",
    "rlc": "#d9722e",
    "reordering": "#f3d27a",
    "ue": "#8a4fa3",
    "jitter": "#2f8f5b",
    "host": "#cc79a7",
    "unexplained": "#000000",
}
_INK, _FAINT, _LOST = "#1d2733", "#5d6b7a", "#a3151a"
_LEAST_SHARE = 0.01
"""Causes that are always below this part of the highest mean have no entry in the legend."""


def explanation_png(found: Explanation) -> bytes:
    """Draw a panel for each direction with packets; the same explanation makes the same bytes."""
    from matplotlib import rc_context, rc_params_from_file

    with resources.as_file(resources.files("wavebed.pattern").joinpath("picture.mplstyle")) as file:
        style = rc_params_from_file(file, use_default_template=False)
    with rc_context(style):
        figure = _build(found)
        out = io.BytesIO()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # a name may have letters that the font lacks
            figure.savefig(out, format="png", dpi=150, facecolor="white", metadata={"Software": "wavebed"})
    return out.getvalue()


def _build(found: Explanation) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    shown = [each for each in found.directions if each.windows]
    plan = [(each, lost) for each in shown for lost in (False, True) if not lost or each.lost_segments]
    heights = [0.8 if lost else 2.6 for _, lost in plan] or [1.0]
    figure = Figure(figsize=(11, 0.8 + sum(heights) + 0.5 * len(shown)), layout=ConstrainedLayoutEngine(w_pad=0.12))
    all_axes = figure.subplots(len(heights), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for axes, (each, lost) in zip(all_axes, plan, strict=False):
        edges = np.arange(found.start_s, found.end_s + found.step_ms / 1e3, found.step_ms / 1e3)
        if lost:
            _draw_losses(axes, each, edges)
        else:
            _draw_causes(axes, each, edges, found)
        axes.set_xlim(found.start_s, found.end_s)
        axes.tick_params(length=3)
    if not plan:
        all_axes[0].set_title("no packets were sent in this time", loc="left", fontsize=11)
    what = "sending" if found.source == "packets" else "leaving the queue"
    all_axes[-1].set_xlabel(f"time of {what}  (s)")
    return figure


def _draw_causes(axes: Axes, each: OfDirection, edges: NDArray[np.float64], found: Explanation) -> None:
    total = np.zeros(len(edges) - 1)
    highest = max((window.delay_mean_ms or 0.0 for window in each.windows), default=0.0)
    for cause in CAUSES:
        values = _course(each, cause, edges)
        if not values.any():
            continue
        named = values.max() >= _LEAST_SHARE * highest
        axes.stairs(
            total + values,
            edges,
            baseline=total,
            fill=True,
            color=_COLOURS[cause],
            lw=0,
            label=cause if named else None,
        )
        total += values
    _mark_stalls(axes, found.stalls)
    axes.set_ylim(0, max(float(total.max()) * 1.06, 0.1))
    axes.set_ylabel("mean delay  (ms)")
    axes.grid(axis="y")
    coarse = "" if found.source == "packets" else "  (time in the queue only)"
    axes.set_title(f"{each.name}{coarse}", loc="left", fontweight="bold", fontsize=11, color=_INK)
    handles, names = axes.get_legend_handles_labels()
    axes.legend(
        handles, names, loc="lower right", bbox_to_anchor=(1, 1.0), ncols=max(len(names), 1), frameon=False,
        fontsize=8.5, handlelength=1.0, columnspacing=1.0, borderaxespad=0.3,
    )  # fmt: skip


def _draw_losses(axes: Axes, each: OfDirection, edges: NDArray[np.float64]) -> None:
    lost = np.zeros(len(edges) - 1)
    for window in each.windows:
        lost[_place(window.start_s, edges)] = window.lost_segments
    axes.stairs(lost, edges, fill=True, color=_LOST, lw=0)
    axes.set_ylim(0, float(lost.max()) * 1.1 or 1)
    axes.set_ylabel("lost")
    axes.grid(axis="y")


def _mark_stalls(axes: Axes, stalls: Sequence[Stall]) -> None:
    place = axes.get_xaxis_transform()
    for number, stall in enumerate(stalls):
        wide = [(stall.start_s, stall.end_s - stall.start_s)]
        axes.broken_barh(
            wide, (0.96, 0.04), transform=place, color=_FAINT, lw=0, label="users waited" if number == 0 else None
        )


def _course(each: OfDirection, cause: Cause, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    values = np.zeros(len(edges) - 1)
    for window in each.windows:
        values[_place(window.start_s, edges)] = window.mean_ms_by_cause.get(cause, 0.0)
    return values


def _place(at_s: float, edges: NDArray[np.float64]) -> int:
    step_s = float(edges[1] - edges[0])
    return min(round((at_s - float(edges[0])) / step_s), len(edges) - 2)
