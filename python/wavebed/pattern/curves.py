"""The curves of a plot: few points, each with the range of the values that it stands for."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from wavebed.config.units import format_time
from wavebed.errors import UserError
from wavebed.pattern.numbers import format_scaled
from wavebed.pattern.resample import window_rates
from wavebed.pattern.statistics import Summary, opportunity_window_ns, outages, state_spans, summarise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.pattern.model import Pattern

__all__ = ["MAX_POINTS", "Curve", "Drawing", "draw", "headline", "say_rate", "say_time", "stepped"]

MAX_POINTS = 4000
BINS = 2000


@dataclass(frozen=True, eq=False)
class Curve:
    """A stepped curve: value i holds from edge i to edge i+1.

    Parameters
    ----------
    edges : float64 array
        Seconds (or packets), one more than there are values.
    mean, low, high : float64 array
        In the unit of the panel; low and high differ from mean where a point stands for several rows.
    """

    edges: NDArray[np.float64]
    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @property
    def banded(self) -> bool:
        """Whether some point stands for a range of values."""
        return bool((self.low < self.high).any())


@dataclass(frozen=True, eq=False)
class Drawing:
    """One pattern, ready to be drawn.

    Parameters
    ----------
    panels : dict of str to Curve
        By ``rate`` (bit/s), ``delay`` (seconds), ``loss`` and ``bler`` (fractions), ``sinr`` and ``need`` (decibels).
    outages : list of (float, float)
        Start and end in seconds.
    states : dict of str to list of (float, float)
        Start and end in seconds of each state of the radio.
    light : Curve, optional
        The rate of the first bytes after an idle time, bit/s; the second line of the panel ``rate``.
    """

    name: str
    title: str
    over_packets: bool
    panels: dict[str, Curve]
    outages: list[tuple[float, float]]
    summary: Summary
    states: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    light: Curve | None = None

    def curves(self, key: str) -> list[Curve]:
        """Return the lines of a panel: one, or two where the rate has a light rate beside it."""
        return [self.panels[key], *([self.light] if key == "rate" and self.light is not None else [])]


def stepped(index: NDArray[np.int64], values: NDArray[np.float64], period: int, scale: float) -> Curve:
    """Make a curve of values that hold from their index to the next; many become means over bins, with their range.

    Parameters
    ----------
    scale : float
        Units of the index in one unit of the curve's edges.
    """
    if len(index) <= MAX_POINTS:
        edges = np.append(index, period) / scale
        return Curve(edges, values, values, values)
    cuts = np.unique(np.linspace(0, period, BINS + 1).astype(np.int64))
    first = np.searchsorted(index, cuts[:-1], side="right") - 1
    last = np.searchsorted(index, cuts[1:], side="left")
    padded = np.append(values, values[-1])
    pairs = np.column_stack((first, last)).ravel()
    low = np.minimum.reduceat(padded, pairs)[::2]
    high = np.maximum.reduceat(padded, pairs)[::2]
    lengths = np.diff(np.append(index, period)).astype(np.float64)
    done = np.concatenate(([0.0], np.cumsum(values * lengths)))
    rows = np.searchsorted(index, cuts, side="right") - 1
    at_cuts = done[rows] + values[rows] * (cuts - index[rows])
    mean = np.clip(np.diff(at_cuts) / np.diff(cuts), low, high)
    return Curve(cuts / scale, mean, low, high)


def draw(pattern: Pattern, name: str, threshold_bps: int = 0, window_ns: int | None = None) -> Drawing:
    """Prepare a pattern.

    Raises
    ------
    UserError
        If there would be too many windows.
    """
    title = dict(pattern.header).get("title", PurePath(name).name)
    over_packets = pattern.kind == "packets"
    scale = 1.0 if over_packets else 1e9
    rated = pattern
    if pattern.kind == "opportunities":
        if window_ns is None:
            window_ns = opportunity_window_ns(pattern, -(-pattern.period // BINS))
        rated = window_rates(pattern, window_ns)
    panels = {}
    for key, values, unit in (
        ("rate", rated.rate_bps, 1.0),
        ("delay", pattern.delay_ns, 1e-9),
        ("loss", pattern.loss, 1.0),
        ("bler", pattern.bler, 1.0),
        ("sinr", pattern.sinr_mdb, 1e-3),
        ("need", pattern.need_mdb, 1e-3),
    ):
        if values is not None:
            index = rated.index if key == "rate" else pattern.index
            panels[key] = stepped(index, values.astype(np.float64) * unit, pattern.period, scale)
    light = pattern.light_rate_bps
    light_curve = None if light is None else stepped(pattern.index, light.astype(np.float64), pattern.period, scale)
    if not panels:
        raise UserError("the pattern has no column to draw")
    spans = [] if rated.rate_bps is None else outages(rated, threshold_bps).spans_ns.tolist()
    shaded = [(start / 1e9, end / 1e9) for start, end in spans]
    states = {
        state: [(start / 1e9, end / 1e9) for start, end in spans] for state, spans in state_spans(pattern).items()
    }
    summary = summarise(pattern, threshold_bps, window_ns)
    return Drawing(name, title, over_packets, panels, shaded, summary, states, light_curve)


def say_time(time_ns: int) -> str:
    """Write a time in seconds for a reader, exactly."""
    return f"{format_scaled(time_ns, 9)} s"


def say_rate(rate_bps: float) -> str:
    """Write a rate for a reader, four significant digits."""
    for name, scale in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if rate_bps >= scale:
            return f"{rate_bps / scale:.4g} {name}"
    return f"{rate_bps:.4g} bit/s"


def headline(drawing: Drawing) -> str:
    """Say the main figures of a pattern on one line."""
    summary = drawing.summary
    parts = [f"{summary.period} packets" if drawing.over_packets else say_time(summary.period)]
    if summary.mean_bps is not None and summary.peak_bps is not None and summary.rate_percentiles_bps is not None:
        parts.append(f"mean {say_rate(summary.mean_bps)}")
        parts.append(f"median {say_rate(summary.rate_percentiles_bps[50])}")
        parts.append(f"peak {say_rate(summary.peak_bps)}")
    if summary.mean_light_bps is not None:
        parts.append(f"mean after idle {say_rate(summary.mean_light_bps)}")
    if summary.outages is not None:
        count = len(summary.outages.spans_ns)
        if count:
            noun = "outage" if count == 1 else "outages"
            parts.append(f"{count} {noun}, {say_time(summary.outages.total_ns)}")
        else:
            parts.append("no outage")
    if summary.mean_delay_ns is not None:
        parts.append(f"mean delay {summary.mean_delay_ns / 1e6:.3g} ms")
    if summary.mean_loss is not None:
        parts.append(f"mean loss {summary.mean_loss * 100:.3g} %")
    if summary.mean_bler is not None:
        parts.append(f"mean BLER {summary.mean_bler * 100:.3g} %")
    if summary.mean_sinr_db is not None:
        parts.append(f"mean SINR {summary.mean_sinr_db:.3g} dB")
    if summary.rate_window_ns is not None:
        parts.append(f"windows of {format_time(summary.rate_window_ns)}")
    return " · ".join(parts)
