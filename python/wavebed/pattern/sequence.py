"""One pattern of several, one after another, with transitions between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import Struct

from wavebed.errors import UserError
from wavebed.pattern.model import STATES, Pattern, steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.pattern.model import Column, Integers

__all__ = ["MOST_ROWS", "Part", "part_of", "sequence"]

MOST_ROWS = 5_000_000
STEP_NS = 10_000_000
"""Between the rows of a transition."""

CLEAR_SINR_MDB, CLEAR_NEED_MDB = 40_000, 10_000
"""Those of a part without block errors, beside parts with a SINR: no block fails."""

_LINEAR = ("rate_bps", "delay_ns", "loss", "bler", "sinr_mdb", "need_mdb")
_ABSENT: dict[str, float] = {
    "delay_ns": 0,
    "loss": 0.0,
    "bler": 0.0,
    "sinr_mdb": CLEAR_SINR_MDB,
    "need_mdb": CLEAR_NEED_MDB,
    "state": STATES.index("los"),
}


class Part(Struct, frozen=True):
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
    found = {name: getattr(pattern, name) for name in (*_LINEAR, "state")}
    return steps(index, period, **{name: values[rows] for name, values in found.items() if values is not None})


def sequence(parts: Sequence[Part]) -> Pattern:
    """Return steps with all parts one after another.

    A value that one part has and another has not is that of no impairment there: no delay, no loss, no block errors.

    Raises
    ------
    UserError
        If parts do not fit each other, or the rows are too many.
    """
    names = [name for name in (*_LINEAR, "state") if any(getattr(part.pattern, name) is not None for part in parts)]
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


def _check(parts: Sequence[Part], names: Sequence[str]) -> None:
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
