"""A pattern in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from operator import mul
from typing import TYPE_CHECKING, Literal

import numpy as np

from wavebed.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Codes = NDArray[np.uint8]
    Column = Integers | Floats | Codes

Kind = Literal["steps", "opportunities", "packets"]


#: States of the radio; a code in the column `state` is a place in this row.
STATES = ("los", "nlos", "blocked", "outage", "handover", "fallback")

MAX_NS = 10**18
MAX_RATE_BPS = 10**12
MAX_PACKETS = 10**12
MAX_OPPORTUNITY_BYTES = 10**9
MAX_MDB = 100_000
MAX_CELL = 999
MAX_LIGHT_BYTES = 10**9
_BLOCK = 1 << 16
_VALUES = (
    *("rate_bps", "delay_ns", "loss", "bler", "sinr_mdb", "need_mdb", "state", "cell"),
    *("fallback_rate_bps", "fallback_sinr_mdb", "fallback_need_mdb", "light_rate_bps", "size_bytes"),
)


@dataclass(frozen=True, eq=False)
class Pattern:
    """The time series that drives a link; the columns follow ``docs/reference/pattern-format.md``.

    Parameters
    ----------
    kind : {"steps", "opportunities", "packets"}
        The unit of ``index``, and how long a row holds.
    index : int64 array
        Time in nanoseconds, or the index of a wire segment for ``packets``.
    period : int
        Duration in nanoseconds, or number of packets for ``packets``.
    rate_bps, delay_ns : int64 array, optional
        Bits of IP packets per second; one-way delay in nanoseconds.
    loss : float64 array, optional
        Probability from 0 to 1.
    bler : float64 array, optional
        Fraction of first transmissions of a block that fail, from 0 to 1; only beside a rate.
    sinr_mdb, need_mdb : int64 array, optional
        Thousandths of a decibel: effective SINR of the data, and the SINR at which one first transmission in ten of a
        full block fails; both or neither, and only beside a rate.
    state : uint8 array, optional
        State of the radio, as its place in `STATES`.
    cell : int64 array, optional
        Index of the serving base station; only beside a rate.
    fallback_rate_bps, fallback_sinr_mdb, fallback_need_mdb : int64 array, optional
        The same values of the fallback carrier at all times, for a split bearer; the latter two both or neither, beside
        its rate.
    light_rate_bps : int64 array, optional
        Rate of the first bytes after an idle time; only beside a rate and with the next two.
    light_bytes, light_idle_ns : int, optional
        The number of these bytes, and the shortest idle time before them.
    size_bytes : int64 array, optional
        IP bytes that an opportunity may deliver.
    header : tuple of (str, str)
        Further header lines, such as title and source, in order.

    Raises
    ------
    UserError
        If the rows break a rule of the format.
    """

    kind: Kind
    index: Integers
    period: int
    rate_bps: Integers | None = None
    delay_ns: Integers | None = None
    loss: Floats | None = None
    bler: Floats | None = None
    sinr_mdb: Integers | None = None
    need_mdb: Integers | None = None
    state: Codes | None = None
    cell: Integers | None = None
    fallback_rate_bps: Integers | None = None
    fallback_sinr_mdb: Integers | None = None
    fallback_need_mdb: Integers | None = None
    light_rate_bps: Integers | None = None
    light_bytes: int | None = None
    light_idle_ns: int | None = None
    size_bytes: Integers | None = None
    header: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem is not None:
            row, message = problem
            raise UserError(f"row {row + 1}: {message}" if row >= 0 else message)
        for array in self._columns():
            if array is not None:
                array.setflags(write=False)

    def _problem(self) -> tuple[int, str] | None:
        if len(self.index) == 0:
            return -1, "a pattern has at least one row"
        most = MAX_PACKETS if self.kind == "packets" else MAX_NS
        if not 0 < self.period <= most:
            return -1, f"the period {self.period} is not between 1 and {most}"
        if self.bler is not None and self.rate_bps is None:
            return -1, "bler stands without rate_bps; a block error rate belongs to a rate"
        if self.cell is not None and self.rate_bps is None:
            return -1, "cell stands without rate_bps; a base station serves by a rate"
        if (self.sinr_mdb is None) != (self.need_mdb is None):
            return -1, "sinr_db and need_db stand together or not at all"
        if self.sinr_mdb is not None and self.rate_bps is None:
            return -1, "sinr_db stands without rate_bps; a SINR belongs to a rate"
        if self.fallback_rate_bps is not None and self.rate_bps is None:
            return -1, "fallback_rate_bps stands without rate_bps; a fallback carrier is beside another"
        if (self.fallback_sinr_mdb is None) != (self.fallback_need_mdb is None):
            return -1, "fallback_sinr_db and fallback_need_db stand together or not at all"
        if self.fallback_sinr_mdb is not None and self.fallback_rate_bps is None:
            return -1, "fallback_sinr_db stands without fallback_rate_bps; a SINR belongs to a rate"
        return self._light_problem() or self._order_problem() or self._range_problem()

    def _light_problem(self) -> tuple[int, str] | None:
        parts = (self.light_rate_bps, self.light_bytes, self.light_idle_ns)
        if all(part is None for part in parts):
            return None
        if self.rate_bps is None or self.light_bytes is None or self.light_idle_ns is None or parts[0] is None:
            return -1, "light_rate_bps, light_bytes and light_idle_ns stand together beside rate_bps or not at all"
        if not 0 < self.light_bytes <= MAX_LIGHT_BYTES:
            return -1, f"light_bytes {self.light_bytes} is not from 1 to {MAX_LIGHT_BYTES}"
        if not 0 < self.light_idle_ns <= MAX_NS:
            return -1, f"light_idle_ns {self.light_idle_ns} is not from 1 to {MAX_NS}"
        return None

    def _order_problem(self) -> tuple[int, str] | None:
        gaps = np.diff(self.index)
        if self.kind == "opportunities":
            bad = np.flatnonzero(gaps < 0)
            if len(bad):
                return int(bad[0]) + 1, "the time goes back; times must not decrease"
            if self.index[-1] > self.period:
                return len(self.index) - 1, "the time is past the duration"
        else:
            if self.index[0] != 0:
                return 0, "the first row must be at 0"
            bad = np.flatnonzero(gaps <= 0)
            if len(bad):
                return int(bad[0]) + 1, "rows must be in strictly increasing order"
            if self.index[-1] >= self.period:
                return len(self.index) - 1, "the row is at or past the end of the period"
        if self.index[0] < 0:
            return 0, "the time is negative"
        return None

    def _range_problem(self) -> tuple[int, str] | None:
        limits: tuple[tuple[str, Column | None, int, int], ...] = (
            ("rate_bps", self.rate_bps, 0, MAX_RATE_BPS),
            ("delay_ns", self.delay_ns, 0, MAX_NS),
            ("loss", self.loss, 0, 1),
            ("bler", self.bler, 0, 1),
            ("sinr_mdb", self.sinr_mdb, -MAX_MDB, MAX_MDB),
            ("need_mdb", self.need_mdb, -MAX_MDB, MAX_MDB),
            ("state", self.state, 0, len(STATES) - 1),
            ("cell", self.cell, 0, MAX_CELL),
            ("fallback_rate_bps", self.fallback_rate_bps, 0, MAX_RATE_BPS),
            ("fallback_sinr_mdb", self.fallback_sinr_mdb, -MAX_MDB, MAX_MDB),
            ("fallback_need_mdb", self.fallback_need_mdb, -MAX_MDB, MAX_MDB),
            ("light_rate_bps", self.light_rate_bps, 0, MAX_RATE_BPS),
            ("bytes", self.size_bytes, 1, MAX_OPPORTUNITY_BYTES),
        )
        for name, values, least, most in limits:
            if values is None:
                continue
            if len(values) != len(self.index):
                return -1, f"{name} has {len(values)} values for {len(self.index)} rows"
            bad = np.flatnonzero(~((values >= least) & (values <= most)))
            if len(bad):
                return int(bad[0]), f"{name} {values[bad[0]]} is not from {least} to {most}"
        return None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.index)

    def __eq__(self, other: object) -> bool:
        """Compare all columns and header lines."""
        if not isinstance(other, Pattern):
            return NotImplemented
        return self.header == other.header and self.same_series(other)

    __hash__ = None  # type: ignore[assignment]

    def same_series(self, other: Pattern) -> bool:
        """Tell whether the other pattern has the same rows and period, whatever its header says."""
        if (self.kind, self.period) != (other.kind, other.period):
            return False
        if (self.light_bytes, self.light_idle_ns) != (other.light_bytes, other.light_idle_ns):
            return False
        for mine, theirs in zip(self._columns(), other._columns(), strict=True):
            if (mine is None) != (theirs is None):
                return False
            if mine is not None and theirs is not None and not np.array_equal(mine, theirs):
                return False
        return True

    def _columns(self) -> tuple[Column | None, ...]:
        return (self.index, *(getattr(self, name) for name in _VALUES))

    @property
    def duration_ns(self) -> int:
        """The period in nanoseconds.

        Raises
        ------
        UserError
            If the pattern counts packets.
        """
        if self.kind == "packets":
            raise UserError("a pattern over packets has no duration")
        return self.period

    def lengths(self) -> Integers:
        """How long each row of steps (ns) or packets (segments) holds."""
        return np.diff(self.index, append=np.int64(self.period))

    def bit_ns(self) -> int:
        """Bits that the whole period may deliver, times 10⁹, so that the figure is exact.

        Raises
        ------
        UserError
            If the pattern has no rate.
        """
        if self.size_bytes is not None:
            return int(self.size_bytes.sum()) * 8 * 10**9
        if self.rate_bps is None:
            raise UserError("the pattern has no rate")
        lengths = self.lengths()
        # In blocks: a number of Python's takes five times the memory of an array's.
        return sum(
            sum(map(mul, self.rate_bps[start : start + _BLOCK].tolist(), lengths[start : start + _BLOCK].tolist()))
            for start in range(0, len(self), _BLOCK)
        )

    def total_bits(self) -> int:
        """Bits that the whole period may deliver, rounded down."""
        return self.bit_ns() // 10**9

    def merged(self) -> Pattern:
        """Return the same series with equal neighbouring steps made one."""
        if self.kind == "opportunities" or len(self) == 1:
            return self
        change = np.zeros(len(self) - 1, dtype=bool)
        for column in self._columns()[1:]:
            if column is not None:
                change |= column[1:] != column[:-1]
        return self.rows(np.concatenate(([True], change)))

    def rows(self, keep: NDArray[np.bool_], *, index: Integers | None = None, period: int | None = None) -> Pattern:
        """Return the pattern with only the rows that are kept, if wanted with another index and period."""
        values = {name: getattr(self, name) for name in _VALUES}
        return replace(
            self,
            index=self.index[keep] if index is None else index,
            period=self.period if period is None else period,
            **{name: column[keep] for name, column in values.items() if column is not None},
        )


def steps(
    time_ns: Integers,
    duration_ns: int,
    *,
    rate_bps: Integers | None = None,
    delay_ns: Integers | None = None,
    loss: Floats | None = None,
    bler: Floats | None = None,
    sinr_mdb: Integers | None = None,
    need_mdb: Integers | None = None,
    state: Codes | None = None,
    cell: Integers | None = None,
    fallback_rate_bps: Integers | None = None,
    fallback_sinr_mdb: Integers | None = None,
    fallback_need_mdb: Integers | None = None,
    light_rate_bps: Integers | None = None,
    light_bytes: int | None = None,
    light_idle_ns: int | None = None,
) -> Pattern:
    """Make a pattern whose values hold from their time to the next row's time."""
    return Pattern(
        "steps",
        time_ns,
        duration_ns,
        rate_bps=rate_bps,
        delay_ns=delay_ns,
        loss=loss,
        bler=bler,
        sinr_mdb=sinr_mdb,
        need_mdb=need_mdb,
        state=state,
        cell=cell,
        fallback_rate_bps=fallback_rate_bps,
        fallback_sinr_mdb=fallback_sinr_mdb,
        fallback_need_mdb=fallback_need_mdb,
        light_rate_bps=light_rate_bps,
        light_bytes=light_bytes,
        light_idle_ns=light_idle_ns,
    )


