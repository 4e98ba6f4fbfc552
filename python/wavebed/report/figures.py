"""The figures of a report: a view over time, each workload over its own time, and distributions of delay."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from wavebed.config.data import table_in, tables_in
from wavebed.page.document import filled
from wavebed.page.plots import PERCENT, Bar, Chart, ChartLine, Panel, PanelLine, Scale, Strip, TimeFigure, swatch
from wavebed.page.points import ThinnedPoints, held, middles, summed
from wavebed.page.text import capital, nice_step, readable
from wavebed.workload.probing import loads_of, percentile, window_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from markupsafe import Markup

    from wavebed.config.data import Json
    from wavebed.page.points import Floats
    from wavebed.report.source import ReportedTrial, Results, View
    from wavebed.workload.model import Event

MOST_FLOWS = 4
"""Number of TCP connections of a trial, largest first, whose RTT and cwnd are drawn."""
STEPS = 400
LEAST_STEP_S = 0.01
SMALL_FRACTION = 0.04
"""An uplink with less than this fraction of the downlink's bytes (acknowledgements) has no panel."""
MOST_STATES = 4000
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
MAIN_SERIES = {
    "latency": ("rtt", "udp rtt", "one-way delay", "rpm"),
    "voice": ("one-way delay",),
    "call": ("frame rate", "bitrate"),
    "video": ("buffer",),
    "web": ("visual progress",),
}
"""Beginnings of the series that show the primary metric of a kind of workload, the best first."""
FIRST_STEPS = 250
EXCESS = 1.03
"""Delivery above the capacity times this is a peak, not rounding."""
KERNEL_STEP_S = 0.1
"""As long as an interval of iperf3."""
_GOODPUTS = ("goodput", "goodput down", "goodput up")
READ_IN_BURSTS = {
    "bulk": "A peak above the link's rate is data that arrived earlier and waited, behind a lost packet or to be read.",
    "video": "A peak of throughput above the link's rate is data that arrived earlier and waited to be read.",
}
"""A sentence beside charts whose values can exceed the rate of the link, by kind of workload."""
MARGIN = 0.02
LEAST_MS = 1e-3
MOST_POINTS = 250
WINDOWS = ("idle", "loaded")
_Key = tuple[str, str, str]


def bottleneck(trials: Sequence[ReportedTrial], direction: str) -> str | None:
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


def second_radio_links(resolved: Mapping[str, Json], direction: str) -> list[str]:
    """Return the names of the links of the client's second radio in a direction; none without one."""
    network = table_in(resolved, "network")
    row = max(len(tables_in(network, "hosts")) - 1, 0)
    legs = tables_in(network, "legs")[row:]
    return [f"{hop.get('name', '')}.{direction}" for leg in legs for hop in tables_in(leg, "hops")]


def _goes(link: str, direction: str, aside: Sequence[str]) -> bool:
    return link.endswith(f".{direction}") and link not in aside


def _beside(trials: Sequence[ReportedTrial], direction: str) -> list[str]:
    """Return the links of second radios."""
    found = [link for trial in trials for link in second_radio_links(trial.record.resolved, direction)]
    return list(dict.fromkeys(found))


def _links(trial: ReportedTrial) -> list[Mapping[str, Json]]:
    links = trial.record.engine.get("links")
    return [link for link in links if isinstance(link, dict) and "name" in link] if isinstance(links, list) else []


def window(trials: Sequence[ReportedTrial]) -> float:
    """Return the end of the time axis."""
    return max(trial.end_s for trial in trials)


def shades_of(trials: Sequence[ReportedTrial]) -> list[Bar]:
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


def timeline(results: Results, view: View) -> TimeFigure:
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
    return TimeFigure(f"The trials of {view.label} over time", 0.0, end_s, panels, strips, shades)


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
        points = ThinnedPoints(course.rate_bps.time_s, course.rate_bps.value / 1e6)
        lines.append(PanelLine("capacity", "capacity", points, stepped=True, filled=True, holds=True))
    for trial in view.trials:
        time_s, delivered = trial.carried(link)
        carried = summed(time_s, delivered * 8 / 1e6, step_s, min(trial.end_s, end_s))
        lines.append(_line(results, trial, "throughput", carried))
    direction = "Downlink" if link.endswith(".down") else "Uplink"
    title = f"{direction} at {link.rpartition('.')[0]}: throughput of IP packets"
    return Panel(title, "Mbit/s", lines, 200 if direction == "Downlink" else 120)


def _queue(results: Results, view: View, link: str, step_s: float, end_s: float) -> Panel:
    found = []
    for trial in view.trials:
        peak, last = trial.queue(link)
        found.append((trial, _largest(peak, last, step_s, min(trial.end_s, end_s))))
    unit, factor = readable("bytes", max((float(value.max(initial=0.0)) for _, value in found), default=0.0))
    lines = [
        _line(results, trial, "queue", ThinnedPoints(middles(0.0, step_s, len(value)), value / factor))
        for trial, value in found
    ]
    return Panel(f"Queue at {link}: largest in each {step_s:g} s", unit, lines)


