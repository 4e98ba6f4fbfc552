"""The figures of ``wavebed trace info``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wavebed.pattern.model import STATES
from wavebed.pattern.resample import window_rates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.pattern.model import Pattern

__all__ = [
    "PERCENTILES",
    "Outages",
    "Summary",
    "opportunity_window_ns",
    "outages",
    "state_spans",
    "summarise",
    "weighted_percentiles",
]

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
class Summary:
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


def summarise(pattern: Pattern, threshold_bps: int = 0, window_ns: int | None = None) -> Summary:
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
    return Summary(
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
