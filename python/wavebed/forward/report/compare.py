"""The page that compares devices: the study's two tables, rate by frame size, processor by rate, change of ranks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from markupsafe import Markup

from wavebed.forward.comparison import MEASURES, interval_text, moved_text, sizes_tested
from wavebed.forward.report.build import forward_document
from wavebed.forward.report.device import TEMPLATE, cpu_chart, plain_sizes, size_axis
from wavebed.forward.report.words import frames, mbps, mpps, percent, sentence
from wavebed.page.document import TableCell, TableRow, filled, joined, section, soft, table
from wavebed.page.plots import Chart, ChartLine, Scale, logarithmic, style_of

if TYPE_CHECKING:
    from wavebed.forward.comparison import Device, DeviceComparison, Measure, Rank, Value

_COLUMNS: dict[Measure, str] = {"throughput": "throughput", "overload": "small packets", "loss_free": "loss-free"}
_CLEAR = {True: "clear", False: "tied, not clear", None: ""}
_SLOPE_HIGH = 46
"""Height of a place in the chart of ranks, pixels."""


def comparison_page(comparison: DeviceComparison, more: Markup | str = "") -> str:
    """Return the page, with sections of the caller's after the tables."""
    names = ", ".join(device.name for device in comparison.devices)
    count = len(comparison.devices)
    sections = (
        _head(comparison, f"Small packets: {count} device{'s' if count != 1 else ''} compared", names),
        _tables(comparison),
        more,
        _slopes(comparison),
        _rates(comparison),
        _cpu(comparison),
        _repeat(comparison),
    )
    return forward_document(f"Small packets: {names}", joined(sections))


def _head(comparison: DeviceComparison, title: str, names: str) -> Markup:
    leads, warnings = [], []
    for measure, what in MEASURES.items():
        clear, pairs = comparison.told_apart(measure)
        if pairs:
            leads.append(f"The {what} tells {clear} of {pairs} pairs of devices apart.")
    for device in comparison.devices:
        for measure, value in device.values.items():
            if value.why and value.why != "not measured":
                warnings.append(sentence(f"{device.name} has no figure for the {MEASURES[measure]}: {value.why}"))
    warnings += map(sentence, comparison.notes)
    return filled(TEMPLATE, "compared", title, names, leads, warnings)


def _tables(comparison: DeviceComparison) -> Markup:
    """Return the study's two tables: rates with the processor, and ranks."""
    rates: list[TableRow] = []
    ranks: list[TableRow] = []
    for place, device in enumerate(comparison.devices):
        name = filled(TEMPLATE, "device", style_of(place), device.name)
        large, small, free = (device.values[measure] for measure in MEASURES)
        busy = percent(large.cpu_busy_max), percent(small.cpu_busy_max)
        kind = TableCell(device.kind, kind="word")
        rates.append([name, kind, _payload(large), busy[0], _millions(small), busy[1], _millions(free)])
        moved = TableCell(moved_text(device), _CLEAR[device.clear] if device.moved else "")
        of_large, of_small, of_free = (
            _rank(device.ranks.get(each)) for each in ("throughput", "overload", "loss_free")
        )
        ranks.append([name, _payload(large), of_large, _millions(small), of_small, moved, _millions(free), of_free])
    head = [
        "device", "kind", "throughput, Mbit/s of payload", "busiest core", "small packets, Mpps", "busiest core",
        "loss-free, Mpps",
    ]  # fmt: skip
    first = table("Rate and processor", head, rates, texts=[1])
    head = [
        "device", "throughput, Mbit/s of payload", "rank", "small packets, Mpps", "rank", "change", "loss-free, Mpps",
        "rank",
    ]  # fmt: skip
    sizes = sizes_tested(comparison.large_bytes), sizes_tested(comparison.small_bytes)
    body = filled(TEMPLATE, "study_tables", first, table("Ranks", head, ranks), *sizes)
    return section("results", "The study's tables", body)


def _payload(value: Value) -> str | TableCell:
    if value.pps is None:
        return _none(value)
    return TableCell(mbps(value.payload_mbps), _within(value.in_payload(value.low), value.in_payload(value.high)))


def _millions(value: Value) -> str | TableCell:
    if value.pps is None:
        return _none(value)
    low, high = (None if pps is None else pps / 1e6 for pps in (value.low, value.high))
    return TableCell(mpps(value.pps), _within(low, high))


def _within(low: float | None, high: float | None) -> str:
    return "no interval" if low is None or high is None else interval_text(low, high)


def _none(value: Value) -> str | TableCell:
    refused = value.why.startswith("refused")
    return TableCell("refused" if refused else "–", kind="refused" if refused else "", title=value.why)