def _largest(peak: ThinnedPoints, last: ThinnedPoints, step_s: float, end_s: float) -> Floats:
    """Return the largest queue of each step; an empty step has the queue before it."""
    count = max(1, round(end_s / step_s))
    before = held(ThinnedPoints(last.time_s, last.value), middles(0.0, step_s, count) - step_s / 2 - 1e-9)
    largest = np.nan_to_num(before)
    place = (peak.time_s / step_s + 1e-9).astype(np.int64)
    inside = place < count
    np.maximum.at(largest, place[inside], np.nan_to_num(peak.value[inside]))
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
                    lines.append(PanelLine(_named(results, treatment, label), style, points))
    flows = [(trial, flow) for trial in view.trials for flow in trial.flows[:MOST_FLOWS]]
    place = kinds.setdefault("TCP srtt", len(kinds)) if flows else 0
    for trial, flow in flows:
        style = line_styles(results, 0, trial.line.treatment, place) + " thin"
        label = _named(results, trial.line.treatment, "TCP srtt") if flow is trial.flows[0] else ""
        lines.append(PanelLine(label, style, flow.srtt_ms))
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
            lines.append(PanelLine(label, style, flow.cwnd_segments))
    return Panel("Congestion window of each TCP connection", "segments", lines)


def _line(results: Results, trial: ReportedTrial, label: str, points: ThinnedPoints) -> PanelLine:
    """Return the line of a trial in a panel of one kind of line."""
    treatment = trial.line.treatment
    name = treatment if len(results.treatments) > 1 else label
    return PanelLine(name, line_styles(results, 0, treatment, 0), points)


def _named(results: Results, treatment: str, label: str) -> str:
    return f"{treatment}, {label}" if len(results.treatments) > 1 else label


