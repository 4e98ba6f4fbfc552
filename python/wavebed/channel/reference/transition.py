"""The study's blockage: not a path-loss law, but one measured transition, played whenever a box comes into the way.

The measured series is not part of wavebed. Three facts of it fix a smooth one: it is 39 ms long, it ends 35.96 dB
below the free path, and at 75 m (37 dB free) the SINR crosses 20 dB 31 ms after the geometry on the way down and 9 ms
after it on the way up. With loss = depth · x^p, x from 0 to 1 in 39 ms, each crossing gives one exponent.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["DEPTH_DB", "LENGTH_S", "blockage_db"]

LENGTH_S = 0.039
DEPTH_DB = 35.96
CROSSING_DB = 37.0 - 20.0
DOWN_S = 0.031
UP_S = 0.009

DOWN_EXPONENT = log(CROSSING_DB / DEPTH_DB) / log(DOWN_S / LENGTH_S)
UP_EXPONENT = log(CROSSING_DB / DEPTH_DB) / log(1 - UP_S / LENGTH_S)


def blockage_db(time_s: Floats, spans: Iterable[tuple[float, float]]) -> Floats:
    """Return the loss of blockage over time.

    Parameters
    ----------
    time_s : (n,) float64
        Times, rising.
    spans : iterable of (float, float)
        When a box stands in the direct path, in seconds, in order and apart. A transition begins from the loss at which
        the one before it was left.
    """
    loss = np.zeros(len(time_s))
    ended_s, left = -np.inf, 0.0
    for start_s, end_s in spans:
        begun = float(_rising(left, np.array(start_s - ended_s))) ** (1 / DOWN_EXPONENT)
        here = (time_s >= start_s) & (time_s < end_s)
        loss[here] = np.minimum(begun + (time_s[here] - start_s) / LENGTH_S, 1.0) ** DOWN_EXPONENT
        ended_s, left = end_s, min(begun + (end_s - start_s) / LENGTH_S, 1.0) ** DOWN_EXPONENT
        after = (time_s >= end_s) & (time_s < end_s + LENGTH_S)
        loss[after] = _rising(left, time_s[after] - end_s)
    return DEPTH_DB * loss


def _rising(left: float, since_s: Floats) -> Floats:
    """Return the remaining fraction of the depth, a time after the path was free again at the fraction `left`."""
    remaining: Floats = np.maximum(left ** (1 / UP_EXPONENT) - since_s / LENGTH_S, 0.0) ** UP_EXPONENT
    return remaining
