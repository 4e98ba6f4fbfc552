"""How long the rest of an experiment takes: as planned at first, as measured later."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Estimate"]


class Estimate:
    """The time that is left, by the trials that have ended.

    Parameters
    ----------
    expected_s : sequence of float
        How long each trial is expected to take, in the order in which they run.
    """

    def __init__(self, expected_s: Sequence[float]) -> None:
        self._expected_s = list(expected_s)
        self._measured_s: list[float] = []

    def done(self, wall_s: float) -> None:
        """Take note of how long the next trial took."""
        self._measured_s.append(wall_s)

    @property
    def left_s(self) -> float:
        """Seconds left when the next trial begins."""
        finished = len(self._measured_s)
        expected = sum(self._expected_s[:finished])
        scale = sum(self._measured_s) / expected if expected else 1.0
        return sum(self._expected_s[finished:]) * scale
