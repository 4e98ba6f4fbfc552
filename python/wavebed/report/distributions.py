"""Cumulative distributions of delay on the idle and the loaded path, on a logarithmic axis."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from wavebed.report.figure import swatch
from wavebed.report.numbers import figure
from wavebed.report.source import whole
from wavebed.report.timeline import line_styles
from wavebed.workload.probing import loads_of, percentile, window_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.report.source import Results
    from wavebed.report.thin import Floats

__all__ = ["delay_distributions"]

WIDE, HIGH = 1000, 200
MOST_POINTS = 250
WINDOWS = ("idle", "loaded")
_Key = tuple[str, str, str]


def delay_distributions(results: Results) -> str:
    """Return a chart for each delay series of latency workloads; empty without one."""
    charts = []
    for name, kind in results.workloads:
        if kind != "latency":
            continue
        pooled = _pooled(results, name)
        for series in dict.fromkeys(series for series, _, _ in pooled):
            mine = {key: values for key, values in pooled.items() if key[0] == series}
            charts += [_chart(results, name, series, mine)]
    return "".join(charts)


def _pooled(results: Results, name: str) -> dict[_Key, Floats]:
    """Return the answered probes of all counted trials by series, treatment and window."""
    parts: dict[_Key, list[Floats]] = {}
    for trial in whole(results.counted):
        loads = loads_of({each.name: each.span for each in trial.record.workloads if each.span is not None})
        for (series, unit), points in trial.samples(name).items():
            if unit != "ms":
                continue
            windows = np.array([window_of(time_s, loads) or "" for time_s in points.time_s.tolist()])
            for window in WINDOWS:
                values = points.value[(windows == window) & np.isfinite(points.value)]
                parts.setdefault((series, trial.line.treatment, window), []).append(values)
    return {key: np.sort(np.concatenate(values)) for key, values in parts.items() if sum(map(len, values))}


def _chart(results: Results, name: str, series: str, pooled: Mapping[_Key, Floats]) -> str:
    low = min(float(values[0]) for values in pooled.values())
    high = max(float(values[-1]) for values in pooled.values())
    left, right = math.log10(max(low, 1e-3) / 1.1), math.log10(max(high, 2e-3) * 1.1)

    def x(values: Floats) -> Floats:
        return (np.log10(np.maximum(values, 1e-3)) - left) / (right - left) * WIDE

    lines, rows = [], []
    several = len(results.treatments) > 1
    for (_, treatment, window), values in pooled.items():
        kind = WINDOWS.index(window)
        style = f"{results.style(treatment)} d{1 - kind}" if several else line_styles(results, 0, treatment, kind)
        lines.append(f'<path class="line {style}" d="{_path(x(values), len(values))}"/>')
        cells = "".join(f"<td>{figure(percentile(values.tolist(), share))}</td>" for share in (50, 95, 99))
        who = f"{treatment}, {window}" if several else window
        rows.append(f"<tr><th scope=row>{swatch(style)} {escape(who)}</th><td>{len(values)}</td>{cells}</tr>")
    ticks = _ticks(left, right)
    grid = "".join(f"M{float(x(np.array([tick]))[0]):.1f} 0V{HIGH}" for tick in ticks)
    grid += "".join(f"M0 {HIGH * (1 - share):g}H{WIDE}" for share in (0, 0.25, 0.5, 0.75, 1))
    times = "".join(
        f'<span style="left:{float(x(np.array([tick]))[0]) / WIDE * 100:.2f}%">{tick:g}</span>' for tick in ticks
    )
    levels = "".join(f'<span style="top:{100 - share}%">{share}</span>' for share in (0, 25, 50, 75, 100))
    return (
        f'<figure class="chart still"><div class="plot"><div class="panel"><div class="title">'
        f'<b>{escape(name)}: {escape(series)}, <span class="unit">% of probes that took at most</span></b></div>'
        f'<div class="area" style="height:{HIGH}px"><div class="ticks" aria-hidden="true">{levels}</div>'
        f'<svg class="lines" viewBox="0 0 {WIDE} {HIGH}" preserveAspectRatio="none" role="img"'
        f' aria-label="Cumulative distribution of {escape(series)}; the table below has its percentiles">'
        f'<path class="grid" d="{grid}"/>{"".join(lines)}</svg></div></div>'
        f'<div class="axis"><div class="times" aria-hidden="true">{times}</div>{escape(series)}, ms, logarithmic</div>'
        f'</div><div class="scroll"><table class="small"><thead><tr><th scope=col>{escape(series)}, ms</th>'
        f"<th scope=col>probes</th><th scope=col>p50</th><th scope=col>p95</th><th scope=col>p99</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div></figure>"
    )


def _path(xs: Floats, count: int) -> str:
    """Draw the share that took at most x; with many probes, at equal steps of the share and at both ends."""
    if count > MOST_POINTS:
        picks = np.unique(np.linspace(0, count - 1, MOST_POINTS).round().astype(int))
    else:
        picks = np.arange(count)
    ys = HIGH * (1 - (picks + 1) / count)
    steps = "".join(f"H{x:.1f}V{y:.1f}" for x, y in zip(xs[picks].tolist(), ys.tolist(), strict=True))
    return f"M{xs[0]:.1f} {HIGH}{steps}H{WIDE}"


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
