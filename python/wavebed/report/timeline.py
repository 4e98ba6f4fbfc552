"""The figure of a view: workloads, capacity and throughput, queue, RTT and cwnd under one time axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.report.figure import Bar, Figure, Line, Panel, Strip
from wavebed.report.numbers import nice_step
from wavebed.report.path import second_radio_links
from wavebed.report.thin import Points, held, middles, summed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.config.data import Json
    from wavebed.report.choose import View
    from wavebed.report.source import Results, Trial
    from wavebed.report.thin import Floats

__all__ = ["bottleneck", "is_round_trip", "line_styles", "radio_strip", "shades_of", "timeline", "window"]

MOST_FLOWS = 4
"""Number of TCP connections of a trial, largest first, whose RTT and cwnd are drawn."""
STEPS = 400
LEAST_STEP_S = 0.01
SMALL_FRACTION = 0.04
"""An uplink with less than this fraction of the downlink's bytes (acknowledgements) has no panel."""
MOST_STATES = 4000


def bottleneck(trials: Sequence[Trial], direction: str) -> str | None:
    """Return the link of a direction with the least mean capacity, or the last one if none has a limit.

    The links of a second radio are beside the path, and never its bottleneck.
    """
    aside = _beside(trials, direction)
    rates: dict[str, float] = {}
    for trial in trials:
        for link, course in trial.courses.items():
            value = course.rate_bps.value
            if _goes(link, direction, aside) and len(value) and not np.isnan(value).any():
                rates.setdefault(link, float(np.mean(held(course.rate_bps, np.linspace(0, trial.end_s, 500)))))
    if rates:
        return min(rates, key=lambda link: rates[link])
    for trial in trials:
        names = [str(link["name"]) for link in _links(trial)]
        named = [name for name in names if _goes(name, direction, aside)]
        if named:
            return named[-1]
    return None


def _goes(link: str, direction: str, aside: Sequence[str]) -> bool:
    return link.endswith(f".{direction}") and link not in aside


def _beside(trials: Sequence[Trial], direction: str) -> list[str]:
    """Return the links of second radios."""
    found = [link for trial in trials for link in second_radio_links(trial.record.resolved, direction)]
    return list(dict.fromkeys(found))


def _links(trial: Trial) -> list[Mapping[str, Json]]:
    links = trial.record.engine.get("links")
    return [link for link in links if isinstance(link, dict) and "name" in link] if isinstance(links, list) else []


def window(trials: Sequence[Trial]) -> float:
    """Return the end of the time axis."""
    return max(trial.end_s for trial in trials)


def shades_of(trials: Sequence[Trial]) -> list[Bar]:
    """Return the radio's states in the trials of a view: the downlink's if both links have them."""
    courses = trials[0].courses
    aside = [*_beside(trials[:1], "down"), *_beside(trials[:1], "up")]
    states = (link for link, course in courses.items() if course.states and link not in aside)
    links = sorted(states, key=lambda link: ".up" in link)
    if not links:
        return []
    last = max(trials, key=lambda trial: trial.end_s)
    spans = last.courses[links[0]].states
    return [Bar(start_s, end_s, state, state) for start_s, end_s, state in spans[:MOST_STATES]]


def radio_strip(shades: Sequence[Bar]) -> list[Strip]:
    """Return the row with the radio's states, if any."""
    return [Strip("radio", [shades], inside=True)] if shades else []


def line_styles(results: Results, index: int, treatment: str, kind: int) -> str:
    """Return the style of a line: a colour for the treatment, a dash for the kind; colours only with one treatment.

    Parameters
    ----------
    index : int
        Place among the lines of its kind.
    kind : int
        Kind of line in its panel, from 0.
    """
    if len(results.treatments) > 1:
        return f"{results.style(treatment)} d{kind}"
    return f"t{(kind + index) % 6}"


def timeline(results: Results, view: View) -> Figure:
    """Return the figure of a view."""
    end_s = window(view.trials)
    step_s = max(nice_step(end_s, STEPS), LEAST_STEP_S)
    shades = shades_of(view.trials)
    strips = [*radio_strip(shades), *_workloads(results, view)]
    panels = []
    down, up = bottleneck(view.trials, "down"), bottleneck(view.trials, "up")
    if down is not None:
        panels.append(_throughput(results, view, down, step_s, end_s))
    if up is not None and _matters(view, up, down):
        panels.append(_throughput(results, view, up, step_s, end_s))
    aside = _beside(view.trials, "down")
    aside += [link for link in _beside(view.trials, "up") if _matters(view, link, down)]
    panels += [_throughput(results, view, link, step_s, end_s) for link in aside]
    if down is not None:
        panels.append(_queue(results, view, down, step_s, end_s))
    if up is not None and _matters(view, up, down):
        panels.append(_queue(results, view, up, step_s, end_s))
    panels += [_queue(results, view, link, step_s, end_s) for link in aside]
    panels += [panel for panel in (_rtt(results, view), _cwnd(results, view)) if panel.lines]
    return Figure(f"The trials of {view.label} over time", 0.0, end_s, panels, strips, shades)