def workload_figure(results: Results, view: View, name: str, kind: str) -> TimeFigure | None:
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
    return TimeFigure(
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
    found: dict[tuple[str, str], list[tuple[ReportedTrial, ThinnedPoints]]] = {}
    for trial in view.trials:
        for key, points in trial.samples(name).items():
            if kind == "latency" and is_round_trip(*key):
                continue  # it is in the figure above
            found.setdefault(key, []).append((trial, points))
    if kind == "download" and not any(unit in ("bytes", "MB") for _, unit in found):
        found[("progress", "bytes")] = [(trial, acked) for trial in view.trials if (acked := _acked(trial, name))]
    if kind == "bulk":
        found = {
            (f"{series}, at the receiver's kernel" if taken else series, unit): taken or drawn
            for (series, unit), drawn in found.items()
            for taken in [_taken(drawn, name, series) if series in _GOODPUTS else None]
        }
    panels = []
    for (series, unit), drawn in list(found.items())[:MOST_PANELS]:
        if not drawn or not any(np.isfinite(points.value).any() for _, points in drawn):
            continue
        shown, scale = readable(unit, max(float(np.nanmax(points.value, initial=0.0)) for _, points in drawn))
        stepped = kind in ("video", "web") and any(word in series.lower() for word in STEPPED)
        lines = [
            _series_line(results, trial, series, ThinnedPoints(points.time_s, points.value / scale), stepped)
            for trial, points in drawn
        ]
        panels.append(Panel(capital(series), shown, lines, height=120))
    return panels


def _series_line(
    results: Results, trial: ReportedTrial, series: str, points: ThinnedPoints, stepped: bool
) -> PanelLine:
    treatment = trial.line.treatment
    label = treatment if len(results.treatments) > 1 else series
    return PanelLine(label, line_styles(results, 0, treatment, 0), points, stepped=stepped)


def _taken(
    drawn: Sequence[tuple[ReportedTrial, ThinnedPoints]], name: str, series: str
) -> list[tuple[ReportedTrial, ThinnedPoints]] | None:
    """Return what the receiver's kernel took of the TCP connections of a bulk transfer, Mbit/s; ``None`` if unknown.

    An application reads in bursts: what it read in an interval can exceed what the link delivered in it.
    """
    found = []
    for trial, _ in drawn:
        points = _kernel_rate(trial, name, series)
        if points is None:
            return None
        found.append((trial, points))
    return found


def _kernel_rate(trial: ReportedTrial, name: str, series: str) -> ThinnedPoints | None:
    record = trial.workload(name)
    if record is None or record.span is None:
        return None
    pairs = [(str(flow.get("local")), str(flow.get("remote"))) for flow in tables_in(record.outcome.details, "flows")]
    chances = []
    for ends, way in ((pairs, "down"), ([(remote, local) for local, remote in pairs], "up")):
        if series in ("goodput", f"goodput {way}"):
            chances.append([trial.received[pair] for pair in ends if pair in trial.received])
    count = max(1, round((record.span.end_s - record.span.start_s) / KERNEL_STEP_S))
    edges = record.span.start_s + np.arange(count + 1) * KERNEL_STEP_S
    best = max(chances, key=lambda flows: sum(float(flow.value[-1]) for flow in flows), default=[])
    if not best:
        return None
    total = np.sum([np.diff(np.interp(edges, flow.time_s, flow.value)) for flow in best], axis=0)
    rate = np.asarray(total * 8 / 1e6 / KERNEL_STEP_S, np.float64)
    return ThinnedPoints(np.asarray(edges[:-1] + KERNEL_STEP_S / 2, np.float64), rate)


def _acked(trial: ReportedTrial, name: str) -> ThinnedPoints | None:
    """Return the acknowledged bytes of the largest connection during a workload."""
    record = trial.workload(name)
    if record is None or record.span is None:
        return None
    best: ThinnedPoints | None = None
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


def _event_text(results: Results, trial: ReportedTrial, kind: str, event: Event) -> str:
    who = f"{trial.line.treatment}: " if len(results.treatments) > 1 else ""
    return f"{who}{kind}{' ' + event.text if event.text else ''}"


def bad_events(results: Results, view: View, name: str) -> list[Strip]:
    """Return the strips of stalls, freezes and other events of a workload that a user dislikes."""
    return [
        strip for strip in _event_strips(results, view, name) if any(word in strip.title.lower() for word in BAD_WORDS)
    ]


def busiest_direction(trials: Sequence[ReportedTrial]) -> str | None:
    """Return ``down`` or ``up``, whichever bottleneck delivered more; ``None`` without links."""
    found: dict[str, float] = {}
    for direction in ("down", "up"):
        link = bottleneck(trials, direction)
        if link is not None:
            found[direction] = sum(float(np.nansum(trial.carried(link)[1])) for trial in trials)
    return max(found, key=lambda direction: found[direction]) if found else None


def carried_panel(
    results: Results,
    groups: Sequence[Sequence[ReportedTrial]],
    direction: str,
    start_s: float,
    end_s: float,
    height: int,
) -> Panel | None:
    """Return the capacity of the bottleneck, for each group of trials with one channel, and what it delivered."""
    step_s = max(nice_step(end_s - start_s, FIRST_STEPS), LEAST_STEP_S)
    lines, links = [], []
    for place, group in enumerate(groups):
        link = bottleneck(group, direction)
        if link is None:
            continue
        links.append(link)
        course = max(group, key=lambda trial: trial.end_s).courses.get(link)
        if course is not None and not np.isnan(course.rate_bps.value).all():
            names = ", ".join(trial.line.treatment for trial in group)
            name = "capacity" if len(groups) == 1 else f"capacity, {names}"
            points = ThinnedPoints(course.rate_bps.time_s, course.rate_bps.value / 1e6)
            lines.append(
                PanelLine(name, f"capacity d{place}", points, stepped=True, filled=len(groups) == 1, holds=True)
            )
    for group in groups:
        for trial in group:
            link = bottleneck(group, direction)
            if link is not None:
                time_s, delivered = trial.carried(link)
                carried = summed(time_s, delivered * 8 / 1e6, step_s, min(trial.end_s, end_s))
                lines.append(_line(results, trial, "delivered", carried))
    if not links:
        return None
    named = links[0].rpartition(".")[0]
    way = "downlink" if direction == "down" else "uplink"
    return Panel(f"{named[:1].upper()}{named[1:]} {way}: capacity and delivery", "Mbit/s", lines, height)


def exceeds_capacity(panel: Panel) -> bool:
    """Return whether a delivery is above the capacity of its time in a panel of `carried_panel`."""
    capacities = [line for line in panel.lines if "capacity" in line.style.split()]
    if len(capacities) != 1:
        return False
    for line in panel.lines:
        time_s = line.points.time_s
        if line is capacities[0] or len(time_s) < 2:
            continue
        half_s = (time_s[1] - time_s[0]) / 2
        around = [held(capacities[0].points, time_s + shift_s) for shift_s in (-half_s, 0.0, half_s)]
        if (line.points.value > EXCESS * np.nanmax(np.nan_to_num(around, nan=np.inf), axis=0)).any():
            return True
    return False


def main_series_panel(results: Results, view: View, name: str, kind: str, metric: str) -> Panel | None:
    """Return the series of a workload that shows its primary metric; ``None`` where the link's deliveries show it."""
    found: dict[tuple[str, str], list[tuple[ReportedTrial, ThinnedPoints]]] = {}
    for trial in view.trials:
        for key, points in trial.samples(name).items():
            found.setdefault(key, []).append((trial, points))
    words = set(metric.lower().split())
    chances = [
        (place, -len(words & set(series.lower().split())), series, unit)
        for series, unit in found
        for place, begins in enumerate(MAIN_SERIES.get(kind, ()))
        if series.startswith(begins)
    ]
    if not chances:
        return None
    *_, series, unit = min(chances)
    drawn = found[series, unit]
    shown, scale = readable(unit, max(float(np.nanmax(points.value, initial=0.0)) for _, points in drawn))
    stepped = kind in ("video", "web") and any(word in series.lower() for word in STEPPED)
    lines = [
        _series_line(results, trial, series, ThinnedPoints(points.time_s, points.value / scale), stepped)
        for trial, points in drawn
    ]
    title = "Round-trip time" if is_round_trip(series, unit) else capital(series)
    return Panel(title, shown, lines, 180)


def delay_distributions(results: Results) -> list[Markup]:
    """Return a chart for each delay series of latency workloads."""
    charts = []
    for name, kind in results.workloads:
        if kind != "latency":
            continue
        pooled = _pooled(results, name)
        for series in dict.fromkeys(series for series, _, _ in pooled):
            mine = {key: values for key, values in pooled.items() if key[0] == series}
            charts.append(_distribution(results, name, series, mine))
    return charts


def _pooled(results: Results, name: str) -> dict[_Key, Floats]:
    """Return the answered probes of all counted trials by series, treatment and window."""
    parts: dict[_Key, list[Floats]] = {}
    for trial in results.counted:
        if not trial.is_whole:
            continue
        loads = loads_of({each.name: each.span for each in trial.record.workloads if each.span is not None})
        for (series, unit), points in trial.samples(name).items():
            if unit != "ms":
                continue
            windows = np.array([window_of(time_s, loads) or "" for time_s in points.time_s.tolist()])
            for window in WINDOWS:
                values = points.value[(windows == window) & np.isfinite(points.value)]
                parts.setdefault((series, trial.line.treatment, window), []).append(values)
    return {key: np.sort(np.concatenate(values)) for key, values in parts.items() if sum(map(len, values))}


def _distribution(results: Results, name: str, series: str, pooled: Mapping[_Key, Floats]) -> Markup:
    """Return the chart of a series, with its percentiles below it."""
    lines, rows = [], []
    several = len(results.treatments) > 1
    low = math.log10(max(min(float(values[0]) for values in pooled.values()), LEAST_MS) / 1.1)
    high = math.log10(max(2 * LEAST_MS, *(float(values[-1]) for values in pooled.values())) * 1.1)
    for (_, treatment, window), values in pooled.items():
        kind = WINDOWS.index(window)
        style = f"{results.style(treatment)} d{1 - kind}" if several else line_styles(results, 0, treatment, kind)
        lines.append(
            ChartLine("", style, [*_shares(np.maximum(values, LEAST_MS)), (10**high, 100.0)], stepped=True, marks=False)
        )
        shares = [percentile(values.tolist(), share) for share in (50, 95, 99)]
        rows.append((swatch(style), f"{treatment}, {window}" if several else window, len(values), shares))
    chart = Chart(
        f"{name}: {series}",
        "% of probes that took at most",
        f"{series}, ms, logarithmic",
        Scale(10**low, 10**high, [(tick, f"{tick:g}") for tick in _ticks(low, high)], log=True),
        PERCENT,
        lines,
        height=200,
        read=False,
        label=f"Cumulative distribution of {series}; the table below has its percentiles",
    )
    return chart.render(filled("report/run.html.j2", "percentiles", series, rows))


def _shares(values: Floats) -> Iterator[tuple[float, float]]:
    """Yield the share that took at most x; of many probes, equal steps of the share and both ends."""
    count = len(values)
    picks = np.arange(count)
    if count > MOST_POINTS:
        picks = np.unique(np.linspace(0, count - 1, MOST_POINTS).round().astype(int))
    yield float(values[0]), 0.0
    yield from zip(values[picks].tolist(), (100 * (picks + 1) / count).tolist(), strict=True)


def _ticks(left: float, right: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten, fewer on a long axis."""
    factors: Sequence[float] = (1, 2, 5) if right - left < 3 else (1,)
    if right - left < 1.2:
        factors = (1, 1.5, 2, 3, 4, 5, 7)
    found = [
        factor * 10.0**power
        for power in range(math.floor(left), math.ceil(right) + 1)
        for factor in factors
        if left <= math.log10(factor * 10.0**power) <= right
    ]
    if len(found) >= 2:
        return found
    middle = [10**left, 10 ** ((left + right) / 2), 10**right]
    return [float(f"{value:.2g}") for value in middle[:2] if math.log10(value) >= left]
