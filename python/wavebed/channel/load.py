"""The fraction of the cell that other users leave: given over time, or users that come and go.

Users arrive as a Poisson process and stay for exponential times, so that their number is Poisson and forgets itself
within the mean stay. Each has a weight, exponentially distributed with mean 1; that of this user is 1. The cell is
shared by weight, so that 1/(1 + S) is left, S being the sum of the other weights. With m users on average E[e^(-tS)] is
e^(-mt/(1 + t)), and the mean of 1/(1 + S) is the integral of e^(-t) E[e^(-tS)] over t.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from wavebed.channel.propagation.random_streams import generator
from wavebed.scene.values import LoadProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.scene.values import CellLoad

    Floats = NDArray[np.float64]

__all__ = ["own_fraction", "users_of_load"]

BEFORE = 12.0
"""Mean stays before the beginning, after which nobody of then is left: e^-12 are."""
MOST_USERS = 1000.0
_KEYS = ("users", "stays of users", "weights of users")


def own_fraction(load: tuple[CellLoad, ...] | LoadProcess, time_s: Floats, seeds: Sequence[int]) -> Floats:
    """Return the fraction of the cell that its load leaves to this user, (n,), or (seeds, n) where it is drawn.

    Parameters
    ----------
    load : tuple of CellLoad or LoadProcess
        The load of the scene.
    time_s : (n,) float64
        The beginning of each step.
    seeds : sequence of int
        One row each.
    """
    if isinstance(load, LoadProcess):
        return np.stack([1 / (1 + _weights(load, time_s, *(generator(seed, key) for key in _KEYS))) for seed in seeds])
    if not load:
        return np.ones(time_s.size)
    index = np.searchsorted([step.time_s for step in load], time_s, side="right") - 1
    used = np.array([step.fraction for step in load])[np.maximum(index, 0)]
    return np.where(index < 0, 1.0, 1.0 - used)


def users_of_load(mean: float) -> float:
    """Return the mean number of users that have this mean fraction of the cell."""
    low, high = 0.0, MOST_USERS
    for _ in range(60):
        middle = (low + high) / 2
        if 1 - left_by_users(middle) < mean:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def left_by_users(users: float) -> float:
    """Return the mean fraction of the cell that this many users leave on average."""
    part, weight = _points()  # t = part / (1 - part)
    return float(weight @ (np.exp(-part / (1 - part) - users * part) / (1 - part) ** 2))


@cache
def _points() -> tuple[Floats, Floats]:
    """Return points and weights of Gauss and Legendre between 0 and 1."""
    points, weights = np.polynomial.legendre.leggauss(256)
    return np.asarray((points + 1) / 2), np.asarray(weights / 2)


def _weights(
    load: LoadProcess,
    time_s: Floats,
    arrivals: np.random.Generator,
    stays: np.random.Generator,
    weights: np.random.Generator,
) -> Floats:
    """Return the sum of the users' weights at each time; arrivals change evenly with the mean and the time constant."""
    stay_s, users = load.time_constant_s, users_of_load(load.mean)
    if load.mean == 0.0:
        return np.zeros(time_s.size)
    expected = (float(time_s[-1]) + BEFORE * stay_s) * users / stay_s
    count = math.ceil(expected + 6 * math.sqrt(expected) + 6)
    begin_s = arrivals.exponential(size=count).cumsum() * (stay_s / users) - BEFORE * stay_s
    end_s = begin_s + stays.exponential(stay_s, size=count)
    weight = weights.exponential(size=count)
    leaving = np.argsort(end_s)
    came = np.searchsorted(begin_s, time_s, side="right")
    left = np.searchsorted(end_s[leaving], time_s, side="right")
    sums = [np.concatenate(([0.0], each.cumsum())) for each in (weight, weight[leaving])]
    # Without users the sum is exactly 0.
    return np.where(came > left, np.maximum(sums[0][came] - sums[1][left], 0.0), 0.0)