def opportunities(time_ns: Integers, duration_ns: int, size_bytes: Integers) -> Pattern:
    """Make a pattern of moments at which the link may deliver `size_bytes`."""
    return Pattern("opportunities", time_ns, duration_ns, size_bytes=size_bytes)


def packets(index: Integers, count: int, *, loss: Floats | None = None, delay_ns: Integers | None = None) -> Pattern:
    """Make a pattern over the index of the wire segment."""
    return Pattern("packets", index, count, loss=loss, delay_ns=delay_ns)


def cut(pattern: Pattern, start: int, end: int | None = None) -> Pattern:
    """Return the part from ``start`` to ``end``, its time beginning at 0.

    Parameters
    ----------
    start, end : int
        Nanoseconds, or packets for a pattern over packets; to the end of the pattern by default.

    Raises
    ------
    UserError
        If the part is empty or reaches past the end.
    """
    end = pattern.period if end is None else end
    if not 0 <= start < end <= pattern.period:
        raise UserError(
            f"the part from {_place(pattern, start)} to {_place(pattern, end)} is not within the pattern, "
            f"which ends at {_place(pattern, pattern.period)}; choose --from before --to and both within it"
        )
    if pattern.kind == "opportunities":
        at_end = pattern.index <= end if end == pattern.period else pattern.index < end
        keep = (pattern.index >= start) & at_end
        if not keep.any():
            raise UserError("the part has no opportunities; choose a longer one")
    else:
        first = int(np.searchsorted(pattern.index, start, side="right")) - 1
        keep = (np.arange(len(pattern)) >= first) & (pattern.index < end)
    return pattern.rows(keep, index=np.maximum(pattern.index[keep] - start, 0), period=end - start)


