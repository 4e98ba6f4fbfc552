"""Change the form of a series: steps to windows, opportunities to rates, rates to opportunities.

The arithmetic is exact: the bits of a window are counted in whole bit·nanoseconds and rounded once.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import Struct

from wavebed.errors import UserError
from wavebed.pattern.model import MAX_OPPORTUNITY_BYTES, MAX_RATE_BPS, STATES, Pattern, opportunities, steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.pattern.formats.base import WriteOptions
    from wavebed.pattern.model import Column, Integers


MAX_ROWS = 20_000_000
MAX_OPPORTUNITIES = 50_000_000
NS_PER_S = 10**9
NS_PER_MS = 10**6
_BLOCK = 1 << 16


def _cumulative(pattern: Pattern, rate_bps: NDArray[np.int64], times_ns: Sequence[int]) -> list[int]:
    """Bit·nanoseconds per second that these rates of steps deliver from 0 to each of the times."""
    starts = pattern.index.tolist()
    rates = rate_bps.tolist()
    done = [0, *accumulate(map(mul, rates, pattern.lengths().tolist()))]
    result = []
    for time in times_ns:
        row = bisect_right(starts, time) - 1
        result.append(done[row] + rates[row] * (time - starts[row]))
    return result


def window_edges(duration_ns: int, window_ns: int) -> list[int]:
    """Return the ends of the windows that cover the duration; the last may be short.

    Raises
    ------
    UserError
        If there would be too many.
    """
    _window_count(duration_ns, window_ns)
    return [*range(window_ns, duration_ns, window_ns), duration_ns]


def _window_count(duration_ns: int, window_ns: int) -> int:
    count = -(-duration_ns // window_ns)
    if count > MAX_ROWS:
        raise UserError(
            f"{count} windows are too many (at most {MAX_ROWS}); choose a longer --window, or cut the trace"
        )
    return count


def window_rates(pattern: Pattern, window_ns: int) -> Pattern:
    """Average the rate and the light rate over windows; opportunities count where they fall, at the end in the last.

    Raises
    ------
    UserError
        If the pattern has neither a rate nor opportunities, or there are too many windows.
    """
    if pattern.size_bytes is not None:
        return _opportunity_rates(pattern, pattern.size_bytes, window_ns)
    if pattern.rate_bps is None:
        raise UserError("the pattern has no rate")
    edges = window_edges(pattern.duration_ns, window_ns)
    light = pattern.light_rate_bps
    return steps(
        np.array([0, *edges[:-1]], dtype=np.int64),
        pattern.duration_ns,
        rate_bps=_averages(pattern, pattern.rate_bps, edges),
        light_rate_bps=None if light is None else _averages(pattern, light, edges),
        light_bytes=pattern.light_bytes,
        light_idle_ns=pattern.light_idle_ns,
    )


def _averages(pattern: Pattern, rate_bps: NDArray[np.int64], edges: list[int]) -> NDArray[np.int64]:
    starts = [0, *edges[:-1]]
    done = _cumulative(pattern, rate_bps, edges)
    scaled = [after - before for before, after in zip([0, *done[:-1]], done, strict=True)]
    rates = [_rounded(bits, end - start) for bits, start, end in zip(scaled, starts, edges, strict=True)]
    return np.array(rates, dtype=np.int64)


def _opportunity_rates(pattern: Pattern, size_bytes: NDArray[np.int64], window_ns: int) -> Pattern:
    duration = pattern.duration_ns
    count = _window_count(duration, window_ns)
    sums = np.zeros(count, dtype=np.int64)
    for start in range(0, len(pattern), _BLOCK):
        rows = slice(start, start + _BLOCK)
        np.add.at(sums, np.minimum(pattern.index[rows] // window_ns, count - 1), size_bytes[rows])
    starts = np.arange(count, dtype=np.int64) * window_ns
    for start in range(0, count, _BLOCK):
        windows = slice(start, start + _BLOCK)
        lengths = np.minimum(duration - starts[windows], window_ns).tolist()
        pairs = zip(sums[windows].tolist(), lengths, strict=True)
        sums[windows] = [_rounded(size * 8 * NS_PER_S, length) for size, length in pairs]
    return steps(starts, duration, rate_bps=sums)


def _rounded(bits_ns: int, length_ns: int) -> int:
    rate = (2 * bits_ns + length_ns) // (2 * length_ns)
    if rate > MAX_RATE_BPS:
        raise UserError("a window's rate is above 1000gbit; choose a longer --window")
    return rate


def rate_steps(pattern: Pattern, options: WriteOptions, default_window_ns: int = NS_PER_MS) -> Pattern:
    """Return the pattern as steps with a rate, for a format that can hold nothing else.

    Raises
    ------
    UserError
        If the pattern has no rate.
    """
    if pattern.kind == "packets" or (pattern.rate_bps is None and pattern.size_bytes is None):
        raise UserError("the pattern has no rate, and this format holds rates; write --to native")
    if pattern.kind == "steps":
        return pattern
    window_ns = options.window_ns or default_window_ns
    options.notes.append(f"opportunities become the average rate of windows of {window_ns / NS_PER_MS:g} ms")
    return window_rates(pattern, window_ns).merged()


def to_windows(pattern: Pattern, window_ns: int, options: WriteOptions, grid: str) -> Pattern:
    """Return steps whose edges all lie on a grid, averaging the rate and saying so where that changes it."""
    if bool((pattern.index % window_ns == 0).all()) and pattern.period % window_ns == 0:
        return pattern
    rounded = -(-pattern.period // window_ns) * window_ns
    if rounded != pattern.period:
        options.notes.append(f"the duration is rounded up to {rounded / NS_PER_S:g} s; the last rate is held")
    assert pattern.rate_bps is not None, "only patterns with a rate come here"
    pattern = steps(pattern.index, rounded, rate_bps=pattern.rate_bps)
    options.notes.append(f"the rate is averaged over {grid}")
    return window_rates(pattern, window_ns).merged()


def to_opportunities(pattern: Pattern, size_bytes: int) -> tuple[Pattern, int]:
    """Turn a rate into opportunities of one packet each, on whole milliseconds.

    An opportunity comes at the end of the millisecond in which the bytes for it have come together.

    Returns
    -------
    pattern : Pattern
        Opportunities; the last lies at the duration.
    added_bytes : int
        What had to be added at the end, because the last opportunity marks the period.
    """
    duration_ms = max(1, -(-pattern.duration_ns // NS_PER_MS))
    end = pattern.duration_ns
    edges = window_edges(end, NS_PER_MS) if pattern.kind == "steps" else []
    assert pattern.rate_bps is not None, "only patterns with a rate come here"
    done = _cumulative(pattern, pattern.rate_bps, edges)
    if done[-1] // (8 * NS_PER_S) > MAX_OPPORTUNITIES * size_bytes:
        raise UserError(f"the trace would have more than {MAX_OPPORTUNITIES} opportunities; cut it or scale its rate")
    counts = np.diff(np.array([bits // (8 * NS_PER_S * size_bytes) for bits in done], dtype=np.int64), prepend=0)
    added = 0
    if counts[-1] == 0:
        counts[-1] = 1
        added = size_bytes
    times = np.flatnonzero(counts).astype(np.int64)
    sizes: NDArray[np.int64] = (counts[times] * size_bytes).astype(np.int64)
    if sizes.max() > MAX_OPPORTUNITY_BYTES:
        raise UserError("the rate is too high for opportunities on whole milliseconds; scale it")
    return opportunities((times + 1) * NS_PER_MS, duration_ms * NS_PER_MS, sizes), added


MOST_ROWS = 5_000_000
STEP_NS = 10_000_000
"""Between the rows of a transition."""

CLEAR_SINR_MDB, CLEAR_NEED_MDB = 40_000, 10_000
"""Values of a part without block errors, beside parts with a SINR: no block fails."""

_LINEAR = ("rate_bps", "delay_ns", "loss", "bler", "sinr_mdb", "need_mdb")
_ABSENT: dict[str, float] = {
    "delay_ns": 0,
    "loss": 0.0,
    "bler": 0.0,
    "sinr_mdb": CLEAR_SINR_MDB,
    "need_mdb": CLEAR_NEED_MDB,
    "state": STATES.index("los"),
    "cell": 0,
}


class PatternPart(Struct, frozen=True):
    """A part of a sequence.

    Parameters
    ----------
    name : str
        For messages.
    pattern : Pattern
        Steps of the part's length.
    transition_ns : int
        At its beginning its values are reached from the last ones of the part before, evenly; 0: at once.
    """

    name: str
    pattern: Pattern
    transition_ns: int = 0


def part_of(pattern: Pattern, start_ns: int, length_ns: int, end: Literal["repeat", "hold"]) -> Pattern:
    """Return so much of steps from a time on; where they end they are repeated, or hold their last values.

    Raises
    ------
    UserError
        If it would have too many rows.
    """
    period = pattern.period
    if end == "hold":
        index, rows = pattern.index, np.arange(len(pattern))
        start_ns = min(start_ns, period - 1)
    else:
        start_ns %= period
        laps = -(-(start_ns + length_ns) // period)
        if laps * len(pattern) > MOST_ROWS:
            raise UserError(f"has more than {MOST_ROWS} rows: choose a shorter duration")
        index = (np.arange(laps, dtype=np.int64)[:, None] * period + pattern.index[None, :]).ravel()
        rows = np.tile(np.arange(len(pattern)), laps)
    first = int(np.searchsorted(index, start_ns, side="right")) - 1
    last = int(np.searchsorted(index, start_ns + length_ns, side="left"))
    return _rows(pattern, rows[first:last], np.maximum(index[first:last] - start_ns, 0), length_ns)


def _rows(pattern: Pattern, rows: NDArray[np.int64], index: Integers, period: int) -> Pattern:
    """Return these rows of a pattern, some perhaps several times, at these times."""
    found = {name: getattr(pattern, name) for name in (*_LINEAR, "state", "cell")}
    return steps(index, period, **{name: values[rows] for name, values in found.items() if values is not None})


def sequence(parts: Sequence[PatternPart]) -> Pattern:
    """Return steps with all parts one after another.

    Where a part lacks a value that another part has, it has no impairment: no delay, no loss, no block errors.

    Raises
    ------
    UserError
        If parts do not fit each other, or the rows are too many.
    """
    names = [
        name for name in (*_LINEAR, "state", "cell") if any(getattr(part.pattern, name) is not None for part in parts)
    ]
    _check(parts, names)
    if "sinr_mdb" in names and "bler" in names:
        names.remove("bler")  # the SINR decides where there are both
    offset = 0
    times: list[Integers] = []
    columns: dict[str, list[NDArray[np.float64]]] = {name: [] for name in names}
    last: dict[str, float] = {}
    for part in parts:
        values = {name: _values(part.pattern, name) for name in names}
        index = part.pattern.index
        if part.transition_ns and last:
            index, values = _with_transition(index, values, last, part.transition_ns)
        times.append(index + offset)
        for name in names:
            columns[name].append(values[name])
            last[name] = float(values[name][-1])
        offset += part.pattern.period
    index = np.concatenate(times)
    if len(index) > MOST_ROWS:
        raise UserError(f"has {len(index)} rows, at most {MOST_ROWS} are possible: choose shorter durations")
    typed: dict[str, Any] = {name: _typed(name, np.concatenate(columns[name])) for name in names}
    return steps(index, offset, **typed).merged()


def _check(parts: Sequence[PatternPart], names: Sequence[str]) -> None:
    of_sinr = [part.name for part in parts if part.pattern.sinr_mdb is not None]
    of_bler = [part.name for part in parts if part.pattern.bler is not None and part.pattern.sinr_mdb is None]
    if of_bler and of_sinr:
        raise UserError(f"{of_bler[0]!r} has block errors by bler, {of_sinr[0]!r} by SINR: leave one out")
    if "rate_bps" in names:
        for part in parts:
            if part.pattern.rate_bps is None:
                raise UserError(f"{part.name!r} has no rate, others have: add rate, trace or scene")


def _values(pattern: Pattern, name: str) -> NDArray[np.float64]:
    given = getattr(pattern, name)
    if given is None:
        return np.full(len(pattern), _ABSENT[name])
    found: NDArray[np.float64] = given.astype(np.float64)
    return found


def _with_transition(
    index: Integers, values: dict[str, NDArray[np.float64]], last: dict[str, float], length_ns: int
) -> tuple[Integers, dict[str, NDArray[np.float64]]]:
    """Return the rows with those between the last values and these."""
    inner = index[index < length_ns]
    grid = np.arange(0, length_ns, STEP_NS, dtype=np.int64)
    times = np.unique(np.concatenate((grid, inner, index, np.array([length_ns]))))
    rows = np.searchsorted(index, times, side="right") - 1
    share = np.minimum(times / length_ns, 1.0)
    found = {name: column[rows] for name, column in values.items()}
    for name in _LINEAR:
        if name in found:
            found[name] = (1 - share) * last[name] + share * found[name]
    return times, found


def _typed(name: str, values: NDArray[np.float64]) -> Column:
    if name in ("loss", "bler"):
        return values
    return np.rint(values).astype(np.uint8) if name == "state" else np.rint(values).astype(np.int64)
