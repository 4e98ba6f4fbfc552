"""Divide a number of bytes."""

from __future__ import annotations

import hashlib
import math
import random
from statistics import NormalDist

__all__ = ["random_stream", "share_out"]


def random_stream(*names: object) -> random.Random:
    """Return a random generator seeded by the names."""
    key = "/".join(str(name) for name in names)
    return random.Random(int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big"))  # noqa: S311


def share_out(total_bytes: int, count: int, spread: float, least_bytes: int, source: random.Random) -> list[int]:
    """Return `count` sizes that sum to `total_bytes`, none below `least_bytes`.

    Above the least, they are the quantiles at (i + ½)/count of a log-normal distribution whose logarithm has the
    standard deviation `spread`, in an order that is drawn.
    """
    quantiles = [math.exp(spread * NormalDist().inv_cdf((index + 0.5) / count)) for index in range(count)]
    source.shuffle(quantiles)
    free_bytes = total_bytes - count * least_bytes
    assert free_bytes >= 0, "the specification has been checked"
    ends = [0.0]
    for part in quantiles:
        ends.append(ends[-1] + part)
    edges = [round(free_bytes * end / ends[-1]) for end in ends]
    return [least_bytes + edges[index + 1] - edges[index] for index in range(count)]
