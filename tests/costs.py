"""What a computation costs, as a multiple of a peer that runs on the same machine in the same moments.

Seconds of one machine say little about another, and the same machine is slower at times. The ratio stays: both are
slowed alike, and the least one of some rounds is that of the quietest moment.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["least_ratio", "loops", "peer"]

ROUNDS = 5


def peer() -> None:
    """Work of NumPy and of Python's loops, in about the proportion of the channel: 16 rows of 40 s in steps of 1 ms."""
    for row in np.random.default_rng(1).random((16, 40_000)):
        for _ in range(12):
            np.log1p(np.exp(row)).cumsum()
        sum(value > 0.5 for value in row[:10_000].tolist())


def loops() -> None:
    """Work of Python alone: calls, comparisons and lists of numbers."""
    values = [float(place * 7919 % 1009) for place in range(1000)]
    for start in range(100):
        sorted(max(value, float(start)) + 1 for value in values)


def least_ratio(run: Callable[[], object], beside: Callable[[], object] = peer) -> float:
    """Return the processor time of one over that of the other, which runs before and after it; the least of all rounds.

    What other programs take does not count. The first round only reads tables and fills caches.
    """
    run()
    ratios = []
    for _ in range(ROUNDS):
        before_s, own_s, after_s = _processor_s(beside), _processor_s(run), _processor_s(beside)
        ratios.append(own_s / max(before_s, after_s))
    return min(ratios)


def _processor_s(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start
