"""A device by what it forwards: verdict and findings in words, rates by size, loss, delay, bursts, processor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from markupsafe import Markup

from wavebed.forward.checks import CEILING_FRACTION
from wavebed.forward.report.words import (
    GOAL_NAMES,
    GOAL_WORDS,
    bounds,
    frames,
    goal_text,
    mbps,
    mpps,
    percent,
    sentence,
    us,
)
from wavebed.forward.result import refused_parts, sizes_text, verdict_of
from wavebed.page.document import TableCell, TableRow, filled, folded, section, soft, table
from wavebed.page.plots import PERCENT, Chart, ChartLine, Scale, linear, logarithmic, style_of
from wavebed.page.text import MISSING

if TYPE_CHECKING:
    from wavebed.forward.folder import ForwardRecord
    from wavebed.forward.frames import Rates
    from wavebed.forward.parts import BurstFinding, LatencyFinding, OverloadFinding
    from wavebed.forward.result import DeviceResult
    from wavebed.forward.search import SizeFinding

TEMPLATE = "forward/report/forward.html.j2"
_BADGES = {
    "valid": ("✓ valid", "Nothing speaks against the figures."),
    "suspect": ("? suspect", "Some figures are refused; those that stand are below."),
    "invalid": ("✗ invalid", "There is no figure that can be proved."),
}
_NO_BREAK = "\N{NO-BREAK SPACE}%"
_HOW = {"ndr": "without loss", "rfc2544": "without loss", "pdr": "with at most 0.5 % lost"}
"""Headline: the first requested goal in this order."""
_STYLES = {"pdr": "t2", "ndr": "t0", "rfc2544": "t1 d1"}
"""Drawn in this order: they often lie on each other."""
LEAST_STEP = 0.1
"""Smaller steps of a distribution, in percent, are drawn with the next."""
_PERCENTILES = (("p50_s", "median"), ("p90_s", "90th"), ("p99_s", "99th"), ("p999_s", "99.9th"), ("max_s", "largest"))
Beside: TypeAlias = Mapping[str, object]


def head(record: ForwardRecord) -> Markup:
    """Return the header: title, verdict, findings, refusals, doubts."""
    result = record.result
    kind = f" ({result.kind})" if result.kind not in (result.device, "external") else ""
    facts = [
        result.started.replace("T", " ").replace("+00:00", " UTC"),
        f"took {f'{result.took_s:.0f} s' if result.took_s < 120 else f'{result.took_s / 60:.0f} min'}",
        "IPv6" if result.settings.headers.ipv6 else "IPv4",
        f"{result.frames.flows} flows" if result.frames is not None else "",
        f"link of {result.link_mbps:g} Mbit/s" if result.link_mbps is not None else "speed of the link not known",
        f"wavebed {record.versions['wavebed']}" if "wavebed" in record.versions else "",
    ]
    verdict = verdict_of(result)
    text, meaning = _BADGES[verdict]
    title = f"Small packets through {result.device}{kind}"
    told = ", ".join(fact for fact in facts if fact)
    findings = [found.replace(" %", _NO_BREAK) for found in findings_in_words(result)]
    refused = [
        (", ".join(where), refusal, refusal.reason.rstrip(". ")) for refusal, where in refused_parts(result).items()
    ]
    doubts = map(sentence, result.doubts)
    return filled(TEMPLATE, "head", title, told, verdict, text, meaning, findings, refused, doubts)


def findings_in_words(result: DeviceResult) -> list[str]:
    """Return a sentence for the smallest and the largest frame size: loss-free, and under overload."""
    plain = plain_sizes(result)
    told = [_loss_free(size) for size in dict.fromkeys((*plain[:1], *plain[-1:]))]
    for overload in result.overload:
        sizes = sizes_text(str(overload.sizes_bytes[0]))
        if overload.received is None or overload.loss_ratio.estimate is None:
            continue
        asked = "" if overload.sent is None else f" of {frames(overload.sent.pps)} offered"
        told.append(
            f"Under overload ({overload.name} test, {sizes}): {frames(overload.received.pps)}{asked} frames per second"
            f" got through, {percent(overload.loss_ratio.estimate)} lost."
        )
    return told


def _loss_free(size: SizeFinding) -> str:
    what = f"Frames of {sizes_text(size.name)}:"
    asked = ((size.goal(name), how) for name, how in _HOW.items())
    goal, how = next(((goal, how) for goal, how in asked if goal is not None), (None, ""))
    if goal is None:
        return f"{what} the loss-free rate was not searched."
    if goal.rate is None:
        if goal.outcome == "at_least" and goal.lower is not None:
            least = frames(goal.lower.offered.pps)
            return f"{what} no rate is reported. The tester, not the device, was the limit, at {least} per second."
        if goal.outcome == "below" and goal.upper is not None:
            return f"{what} frames are lost even at {frames(goal.upper.offered.pps)} per second."
        return f"{what} no rate is reported, for the reason below."
    fraction = "" if size.line_rate is None else f", {percent(goal.rate.pps / size.line_rate.pps)} of line rate"
    if goal.outcome == "line_rate":
        fraction = ": line rate"
    return f"{what} {frames(goal.rate.pps)} per second {how}{fraction}."


def plain_sizes(result: DeviceResult) -> list[SizeFinding]:
    """Return the sizes of one frame, smallest first."""
    return sorted((size for size in result.sizes if len(size.sizes_bytes) == 1), key=lambda size: size.sizes_bytes)


def rates_section(result: DeviceResult) -> Markup:
    """Return the section with the results by frame size."""
    if not result.sizes and not result.overload:
        return section("results", "Rates by frame size", Markup("<p>Nothing was measured.</p>"))
    rows = _rows(result)
    goals = [goal.name for goal in result.settings.goals if result.sizes]
    words = "".join(f"{GOAL_WORDS[name]}; " for name in goals)
    told = (
        f"Frames per second. {words}overload: the rate that is forwarded when line rate, or all that the tester can, is"
        " offered."
    )
    head = ["frame size", "line rate", *(GOAL_NAMES[name] for name in goals), "overload"]
    cells = [_table_row(row, goals) for row in rows]
    rates = table("Rates by frame size, frames per second", head, cells, "rates")
    return section("results", "Rates by frame size", soft(told), rates, _chart(result), _units(rows, goals))


def size_axis(sizes: Sequence[int]) -> Scale:
    """Return the axis of frame sizes, with each of them written."""
    return logarithmic([float(size) for size in sizes], [float(size) for size in sorted(set(sizes))])


@dataclass(frozen=True, slots=True)
class _Row:
    """One size or mix: its search, its overload test, or both."""

    name: str
    line: Rates | None
    search: SizeFinding | None
    overload: OverloadFinding | None


def _rows(result: DeviceResult) -> list[_Row]:
    """Return a row for each size in order, then the mixes."""
    tests = {one.sizes_bytes: one for one in result.overload}
    found = {
        size.sizes_bytes: _Row(size.name, size.line_rate, size, tests.get(size.sizes_bytes)) for size in result.sizes
    }
    for sizes, one in tests.items():
        found.setdefault(sizes, _Row(str(sizes[0]), one.asked, None, one))
    return [found[sizes] for sizes in sorted(found, key=lambda sizes: (len(sizes) > 1, sizes))]


def _table_row(row: _Row, goals: Sequence[str]) -> list[str | TableCell]:
    line = None if row.line is None else row.line.pps
    genome = "" if row.search is None else row.search.genome
    cells: list[str | TableCell] = [filled(TEMPLATE, "size", sizes_text(row.name), genome), frames(line)]
    for name in goals:
        finding = None if row.search is None else row.search.goal(name)
        text, below = goal_text(finding)
        if finding is not None and finding.rate is not None and line is not None and not below:
            below = percent(finding.rate.pps / line)
        why = finding.refusal.reason if finding is not None and finding.refusal is not None else ""
        cells.append(TableCell(text, below, "refused" if text == "refused" else "", why))
    return [*cells, _overload_cell(row.overload)]


def _overload_cell(finding: OverloadFinding | None) -> str | TableCell:
    if finding is None:
        return MISSING
    why = finding.refusals[0] if finding.refusals else None
    if finding.received is None:
        return TableCell("refused", why.code.replace("_", " ") if why else "", "refused", why.reason if why else "")
    refused = len(finding.trials) - finding.received_pps.count
    told = f", {refused} of {len(finding.trials)} refused" if refused > 0 else ""
    lost = percent(finding.loss_ratio.estimate)
    return TableCell(frames(finding.received.pps), f"{lost} lost{told}", title=why.reason if why else "")


def _units(rows: Sequence[_Row], goals: Sequence[str]) -> Markup:
    """Return every rate in all units, each named."""
    sizes = [(sizes_text(row.name), _entries(row, goals)) for row in rows]
    if not any(entries for _, entries in sizes):
        return Markup()
    head = ["frame size", "measure", "pps"]
    head += ["Mbit/s at L1", "Mbit/s of frames", "Mbit/s of payload", "known to be within, pps"]
    shown = filled(TEMPLATE, "units", "Every rate in all units", head, sizes)
    return folded("The same in all units", filled(TEMPLATE, "units_note") + shown, is_open=True)


def _entries(row: _Row, goals: Sequence[str]) -> list[tuple[str, Sequence[str]]]:
    """Return the figures of a size: their name, and the rate in all units with its bounds."""
    entries: list[tuple[str, Rates, str]] = []
    if row.line is not None:
        entries.append(("line rate", row.line, "by arithmetic"))
    for name in goals:
        goal = None if row.search is None else row.search.goal(name)
        if goal is None or goal.rate is None:
            continue
        upper = goal.upper.offered.pps if goal.upper is not None else None
        between = f"{frames(goal.rate.pps)} to {frames(upper)}" if upper else "no load above it"
        entries.append((GOAL_NAMES[name], goal.rate, between))
    if row.overload is not None and row.overload.received is not None:
        received = row.overload.received_pps
        trials = f"{received.count} trial{'s' if received.count != 1 else ''}"
        within = "no interval" if received.low is None else bounds(received, whole=True)
        entries.append(("overload, received", row.overload.received, f"{within}, {trials}"))
    return [
        (measure, (frames(rate.pps), mbps(rate.l1_mbps), mbps(rate.frame_mbps), mbps(rate.payload_mbps), within))
        for measure, rate, within in entries
    ]


def _chart(result: DeviceResult) -> Markup:
    """Return rate by frame size, both logarithmic: line rate falls straight, a limit of packets is level."""
    sizes = plain_sizes(result)
    if len(sizes) < 2:
        return Markup()
    lines = []
    if all(size.line_rate is not None for size in sizes):
        points = [(float(size.sizes_bytes[0]), size.line_rate.pps) for size in sizes if size.line_rate is not None]
        lines.append(_line("line rate", "capacity band", points, marks=False))
    points = [(float(size.sizes_bytes[0]), CEILING_FRACTION * size.ceiling.pps) for size in sizes]
    lines.append(_line("90 % of the tester's ceiling", "ink d2", points, marks=False))
    for name, style in _STYLES.items():
        found = [(float(size.sizes_bytes[0]), size.goal(name)) for size in sizes]
        points = [(x, one.rate.pps) for x, one in found if one is not None and one.rate is not None]
        if points:
            lines.append(_line(GOAL_NAMES[name], style, points))
    points = [(float(one.sizes_bytes[0]), one.received.pps) for one in result.overload if one.received is not None]
    if points:
        lines.append(_line("overload", "t3", sorted(points), joined=False))
    values = [y for line in lines for _, y in line.points]
    return Chart(
        "Rate by frame size",
        "Mpps",
        "frame size with FCS, bytes",
        size_axis([size.sizes_bytes[0] for size in sizes]),
        logarithmic(values),
        lines,
        280,
    ).render()


def _line(
    name: str, style: str, points: Sequence[tuple[float, float]], *, marks: bool = True, joined: bool = True
) -> ChartLine:
    in_millions = [(x, pps / 1e6) for x, pps in points]
    told = {x: f"{pps / 1e6:.4g}" for x, pps in points}
    return ChartLine(name, style, in_millions, told, marks=marks, joined=joined)


def loss_rate_section(result: DeviceResult) -> Markup:
    """Return the section of the frame loss rate (RFC 2544, 26.3)."""
    if not result.loss_rates:
        return Markup()
    lines = []
    rows: list[TableRow] = []
    for place, loss_rate in enumerate(result.loss_rates):
        points, told = [], {}
        for step in sorted(loss_rate.steps, key=lambda step: step.fraction):
            fraction = 100 * step.fraction
            why = f"refused: {step.refusal.code.replace('_', ' ')}" if step.refusal is not None else ""
            if step.loss_ratio is not None:
                points.append((fraction, 100 * step.loss_ratio))
                told[fraction] = percent(step.loss_ratio).removesuffix(" %")
            load, lost = f"{fraction:.4g} %", TableCell(percent(step.loss_ratio), why)
            rows.append([sizes_text(loss_rate.name), load, frames(step.offered.pps), frames(step.received_pps), lost])
        lines.append(ChartLine(sizes_text(loss_rate.name), style_of(place), points, told))
    of = "; ".join(f"{sizes_text(one.name)}: {_maximum(one.limited_by, one.maximum.pps)}" for one in result.loss_rates)
    drawn = Markup()
    if any(line.points for line in lines):
        losses = [y for line in lines for _, y in line.points]
        ticks = [(float(fraction), str(fraction)) for fraction in range(0, 101, 10)]
        axis = linear([*losses, 1.0])
        drawn = Chart("Frames lost", "%", "load, % of the maximum", Scale(0, 100, ticks), axis, lines).render()
    ended = [
        soft(f"{sizes_text(one.name)}: it did not end with two loads in a row without loss.")
        for one in result.loss_rates
        if not one.clean
    ]
    body = table("Loss by load", ["frame size", "load", "offered, pps", "received, pps", "lost"], rows, "small")
    note = soft(f"RFC 2544, 26.3. 100 % is {of}.")
    return section("loss", "Loss by load", note, drawn, *ended, folded("Every step", body))


def _maximum(limited_by: str, pps: float) -> str:
    what = "line rate" if limited_by == "line_rate" else "the most that the tester can offer"
    return f"{what}, {frames(pps)} pps"


def latency_section(result: DeviceResult) -> Markup:
    """Return the section of delays under load."""
    if not result.latency:
        return Markup()
    names = list(dict.fromkeys(one.name for one in result.latency))
    charts = []
    for name in names:
        mine = sorted((one for one in result.latency if one.name == name), key=lambda one: one.fraction)
        measured = [one for one in mine if one.p50_s is not None]
        if measured:
            charts.append(_percentile_chart(name, measured) + _distribution(name, measured))
    note = soft(
        "One way, of every test frame, from the stamp that it carries to the receiving port. Load is a fraction of"
        f" {result.latency[0].base.upper()}, the rate without loss. Typical is the median, worst the 99.9th percentile"
        " (RFC 8219)."
    )
    return section("latency", "Delay by load", note, *charts, _latency_table(result.latency))


def _percentile_chart(name: str, measured: Sequence[LatencyFinding]) -> Markup:
    lines = []
    for place, (key, label) in enumerate(_PERCENTILES):
        values = [(100 * one.fraction, getattr(one, key)) for one in measured]
        points = [(x, value * 1e6) for x, value in values if value is not None and value > 0]
        if points:
            lines.append(ChartLine(label, style_of(place), points))
    if not lines:
        return Markup()
    ticks = [(100 * one.fraction, f"{100 * one.fraction:g}") for one in measured]
    title = f"Delay by load, {sizes_text(name)}"
    y = logarithmic([value for line in lines for _, value in line.points])
    return Chart(title, "µs, logarithmic", "load, % of NDR", Scale(0, 100, ticks), y, lines).render()


def _distribution(name: str, measured: Sequence[LatencyFinding]) -> Markup:
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
            lines.append(ChartLine(f"{100 * one.fraction:g} %", style_of(place), points, marks=False, stepped=True))
    if not lines:
        return Markup()
    x = logarithmic([value for line in lines for value, _ in line.points])
    title = f"Distribution of the delay by load, {sizes_text(name)}"
    return Chart(title, "% of frames that took at most", "delay, µs, logarithmic", x, PERCENT, lines, 200).render()


def _latency_table(findings: Sequence[LatencyFinding]) -> Markup:
    head = [
        "frame size", "load", "pps", "frames", "least, µs", "typical, µs", "90th, µs", "99th, µs", "worst, µs",
        "largest, µs",
    ]  # fmt: skip
    rows: list[TableRow] = []
    for one in findings:
        row: list[str | TableCell] = [sizes_text(one.name), f"{100 * one.fraction:g} %", frames(one.offered.pps)]
        if one.refusal is not None:
            row.append(TableCell(f"refused: {one.refusal.reason}", kind="text", span=7))
        else:
            delays = (one.min_s, one.typical_s, one.p90_s, one.p99_s, one.worst_s, one.max_s)
            row += [frames(one.frames), *map(us, delays)]
        rows.append(row)
    return table("Delay by load", head, rows)


def bursts_section(result: DeviceResult) -> Markup:
    """Return the section of bursts back to back (RFC 2544, 26.4; RFC 9004)."""
    if not result.bursts:
        return Markup()
    head = ["frame size", "burst at, pps", "longest without loss, frames", "repeats", "buffer, µs", "buffer, frames"]
    note = soft(
        "The longest burst at full rate without loss: average of the repeats, and their range. The buffer is that"
        " burst's time less the time in which its frames were forwarded (RFC 9004)."
    )
    rows = [_burst_row(burst) for burst in result.bursts]
    return section("bursts", "Bursts back to back", note, table("Bursts", head, rows))


def _burst_row(burst: BurstFinding) -> list[str | TableCell]:
    by_tester = "the most that the tester can offer" if burst.limited_by == "tester" else "line rate"
    start: list[str | TableCell] = [sizes_text(burst.name), TableCell(frames(burst.offered.pps), by_tester)]
    if burst.refusal is not None:
        return [*start, TableCell(f"refused: {burst.refusal.reason}", kind="text", span=4)]
    repeats = str(len(burst.lengths_frames))
    if burst.unlimited:
        told = f"no loss in bursts of {frames(burst.longest_frames)}, the longest tried: no buffer shows"
        return [*start, TableCell("unlimited", told), repeats, MISSING, MISSING]
    lengths = burst.lengths_frames
    span = f"{frames(min(lengths))} to {frames(max(lengths))}" if lengths else ""
    buffer = (us(burst.corrected_buffer_s), frames(burst.corrected_buffer_frames))
    return [*start, TableCell(frames(burst.mean_frames), span), repeats, *buffer]


def cpu_section(result: DeviceResult) -> Markup:
    """Return the section of the device's processor by rate."""
    by_sizes: dict[tuple[int, ...], list[tuple[float, float]]] = {}
    for trial in result.trials:
        if not trial.refusals and "busy_max" in trial.cpu:
            by_sizes.setdefault(trial.sizes_bytes, []).append((trial.received_pps / 1e6, 100 * trial.cpu["busy_max"]))
    if not by_sizes:
        note = soft("It is not known: no source was named, or it gave nothing.")
        return section("cpu", "The device's processor by rate", note)
    names = {size.sizes_bytes: sizes_text(size.name) for size in result.sizes}
    drawn = cpu_chart({names.get(sizes, f"{sizes[0]} B"): points for sizes, points in sorted(by_sizes.items())}, 230)
    rows: list[TableRow] = []
    for one in result.overload:
        name = f"{one.name} test, {sizes_text(str(one.sizes_bytes[0]))}"
        rate = mpps(None if one.received is None else one.received.pps)
        rows.append([name, rate, percent(one.cpu_busy_max.estimate)])
    body = table("Processor in the study's two tests", ["", "forwarded, Mpps", "busiest core"], rows, "small")
    note = soft(
        "A dot is a trial that counts. Busy is all time but idle: the kernel's work for packets is in no process, and"
        " the busiest core limits forwarding, not the average. Most kernels count in ticks of 4 to 10 ms: in trials of"
        " less than 10 s a load is a hint."
    )
    return section("cpu", "The device's processor by rate", note, drawn, body if rows else "")


