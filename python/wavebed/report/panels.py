"""The figure of each workload in a view: its series and events over its own time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from wavebed.report.figure import Bar, Figure, Line, Panel, Strip
from wavebed.report.thin import Points
from wavebed.report.timeline import is_round_trip, line_styles, radio_strip, shades_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.report.choose import View
    from wavebed.report.source import Results, Trial
    from wavebed.workload.model import Event

__all__ = ["TITLES", "workload_figure"]

TITLES = {
    "bulk": "bulk transfer",
    "download": "download",
    "latency": "latency",
    "voice": "voice",
    "call": "video call",
    "video": "video stream",
    "web": "web page",
    "command": "command",
    "modem": "state of the modem",
}
BAD_WORDS = ("stall", "freeze", "rebuffer", "error", "abort", "lost")
"""Events with these words in their names are drawn in red."""
MOST_MARKS = 300
MOST_PANELS = 8
STEPPED = ("bitrate", "progress")
"""Series of a video or a page that are constant until the next value."""
MARGIN = 0.02


def workload_figure(results: Results, view: View, name: str, kind: str) -> Figure | None:
    """Return the figure of a workload in a view; ``None`` without series."""
    spans = [record.span for trial in view.trials if (record := trial.workload(name)) is not None and record.span]
    panels = _panels(results, view, name, kind)
    if not panels:
        return None
    times = [(span.start_s, span.end_s) for span in spans] or _sampled(view, name)
    start_s, end_s = min(start_s for start_s, _ in times), max(end_s for _, end_s in times)
    margin_s = max(MARGIN * (end_s - start_s), 0.01)
    shades = shades_of(view.trials)
    strips = _event_strips(results, view, name)
    bad = [replace(bar, text="") for strip in strips for row in strip.rows for bar in row if bar.style == "bad"]
    return Figure(
        f"{name}, {TITLES.get(kind, kind)}, over time",
        max(0.0, start_s - margin_s),
        end_s + margin_s,
        panels,
        [*radio_strip(shades), *strips],
        [*shades, *(bar for bar in bad if bar.end_s is not None)],
    )


def _sampled(view: View, name: str) -> list[tuple[float, float]]:
    """Return when the samples of something that is no workload begin and end, for each of its series."""
    return [
        (float(points.time_s[0]), float(points.time_s[-1]))
        for trial in view.trials
        for points in trial.samples(name).values()
    ]


def _panels(results: Results, view: View, name: str, kind: str) -> list[Panel]:
    found: dict[tuple[str, str], list[tuple[Trial, Points]]] = {}
    for trial in view.trials:
        for key, points in trial.samples(name).items():
            if kind == "latency" and is_round_trip(*key):
                continue  # it is in the figure above
            found.setdefault(key, []).append((trial, points))
    if kind == "download" and not any(unit in ("bytes", "MB") for _, unit in found):
        found[("progress", "bytes")] = [(trial, acked) for trial in view.trials if (acked := _acked(trial, name))]
    panels = []
    for (series, unit), drawn in list(found.items())[:MOST_PANELS]:
        if not drawn or not any(np.isfinite(points.value).any() for _, points in drawn):
            continue
        shown, scale = _readable(unit, drawn)
        stepped = kind in ("video", "web") and any(word in series.lower() for word in STEPPED)
        lines = [
            _line(results, trial, series, Points(points.time_s, points.value / scale), stepped)
            for trial, points in drawn
        ]
        panels.append(Panel(series[:1].upper() + series[1:], shown, lines, height=120))
    return panels


def _line(results: Results, trial: Trial, series: str, points: Points, stepped: bool) -> Line:
    treatment = trial.line.treatment
    label = treatment if len(results.treatments) > 1 else series
    return Line(label, line_styles(results, 0, treatment, 0), points, stepped=stepped)


def _readable(unit: str, drawn: Sequence[tuple[Trial, Points]]) -> tuple[str, float]:
    """Return the unit and its factor: kB or MB for many bytes."""
    most = max(float(np.nanmax(points.value, initial=0.0)) for _, points in drawn)
    if unit == "bytes" and most >= 1e6:
        return "MB", 1e6
    if unit == "bytes" and most >= 1e4:
        return "kB", 1e3
    return unit, 1.0


def _acked(trial: Trial, name: str) -> Points | None:
    """Return the acknowledged bytes of the largest connection during a workload."""
    record = trial.workload(name)
    if record is None or record.span is None:
        return None
    best: Points | None = None
    for flow in trial.flows:
        points = flow.acked_bytes
        inside = points.between(record.span.start_s - 0.05, record.span.end_s + 0.05)
        if len(inside) * 2 > len(points) and (best is None or inside.value[-1] > best.value[-1]):
            best = inside
    return best


def _event_strips(results: Results, view: View, name: str) -> list[Strip]:
    """Return a strip for each kind of event except requests, with a row for each treatment."""
    kinds: dict[str, list[list[Bar]]] = {}
    for trial in view.trials:
        mine: dict[str, list[Event]] = {}
        for event in trial.events(name):
            if event.name != "request":
                mine.setdefault(event.name, []).append(event)
        for kind, events in mine.items():
            is_bad = any(word in kind.lower() for word in BAD_WORDS)
            style = "bad" if is_bad else f"{results.style(trial.line.treatment)} work"
            bars = [
                Bar(event.time_s, event.end_s, style, _event_text(results, trial, kind, event))
                for event in events[:MOST_MARKS]
            ]
            kinds.setdefault(kind, []).append(bars)
    return [Strip(_counted(kind, rows), rows) for kind, rows in kinds.items()]


def _counted(kind: str, rows: Sequence[Sequence[Bar]]) -> str:
    counts = ", ".join(str(len(row)) for row in rows)
    return f"{kind} ({counts})"


def _event_text(results: Results, trial: Trial, kind: str, event: Event) -> str:
    who = f"{trial.line.treatment}: " if len(results.treatments) > 1 else ""
    return f"{who}{kind}{' ' + event.text if event.text else ''}"
