"""The report of a run: one HTML page with its style, script and data inside, which needs no network."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING

from wavebed.experiment.disk import remove_leftovers
from wavebed.output import write_output
from wavebed.report.choose import MOST_VIEWS, views
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

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.report.choose import View
    from wavebed.report.source import Results

__all__ = ["MOST_BYTES", "write_report"]

MOST_BYTES = 3_000_000
REPORT_FILE = "report.html"


def write_report(run_dir: Path, file: Path | None = None) -> Path:
    """Write the report of a run. What a killed run left of a trial is removed.

    Parameters
    ----------
    run_dir : pathlib.Path
        What ``wavebed run`` wrote.
    file : pathlib.Path, optional
        Where to write it; by default ``report.html`` in `run_dir`.

    Returns
    -------
    pathlib.Path
        Where it is.

    Raises
    ------
    UserError
        If the folder holds no run, or the file cannot be written.
    """
    results = read_results(run_dir)
    remove_leftovers(run_dir)
    target = file or run_dir / REPORT_FILE
    write_output(target, small_page(results))
    return target


def small_page(results: Results, most_bytes: int = MOST_BYTES) -> str:
    """Return the page, with as many seeds drawn as fit."""
    text = ""
    for most in range(MOST_VIEWS, -1, -1):
        text = page(results, most)
        if len(text.encode()) < most_bytes:
            break
    return text


def page(results: Results, most_views: int) -> str:
    """Return the page with at most so many seeds drawn."""
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
        "".join(f'<p class="lead">{escape(sentence)}</p>' for sentence in finding(results)),
    ]
    if record.ended is None:
        parts.append(
            '<p class="warn">The run did not end: it was interrupted, or still runs. This is what there is.</p>'
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
    """Return what each treatment changes; empty where there is one that changes nothing."""
    rows = []
    for treatment in results.run.record.treatments:
        changes = treatment.get("set")
        if isinstance(changes, dict) and changes:
            told = ", ".join(f"{key} = {json.dumps(value)}" for key, value in changes.items())
            name = str(treatment["name"])
            key = f'<span class="key {results.style(name)}"></span>'
            rows.append(f"<li>{key}<b>{escape(name)}</b> {escape(told)}</li>")
    return f'<ul class="legend" aria-label="What the treatments change">{"".join(rows)}</ul>' if rows else ""


def _over_time(results: Results, most_views: int) -> str:
    chosen, count = views(results, most_views) if most_views else ([], len(results.trials))
    if not chosen:
        left_out = "its figures would make the page too large" if count else "no trial has series"
        return f'<section id="time"><h2>Over time</h2><p class="soft">Nothing is drawn: {left_out}.</p></section>'
    said = ""
    if count > len(chosen):
        said = f" {len(chosen)} of {count} seeds are drawn, spread over the results; the table above counts all."
    legend = ""
    if len(results.treatments) > 1:
        items = "".join(
            f'<li data-style="{results.style(name)}"><span class="key {results.style(name)}"></span>{escape(name)}</li>'
            for name in results.treatments
        )
        legend = f'<ul class="legend" aria-label="treatments">{items}</ul>'
    drawn = "".join(_view(results, view, index) for index, view in enumerate(chosen))
    return (
        '<section id="time"><h2>Over time</h2><p class="soft">Trials with one seed met the same channel and are drawn'
        f" together.{escape(said)} Move over a figure, or focus it and use the arrow keys, to read values. Drag to"
        " zoom, drag with Shift to pan, double-click to see all; keys: + and −, Shift with an arrow, 0. Lines of many"
        " samples keep the lowest and the highest of each stretch.</p>"
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
    for name, kind in results.workloads:
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
        '<section id="delays"><h2>Delay, idle and loaded</h2><p class="soft">All answered probes of all counted trials'
        " together; loaded is while a workload put load on the path, and the second after it is in neither. Probes of"
        f" one trial are not independent: the intervals in the table go by trials.</p>{charts}</section>"
    )