def cpu_chart(points: Mapping[str, Sequence[tuple[float, float]]], height: int) -> Markup:
    """Return the load of the busiest core, in percent, by the rate in Mpps."""
    lines = [
        ChartLine(name, style_of(place), sorted(of_name), joined=False)
        for place, (name, of_name) in enumerate(points.items())
        if of_name
    ]
    x = linear([x for line in lines for x, _ in line.points])
    return Chart("The busiest core", "% busy", "frames forwarded, Mpps", x, PERCENT, lines, height).render()


def iperf3_runs(result: DeviceResult) -> dict[str, Beside]:
    """Return the runs of iperf3, by the name of the study's test."""
    told = result.beside.get("iperf3")
    if isinstance(told, Mapping):
        return {str(test): run for test, run in told.items() if isinstance(run, Mapping)}
    if isinstance(told, Sequence) and not isinstance(told, str):
        return {str(run["test"]): run for run in told if isinstance(run, Mapping) and "test" in run}
    return {}


def beside_section(result: DeviceResult) -> Markup:
    """Return the section that sets iperf3's figures beside ours; empty without any."""
    runs = iperf3_runs(result)
    if not runs:
        return Markup()
    head = [
        "the study's test",
        "wavebed, received, pps",
        "iperf3, at the interface, pps",
        "iperf3 prints, Mbit/s of payload",
        "the study's formula, Mpps",
        "right, Mpps",
    ]
    ours = {one.name: one.received for one in result.overload}
    rows: list[TableRow] = []
    for test, run in runs.items():
        received = next((rate for name, rate in ours.items() if name == test), None)
        conversion = run.get("conversion")
        formula = conversion if isinstance(conversion, Mapping) else {}
        rows.append(
            [
                test,
                frames(None if received is None else received.pps),
                frames(_number(run, "pps")),
                mbps(_number(run, "claimed_mbps")),
                _digits(_number(formula, "study_mpps")),
                _digits(_number(formula, "corrected_mpps")),
            ]
        )
    told = soft(
        "The study's exact commands through the same device. iperf3 prints payload; the frames are counted at the"
        " receiving interface. The study's formula divides the payload rate by the size on the wire, and so gives too"
        " little."
    )
    notes = filled(
        TEMPLATE, "iperf3_notes", {test: {name: run.get(name) for name in _NOTED} for test, run in runs.items()}
    )
    return section("iperf3", "iperf3 beside it", told, table("iperf3 beside it", head, rows), notes)


_NOTED = ("failed", "command", "doubt")


def _number(told: Beside, key: str) -> float | None:
    value = told.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _digits(value: float | None) -> str:
    return MISSING if value is None else f"{value:.4g}"
