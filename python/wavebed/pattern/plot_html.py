"""A page with the picture of patterns: one file that works offline and reads out values under the pointer."""

from __future__ import annotations

import html
import json
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from wavebed.pattern.curves import say_rate, say_time
from wavebed.pattern.plot import COLOURS, LABELS, STATE_COLOURS, drawable_outages, panel_limits, panel_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.pattern.curves import Curve, Drawing

__all__ = ["DARK", "curve_data", "render_page"]

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


def _panel(key: str, drawings: Sequence[Drawing], order: Sequence[int], height: int) -> dict[str, object]:
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
        "outages": drawable_outages(alone.outages, float(alone.panels[key].edges[-1]) / 4000)
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
        {"colour": STATE_COLOURS[state], "spans": drawable_outages(spans, least)}
        for state, spans in drawing.states.items()
        if state != "los"
    ]


def _table(drawings: Sequence[Drawing]) -> str:
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
        dot = f'<i class="dot" data-series="{series}"></i>'
        values = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        rows.append(f"<tr><td>{dot}{html.escape(drawing.title) if len(drawings) > 1 else ''}</td>{values}</tr>")
    names = ["", "duration", "mean", "p5", "median", "p95", "peak", "outages", "longest"]
    names += ["mean delay"] * delayed + ["mean loss"] * lossy
    head = "".join(f"<th>{name}</th>" for name in names)
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _foot(drawings: Sequence[Drawing]) -> str:
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
    return html.escape(" ".join(parts)) + _legend(drawings)


def _legend(drawings: Sequence[Drawing]) -> str:
    if len(drawings) != 1:
        return ""
    shown = [state for state in drawings[0].states if state != "los"]
    dots = [f'<i class="dot state" style="background:{STATE_COLOURS[state]}"></i>{state}' for state in shown]
    return f"<br>Shaded: {' '.join(dots)}." if dots else ""


def render_page(drawings: Sequence[Drawing], *, stacked: bool = False) -> bytes:
    """Make the page; the same patterns make the same bytes.

    Parameters
    ----------
    stacked : bool
        One above the other, instead of over each other.
    """
    groups = [[series] for series in range(len(drawings))] if stacked else [list(range(len(drawings)))]
    panels = []
    for group in groups:
        keys = [key for key in LABELS if any(key in drawings[series].panels for series in group)]
        for position, key in enumerate(keys):
            tall = 320 if len(groups) == 1 else 220
            panels.append(_panel(key, drawings, group, tall if position == 0 else 150))
    data = {
        "names": [drawing.title for drawing in drawings],
        "packets": drawings[0].over_packets,
        "end": max(float(curve.edges[-1]) for drawing in drawings for curve in drawing.panels.values()),
        "colours": COLOURS,
        "dark": DARK,
        "panels": panels,
    }
    title = html.escape(drawings[0].title if len(drawings) == 1 else f"{len(drawings)} patterns")
    page = resources.files("wavebed.pattern").joinpath("plot_page.html").read_text(encoding="utf-8")
    fields = {
        "__TOP__": "",
        "__MAPWIDTH__": "none",
        "__TITLE__": title,
        "__TABLE__": _table(drawings),
        "__FOOT__": _foot(drawings),
        "__DATA__": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    }
    for name, value in fields.items():
        page = page.replace(name, value)
    return page.encode()
