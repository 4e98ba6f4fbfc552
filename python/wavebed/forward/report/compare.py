"""The page that compares devices: the study's two tables, rate by frame size, processor by rate, change of ranks."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from wavebed.forward.comparison import MEASURES, interval_text, moved_text, sizes_tested
from wavebed.forward.report.build import forward_document
from wavebed.forward.report.chart import Axis, Chart, Line, linear, logarithmic, style_of
from wavebed.forward.report.rates import size_axis
from wavebed.forward.report.words import cell, frames, mbps, mpps, percent, section, sentence, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.forward.comparison import Comparison, Device, Measure, Rank, Value
    from wavebed.forward.result import DeviceResult
    from wavebed.forward.search import SizeFinding

__all__ = ["comparison_page"]

_COLUMNS: dict[Measure, str] = {"throughput": "throughput", "overload": "small packets", "loss_free": "loss-free"}
_CLEAR = {True: "clear", False: "tied, not clear", None: ""}
_SLOPE_HIGH = 46
"""Height of a place in the chart of ranks, pixels."""


def comparison_page(comparison: Comparison, more: str = "") -> str:
    """Return the page, with sections of the caller's after the tables."""
    names = ", ".join(device.name for device in comparison.devices)
    count = len(comparison.devices)
    head = (
        f"<header><h1>Small packets: {count} device{'s' if count != 1 else ''} compared</h1>"
        f'<p class="soft">{escape(names)}</p></header>{_in_words(comparison)}'
    )
    sections = (
        head,
        _tables(comparison),
        more,
        _slopes(comparison),
        _rates(comparison),
        _cpu(comparison),
        _repeat(comparison),
    )
    return forward_document(f"Small packets: {names}", "\n".join(filter(None, sections)))


def _in_words(comparison: Comparison) -> str:
    told = []
    for measure, what in MEASURES.items():
        clear, pairs = comparison.told_apart(measure)
        if pairs:
            told.append(f'<p class="lead">The {what} tells {clear} of {pairs} pairs of devices apart.</p>')
    for device in comparison.devices:
        for measure, value in device.values.items():
            if value.why and value.why != "not measured":
                text = f"{device.name} has no figure for the {MEASURES[measure]}: {value.why}"
                told.append(f'<p class="warn">{escape(sentence(text))}</p>')
    told += [f'<p class="warn">{escape(sentence(note))}</p>' for note in comparison.notes]
    return "".join(told)


def _styles(comparison: Comparison) -> Mapping[str, str]:
    return {device.name: style_of(place) for place, device in enumerate(comparison.devices)}


def _key(style: str) -> str:
    return f'<span class="key {style}"></span>'


def _tables(comparison: Comparison) -> str:
    small, large = sizes_tested(comparison.small_bytes), sizes_tested(comparison.large_bytes)
    note = (
        f'<p class="soft">Both tests offer line rate: throughput with {escape(large)}, small packets with'
        f" {escape(small)}. The figure is the median of the repeats, with its 95 % interval. Mbit/s are of UDP payload,"
        " as iperf3 prints. Loss-free is the non-drop rate (NDR) with the bounds of its search.</p>"
    )
    ranks = (
        '<p class="soft">A rank is by the figures alone, as the study ranks; below it is the range of ranks by the'
        " intervals. Two devices whose intervals overlap are not told apart: they share a range of ranks. A change of"
        " rank is clear where the ranges of both tests do not overlap.</p>"
    )
    return section(
        "results",
        "The study's tables",
        note,
        "<h3>Table 1: rate and processor</h3>",
        _first(comparison),
        "<h3>Table 2: ranks</h3>",
        ranks,
        _second(comparison),
    )


def _first(comparison: Comparison) -> str:
    head = [
        "device", "kind", "throughput, Mbit/s of payload", "busiest core", "small packets, Mpps", "busiest core",
        "loss-free, Mpps",
    ]  # fmt: skip
    styles = _styles(comparison)
    rows = []
    for device in comparison.devices:
        large, small, free = (device.values[measure] for measure in MEASURES)
        rows.append(
            f"<tr><th scope=row>{_key(styles[device.name])}{escape(device.name)}</th>{cell(device.kind, kind='word')}"
            f"{_payload(large)}{cell(percent(large.cpu_busy_max))}{_millions(small)}{cell(percent(small.cpu_busy_max))}"
            f"{_millions(free)}</tr>"
        )
    return table("Rate and processor", head, rows, texts=[1])


