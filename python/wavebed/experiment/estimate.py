"""The estimate of the time left, from planned durations and then from measured ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Estimate"]


class Estimate:
    """The time left, scaled by the finished trials; trials are numbered from 1.

    Parameters
    ----------
    expected_s : sequence of float
        Expected duration of each trial, in order.
    """

    def __init__(self, expected_s: Sequence[float]) -> None:
        self._expected_s = list(expected_s)
        self._measured_s: dict[int, float] = {}

    def done(self, number: int, wall_s: float) -> None:
        """Add the duration of a finished trial."""
        self._measured_s[number] = wall_s

    @property
    def left_s(self) -> float:
        """Seconds left at the start of the next trial; a trial that was left out takes no time."""
        expected = sum(self._expected_s[number - 1] for number in self._measured_s)
        scale = sum(self._measured_s.values()) / expected if expected else 1.0
        return sum(self._expected_s[max(self._measured_s, default=0) :]) * scale
