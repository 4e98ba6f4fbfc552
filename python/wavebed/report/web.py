"""The panel of a web page: its filmstrip, and the waterfall of its requests."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.config.data import number_in, tables_in
from wavebed.errors import UserError
from wavebed.foreign import read_bytes
from wavebed.report.numbers import MISSING, figure
from wavebed.result.names import INCOMPLETE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.config.data import Json
    from wavebed.report.choose import View
    from wavebed.report.source import Results, Trial
    from wavebed.result.model import WorkloadRecord

    Table = Mapping[str, Json]

__all__ = ["MARKS", "PHASES", "web_panel"]

PHASES = {"blocked": "blocked", "dns": "DNS", "connect": "connect", "tls": "TLS", "wait": "wait", "receive": "receive"}
"""Phases of a request: class in the style sheet, and label."""
MARKS = {"first contentful paint": "FCP", "largest contentful paint": "LCP", "on load": "onLoad"}
MOST_ROWS = 120
MOST_PICTURE_BYTES = 20_000
_JPEG = b"\xff\xd8\xff"


def web_panel(results: Results, view: View, name: str) -> str:
    """Return filmstrip and waterfall of each trial of a view."""
    parts = []
    for index, trial in enumerate(view.trials):
        record = trial.workload(name)
        if record is None:
            continue
        details = record.outcome.details
        body = _film(trial, name, tables_in(details, "film"))
        body += _waterfall(tables_in(details, "requests"), _moments(record))
        if body and len(results.treatments) > 1:
            key = f'<span class="key {results.style(trial.line.treatment)}"></span>'
            title = f"{key}{escape(trial.line.treatment)}: filmstrip and requests"
            parts.append(f"<details{' open' if index == 0 else ''}><summary>{title}</summary>{body}</details>")
        else:
            parts.append(body)
    return "".join(parts)


def _film(trial: Trial, name: str, frames: Sequence[Table]) -> str:
    folder = trial.folder / "raw" / name
    if not frames:
        return ""
    shown = []
    for frame in frames:
        after = f"{figure(number_in(frame, 'time_ms'))} ms"
        picture = _picture(folder, frame.get("file"))
        image = f'<img src="{picture}" alt="The page after {after}">' if picture else '<div class="blank">blank</div>'
        shown.append(f"<li>{image}{after}<br>{figure(number_in(frame, 'percent'))} %</li>")
    return (
        f'<ol class="film" tabindex="0" aria-label="Filmstrip of the page">{"".join(shown)}</ol>'
        '<p class="soft">Time since the start of the navigation, and visual progress.</p>'
    )


def _picture(folder: Path, name: Json) -> str:
    """Return a picture as a data URL; empty without one, or if it is not a small JPEG."""
    if not isinstance(name, str) or Path(name).name != name:
        return ""
    try:
        data = read_bytes(folder / name, INCOMPLETE, most=MOST_PICTURE_BYTES)
    except UserError:
        return ""
    if not data.startswith(_JPEG):
        return ""
    return f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"


def _waterfall(requests: Sequence[Table], moments: Mapping[str, float]) -> str:
    if not requests:
        return ""
    shown = requests[:MOST_ROWS]
    phases = [_phases(request) for request in shown]
    end_ms = max([*(end for each in phases for _, _, end in each), *moments.values(), 1.0])
    rows = "".join(_request(*pair, end_ms, moments) for pair in zip(shown, phases, strict=True))
    used = {phase for each in phases for phase, _, _ in each}
    key = "".join(f'<span><i class="p-{style}"></i>{text}</span>' for style, text in PHASES.items() if style in used)
    key += "".join(f"<span>┆ {escape(mark)} {figure(ms)} ms</span>" for mark, ms in moments.items())
    left_out = len(requests) - len(shown)
    more = f'<p class="soft">{left_out} more requests are in the results.</p>' if left_out else ""
    return (
        f'<div class="phases">{key}</div><div class="scroll"><table class="waterfall"><thead><tr>'
        '<th scope=col class="url">request</th><th scope=col>kB</th><th scope=col>protocol</th>'
        f'<th scope=col>connection</th><th scope=col class="w">from 0 to {figure(end_ms)} ms</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{more}"
    )


def _request(
    request: Table, phases: Sequence[tuple[str, float, float]], end_ms: float, moments: Mapping[str, float]
) -> str:
    size = number_in(request, "bytes")
    bars = "".join(
        f'<i class="phase p-{style}" style="left:{100 * at / end_ms:.2f}%;width:{100 * (to - at) / end_ms:.2f}%"></i>'
        for style, at, to in phases
    )
    bars += "".join(f'<i class="mark" style="left:{100 * ms / end_ms:.2f}%"></i>' for ms in moments.values())
    told = ", ".join(f"{PHASES[style]} {figure(to - at)} ms" for style, at, to in phases)
    address = f"{request.get('origin', '')}{request.get('path', '')}"
    status, asked_ms = request.get("status"), number_in(request, "asked_ms")
    tip = f"{address}: {request.get('kind', '')}, status {status}, from {figure(asked_ms)} ms: {told}"
    failed = ' class="fails"' if request.get("failed") else ""
    return (
        f'<tr{failed} title="{escape(tip)}"><th scope=row class="url">{escape(address)}</th>'
        f"<td>{figure(None if size is None else size / 1e3)}</td>"
        f"<td>{escape(str(request.get('protocol') or MISSING))}</td>"
        f"<td>{escape(str(request.get('connection') or MISSING))}</td><td>{bars}</td></tr>"
    )


def _phases(request: Table) -> list[tuple[str, float, float]]:
    """Return the phases of a request with start and end (ms); gaps are called blocked."""
    asked, sent, answered, end = (number_in(request, f"{name}_ms") for name in ("asked", "sent", "answered", "end"))
    if asked is None:
        return []
    spans = []
    connect, tls = _pair(request, "connect_ms"), _pair(request, "tls_ms")
    if connect is not None and tls is not None:
        connect = (connect[0], tls[0])
    for style, span in (("dns", _pair(request, "dns_ms")), ("connect", connect), ("tls", tls)):
        if span is not None:
            spans.append((style, max(span[0], asked), span[1]))
    if sent is not None and (answered or end) is not None:
        spans.append(("wait", sent, answered if answered is not None else end or sent))
    if answered is not None and end is not None:
        spans.append(("receive", answered, end))
    out: list[tuple[str, float, float]] = []
    at = asked
    for style, begin, stop in spans:
        if begin > at:
            out.append(("blocked", at, begin))
        if stop > begin:
            out.append((style, begin, stop))
        at = max(at, stop)
    return out


def _moments(workload: WorkloadRecord) -> dict[str, float]:
    """Return the marks of the page in order of time."""
    values = {metric.name: metric.value for metric in workload.outcome.metrics}
    found = {short: value for name, short in MARKS.items() if (value := values.get(name)) is not None}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _pair(table: Table, key: str) -> tuple[float, float] | None:
    value = table.get(key)
    if not isinstance(value, list) or len(value) != 2:
        return None
    first, last = value
    return (float(first), float(last)) if isinstance(first, int | float) and isinstance(last, int | float) else None
