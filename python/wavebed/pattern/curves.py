"""The figures of ``wavebed trace info``."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from wavebed.config.units import format_time
from wavebed.errors import UserError
from wavebed.pattern.model import STATES
from wavebed.pattern.resample import window_rates
from wavebed.pattern.source import format_scaled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.pattern.model import Pattern


PERCENTILES = (5, 25, 50, 75, 95)
OPPORTUNITY_WINDOW_NS = 100_000_000
_BLOCK = 1 << 20
_MOST_WINDOWS = 1_000_000


@dataclass(frozen=True, eq=False)
class Outages:
    """The times at which the rate is at or below a threshold; neighbours count as one.

    Parameters
    ----------
    threshold_bps : int
        A rate of this much or less is an outage.
    spans_ns : int64 array
        A row for each: start and end.
    """

    threshold_bps: int
    spans_ns: NDArray[np.int64]

    @property
    def total_ns(self) -> int:
        """Their summed length."""
        return int((self.spans_ns[:, 1] - self.spans_ns[:, 0]).sum())

    @property
    def longest_ns(self) -> int:
        """The length of the longest, 0 if there is none."""
        return int((self.spans_ns[:, 1] - self.spans_ns[:, 0]).max(initial=0))


@dataclass(frozen=True)
class PatternSummary:
    """The figures of one pattern.

    Parameters
    ----------
    rate_window_ns : int or None
        The windows in which opportunities were counted for the percentiles, peak and outages; None for steps.
    mean_bps : float or None
        Over the whole duration; None without a rate.
    rate_percentiles_bps, delay_percentiles_ns, loss_percentiles, bler_percentiles : dict of int to float
        Weighted by time (or by packets); None without that column.
    sinr_percentiles_db, need_percentiles_db : dict of int to float
        The same of the SINR and of the SINR that the MCS needs.
    mean_light_bps, light_percentiles_bps : float, dict of int to float
        The same of the light rate, with its bytes and the idle time before them.
    state_fractions : dict of str to float
        Fraction of time in each state of the radio that occurs; None without that column.
    """

    kind: str
    rows: int
    period: int
    rate_window_ns: int | None = None
    mean_bps: float | None = None
    peak_bps: int | None = None
    rate_percentiles_bps: dict[int, float] | None = None
    outages: Outages | None = None
    mean_delay_ns: float | None = None
    delay_percentiles_ns: dict[int, float] | None = None
    mean_loss: float | None = None
    loss_percentiles: dict[int, float] | None = None
    mean_bler: float | None = None
    bler_percentiles: dict[int, float] | None = None
    mean_sinr_db: float | None = None
    sinr_percentiles_db: dict[int, float] | None = None
    mean_need_db: float | None = None
    need_percentiles_db: dict[int, float] | None = None
    mean_light_bps: float | None = None
    light_percentiles_bps: dict[int, float] | None = None
    light_bytes: int | None = None
    light_idle_ns: int | None = None
    state_fractions: dict[str, float] | None = None


def weighted_percentiles(
    values: NDArray[np.int64] | NDArray[np.float64], weights: NDArray[np.int64]
) -> dict[int, float]:
    """Return for each percentile the least value that holds for at least that fraction of the weight."""
    # Half the memory for as many rows as a file can have.
    order = np.argsort(values).astype(np.int32)
    done = weights[order]
    np.cumsum(done, out=done)
    total = int(done[-1])
    result = {}
    for percentile in PERCENTILES:
        place = int(np.searchsorted(done, -(-total * percentile // 100), side="left"))
        result[percentile] = values[order[place]].item()
    return result


def outages(pattern: Pattern, threshold_bps: int) -> Outages:
    """Find where the rate of steps is at or below the threshold."""
    assert pattern.rate_bps is not None, "the caller has checked for a rate"
    out = np.concatenate(([False], pattern.rate_bps <= threshold_bps, [False])).astype(np.int8)
    edges = np.diff(out)
    places = np.column_stack((np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)))
    # What stands at the end of all rows is the end of the pattern.
    last = len(pattern.index) - 1
    return Outages(threshold_bps, np.where(places > last, pattern.period, pattern.index[np.minimum(places, last)]))


def _mean(values: NDArray[np.int64] | NDArray[np.float64], weights: NDArray[np.int64], period: int) -> float:
    blocks = (slice(start, start + _BLOCK) for start in range(0, len(values), _BLOCK))
    return math.fsum(float(np.dot(values[block].astype(np.float64), weights[block])) for block in blocks) / period


def _state_fractions(pattern: Pattern) -> dict[str, float] | None:
    if pattern.state is None:
        return None
    times = np.bincount(pattern.state, weights=pattern.lengths().astype(np.float64), minlength=len(STATES))
    return {name: time / pattern.period for name, time in zip(STATES, times.tolist(), strict=True) if time}


def state_spans(pattern: Pattern) -> dict[str, list[tuple[int, int]]]:
    """Start and end, in nanoseconds, of each time that the radio spends in one state, by state."""
    if pattern.state is None:
        return {}
    first = np.concatenate(([0], np.flatnonzero(pattern.state[1:] != pattern.state[:-1]) + 1))
    bounds = np.append(pattern.index[first], pattern.period).tolist()
    spans: dict[str, list[tuple[int, int]]] = {}
    for code, start, end in zip(pattern.state[first].tolist(), bounds[:-1], bounds[1:], strict=True):
        spans.setdefault(STATES[code], []).append((start, end))
    return {name: spans[name] for name in STATES if name in spans}


def opportunity_window_ns(pattern: Pattern, least_ns: int = OPPORTUNITY_WINDOW_NS) -> int:
    """Return the window in which opportunities are counted, nanoseconds: a multiple of 100 ms.

    It is at least twice the usual time between opportunities, so that a slow steady link has no empty windows. Not
    too many windows cover the pattern, however few rows it has.
    """
    least_ns = max(least_ns, -(-pattern.period // _MOST_WINDOWS))
    # A median is at most twice the mean: of dense opportunities it need not be computed.
    if 4 * pattern.period > least_ns * len(pattern):
        apart = np.diff(pattern.index)
        apart = apart[apart > 0]
        if len(apart) > 2:
            least_ns = max(least_ns, 2 * int(np.median(apart)))
    return -(-least_ns // OPPORTUNITY_WINDOW_NS) * OPPORTUNITY_WINDOW_NS


def summarise(pattern: Pattern, threshold_bps: int = 0, window_ns: int | None = None) -> PatternSummary:
    """Compute the figures.

    Parameters
    ----------
    threshold_bps : int
        A rate of this much or less is an outage.
    window_ns : int, optional
        Windows in which opportunities are counted, nanoseconds; `opportunity_window_ns` by default.
    """
    rated: Pattern | None = None
    used_window: int | None = None
    if pattern.kind == "opportunities":
        used_window = window_ns or opportunity_window_ns(pattern)
        rated = window_rates(pattern, used_window)
    elif pattern.rate_bps is not None:
        rated = pattern
    weights = None if pattern.kind == "opportunities" else pattern.lengths()
    delay, loss, bler = pattern.delay_ns, pattern.loss, pattern.bler
    sinr, need = (None if column is None else column / 1000 for column in (pattern.sinr_mdb, pattern.need_mdb))
    light = pattern.light_rate_bps
    rate = None if rated is None else rated.rate_bps
    return PatternSummary(
        kind=pattern.kind,
        rows=len(pattern),
        period=pattern.period,
        rate_window_ns=used_window,
        mean_bps=None if rated is None else pattern.bit_ns() / pattern.period,
        peak_bps=None if rate is None else int(rate.max()),
        rate_percentiles_bps=None if rated is None or rate is None else weighted_percentiles(rate, rated.lengths()),
        outages=None if rated is None else outages(rated, threshold_bps),
        mean_delay_ns=None if delay is None or weights is None else _mean(delay, weights, pattern.period),
        delay_percentiles_ns=None if delay is None or weights is None else weighted_percentiles(delay, weights),
        mean_loss=None if loss is None or weights is None else _mean(loss, weights, pattern.period),
        loss_percentiles=None if loss is None or weights is None else weighted_percentiles(loss, weights),
        mean_bler=None if bler is None or weights is None else _mean(bler, weights, pattern.period),
        bler_percentiles=None if bler is None or weights is None else weighted_percentiles(bler, weights),
        mean_sinr_db=None if sinr is None or weights is None else _mean(sinr, weights, pattern.period),
        sinr_percentiles_db=None if sinr is None or weights is None else weighted_percentiles(sinr, weights),
        mean_need_db=None if need is None or weights is None else _mean(need, weights, pattern.period),
        need_percentiles_db=None if need is None or weights is None else weighted_percentiles(need, weights),
        mean_light_bps=None if light is None or weights is None else _mean(light, weights, pattern.period),
        light_percentiles_bps=None if light is None or weights is None else weighted_percentiles(light, weights),
        light_bytes=pattern.light_bytes,
        light_idle_ns=pattern.light_idle_ns,
        state_fractions=_state_fractions(pattern),
    )


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
    summary: PatternSummary
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
