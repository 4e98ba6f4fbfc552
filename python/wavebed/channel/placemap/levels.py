"""Rates as levels, and the context in which a level is left: its age, and the side from which it was entered.

A walk is a semi-Markov chain over the levels: the probability to leave depends on the time since the level was entered
(Howard 1964, "System analysis of semi-Markov processes").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

__all__ = ["AGES", "SIDES", "UNKNOWN", "Context", "advanced", "contexts", "level_of"]

AGES = (2, 3, 5, 9, 17)
"""Seconds since a level was entered at which the next class of ages begins; the first class is one second."""
SIDES = 3
"""Entered at the start of the walk, from below, or from above."""
UNKNOWN = -1
"""The level of a second without a measurement."""


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """Levels, the seconds since each was entered (1 in its first second), and the sides; arrays of one shape."""

    level: Integers
    age: Integers
    side: Integers

    @property
    def age_class(self) -> Integers:
        """The class of each age."""
        return np.searchsorted(AGES, self.age, side="right")

    def at(self, chosen: Integers | int) -> Context:
        """Return the contexts at some places of the arrays."""
        return Context(*(np.asarray(each[chosen]) for each in (self.level, self.age, self.side)))


def level_of(rates: Floats, edges: Floats) -> Integers:
    """Return the level of each rate: the number of edges, ascending, that are not above it."""
    return np.where(np.isnan(rates), UNKNOWN, np.searchsorted(edges, rates, side="right"))


def advanced(before: Context, level: Integers) -> Context:
    """Return the contexts one second later, when the levels are these."""
    change = level - before.level
    held = change == 0
    return Context(
        level,
        np.where(held, before.age + 1, 1),
        np.where(held, before.side, np.where(change > 0, 1, 2)).astype(np.int64),
    )


def contexts(level: Integers) -> Context:
    """Return the context of each second of a walk; after an unknown second a walk starts anew."""
    age, side = np.ones_like(level), np.zeros_like(level)
    for second in range(1, len(level)):
        change = level[second] - level[second - 1]
        if change == 0:
            age[second], side[second] = age[second - 1] + 1, side[second - 1]
        elif level[second - 1] != UNKNOWN:
            side[second] = 1 if change > 0 else 2
    return Context(level, age, side)
