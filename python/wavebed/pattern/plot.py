"""Pictures of patterns as PNG or SVG."""

from __future__ import annotations

import io
import warnings
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from wavebed.pattern.curves import headline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from wavebed.pattern.curves import Curve, Drawing

__all__ = ["COLOURS", "STATE_COLOURS", "render_picture"]

COLOURS = ("#1f5fa8", "#d9722e", "#2f8f5b", "#8a4fa3", "#b8860b", "#1d8a99", "#b23a48", "#5c6b73")
OUTAGE = "#d64545"
INK = "#1d2733"
FAINT = "#5d6b7a"
LABELS = {"rate": "capacity", "delay": "delay", "loss": "loss", "bler": "BLER", "sinr": "SINR", "need": "SINR needed"}
#: One colour for each state of the radio, told apart also by the colour-blind (Okabe and Ito's palette, darkened).
STATE_COLOURS = {
    "los": "#0072b2",
    "nlos": "#e69f00",
    "blocked": "#cc79a7",
    "outage": "#a3151a",
    "handover": "#1d2733",
    "fallback": "#009e73",
}
STATE_SHADE = 0.2
#: The line of the rate that the first bytes after an idle time get.
LIGHT_STYLE = "--"
RATE_UNITS = ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s"))
DELAY_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def panel_unit(key: str, highest: float) -> tuple[float, str]:
    """Choose the unit in which a panel reads well: what to divide by, and its name."""
    if key in {"loss", "bler"}:
        return 0.01, "%"
    if key in {"sinr", "need"}:
        return 1.0, "dB"
    units = RATE_UNITS if key == "rate" else DELAY_UNITS
    return next(((scale, name) for scale, name in units if highest >= scale), units[-1])


def panel_limits(key: str, curves: Sequence[Curve]) -> tuple[float, float]:
    """Choose the lowest and the highest value that a panel shows; only decibels do not begin at 0."""
    highest = max(float(np.max(curve.high)) for curve in curves)
    if key not in {"sinr", "need"}:
        return 0, highest * 1.06 if highest > 0 else panel_unit(key, highest)[0]
    lowest = min(float(np.min(curve.low)) for curve in curves)
    margin = max(0.06 * (highest - lowest), 1.0)
    return lowest - margin, highest + margin


def _draw_curve(
    axes: Axes,
    curve: Curve,
    scale: float,
    colour: str,
    label: str | None,
    *,
    filled: bool,
    base: float,
    style: str = "-",
) -> None:
    if curve.banded:
        axes.stairs(
            curve.high / scale, curve.edges, baseline=curve.low / scale, fill=True, color=colour, alpha=0.22, lw=0
        )
    elif filled:
        axes.stairs(curve.mean / scale, curve.edges, baseline=base / scale, fill=True, color=colour, alpha=0.13, lw=0)
    axes.stairs(
        curve.mean / scale,
        curve.edges,
        baseline=None,
        color=colour,
        lw=0.8 if len(curve.mean) > 1000 else 1.3,
        ls=style,
        label=label,
    )


def _shade_states(axes: Axes, drawing: Drawing) -> None:
    """Shade the states of the radio; the free direct path, the usual one, stays white."""
    end = max(float(curve.edges[-1]) for curve in drawing.panels.values())
    place = axes.get_xaxis_transform()
    for state, spans in drawing.states.items():
        if state == "los":
            continue
        wide = [(start, max(stop - start, end / 1500)) for start, stop in drawable_outages(spans, end / 1500)]
        colour = STATE_COLOURS[state]
        axes.broken_barh(wide, (0, 1), transform=place, color=colour, alpha=STATE_SHADE, lw=0, label=state, zorder=0.6)


def _shade(axes: Axes, drawing: Drawing) -> None:
    least = float(drawing.panels["rate"].edges[-1]) / 1500
    spans = drawable_outages(drawing.outages, least)
    if spans:
        wide = [(start, max(end - start, least)) for start, end in spans]
        place = axes.get_xaxis_transform()
        axes.broken_barh(wide, (0, 1), transform=place, color=OUTAGE, alpha=0.22, lw=0, label="outage", zorder=0.6)