def _workloads(results: Results, view: View) -> list[Strip]:
    strips = []
    for name, _ in results.workloads:
        rows = []
        for trial in view.trials:
            record = trial.workload(name)
            if record is not None and record.span is not None:
                style = f"{results.style(trial.line.treatment)} work"
                text = f"{name}, {trial.line.treatment}"
                if record.outcome.status != "ok":
                    text += f", {record.outcome.status}: {record.outcome.reason}"
                rows.append([Bar(record.span.start_s, record.span.end_s, style, text)])
        if rows:
            strips.append(Strip(name, rows))
    return strips


def _matters(view: View, up: str, down: str | None) -> bool:
    """Return whether an uplink carried more than acknowledgements."""
    for trial in view.trials:
        below = float(np.nansum(trial.carried(down)[1])) if down is not None else 0.0
        if float(np.nansum(trial.carried(up)[1])) > SMALL_FRACTION * below:
            return True
    return False


def _throughput(results: Results, view: View, link: str, step_s: float, end_s: float) -> Panel:
    lines = []
    course = max(view.trials, key=lambda trial: trial.end_s).courses.get(link)
    if course is not None and not np.isnan(course.rate_bps.value).all():
        points = Points(course.rate_bps.time_s, course.rate_bps.value / 1e6)
        lines.append(Line("capacity", "capacity", points, stepped=True, filled=True, holds=True))
    for trial in view.trials:
        time_s, delivered = trial.carried(link)
        carried = summed(time_s, delivered * 8 / 1e6, step_s, min(trial.end_s, end_s))
        lines.append(_line(results, trial, "throughput", carried))
    direction = "Downlink" if link.endswith(".down") else "Uplink"
    title = f"{direction} at {link.rpartition('.')[0]}: throughput of IP packets"
    return Panel(title, "Mbit/s", lines, 200 if direction == "Downlink" else 120)


def _queue(results: Results, view: View, link: str, step_s: float, end_s: float) -> Panel:
    lines = []
    for trial in view.trials:
        peak, last = trial.queue(link)
        value = _largest(peak, last, step_s, min(trial.end_s, end_s))
        points = Points(middles(0.0, step_s, len(value)), value / 1e3)
        lines.append(_line(results, trial, "queue", points))
    return Panel(f"Queue at {link}: largest in each {step_s:g} s", "kB", lines)


def _largest(peak: Points, last: Points, step_s: float, end_s: float) -> Floats:
    """Return the largest queue of each step; an empty step has the queue before it."""
    count = max(1, round(end_s / step_s))
    before = held(Points(last.time_s, last.value), middles(0.0, step_s, count) - step_s / 2 - 1e-9)
    largest = np.nan_to_num(before)
    place = np.clip((peak.time_s / step_s + 1e-9).astype(np.int64), 0, count - 1)
    np.maximum.at(largest, place, np.nan_to_num(peak.value))
    return largest


def _rtt(results: Results, view: View) -> Panel:
    lines = []
    kinds: dict[str, int] = {}
    for trial in view.trials:
        treatment = trial.line.treatment
        for name, kind in results.workloads:
            for (series, unit), points in trial.samples(name).items() if kind in ("latency", "voice") else ():
                if is_round_trip(series, unit):
                    label = f"{name}: {series}"
                    place = kinds.setdefault(label, len(kinds))
                    style = line_styles(results, 0, treatment, place)
                    lines.append(Line(_named(results, treatment, label), style, points))
    flows = [(trial, flow) for trial in view.trials for flow in trial.flows[:MOST_FLOWS]]
    place = kinds.setdefault("TCP srtt", len(kinds)) if flows else 0
    for trial, flow in flows:
        style = line_styles(results, 0, trial.line.treatment, place) + " thin"
        label = _named(results, trial.line.treatment, "TCP srtt") if flow is trial.flows[0] else ""
        lines.append(Line(label, style, flow.srtt_ms))
    return Panel("Round-trip time", "ms", lines)


def is_round_trip(series: str, unit: str) -> bool:
    """Return whether a workload's series is a round-trip time."""
    return "rtt" in series.lower().split() and unit == "ms"


def _cwnd(results: Results, view: View) -> Panel:
    lines = []
    for trial in view.trials:
        for index, flow in enumerate(trial.flows[:MOST_FLOWS]):
            style = line_styles(results, index, trial.line.treatment, 0) + " thin"
            label = _named(results, trial.line.treatment, "largest") if index == 0 else ""
            lines.append(Line(label, style, flow.cwnd_segments))
    return Panel("Congestion window of each TCP connection", "segments", lines)


def _line(results: Results, trial: Trial, label: str, points: Points) -> Line:
    """Return the line of a trial in a panel of one kind of line."""
    treatment = trial.line.treatment
    name = treatment if len(results.treatments) > 1 else label
    return Line(name, line_styles(results, 0, treatment, 0), points)


def _named(results: Results, treatment: str, label: str) -> str:
    return f"{treatment}, {label}" if len(results.treatments) > 1 else label
