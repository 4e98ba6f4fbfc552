"""Still charts of curves, in the style of the report of a run."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from wavebed.report.figure import swatch
from wavebed.report.numbers import nice_ticks, ticks_between

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.channel.placemap.levels import Floats

__all__ = ["Curve", "chart", "cumulative"]

WIDE, HIGH = 10_000, 2000
_MOST_POINTS = 300
_TICK_PX = 45


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A line, or the area between two.

    Parameters
    ----------
    name : str
        What the legend calls it.
    style : str
        Its classes in the style sheet.
    x, y : float array
        Its points.
    upper : float array, optional
        The upper edge of an area, whose lower one is `y`.
    """

    name: str
    style: str
    x: Floats
    y: Floats
    upper: Floats | None = None


def cumulative(name: str, style: str, values: Floats) -> Curve:
    """Return the distribution of values: the percentage that is at most x."""
    shares = np.linspace(0, 1, min(len(values), _MOST_POINTS))
    return Curve(name, style, np.quantile(values, shares), 100 * shares)


def chart(title: str, unit: str, axis: str, curves: Sequence[Curve], *, height: int = 200, top: float = 0.0) -> str:
    """Return a chart.

    Parameters
    ----------
    title, unit : str
        Of the upright axis.
    axis : str
        The name of the other axis, with its unit.
    height : int
        Pixels.
    top : float
        The upright axis reaches at least as high.
    """
    left, right = min(float(each.x.min()) for each in curves), max(float(each.x.max()) for each in curves)
    edges = [edge for each in curves for edge in (each.y, each.upper) if edge is not None]
    lowest, highest = min(float(np.nanmin(edge)) for edge in edges), max(float(np.nanmax(edge)) for edge in edges)
    ticks = nice_ticks(min(0.0, lowest), max(top, highest), round(height / _TICK_PX))
    low, high = ticks[0], ticks[-1]

    def place(x: Floats, y: Floats) -> list[str]:
        across = (x - left) / (right - left) * WIDE
        up = (high - y) / (high - low) * HIGH
        return [f"{a:.0f} {b:.0f}" for a, b in zip(across.tolist(), up.tolist(), strict=True)]

    drawn = ""
    for each in curves:
        points = place(each.x, each.y)
        if each.upper is None:
            drawn += f'<path class="line {each.style}" d="M{"L".join(points)}"/>'
        else:
            back = place(each.x[::-1], each.upper[::-1])
            drawn += f'<path class="fill {each.style}" d="M{"L".join(points + back)}Z"/>'
    grid = "".join(f"M0 {HIGH * (high - tick) / (high - low):.0f}h{WIDE}" for tick in ticks)
    levels = "".join(
        f'<span style="top:{100 * (high - tick) / (high - low):.2f}%">{_number(tick)}</span>' for tick in ticks
    )
    across = "".join(
        f'<span style="left:{100 * (tick - left) / (right - left):.2f}%">{_number(tick)}</span>'
        for tick in ticks_between(left, right)
    )
    legend = "".join(f'<span class="item">{_key(each)}{escape(each.name)}</span>' for each in curves if each.name)
    return (
        f'<figure class="chart still"><div class="plot"><div class="panel"><div class="title"><b>{escape(title)}'
        f"{f', <span class=unit>{escape(unit)}</span>' if unit else ''}</b>{legend}</div>"
        f'<div class="area" style="height:{height}px"><div class="ticks" aria-hidden="true">{levels}</div>'
        f'<svg class="lines" viewBox="0 0 {WIDE} {HIGH}" preserveAspectRatio="none" role="img"'
        f' aria-label="{escape(title)}"><path class="grid" d="{grid}"/>{drawn}</svg></div></div>'
        f'<div class="axis"><div class="times" aria-hidden="true">{across}</div>{escape(axis)}</div></div></figure>'
    )


def _key(curve: Curve) -> str:
    if curve.upper is None:
        return swatch(curve.style)
    return f'<span class="key {escape(curve.style)}" style="opacity:.3"></span>'


def _number(value: float) -> str:
    return f"{value:g}".replace("-", "−")
