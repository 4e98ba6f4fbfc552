"""The estimate of the time left, from planned durations and then from measured ones."""

from __future__ import annotations

import itertools
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
        self._until_s = [0.0, *itertools.accumulate(self._expected_s)]
        self._measured_s: dict[int, float] = {}
        self._expected_of_measured_s = self._sum_measured_s = 0.0
        self._last = 0

    def done(self, number: int, wall_s: float) -> None:
        """Add the duration of a finished trial."""
        if number not in self._measured_s:
            self._expected_of_measured_s += self._expected_s[number - 1]
        self._sum_measured_s += wall_s - self._measured_s.get(number, 0.0)
        self._measured_s[number] = wall_s
        self._last = max(self._last, number)

    @property
    def left_s(self) -> float:
        """Seconds left at the start of the next trial; a trial that was left out takes no time."""
        expected_s = self._expected_of_measured_s
        scale = self._sum_measured_s / expected_s if expected_s else 1.0
        return max((self._until_s[-1] - self._until_s[self._last]) * scale, 0.0)