def _second(comparison: Comparison) -> str:
    head = [
        "device", "throughput, Mbit/s of payload", "rank", "small packets, Mpps", "rank", "change", "loss-free, Mpps",
        "rank",
    ]  # fmt: skip
    styles = _styles(comparison)
    rows = []
    for device in comparison.devices:
        large, small, free = (device.values[measure] for measure in MEASURES)
        rows.append(
            f"<tr><th scope=row>{_key(styles[device.name])}{escape(device.name)}</th>"
            f"{_payload(large)}{_rank(device.ranks.get('throughput'))}"
            f"{_millions(small)}{_rank(device.ranks.get('overload'))}"
            f"{cell(moved_text(device), _CLEAR[device.clear] if device.moved else '')}"
            f"{_millions(free)}{_rank(device.ranks.get('loss_free'))}</tr>"
        )
    return table("Ranks", head, rows)


def _payload(value: Value) -> str:
    if value.pps is None:
        return _none(value)
    return cell(mbps(value.payload_mbps), _within(value.in_payload(value.low), value.in_payload(value.high)))


def _millions(value: Value) -> str:
    if value.pps is None:
        return _none(value)
    low, high = (None if pps is None else pps / 1e6 for pps in (value.low, value.high))
    return cell(mpps(value.pps), _within(low, high))


def _within(low: float | None, high: float | None) -> str:
    return "no interval" if low is None or high is None else interval_text(low, high)


def _none(value: Value) -> str:
    refused = value.why.startswith("refused")
    return cell("refused" if refused else "–", kind="refused" if refused else "", title=value.why)


def _rank(rank: Rank | None) -> str:
    if rank is None:
        return cell("–")
    return cell(str(rank.by_estimate), "" if rank.best == rank.worst else f"{rank.best} to {rank.worst}")


def _slopes(comparison: Comparison) -> str:
    """Return the chart of ranks: one column for each measure, a bar for the range of ranks by the intervals."""
    measures = [measure for measure in MEASURES if any(measure in device.ranks for device in comparison.devices)]
    if len(measures) < 2 or len(comparison.devices) < 2:
        return ""
    count = len(comparison.devices)
    lines = [_slope(device, place, measures, count) for place, device in enumerate(comparison.devices)]
    x = Axis(-0.35, len(measures) - 0.65, [(float(place), _COLUMNS[name]) for place, name in enumerate(measures)])
    y = Axis(-count - 0.5, -0.5, [(-float(rank), str(rank)) for rank in range(1, count + 1)])
    drawn = Chart("Rank by measure", "1 is the highest rate", "", x, y, lines, _SLOPE_HIGH * count, named=True).render()
    note = '<p class="soft">A dot is the rank by the figures alone; its bar is the range that the intervals leave.</p>'
    return section("ranks", "Change of ranks", note, drawn)


def _slope(device: Device, place: int, measures: list[Measure], count: int) -> Line:
    """Draw a device's ranks; dots are moved a little so that those of one rank stand beside each other."""
    aside = (place - (count - 1) / 2) * 0.04
    points, bars, told = [], [], {}
    for column, measure in enumerate(measures):
        rank = device.ranks.get(measure)
        x = column + aside
        if rank is None:
            points.append((x, math.nan))
            continue
        points.append((x, -float(rank.by_estimate)))
        bars.append((x, -float(rank.worst), -float(rank.best)))
        told[x] = f"rank {rank.by_estimate}, between {rank.best} and {rank.worst}"
    return Line(device.name, style_of(place), points, told, bars)


