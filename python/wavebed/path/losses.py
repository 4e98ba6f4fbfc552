"""Losses that are listed or drawn in advance, as patterns that the link engine plays."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Literal

import numpy as np

from wavebed.path.model import LimitedLoss, LostPackets
from wavebed.pattern.model import packets, steps

if TYPE_CHECKING:
    from wavebed.path.model import LostTimes, MadeLoss
    from wavebed.pattern.model import Pattern

__all__ = ["DRAWN_PACKETS", "loss_pattern"]

DRAWN_PACKETS = 1 << 17
"""Of losses that are drawn in advance; after them they are repeated."""


def loss_pattern(loss: MadeLoss, direction: str, seed: int) -> tuple[Pattern, Literal["repeat", "hold"]]:
    """Return the pattern of these losses, and what follows its end.

    Parameters
    ----------
    loss : LostPackets, LostTimes or LimitedLoss
        The losses.
    direction : str
        ``down`` or ``up``: the directions have random streams of their own.
    seed : int
        Of all random processes.
    """
    if isinstance(loss, LostPackets):
        return _listed(loss), "hold"
    if isinstance(loss, LimitedLoss):
        return _drawn(loss, Random(f"losses {direction} {seed}")), "repeat"  # noqa: S311 no secret
    return _timed(loss), "hold"


def _listed(loss: LostPackets) -> Pattern:
    lost = np.array(loss.numbers, dtype=np.int64) - 1
    index = np.unique(np.concatenate(([0], lost, lost + 1)))
    values = np.isin(index, lost).astype(np.float64)
    return packets(index, int(index[-1]) + 1, loss=values).merged()


def _timed(loss: LostTimes) -> Pattern:
    edges = {0: 0.0}
    for begin_ns, end_ns in loss.spans_ns:
        edges |= {begin_ns: 1.0, end_ns: 0.0}
    index = np.array(sorted(edges), dtype=np.int64)
    return steps(index, int(index[-1]) + 1, loss=np.array([edges[int(time)] for time in index]))


def _drawn(loss: LimitedLoss, random: Random) -> Pattern:
    lost = np.zeros(DRAWN_PACKETS)
    in_a_row = 0
    for number in range(DRAWN_PACKETS):
        in_a_row = in_a_row + 1 if in_a_row < loss.most_in_a_row and random.random() < loss.probability else 0
        lost[number] = in_a_row > 0
    return packets(np.arange(DRAWN_PACKETS, dtype=np.int64), DRAWN_PACKETS, loss=lost).merged()
