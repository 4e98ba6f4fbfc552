"""Cut and scale patterns, exactly."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from wavebed.errors import UserError
from wavebed.pattern.model import MAX_NS, MAX_OPPORTUNITY_BYTES, MAX_RATE_BPS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.pattern.model import Pattern

__all__ = ["cut", "scale_rate", "scale_time", "scale_to_mean"]


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