def _rank(rank: Rank | None) -> str | TableCell:
    if rank is None:
        return "–"
    return TableCell(str(rank.by_estimate), "" if rank.best == rank.worst else f"{rank.best} to {rank.worst}")


def _slopes(comparison: DeviceComparison) -> Markup:
    """Return the chart of ranks: one column for each measure, a bar for the range of ranks by the intervals."""
    measures = [measure for measure in MEASURES if any(measure in device.ranks for device in comparison.devices)]
    if len(measures) < 2 or len(comparison.devices) < 2:
        return Markup()
    count = len(comparison.devices)
    lines = [_slope(device, place, measures, count) for place, device in enumerate(comparison.devices)]
    x = Scale(-0.35, len(measures) - 0.65, [(float(place), _COLUMNS[name]) for place, name in enumerate(measures)])
    y = Scale(-count - 0.5, -0.5, [(-float(rank), str(rank)) for rank in range(1, count + 1)])
    drawn = Chart("Rank by measure", "1 is the highest rate", "", x, y, lines, _SLOPE_HIGH * count, named=True).render()
    note = soft("A dot is the rank by the figures alone; its bar is the range that the intervals leave.")
    return section("ranks", "Change of ranks", note, drawn)


def _slope(device: Device, place: int, measures: list[Measure], count: int) -> ChartLine:
    """Draw a device's ranks; dots are moved a little so that dots of one rank stand beside each other."""
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
    return ChartLine(device.name, style_of(place), points, told, bars)


def _rates(comparison: DeviceComparison) -> Markup:
    """Return rate without loss by frame size of all devices, against line rate."""
    plain = {device.name: plain_sizes(device.result) for device in comparison.devices}
    sizes = sorted({size.sizes_bytes[0] for found in plain.values() for size in found})
    if len(sizes) < 2:
        return Markup()
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
            lines.append(ChartLine(f"line rate, {link:g} Mbit/s", "capacity band", points, marks=False))
    for place, device in enumerate(comparison.devices):
        found = [(size.sizes_bytes[0], size.goal("ndr")) for size in plain[device.name]]
        points = [
            (float(size), goal.rate.pps / 1e6) for size, goal in found if goal is not None and goal.rate is not None
        ]
        if points:
            told = {x: f"{rate:.4g}" for x, rate in points}
            lines.append(ChartLine(device.name, style_of(place), sorted(points), told))
    if not any(line.marks for line in lines):
        return Markup()
    y = logarithmic([rate for line in lines for _, rate in line.points])
    drawn = Chart(
        "Rate without loss (NDR)", "Mpps", "frame size with FCS, bytes", size_axis(sizes), y, lines, 300
    ).render()
    return section("rates", "Rate by frame size", drawn, _rate_table(comparison, sizes))


def _rate_table(comparison: DeviceComparison, sizes: list[int]) -> Markup:
    rows: list[TableRow] = []
    for size in sizes:
        cells = []
        for device in comparison.devices:
            found = next((one for one in device.result.sizes if one.sizes_bytes == (size,)), None)
            goal = None if found is None else found.goal("ndr")
            rate = None if goal is None or goal.rate is None else goal.rate.pps
            line = None if found is None or found.line_rate is None else found.line_rate.pps
            refused = goal is not None and goal.refusal is not None
            fraction = "" if rate is None or line is None else percent(rate / line)
            cells.append(TableCell("refused" if refused else frames(rate), fraction, "refused" if refused else ""))
        rows.append([f"{size} B", *cells])
    head = ["frame size", *(device.name for device in comparison.devices)]
    body = table("Rate without loss by frame size, frames per second and fraction of line rate", head, rows)
    return soft("Frames per second without loss, and fraction of line rate.") + body


def _cpu(comparison: DeviceComparison) -> Markup:
    """Return the busiest core by rate, of every trial that counts."""
    points = {
        device.name: [
            (trial.received_pps / 1e6, 100 * trial.cpu["busy_max"])
            for trial in device.result.trials
            if not trial.refusals and "busy_max" in trial.cpu
        ]
        for device in comparison.devices
    }
    if not any(points.values()):
        return Markup()
    return section(
        "cpu", "Processor by rate", soft("A dot is a trial that counts, of any size."), cpu_chart(points, 260)
    )


def _repeat(comparison: DeviceComparison) -> Markup:
    rows: list[TableRow] = []
    for device in comparison.devices:
        result = device.result
        texts = (result.kind, result.started, f"{len(result.trials)}", result.sender, str(result.settings.seed))
        rows.append([device.name, *(TableCell(text, kind="word") for text in texts)])
    head = ["device", "kind", "started", "trials", "sent by", "seed"]
    return section("runs", "The tests", table("The tests", head, rows, "small", [1, 2, 3, 4, 5]))
