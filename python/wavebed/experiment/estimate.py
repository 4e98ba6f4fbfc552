"""The estimate of the time left, from planned durations and then from measured ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Estimate"]


class Estimate:
    """The time left, scaled by the finished trials.

    Parameters
    ----------
    expected_s : sequence of float
        Expected duration of each trial, in order.
    """

    def __init__(self, expected_s: Sequence[float]) -> None:
        self._expected_s = list(expected_s)
        self._measured_s: list[float] = []

    def done(self, wall_s: float) -> None:
        """Add the duration of the next finished trial."""
        self._measured_s.append(wall_s)

    @property
    def left_s(self) -> float:
        """Seconds left at the start of the next trial."""
        finished = len(self._measured_s)
        expected = sum(self._expected_s[:finished])
        scale = sum(self._measured_s) / expected if expected else 1.0
        return sum(self._expected_s[finished:]) * scale