def _rates(comparison: Comparison) -> str:
    """Return rate without loss by frame size of all devices, against line rate."""
    plain = {device.name: _plain_sizes(device.result) for device in comparison.devices}
    sizes = sorted({size.sizes_bytes[0] for found in plain.values() for size in found})
    if len(sizes) < 2:
        return ""
    lines = []
    for link in sorted({device.result.link_mbps for device in comparison.devices if device.result.link_mbps}):
        points = sorted(
            {
                (float(size.sizes_bytes[0]), size.line_rate.pps / 1e6)
                for device in comparison.devices
                if device.result.link_mbps == link
                for size in plain[device.name]
                if size.line_rate is not None
            }
        )
        if points:
            lines.append(Line(f"line rate, {link:g} Mbit/s", "capacity band", points, marks=False))
    for place, device in enumerate(comparison.devices):
        found = [(size.sizes_bytes[0], size.goal("ndr")) for size in plain[device.name]]
        points = [
            (float(size), goal.rate.pps / 1e6) for size, goal in found if goal is not None and goal.rate is not None
        ]
        if points:
            told = {x: f"{rate:.4g}" for x, rate in points}
            lines.append(Line(device.name, style_of(place), sorted(points), told))
    if not any(line.marks for line in lines):
        return ""
    y = logarithmic([rate for line in lines for _, rate in line.points])
    drawn = Chart(
        "Rate without loss (NDR)", "Mpps", "frame size with FCS, bytes", size_axis(sizes), y, lines, 300
    ).render()
    return section("rates", "Rate by frame size", drawn, _rate_table(comparison, sizes))


def _plain_sizes(result: DeviceResult) -> list[SizeFinding]:
    return sorted((size for size in result.sizes if len(size.sizes_bytes) == 1), key=lambda size: size.sizes_bytes)


def _rate_table(comparison: Comparison, sizes: list[int]) -> str:
    rows = []
    for size in sizes:
        cells = []
        for device in comparison.devices:
            found = next((one for one in device.result.sizes if one.sizes_bytes == (size,)), None)
            goal = None if found is None else found.goal("ndr")
            rate = None if goal is None or goal.rate is None else goal.rate.pps
            line = None if found is None or found.line_rate is None else found.line_rate.pps
            refused = goal is not None and goal.refusal is not None
            fraction = "" if rate is None or line is None else percent(rate / line)
            cells.append(cell("refused" if refused else frames(rate), fraction, "refused" if refused else ""))
        rows.append(f"<tr><th scope=row>{size} B</th>{''.join(cells)}</tr>")
    head = ["frame size", *(device.name for device in comparison.devices)]
    body = table("Rate without loss by frame size, frames per second and fraction of line rate", head, rows)
    return f'<p class="soft">Frames per second without loss, and fraction of line rate.</p>{body}'


def _cpu(comparison: Comparison) -> str:
    """Return the busiest core by rate, of every trial that counts."""
    lines = []
    for place, device in enumerate(comparison.devices):
        points = sorted(
            (trial.received_pps / 1e6, 100 * trial.cpu["busy_max"])
            for trial in device.result.trials
            if not trial.refusals and "busy_max" in trial.cpu
        )
        if points:
            lines.append(Line(device.name, style_of(place), points, joined=False))
    if not lines:
        return ""
    ticks = [(float(fraction), str(fraction)) for fraction in (0, 25, 50, 75, 100)]
    x = linear([x for line in lines for x, _ in line.points])
    drawn = Chart("The busiest core", "% busy", "frames forwarded, Mpps", x, Axis(0, 100, ticks), lines, 260).render()
    return section("cpu", "Processor by rate", '<p class="soft">A dot is a trial that counts, of any size.</p>', drawn)


def _repeat(comparison: Comparison) -> str:
    rows = []
    for device in comparison.devices:
        result = device.result
        texts = (result.kind, result.started, f"{len(result.trials)}", result.sender, str(result.settings.seed))
        rows.append(
            f"<tr><th scope=row>{escape(device.name)}</th>{''.join(cell(text, kind='word') for text in texts)}</tr>"
        )
    head = ["device", "kind", "started", "trials", "sent by", "seed"]
    return section("runs", "The tests", table("The tests", head, rows, "small", [1, 2, 3, 4, 5]))
