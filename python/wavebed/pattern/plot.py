"""Pictures of patterns as PNG or SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.page.charts import (
    COLOURS,
    FAINT,
    STATE_COLOURS,
    figure_bytes,
    joined_spans,
    panels,
    raised,
    spans,
    steps,
    styled,
)
from wavebed.page.document import curves_page, filled
from wavebed.pattern.curves import headline, say_rate, say_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup
    from numpy.typing import NDArray

    from wavebed.page.charts import Axes, Figure
    from wavebed.pattern.curves import Curve, Drawing


OUTAGE = "#d64545"
LABELS = {"rate": "capacity", "delay": "delay", "loss": "loss", "bler": "BLER", "sinr": "SINR", "need": "SINR needed"}
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
    axes: Axes, curve: Curve, scale: float, colour: str, label: str | None, *, base: float | None, style: str = "-"
) -> None:
    band = (curve.low / scale, curve.high / scale) if curve.banded else None
    width = 0.8 if len(curve.mean) > 1000 else 1.3
    steps(axes, curve.edges, curve.mean / scale, colour, label=label, style=style, width=width, band=band, base=base)


def _shade_states(axes: Axes, drawing: Drawing) -> None:
    """Shade the states of the radio; the free direct path, the usual one, stays white."""
    end = max(float(curve.edges[-1]) for curve in drawing.panels.values())
    for state, times in drawing.states.items():
        if state != "los":
            spans(axes, times, end / 1500, STATE_COLOURS[state], label=state)


def _panel(axes: Axes, key: str, drawings: Sequence[Drawing], colours: Sequence[str]) -> None:
    shown = [(drawing, colour) for drawing, colour in zip(drawings, colours, strict=True) if key in drawing.panels]
    low, high = panel_limits(key, [curve for drawing, _ in shown for curve in drawing.curves(key)])
    scale, unit = panel_unit(key, max(float(np.max(drawing.panels[key].high)) for drawing, _ in shown))
    for drawing, colour in shown:
        # A label that begins with an underscore would be left out of the legend.
        label = None if len(drawings) == 1 else " " + drawing.title if drawing.title[:1] == "_" else drawing.title
        base = low / scale if len(drawings) == 1 else None
        _draw_curve(axes, drawing.panels[key], scale, colour, label, base=base)
        if key == "rate" and drawing.light is not None:
            said = "after idle" if len(drawings) == 1 else None
            _draw_curve(axes, drawing.light, scale, colour, said, base=None, style=LIGHT_STYLE)
        if len(drawings) == 1 and drawing.states:
            _shade_states(axes, drawing)
        elif key == "rate" and len(drawings) == 1 and drawing.outages:
            least = float(drawing.panels["rate"].edges[-1]) / 1500
            spans(axes, drawing.outages, least, OUTAGE, label="outage", alpha=0.22)
    axes.set_ylabel(f"{LABELS[key]}  ({unit})")
    axes.set_ylim(low / scale, high / scale)
    axes.set_xlim(0, max(float(drawing.panels[key].edges[-1]) for drawing, _ in shown))
    axes.grid(axis="y")
    axes.tick_params(length=3)


def _title(axes: Axes, drawings: Sequence[Drawing]) -> None:
    if len(drawings) == 1:
        axes.set_title(drawings[0].title, loc="left", fontweight="bold", fontsize=11.5, pad=22)
        above = raised(axes, 6)
        axes.text(0, 1.0, headline(drawings[0]), transform=above, color=FAINT, fontsize=9, va="bottom")
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


def _build(drawings: Sequence[Drawing], *, stacked: bool) -> Figure:
    groups = [[drawing] for drawing in drawings] if stacked else [list(drawings)]
    plan: list[tuple[str, list[Drawing], bool]] = []
    for group in groups:
        keys = [key for key in LABELS if any(key in drawing.panels for drawing in group)]
        plan.extend((key, group, position == 0) for position, key in enumerate(keys))
    heights = [2.6 if first else 1.3 for _, _, first in plan]
    figure, all_axes = panels(heights, 1.0 + sum(heights) + 0.45 * len(groups), h_pad=0.1)
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
    with styled():
        return figure_bytes(_build(drawings, stacked=stacked), kind)


TEMPLATE = "page/curves.html.j2"
AFTER_IDLE = "after idle"
NOTHING = "\N{EN DASH}"

DARK = ("#6aa5e8", "#f0955a", "#5fc28c", "#bd87d6", "#d9b04a", "#4fbccb", "#e57a86", "#9fb0bb")


def _numbers(values: NDArray[np.float64], scale: float) -> list[float]:
    return [float(f"{value:.7g}") for value in (values / scale).tolist()]


def curve_data(curve: Curve, series: int, scale: float) -> dict[str, object]:
    """Return the data of a curve for the page's program."""
    result: dict[str, object] = {
        "series": series,
        "edges": [float(f"{edge:.10g}") for edge in curve.edges.tolist()],
        "mean": _numbers(curve.mean, scale),
    }
    if curve.banded:
        result["low"] = _numbers(curve.low, scale)
        result["high"] = _numbers(curve.high, scale)
    return result