def _place(pattern: Pattern, value: int) -> str:
    return f"packet {value}" if pattern.kind == "packets" else f"{value / 10**9:g} s"


def scale_rate(pattern: Pattern, factor: Fraction) -> Pattern:
    """Multiply all rates; opportunities keep their times and carry fractions of a byte on.

    Raises
    ------
    UserError
        If the pattern has no rate or the result is out of range.
    """
    if factor < 0:
        raise UserError("a rate is scaled by 0 or more")
    if pattern.rate_bps is not None:
        fallback, light = (
            None if other is None else _scaled(other, factor)
            for other in (pattern.fallback_rate_bps, pattern.light_rate_bps)
        )
        rates = _scaled(pattern.rate_bps, factor)
        return replace(pattern, rate_bps=rates, fallback_rate_bps=fallback, light_rate_bps=light)
    if pattern.size_bytes is None:
        raise UserError("the pattern has no rate to scale")
    done = [int(total * factor) for total in np.cumsum(pattern.size_bytes).tolist()]
    sizes = [after - before for before, after in zip([0, *done[:-1]], done, strict=True)]
    if max(sizes) > MAX_OPPORTUNITY_BYTES:
        raise UserError(f"a scaled opportunity is above {MAX_OPPORTUNITY_BYTES} bytes; choose a smaller factor")
    scaled = np.array(sizes, dtype=np.int64)
    if not scaled.any():
        raise UserError("no opportunity is left; choose a larger factor")
    keep = scaled > 0
    return replace(pattern, index=pattern.index[keep], size_bytes=scaled[keep])