def drawable_outages(spans: Sequence[tuple[float, float]], least: float) -> list[tuple[float, float]]:
    """Join outages that are closer than can be seen, so that their shades do not pile up."""
    joined: list[tuple[float, float]] = []
    for start, end in spans:
        if joined and start - max(joined[-1][1], joined[-1][0] + least) < least:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _panel(axes: Axes, key: str, drawings: Sequence[Drawing], colours: Sequence[str]) -> None:
    shown = [(drawing, colour) for drawing, colour in zip(drawings, colours, strict=True) if key in drawing.panels]
    low, high = panel_limits(key, [curve for drawing, _ in shown for curve in drawing.curves(key)])
    scale, unit = panel_unit(key, max(float(np.max(drawing.panels[key].high)) for drawing, _ in shown))
    for drawing, colour in shown:
        # A label that begins with an underscore would be left out of the legend.
        label = None if len(drawings) == 1 else " " + drawing.title if drawing.title[:1] == "_" else drawing.title
        _draw_curve(axes, drawing.panels[key], scale, colour, label, filled=len(drawings) == 1, base=low)
        if key == "rate" and drawing.light is not None:
            said = "after idle" if len(drawings) == 1 else None
            _draw_curve(axes, drawing.light, scale, colour, said, filled=False, base=low, style=LIGHT_STYLE)
        if len(drawings) == 1 and drawing.states:
            _shade_states(axes, drawing)
        elif key == "rate" and len(drawings) == 1:
            _shade(axes, drawing)
    axes.set_ylabel(f"{LABELS[key]}  ({unit})")
    axes.set_ylim(low / scale, high / scale)
    axes.set_xlim(0, max(float(drawing.panels[key].edges[-1]) for drawing, _ in shown))
    axes.grid(axis="y")
    axes.tick_params(length=3)


def _title(axes: Axes, drawings: Sequence[Drawing]) -> None:
    if len(drawings) == 1:
        axes.set_title(drawings[0].title, loc="left", fontweight="bold", fontsize=11.5, pad=22)
        axes.text(0, 1.0, headline(drawings[0]), transform=_above(axes), color=FAINT, fontsize=9, va="bottom")
        if axes.get_legend_handles_labels()[1]:
            axes.legend(
                loc="lower right",
                bbox_to_anchor=(1, 1.0),
                ncols=len(STATE_COLOURS),
                frameon=False,
                fontsize=9,
                borderaxespad=2.2 if drawings[0].states or drawings[0].light is not None else 0.3,
                handlelength=1.4,
            )
    else:
        axes.legend(
            loc="lower left", bbox_to_anchor=(0, 1.0), ncols=min(4, len(drawings)), frameon=False, fontsize=9,
            borderaxespad=0.4,
        )  # fmt: skip


def _above(axes: Axes) -> object:
    from matplotlib.transforms import ScaledTranslation

    shift = ScaledTranslation(0, 6 / 72, axes.figure.dpi_scale_trans)
    return axes.transAxes + shift


def _build(drawings: Sequence[Drawing], *, stacked: bool) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    groups = [[drawing] for drawing in drawings] if stacked else [list(drawings)]
    plan: list[tuple[str, list[Drawing], bool]] = []
    for group in groups:
        keys = [key for key in LABELS if any(key in drawing.panels for drawing in group)]
        plan.extend((key, group, position == 0) for position, key in enumerate(keys))
    heights = [2.6 if first else 1.3 for _, _, first in plan]
    figure = Figure(
        figsize=(11, 1.0 + sum(heights) + 0.45 * len(groups)), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)
    )
    all_axes = figure.subplots(len(plan), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for axes, (key, group, first) in zip(all_axes, plan, strict=True):
        colours = [COLOURS[drawings.index(drawing) % len(COLOURS)] for drawing in group]
        _panel(axes, key, group, colours)
        if first:
            _title(axes, group)
    last = len(all_axes) - 1
    for place, (axes, (_, group, _)) in enumerate(zip(all_axes, plan, strict=True)):
        if place == last or plan[place + 1][2]:
            axes.set_xlabel("packet" if group[0].over_packets else "time  (s)")
        else:
            axes.tick_params(labelbottom=False)
    return figure


def render_picture(drawings: Sequence[Drawing], kind: str, *, stacked: bool = False) -> bytes:
    """Draw patterns into one picture; the same patterns make the same bytes.

    Parameters
    ----------
    kind : {"png", "svg"}
        The file format.
    stacked : bool
        One above the other, instead of over each other.
    """
    from matplotlib import rc_context, rc_params_from_file

    with resources.as_file(resources.files("wavebed.pattern").joinpath("picture.mplstyle")) as file:
        style = rc_params_from_file(file, use_default_template=False)
    with rc_context(style):
        figure = _build(drawings, stacked=stacked)
        out = io.BytesIO()
        metadata = {"Date": None} if kind == "svg" else {"Software": "wavebed"}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # a title may have letters that the font lacks
            figure.savefig(out, format=kind, dpi=150, facecolor="white", metadata=metadata)
    return out.getvalue()
