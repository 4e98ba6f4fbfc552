"""The estimate of the time left, from planned durations and then from measured ones."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Estimate"]

_SHRINK = 0.5
"""The ratio of all kinds counts as so many trials of each kind."""


class Estimate:
    """The time left, scaled by the finished trials of the same kind; trials are numbered from 1.

    The ratio of a kind is measured over expected time of its finished trials, shrunk towards that of all kinds, their
    median. The ratio of a kind of which no trial has finished is the median of all others and of 1.

    Parameters
    ----------
    expected_s : sequence of float
        Expected duration of each trial, in order.
    kinds : sequence of str, optional
        The kind of each trial, as its treatment: trials of one kind take about as long as expected, or all of them
        longer or shorter by one factor. Without them, all are of one kind.
    """

    def __init__(self, expected_s: Sequence[float], kinds: Sequence[str] | None = None) -> None:
        self._expected_s = list(expected_s)
        self._kinds = [""] * len(self._expected_s) if kinds is None else list(kinds)
        self._measured_s: dict[int, float] = {}

    def expect(self, number: int, expected_s: float) -> None:
        """Replace the expected duration of a trial that has not finished."""
        if number not in self._measured_s:
            self._expected_s[number - 1] = expected_s

    def done(self, number: int, wall_s: float) -> None:
        """Add the duration of a finished trial."""
        self._measured_s[number] = wall_s

    @property
    def left_s(self) -> float:
        """Seconds left at the start of the next trial; a trial that was left out takes no time."""
        return self.after_s(max(self._measured_s, default=0))

    def after_s(self, number: int) -> float:
        """Return the seconds that the trials after one take, without those that have finished."""
        ratios = self._ratios()
        left = range(number + 1, len(self._expected_s) + 1)
        return sum(self._left_s(each, ratios) for each in left if each not in self._measured_s)

    def from_s(self, number: int) -> float:
        """Return the seconds that a trial, which may be a repetition, and those after it take."""
        return self._left_s(number, self._ratios()) + self.after_s(number)

    def _left_s(self, number: int, ratios: Mapping[str, float]) -> float:
        return self._expected_s[number - 1] * _ratio(ratios, self._kinds[number - 1])

    def ratio(self, number: int) -> float:
        """Return the measured over the expected time of trials of the kind of this one."""
        return _ratio(self._ratios(), self._kinds[number - 1])

    def _ratios(self) -> dict[str, float]:
        """Return the ratio of each kind of which a trial has finished."""
        done: dict[str, list[tuple[float, float]]] = {}
        for number, measured_s in self._measured_s.items():
            done.setdefault(self._kinds[number - 1], []).append((self._expected_s[number - 1], measured_s))
        sums = {kind: (sum(e for e, _ in ones), sum(m for _, m in ones), len(ones)) for kind, ones in done.items()}
        known = {kind: one for kind, one in sums.items() if one[0] > 0}
        if not known:
            return {}
        others = median(measured_s / expected_s for expected_s, measured_s, _ in known.values())
        ratios = {}
        for kind, (expected_s, measured_s, count) in known.items():
            weight_s = _SHRINK * expected_s / count
            ratios[kind] = (measured_s + weight_s * others) / (expected_s + weight_s)
        return ratios


def _ratio(ratios: Mapping[str, float], kind: str) -> float:
    return ratios[kind] if kind in ratios else median([*ratios.values(), 1.0])
