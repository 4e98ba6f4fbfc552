"""The panel of a web page: how it appeared (filmstrip), and what was asked when (waterfall)."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import TYPE_CHECKING

from wavebed.report.numbers import figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.report.choose import View
    from wavebed.report.source import Results, Trial
    from wavebed.workload.model import Json

    Table = Mapping[str, Json]

__all__ = ["PHASES", "web_panel"]

PHASES = ("blocked", "dns", "connect", "tls", "send", "wait", "receive")
MOST_ROWS = 60
MOST_FRAMES = 10
FRAME_HEIGHT = 150
JPEG_QUALITY = 62


def web_panel(results: Results, view: View, name: str) -> str:
    """Return filmstrip and waterfall of each trial of a view."""
    parts = []
    for index, trial in enumerate(view.trials):
        record = trial.workload(name)
        if record is None:
            continue
        details = record.outcome.details
        body = _film(trial, name, _tables(details, "film")) + _waterfall(_tables(details, "requests"), details)
        if body and len(results.treatments) > 1:
            key = f'<span class="key {results.style(trial.line.treatment)}"></span>'
            title = f"{key}{escape(trial.line.treatment)}: filmstrip and requests"
            parts.append(f"<details{' open' if index == 0 else ''}><summary>{title}</summary>{body}</details>")
        else:
            parts.append(body)
    return "".join(parts)


def _film(trial: Trial, name: str, frames: Sequence[Table]) -> str:
    folder = trial.folder / "raw" / name
    shown = []
    for frame in _spread(frames, MOST_FRAMES):
        picture = _picture(folder, str(frame.get("file", "")))
        if picture:
            complete = frame.get("complete_percent")
            note = f"{figure(_number(frame, 'time_ms'))} ms"
            if isinstance(complete, int | float):
                note += f"<br>{figure(float(complete))} %"
            shown.append(f'<li><img src="{picture}" alt="The page after {escape(note.partition("<br>")[0])}">{note}</li>')
    if not shown:
        return ""
    left_out = f" {len(shown)} of {len(frames)} pictures." if len(shown) < len(frames) else ""
    return (
        f'<ol class="film" tabindex="0" aria-label="How the page appeared">{"".join(shown)}</ol>'
        f'<p class="soft">Time since the start of the navigation, and visual completeness.{left_out}</p>'
    )


def _picture(folder: Path, name: str) -> str:
    """Return a small copy of a picture as a data address; empty if it cannot be read."""
    from PIL import Image

    file = folder / name
    if not name or "/" in name or not file.is_file():
        return ""
    try:
        with Image.open(file) as image:
            small = image.convert("RGB")
            small.thumbnail((4 * FRAME_HEIGHT, FRAME_HEIGHT))
            out = io.BytesIO()
            small.save(out, "JPEG", quality=JPEG_QUALITY, optimize=True)
    except OSError:
        return ""
    return f"data:image/jpeg;base64,{base64.b64encode(out.getvalue()).decode()}"


def _waterfall(requests: Sequence[Table], details: Table) -> str:
    if not requests:
        return ""
    shown = requests[:MOST_ROWS]
    end_ms = max(_end_ms(request) for request in requests) or 1.0
    marks = details.get("marks")
    moments = {
        str(mark): float(ms)
        for mark, ms in (marks.items() if isinstance(marks, dict) else ())
        if isinstance(ms, int | float) and 0 <= ms <= end_ms
    }
    rows = "".join(_request(request, end_ms, moments) for request in shown)
    used = [phase for phase in PHASES if any(_number(request, f"{phase}_ms") for request in requests)]
    key = "".join(f'<span><i class="p-{phase}"></i>{"TLS" if phase == "tls" else phase}</span>' for phase in used)
    key += "".join(f"<span>┆ {escape(mark)} {figure(ms)} ms</span>" for mark, ms in sorted(moments.items(), key=lambda m: m[1]))
    more = f'<p class="soft">{len(requests) - len(shown)} more requests are in the results.</p>' if len(shown) < len(requests) else ""
    return (
        f'<div class="phases">{key}</div><div class="scroll"><table class="waterfall"><thead><tr>'
        '<th scope=col class="url">request</th><th scope=col>kB</th><th scope=col>protocol</th>'
        f'<th scope=col>connection</th><th scope=col class="w">0 to {figure(end_ms)} ms</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{more}"
    )


def _request(request: Table, end_ms: float, moments: Mapping[str, float]) -> str:
    url = str(request.get("url", ""))
    short = url.partition("://")[2] or url
    size = _number(request, "bytes")
    at = _number(request, "start_ms") or 0.0
    bars, told = [], []
    for phase in PHASES:
        lasts = _number(request, f"{phase}_ms")
        if lasts:
            bars.append(
                f'<i class="phase p-{phase}" style="left:{100 * at / end_ms:.2f}%;width:{100 * lasts / end_ms:.2f}%"></i>'
            )
            told.append(f"{phase} {figure(lasts)} ms")
            at += lasts
    bars += [f'<i class="mark" style="left:{100 * ms / end_ms:.2f}%"></i>' for ms in moments.values()]
    start = figure(_number(request, "start_ms"))
    tip = escape(f"{url}: from {start} ms: {', '.join(told)}")
    return (
        f'<tr title="{tip}"><th scope=row class="url">{escape(short)}</th>'
        f"<td>{figure(None if size is None else size / 1e3)}</td><td>{escape(str(request.get('protocol') or '–'))}</td>"
        f"<td>{escape(str(request.get('connection') or '–'))}</td><td>{''.join(bars)}</td></tr>"
    )


def _end_ms(request: Table) -> float:
    return (_number(request, "start_ms") or 0.0) + sum(_number(request, f"{phase}_ms") or 0.0 for phase in PHASES)


def _spread(frames: Sequence[Table], most: int) -> list[Table]:
    """Return at most so many, the first and the last among them."""
    if len(frames) <= most:
        return list(frames)
    return [frames[round(place * (len(frames) - 1) / (most - 1))] for place in range(most)]


def _number(table: Table, key: str) -> float | None:
    value = table.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _tables(table: Table, key: str) -> list[Table]:
    found = table.get(key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