def _panel_data(key: str, drawings: Sequence[Drawing], order: Sequence[int], height: int) -> dict[str, object]:
    shown = [(series, drawings[series]) for series in order if key in drawings[series].panels]
    scale, unit = panel_unit(key, max(float(np.max(drawing.panels[key].high)) for _, drawing in shown))
    low, high = panel_limits(key, [curve for _, drawing in shown for curve in drawing.curves(key)])
    alone = shown[0][1] if len(shown) == 1 else None
    return {
        "name": LABELS[key],
        "unit": unit,
        "label": f"{LABELS[key]} ({unit})",
        "height": height,
        "base": low / scale,
        "top": high / scale,
        "outages": joined_spans(alone.outages, float(alone.panels[key].edges[-1]) / 4000)
        if alone is not None and key == "rate" and not alone.states
        else [],
        "states": [] if alone is None else _states(alone, float(alone.panels[key].edges[-1]) / 4000),
        "curves": _curves(key, shown, scale, len(drawings)),
    }


def _curves(key: str, shown: Sequence[tuple[int, Drawing]], scale: float, count: int) -> list[dict[str, object]]:
    """Return the lines of a panel; a light rate has a colour and a name of its own."""
    curves = []
    for series, drawing in shown:
        curves.append(curve_data(drawing.panels[key], series, scale))
        if key == "rate" and drawing.light is not None:
            name = AFTER_IDLE if count == 1 else f"{drawing.title}, {AFTER_IDLE}"
            curves.append({**curve_data(drawing.light, count + series, scale), "name": name})
    return curves


def _states(drawing: Drawing, least: float) -> list[dict[str, object]]:
    """States of the radio to be shaded; the free direct path, the usual one, stays white."""
    return [
        {"colour": STATE_COLOURS[state], "spans": joined_spans(spans, least)}
        for state, spans in drawing.states.items()
        if state != "los"
    ]


def _table(drawings: Sequence[Drawing]) -> Markup:
    delayed = any(drawing.summary.mean_delay_ns is not None for drawing in drawings)
    lossy = any(drawing.summary.mean_loss is not None for drawing in drawings)
    rows = []
    for series, drawing in enumerate(drawings):
        summary = drawing.summary
        cells = [f"{summary.period} packets" if drawing.over_packets else say_time(summary.period)]
        if summary.rate_percentiles_bps is not None and summary.mean_bps is not None and summary.peak_bps is not None:
            rates = (summary.mean_bps, *(summary.rate_percentiles_bps[p] for p in (5, 50, 95)), summary.peak_bps)
            cells += [say_rate(rate) for rate in rates]
        else:
            cells += [NOTHING] * 5
        if summary.outages is not None:
            cells += [f"{len(summary.outages.spans_ns)}", say_time(summary.outages.longest_ns)]
        else:
            cells += [NOTHING, NOTHING]
        if delayed:
            cells.append(NOTHING if summary.mean_delay_ns is None else f"{summary.mean_delay_ns / 1e6:.4g} ms")
        if lossy:
            cells.append(NOTHING if summary.mean_loss is None else f"{summary.mean_loss * 100:.3g} %")
        rows.append((series, [drawing.title if len(drawings) > 1 else "", *cells]))
    names = ["", "duration", "mean", "p5", "median", "p95", "peak", "outages", "longest"]
    names += ["mean delay"] * delayed + ["mean loss"] * lossy
    return filled(TEMPLATE, "table", names, rows)


def _foot(drawings: Sequence[Drawing]) -> Markup:
    parts = []
    outages = next((drawing.summary.outages for drawing in drawings if drawing.summary.outages is not None), None)
    if outages is not None:
        threshold = f"{say_rate(outages.threshold_bps)} or less" if outages.threshold_bps else "0"
        parts.append(f"An outage is a rate of {threshold}.")
    windows = sorted({d.summary.rate_window_ns for d in drawings if d.summary.rate_window_ns is not None})
    if windows:
        said = ", ".join(f"{window / 1e6:g} ms" for window in windows)
        parts.append(f"Opportunities are counted in windows of {said}.")
    for drawing in drawings:
        if drawing.summary.light_bytes is not None and drawing.summary.light_idle_ns is not None:
            first = (
                f"{drawing.summary.light_bytes} bytes after {say_time(drawing.summary.light_idle_ns)} without packets"
            )
            parts.append(f"{drawing.title}: the second line is the rate of the first {first}.")
    if any(curve.banded for drawing in drawings for curve in drawing.panels.values()):
        parts.append("The line is the mean of each point's time, the band its lowest and highest value.")
    states = drawings[0].states if len(drawings) == 1 else ()
    return filled(
        TEMPLATE, "pattern_foot", " ".join(parts), [(STATE_COLOURS[each], each) for each in states if each != "los"]
    )


def render_page(drawings: Sequence[Drawing], *, stacked: bool = False) -> bytes:
    """Make the page; the same patterns make the same bytes.

    Parameters
    ----------
    stacked : bool
        One above the other, instead of over each other.
    """
    groups = [[series] for series in range(len(drawings))] if stacked else [list(range(len(drawings)))]
    shown = []
    for group in groups:
        keys = [key for key in LABELS if any(key in drawings[series].panels for series in group)]
        for position, key in enumerate(keys):
            tall = 320 if len(groups) == 1 else 220
            shown.append(_panel_data(key, drawings, group, tall if position == 0 else 150))
    data = {
        "names": [drawing.title for drawing in drawings],
        "packets": drawings[0].over_packets,
        "end": max(float(curve.edges[-1]) for drawing in drawings for curve in drawing.panels.values()),
        "colours": COLOURS,
        "dark": DARK,
        "panels": shown,
    }
    title = drawings[0].title if len(drawings) == 1 else f"{len(drawings)} patterns"
    return curves_page(title, _table(drawings), _foot(drawings), data)
