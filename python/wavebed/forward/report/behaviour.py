"""The device by load: frame loss, delay, bursts, processor."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from wavebed.forward.report.chart import Axis, Chart, Line, linear, logarithmic, style_of
from wavebed.forward.report.words import cell, frames, mpps, percent, section, table, us
from wavebed.forward.result import sizes_text
from wavebed.report.numbers import MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.forward.parts import BurstFinding, LatencyFinding
    from wavebed.forward.result import DeviceResult

__all__ = ["bursts_section", "cpu_section", "latency_section", "loss_rate_section"]

LEAST_STEP = 0.1
"""Smaller steps of a distribution, in percent, are drawn with the next."""
_PERCENTILES = (("p50_s", "median"), ("p90_s", "90th"), ("p99_s", "99th"), ("p999_s", "99.9th"), ("max_s", "largest"))


def loss_rate_section(result: DeviceResult) -> str:
    """Return the section of the frame loss rate (RFC 2544, 26.3)."""
    if not result.loss_rates:
        return ""
    lines, rows = [], []
    for place, loss_rate in enumerate(result.loss_rates):
        points, told = [], {}
        for step in sorted(loss_rate.steps, key=lambda step: step.fraction):
            fraction = 100 * step.fraction
            why = f"refused: {step.refusal.code.replace('_', ' ')}" if step.refusal is not None else ""
            if step.loss_ratio is not None:
                points.append((fraction, 100 * step.loss_ratio))
                told[fraction] = percent(step.loss_ratio).removesuffix(" %")
            cells = (frames(step.offered.pps), frames(step.received_pps), percent(step.loss_ratio))
            rows.append(
                f"<tr><th scope=row>{escape(sizes_text(loss_rate.name))}</th>{cell(f'{fraction:.4g} %')}"
                f"{cell(cells[0])}{cell(cells[1])}{cell(cells[2], why)}</tr>"
            )
        lines.append(Line(sizes_text(loss_rate.name), style_of(place), points, told))
    of = "; ".join(f"{sizes_text(one.name)}: {_maximum(one.limited_by, one.maximum.pps)}" for one in result.loss_rates)
    drawn = ""
    if any(line.points for line in lines):
        losses = [y for line in lines for _, y in line.points]
        ticks = [(float(fraction), str(fraction)) for fraction in range(0, 101, 10)]
        axis = linear([*losses, 1.0])
        drawn = Chart("Frames lost", "%", "load, % of the maximum", Axis(0, 100, ticks), axis, lines).render()
    ended = "".join(
        f'<p class="soft">{escape(sizes_text(one.name))}: it did not end with two loads in a row without loss.</p>'
        for one in result.loss_rates
        if not one.clean
    )
    body = table("Loss by load", ["frame size", "load", "offered, pps", "received, pps", "lost"], rows, "small")
    note = f'<p class="soft">RFC 2544, 26.3. 100 % is {escape(of)}.</p>'
    return section("loss", "Loss by load", note, drawn, ended, _folded("Every step", body))


def _maximum(limited_by: str, pps: float) -> str:
    what = "line rate" if limited_by == "line_rate" else "the most that the tester can offer"
    return f"{what}, {frames(pps)} pps"


def latency_section(result: DeviceResult) -> str:
    """Return the section of delays under load."""
    if not result.latency:
        return ""
    names = list(dict.fromkeys(one.name for one in result.latency))
    charts = []
    for name in names:
        mine = sorted((one for one in result.latency if one.name == name), key=lambda one: one.fraction)
        measured = [one for one in mine if one.p50_s is not None]
        if measured:
            charts.append(_percentile_chart(name, measured) + _distribution(name, measured))
    base = result.latency[0].base.upper()
    note = (
        '<p class="soft">One way, of every test frame, from the stamp that it carries to the receiving port. Load is a'
        f" fraction of {escape(base)}, the rate without loss. Typical is the median, worst the 99.9th percentile"
        " (RFC 8219).</p>"
    )
    return section("latency", "Delay by load", note, *charts, _latency_table(result.latency))


def _percentile_chart(name: str, measured: Sequence[LatencyFinding]) -> str:
    lines = []
    for place, (key, label) in enumerate(_PERCENTILES):
        values = [(100 * one.fraction, getattr(one, key)) for one in measured]
        points = [(x, value * 1e6) for x, value in values if value is not None and value > 0]
        if points:
            lines.append(Line(label, style_of(place), points))
    if not lines:
        return ""
    ticks = [(100 * one.fraction, f"{100 * one.fraction:g}") for one in measured]
    title = f"Delay by load, {sizes_text(name)}"
    y = logarithmic([value for line in lines for _, value in line.points])
    return Chart(title, "µs, logarithmic", "load, % of NDR", Axis(0, 100, ticks), y, lines).render()


def _distribution(name: str, measured: Sequence[LatencyFinding]) -> str:
    """Return the cumulative distribution of each load; a bucket of the histogram is a step."""
    lines = []
    for place, one in enumerate(measured):
        total = sum(count for *_, count in one.counts)
        points: list[tuple[float, float]] = []
        below = 0
        for low, high, count in sorted(one.counts):
            if not points:
                points.append((max(low, 1e-9) * 1e6, 0.0))
            below += count
            fraction = 100 * below / total
            if fraction - points[-1][1] >= LEAST_STEP or below == total:
                points.append((high * 1e6, fraction))
        if points:
            lines.append(Line(f"{100 * one.fraction:g} %", style_of(place), points, marks=False, stepped=True))
    if not lines:
        return ""
    x = logarithmic([value for line in lines for value, _ in line.points])
    ticks = [(float(fraction), str(fraction)) for fraction in (0, 25, 50, 75, 100)]
    title = f"Distribution of the delay by load, {sizes_text(name)}"
    axis = Axis(0, 100, ticks)
    return Chart(title, "% of frames that took at most", "delay, µs, logarithmic", x, axis, lines, 200).render()


def _latency_table(findings: Sequence[LatencyFinding]) -> str:
    head = [
        "frame size",
        "load",
        "pps",
        "frames",
        "least, µs",
        "typical, µs",
        "90th, µs",
        "99th, µs",
        "worst, µs",
        "largest, µs",
    ]
    rows = []
    for one in findings:
        start = f"<tr><th scope=row>{escape(sizes_text(one.name))}</th>{cell(f'{100 * one.fraction:g} %')}"
        start += cell(frames(one.offered.pps))
        if one.refusal is not None:
            rows.append(f"{start}<td class=text colspan=7>refused: {escape(one.refusal.reason)}</td></tr>")
            continue
        delays = (one.min_s, one.typical_s, one.p90_s, one.p99_s, one.worst_s, one.max_s)
        rows.append(f"{start}{cell(frames(one.frames))}{''.join(cell(us(delay)) for delay in delays)}</tr>")
    return table("Delay by load", head, rows)


def bursts_section(result: DeviceResult) -> str:
    """Return the section of bursts back to back (RFC 2544, 26.4; RFC 9004)."""
    if not result.bursts:
        return ""
    head = ["frame size", "burst at, pps", "longest without loss, frames", "repeats", "buffer, µs", "buffer, frames"]
    rows = [_burst_row(burst) for burst in result.bursts]
    note = (
        '<p class="soft">The longest burst at full rate without loss: average of the repeats, and their'
        " range. The buffer is that burst's time less the time in which its frames were forwarded (RFC 9004).</p>"
    )
    return section("bursts", "Bursts back to back", note, table("Bursts", head, rows))


def _burst_row(burst: BurstFinding) -> str:
    start = f"<tr><th scope=row>{escape(sizes_text(burst.name))}</th>"
    by_tester = "the most that the tester can offer" if burst.limited_by == "tester" else "line rate"
    start += cell(frames(burst.offered.pps), by_tester)
    if burst.refusal is not None:
        return f"{start}<td class=text colspan=4>refused: {escape(burst.refusal.reason)}</td></tr>"
    repeats = str(len(burst.lengths_frames))
    if burst.unlimited:
        told = f"no loss in bursts of {frames(burst.longest_frames)}, the longest tried: no buffer shows"
        return f"{start}{cell('unlimited', told)}{cell(repeats)}{cell(MISSING) * 2}</tr>"
    lengths = burst.lengths_frames
    span = f"{frames(min(lengths))} to {frames(max(lengths))}" if lengths else ""
    return (
        f"{start}{cell(frames(burst.mean_frames), span)}{cell(repeats)}"
        f"{cell(us(burst.corrected_buffer_s))}{cell(frames(burst.corrected_buffer_frames))}</tr>"
    )


def cpu_section(result: DeviceResult) -> str:
    """Return the section of the device's processor by rate."""
    by_sizes: dict[tuple[int, ...], list[tuple[float, float]]] = {}
    for trial in result.trials:
        if not trial.refusals and "busy_max" in trial.cpu:
            by_sizes.setdefault(trial.sizes_bytes, []).append((trial.received_pps / 1e6, 100 * trial.cpu["busy_max"]))
    if not by_sizes:
        return section(
            "cpu",
            "The device's processor by rate",
            '<p class="soft">It is not known: no source was named, or it gave nothing.</p>',
        )
    names = {size.sizes_bytes: sizes_text(size.name) for size in result.sizes}
    lines = [
        Line(names.get(sizes, f"{sizes[0]} B"), style_of(place), sorted(points), joined=False)
        for place, (sizes, points) in enumerate(sorted(by_sizes.items()))
    ]
    ticks = [(float(fraction), str(fraction)) for fraction in (0, 25, 50, 75, 100)]
    x = linear([x for line in lines for x, _ in line.points])
    drawn = Chart("The busiest core", "% busy", "frames forwarded, Mpps", x, Axis(0, 100, ticks), lines).render()
    rows = []
    for one in result.overload:
        name = f"{one.name} test, {sizes_text(str(one.sizes_bytes[0]))}"
        rate = mpps(None if one.received is None else one.received.pps)
        busy = cell(percent(one.cpu_busy_max.estimate))
        rows.append(f"<tr><th scope=row>{escape(name)}</th>{cell(rate)}{busy}</tr>")
    body = table("Processor in the study's two tests", ["", "forwarded, Mpps", "busiest core"], rows, "small")
    note = (
        '<p class="soft">A dot is a trial that counts. Busy is all time but idle: the kernel\'s work for packets is'
        " in no process, and the busiest core limits forwarding, not the average. Most kernels count in ticks of 4"
        " to 10 ms: in trials of less than 10 s a load is a hint.</p>"
    )
    return section("cpu", "The device's processor by rate", note, drawn, body if rows else "")


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{body}</details>"
