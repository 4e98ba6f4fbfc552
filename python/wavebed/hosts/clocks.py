"""Offset of another machine's clock, with its error, from questions and answers.

A question leaves at `t1` and its answer arrives at `t4`, both of our clock; in between, the other machine read its
clock: `r1` when the question came, `r2` before the answer left. So its clock was at most `r1` at `t1` and at least
`r2` at `t4`, whatever the delays in the two directions were. No clock gains or loses more than `MOST_RATE` on ours, so
each bound holds at other times too, wider by that. All bounds together give the offset at a time, and an error that is
never exceeded.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left

__all__ = ["MOST_RATE", "ClockBounds", "ClockSteppedError"]

MOST_RATE = 600e-6
"""Linux slews a clock by 500 ppm at most (adjtimex(2)); an oscillator is off by less than 100 ppm."""


class ClockSteppedError(Exception):
    """No offset agrees with all answers: one of the clocks was set."""


class _Ceiling:
    """The lowest of many bounds from above at any time; each rises with the distance from its own time."""

    def __init__(self) -> None:
        self._bounds: list[tuple[int, float]] = []
        self._tight: list[tuple[int, float]] = []

    def add(self, at_ns: int, bound_ns: float) -> None:
        self._bounds.append((at_ns, bound_ns))
        self._tight = []

    def tight(self) -> list[tuple[int, float]]:
        """Return the time of each bound, and the lowest of all bounds at that time."""
        if not self._tight:
            ordered = sorted(self._bounds)
            self._tight = _swept(_swept(ordered)[::-1])[::-1]
        return self._tight

    def at(self, at_ns: int) -> float:
        tight = self.tight()
        place = bisect_left(tight, (at_ns, -math.inf))
        near = tight[max(0, place - 1) : place + 1]
        return min(bound_ns + MOST_RATE * abs(at_ns - then_ns) for then_ns, bound_ns in near)


def _swept(bounds: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return each bound or, if that is lower, the one before it at its time."""
    found: list[tuple[int, float]] = []
    for at_ns, bound_ns in bounds:
        if found:
            before_ns, lowest_ns = found[-1]
            bound_ns = min(bound_ns, lowest_ns + MOST_RATE * abs(at_ns - before_ns))  # noqa: PLW2901
        found.append((at_ns, bound_ns))
    return found


class ClockBounds:
    """Bounds of the offset of another machine's clock: its reading minus ours at the same moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._above = _Ceiling()
        self._below = _Ceiling()
        """Bounds from below, with the opposite sign."""
        self._is_consistent: bool | None = None
        """Whether the answers agree; ``None`` until it is asked after the last of them."""

    def add(self, asked_ns: int, read_ns: int, sent_ns: int, heard_ns: int) -> None:
        """Add an answer.

        Parameters
        ----------
        asked_ns, heard_ns : int
            When the question left and the answer came, of our clock.
        read_ns, sent_ns : int
            The other clock when the question had come, and before the answer left.
        """
        with self._lock:
            self._above.add(asked_ns, read_ns - asked_ns)
            self._below.add(heard_ns, heard_ns - sent_ns)
            self._is_consistent = None

    def at(self, at_ns: int) -> tuple[int, int]:
        """Return the offset at a time of our clock, and its error, nanoseconds; at least one answer was added.

        Raises
        ------
        ClockSteppedError
            If no offset agrees with all answers.
        """
        above, below = self._bounds(at_ns)
        if above < below:
            raise ClockSteppedError
        return round((above + below) / 2), math.ceil((above - below) / 2) + 1

    def middle(self, at_ns: int) -> int:
        """Return the offset at a time of our clock; between its bounds, even if they do not agree."""
        return round(sum(self._bounds(at_ns)) / 2)

    def _bounds(self, at_ns: int) -> tuple[float, float]:
        with self._lock:
            return self._above.at(at_ns), -self._below.at(at_ns)

    def is_consistent(self) -> bool:
        """Return whether some offset agrees with all answers."""
        with self._lock:
            if self._is_consistent is None:
                times = [at_ns for ceiling in (self._above, self._below) for at_ns, _ in ceiling.tight()]
                self._is_consistent = all(self._above.at(at_ns) >= -self._below.at(at_ns) for at_ns in times)
            return self._is_consistent
