"""How long the rest of an experiment takes: as planned at first, as measured later."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Estimate"]


class Estimate:
    """The time that is left, by the trials that have ended; they are known by their numbers, from 1.

    Parameters
    ----------
    expected_s : sequence of float
        How long each trial is expected to take, in the order in which they run.
    """

    def __init__(self, expected_s: Sequence[float]) -> None:
        self._expected_s = list(expected_s)
        self._measured_s: dict[int, float] = {}

    def done(self, number: int, wall_s: float) -> None:
        """Take note of how long a trial took."""
        self._measured_s[number] = wall_s

    @property
    def left_s(self) -> float:
        """Seconds left when the next trial begins; one that was left out takes no time."""
        expected = sum(self._expected_s[number - 1] for number in self._measured_s)
        scale = sum(self._measured_s.values()) / expected if expected else 1.0
        return sum(self._expected_s[max(self._measured_s, default=0) :]) * scale
