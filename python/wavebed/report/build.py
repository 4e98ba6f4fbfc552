"""The report of a run: one HTML page with its style, script and data, which needs no network."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING

from wavebed.output import write_output
from wavebed.report.choose import MOST_VIEWS, views
from wavebed.report.decision import decision_section
from wavebed.report.distributions import delay_distributions
from wavebed.report.document import asset, document
from wavebed.report.finding import finding
from wavebed.report.panels import TITLES, workload_figure
from wavebed.report.path import path_row, scene_map
from wavebed.report.source import read_results
from wavebed.report.table import results_section
from wavebed.report.timeline import timeline
from wavebed.report.verdicts import repeat_section, verdict_counts, verdict_section
from wavebed.report.web import web_panel
from wavebed.store.disk import remove_leftovers

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.report.choose import View
    from wavebed.report.source import Results

__all__ = ["MOST_BYTES", "write_report"]

MOST_BYTES = 3_000_000
REPORT_FILE = "report.html"


def write_report(run_dir: Path, file: Path | None = None) -> Path:
    """Write the report of a run to `file` (by default ``report.html`` in `run_dir`) and return its path.

    Unfinished trials of a killed run are removed.

    Raises
    ------
    UserError
        If the folder has no run, or the file cannot be written.
    """
    results = read_results(run_dir)
    remove_leftovers(run_dir)
    target = file or run_dir / REPORT_FILE
    write_output(target, small_page(results))
    return target


def small_page(results: Results, most_bytes: int = MOST_BYTES) -> str:
    """Return the page with the most seeds that fit."""
    text = ""
    for most in range(MOST_VIEWS, -1, -1):
        text = page(results, most)
        if len(text.encode()) < most_bytes:
            break
    return text


def page(results: Results, most_views: int) -> str:
    """Return the page with figures of at most `most_views` seeds."""
    record = results.run.record
    title = record.title or record.scenario
    body = "\n".join(
        part
        for part in (
            _head(results, title),
            _path(results),
            results_section(results),
            _over_time(results, most_views),
            _delays(results),
            verdict_section(results),
            repeat_section(results),
        )
        if part
    )
    licence = asset("uplot/LICENSE")
    script = f"/* uPlot\n{licence}\n*/\n{asset('uplot/uPlot.iife.min.js')}\n{asset('report.js')}"
    return document(title, body, script, asset("uplot/uPlot.min.css"))


def _head(results: Results, title: str) -> str:
    record = results.run.record
    seeds = len({line.seed for line in record.trials})
    facts = [
        f"{len(record.trials)} trial{'s' if len(record.trials) != 1 else ''}",
        f"{seeds} seed{'s' if seeds != 1 else ''}",
        record.started.replace("T", " ").replace("+00:00", " UTC"),
        f"wavebed {record.versions['wavebed']}" if "wavebed" in record.versions else "",
    ]
    parts = [
        f"<header><h1>{escape(title)}</h1>",
        f'<p class="soft">{escape(", ".join(fact for fact in facts if fact))}</p></header>',
        decision_section(results.run.folder),
        "".join(f'<p class="lead">{escape(sentence)}</p>' for sentence in finding(results)),
    ]
    if record.ended is None:
        parts.append(
            '<p class="warn">The run has not ended: it was interrupted or is still running.'
            " This report has the stored trials.</p>"
        )
    parts.append(verdict_counts(results))
    if record.source:
        parts.append(f'<p class="soft">Source: {escape(record.source)}</p>')
    return "".join(parts)


def _path(results: Results) -> str:
    drawn: dict[str, list[str]] = {}
    for trial in results.trials:
        row = path_row(trial.record.resolved)
        if row:
            names = drawn.setdefault(row, [])
            if trial.line.treatment not in names:
                names.append(trial.line.treatment)
    if not drawn:
        return ""
    rows = []
    for row, names in drawn.items():
        label = f'<p class="soft">{escape(", ".join(names))}</p>' if len(drawn) > 1 else ""
        rows.append(label + row)
    return f'<section id="path"><h2>Path</h2>{"".join(rows)}{_treatments(results)}{scene_map(results)}</section>'


def _treatments(results: Results) -> str:
    """Return the changes of each treatment; empty without changes."""
    rows = []
    for treatment in results.run.record.treatments:
        changes = treatment.get("set")
        if isinstance(changes, dict) and changes:
            told = ", ".join(f"{key} = {json.dumps(value)}" for key, value in changes.items())
            name = str(treatment["name"])
            key = f'<span class="key {results.style(name)}"></span>'
            rows.append(f"<li>{key}<b>{escape(name)}</b> {escape(told)}</li>")
    return f'<ul class="legend" aria-label="Changes of the treatments">{"".join(rows)}</ul>' if rows else ""


def _over_time(results: Results, most_views: int) -> str:
    chosen, count = views(results, most_views) if most_views else ([], len(results.trials))
    if not chosen:
        left_out = "they would make the page too large" if count else "no trial has series"
        return f'<section id="time"><h2>Over time</h2><p class="soft">No figures: {left_out}.</p></section>'
    said = ""
    if count > len(chosen):
        said = f" {len(chosen)} of {count} seeds are drawn, spread over the results; the table above has all seeds."
    legend = ""
    if len(results.treatments) > 1:
        items = "".join(
            f'<li data-style="{results.style(name)}"><span class="key {results.style(name)}"></span>{escape(name)}</li>'
            for name in results.treatments
        )
        legend = f'<ul class="legend" aria-label="treatments">{items}</ul>'
    drawn = "".join(_view(results, view, index) for index, view in enumerate(chosen))
    return (
        '<section id="time"><h2>Over time</h2><p class="soft">Trials with one seed have the same channel and share a'
        f" figure.{escape(said)} To read values, move over a figure, or focus it and use the arrow keys. Drag to zoom,"
        " Shift and drag to pan, double-click to show all; keys: + and −, Shift and arrow, 0. Lines with many samples"
        " show the lowest and the highest value of each interval.</p>"
        f'<div class="controls">{legend}</div>{drawn}</section>'
    )


def _view(results: Results, view: View, index: int) -> str:
    marks = ", ".join(
        f"{trial.line.treatment} is {trial.line.verdict}" for trial in view.trials if trial.line.verdict != "valid"
    )
    parts = [
        f'<details class="view"{" open" if index == 0 else ""}><summary>{escape(view.label)}</summary>',
        f'<p class="warn">{escape(marks)}.</p>' if marks else "",
        timeline(results, view).render(),
    ]
    for name, kind in [*results.workloads, ("modem", "modem")]:
        own = workload_figure(results, view, name, kind)
        extra = web_panel(results, view, name) if kind == "web" else ""
        if own is not None or extra:
            what = TITLES.get(kind, kind)
            heading = name if name in (kind, what) else f"{name}, {what}"
            parts.append(f"<h3>{escape(heading[:1].upper() + heading[1:])}</h3>")
            parts.append((own.render() if own is not None else "") + extra)
    parts.append("</details>")
    return "".join(parts)


def _delays(results: Results) -> str:
    charts = delay_distributions(results)
    if not charts:
        return ""
    return (
        '<section id="delays"><h2>Delay, idle and loaded</h2><p class="soft">All answered probes of all counted trials.'
        " Loaded: a workload put load on the path; the second after the load is in neither window. Probes of one trial"
        f" are not independent, so the intervals in the table use trials.</p>{charts}</section>"
    )
