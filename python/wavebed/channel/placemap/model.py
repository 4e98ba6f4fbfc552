"""The learned map as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from wavebed.channel.placemap.levels import Floats

__all__ = ["QUANTILES", "PlaceMap"]

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of the rates within a level; between them the distribution is linear in the logarithm."""


@dataclass(frozen=True, slots=True, eq=False)
class PlaceMap:
    """The rates at each place of a course, learned from walks.

    Parameters
    ----------
    name : str
        The file's, without its ending.
    title, source : str
        For people: what it is a map of, and the walks that it was learned from.
    duration_s : float
        Of a walk.
    step_s : float
        Time from place to place at the mean speed.
    edges_mbps : float array (levels - 1,)
        Between the levels, ascending.
    quantiles_mbps : float array (levels, 5)
        Of the rates within a level, at `QUANTILES`.
    stay : float
        Correlation of the normal score of the rate within its level from one second to the next.
    transitions : float array (levels, ages, sides, levels)
        Probability of the next second's level in each context, averaged over the places.
    tilt : float
        Weight of the place, 0 to 1: transitions are multiplied by ``(share at the place / share overall) ** tilt``.
    weights : float array (courses,)
        Fraction of the walks that take each course; a course is an order in which places are passed.
    shares : float array (courses, places, levels)
        Fraction of the time in each level at each place.
    moves : float array (3, 3)
        Probability to pass 0, 1 or 2 places in a step, by the number passed in the step before.
    """

    name: str
    title: str
    source: str
    duration_s: float
    step_s: float
    edges_mbps: Floats
    quantiles_mbps: Floats
    stay: float
    transitions: Floats
    tilt: float
    weights: Floats
    shares: Floats
    moves: Floats

    @property
    def seconds(self) -> int:
        """Whole seconds of a walk."""
        return round(self.duration_s)

    @property
    def places(self) -> int:
        """Number of places of a course."""
        return int(self.shares.shape[1])

    @property
    def overall(self) -> Floats:
        """Fraction of the time in each level, over all places and courses."""
        return np.asarray(np.einsum("c,cpl->l", self.weights, self.shares) / self.places, dtype=np.float64)

    def tilts(self) -> Floats:
        """Return the factors by which each place changes the transitions, (courses, places, levels)."""
        return np.asarray((self.shares / self.overall) ** self.tilt, dtype=np.float64)
