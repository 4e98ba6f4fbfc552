"""A pattern in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
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

__all__ = ["STATES", "Kind", "Pattern", "opportunities", "packets", "steps"]

#: States of the radio; a code in the column `state` is a place in this row.
STATES = ("los", "nlos", "blocked", "outage", "handover", "fallback")

MAX_NS = 10**18
MAX_RATE_BPS = 10**12
MAX_PACKETS = 10**12
MAX_OPPORTUNITY_BYTES = 10**9
MAX_MDB = 100_000
MAX_LIGHT_BYTES = 10**9
_BLOCK = 1 << 16
_VALUES = (
    *("rate_bps", "delay_ns", "loss", "bler", "sinr_mdb", "need_mdb", "state"),
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
    fallback_rate_bps, fallback_sinr_mdb, fallback_need_mdb : int64 array, optional
        Those of the fallback carrier at all times, for a split bearer; the latter two both or neither, beside its rate.
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
        fallback_rate_bps=fallback_rate_bps,
        fallback_sinr_mdb=fallback_sinr_mdb,
        fallback_need_mdb=fallback_need_mdb,
        light_rate_bps=light_rate_bps,
        light_bytes=light_bytes,
        light_idle_ns=light_idle_ns,
    )


def opportunities(time_ns: Integers, duration_ns: int, size_bytes: Integers) -> Pattern:
    """Make a pattern of moments at which the link may deliver so many bytes."""
    return Pattern("opportunities", time_ns, duration_ns, size_bytes=size_bytes)


def packets(index: Integers, count: int, *, loss: Floats | None = None, delay_ns: Integers | None = None) -> Pattern:
    """Make a pattern over the index of the wire segment."""
    return Pattern("packets", index, count, loss=loss, delay_ns=delay_ns)
