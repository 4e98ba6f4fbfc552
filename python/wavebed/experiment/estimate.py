"""The order of the trials in blocks, and the estimate of the time left."""

from __future__ import annotations

import random
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_T = TypeVar("_T")


def in_blocks(treatments: Sequence[_T], blocks: int, seed: int) -> tuple[tuple[_T, ...], ...]:
    """Draw the order of each block from a seed, so that drift affects all treatments alike."""
    return tuple(
        tuple(random.Random(f"order {seed} {block}").sample(treatments, len(treatments)))  # noqa: S311 - an order
        for block in range(1, blocks + 1)
    )


_SHRINK = 0.5
"""The ratio of all kinds counts as this many trials of each kind."""


class Estimate:
    """The time left, scaled by the finished trials of the same kind; trials are numbered from 1.

    The ratio of a kind is measured over expected time of its finished trials, shrunk towards the ratio of all kinds,
    their median. The ratio of a kind without a finished trial is the median of all others and of 1.

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
        self._last = 0
        # Sums by kind, so that a step costs the same however many trials there are: of the expected durations of the
        # trials after the last finished one, and of finished trials.
        self._later_s: dict[str, float] = dict.fromkeys(self._kinds, 0.0)
        self._done: dict[str, _Done] = {}
        for number in range(1, len(self._expected_s) + 1):
            self._add_later(number, 1)

    def expect(self, number: int, expected_s: float) -> None:
        """Replace the expected duration of a trial that has not finished."""
        if number in self._measured_s:
            return
        if number > self._last:
            self._later_s[self._kinds[number - 1]] += expected_s - self._expected_s[number - 1]
        self._expected_s[number - 1] = expected_s

    def done(self, number: int, wall_s: float) -> None:
        """Add the duration of a finished trial."""
        done = self._done.setdefault(self._kinds[number - 1], _Done())
        if number not in self._measured_s:
            done.count += 1
            done.expected_s += self._expected_s[number - 1]
        done.measured_s += wall_s - self._measured_s.get(number, 0.0)
        self._measured_s[number] = wall_s
        for later in range(self._last + 1, number + 1):
            self._add_later(later, -1)
        self._last = max(self._last, number)

    def _add_later(self, number: int, sign: int) -> None:
        self._later_s[self._kinds[number - 1]] += sign * self._expected_s[number - 1]

    @property
    def left_s(self) -> float:
        """Seconds left at the start of the next trial; a trial that was left out takes no time."""
        return self.after_s(self._last)

    def after_s(self, number: int) -> float:
        """Return the seconds that the trials after one take, without those that have finished."""
        return self._after_s(number, self._ratios())

    def from_s(self, number: int) -> float:
        """Return the seconds that a trial, which may be a repetition, and those after it take."""
        ratios = self._ratios()
        return self._left_s(number, ratios) + self._after_s(number, ratios)

    def _after_s(self, number: int, ratios: _Ratios) -> float:
        later_s = sum(expected_s * ratios.of(kind) for kind, expected_s in self._later_s.items())
        before = (each for each in range(number + 1, self._last + 1) if each not in self._measured_s)
        later_s += sum(self._left_s(each, ratios) for each in before)
        later_s -= sum(self._left_s(each, ratios) for each in range(self._last + 1, number + 1))
        return max(later_s, 0.0)

    def _left_s(self, number: int, ratios: _Ratios) -> float:
        return self._expected_s[number - 1] * ratios.of(self._kinds[number - 1])

    def ratio(self, number: int) -> float:
        """Return the measured over the expected time of trials of the kind of this one."""
        return self._ratios().of(self._kinds[number - 1])

    def _ratios(self) -> _Ratios:
        known = {kind: done for kind, done in self._done.items() if done.expected_s > 0}
        if not known:
            return _Ratios({}, 1.0)
        others = median(done.measured_s / done.expected_s for done in known.values())
        ratios = {}
        for kind, done in known.items():
            weight_s = _SHRINK * done.expected_s / done.count
            ratios[kind] = (done.measured_s + weight_s * others) / (done.expected_s + weight_s)
        return _Ratios(ratios, median([*ratios.values(), 1.0]))


@dataclass(slots=True)
class _Done:
    """The finished trials of a kind."""

    expected_s: float = 0.0
    measured_s: float = 0.0
    count: int = 0


class _Ratios(NamedTuple):
    """Measured over expected time: of each kind with a finished trial, and of all others."""

    known: Mapping[str, float]
    other: float

    def of(self, kind: str) -> float:
        return self.known.get(kind, self.other)


def duration_text(seconds: float) -> str:
    """Return a rounded duration: ``45 s``, ``3 min 20 s``, ``1 h 5 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
