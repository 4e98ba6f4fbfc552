"""A page with the picture of realisations: one file that works offline; the map follows the pointer."""

from __future__ import annotations

import html
import json
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from wavebed.channel.plot import render_map, table_rows
from wavebed.channel.table import COLUMNS
from wavebed.pattern.plot import COLOURS, STATE_COLOURS, drawable_outages
from wavebed.pattern.plot_html import DARK, curve_data

if TYPE_CHECKING:
    from wavebed.channel.plot import MapPicture
    from wavebed.channel.plot_data import Panel, View

__all__ = ["render_page"]

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