def _scaled(rate_bps: NDArray[np.int64], factor: Fraction) -> NDArray[np.int64]:
    rates = [_nearest(rate * factor) for rate in rate_bps.tolist()]
    if max(rates) > MAX_RATE_BPS:
        raise UserError("the scaled rate is above 1000gbit; choose a smaller factor")
    return np.array(rates, dtype=np.int64)


def scale_to_mean(pattern: Pattern, mean_bps: int) -> Pattern:
    """Multiply the rate so that its mean over the duration is as asked.

    Raises
    ------
    UserError
        If the pattern has no rate, or its mean is 0.
    """
    bit_ns = pattern.bit_ns()
    if bit_ns == 0:
        raise UserError("the mean rate is 0 and cannot be scaled to another")
    return scale_rate(pattern, Fraction(mean_bps * pattern.duration_ns, bit_ns))


def scale_time(pattern: Pattern, factor: Fraction) -> Pattern:
    """Stretch the time of a pattern; rates and bytes stay, rows that fall together are refused.

    Raises
    ------
    UserError
        If the pattern counts packets or the result is out of range.
    """
    if pattern.kind == "packets":
        raise UserError("the pattern counts packets and has no time to scale")
    period = _nearest(pattern.period * factor)
    if not 0 < period <= MAX_NS:
        raise UserError("the scaled duration is not between 1 ns and 1000000000 s; choose another --time")
    index = np.array([_nearest(time * factor) for time in pattern.index.tolist()], dtype=np.int64)
    if pattern.kind == "steps" and ((np.diff(index) <= 0).any() or index[-1] >= period):
        raise UserError("two rows fall on one nanosecond; choose a larger --time")
    return replace(pattern, index=index, period=period)


def _nearest(value: Fraction) -> int:
    return (2 * value.numerator + value.denominator) // (2 * value.denominator)
