"""Delays from the buckets in which a port counts them.

The buckets are those of ``crates/wavebed-forward/src/histogram.rs``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wavebed.forward.model import Latency

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["BUCKETS", "bucket_bounds_ns", "latency_of", "percentile_ns"]

HALF = 64
TOP_BIT = 36
BUCKETS = (TOP_BIT - 6) * HALF + HALF
NS = 1_000_000_000

P99_FROM = 100
"""A percentile needs at least one value above it: 99 % from 100 values on, 99.9 % from 1000 on."""
P999_FROM = 1000


def bucket_bounds_ns(index: int) -> tuple[int, int]:
    """Return the least value of a bucket and the least of the next one.

    Raises
    ------
    ValueError
        If there is no such bucket.
    """
    if not 0 <= index < BUCKETS:
        raise ValueError(f"bucket {index}: there are {BUCKETS}")
    if index < 2 * HALF:
        return index, index + 1
    shift = index // HALF - 1
    least = (index - shift * HALF) << shift
    return least, least + (1 << shift)


def _value_ns(index: int, least_ns: int, most_ns: int) -> float:
    """Return the value that stands for a bucket: its middle, within the extremes."""
    start, end = bucket_bounds_ns(index)
    return min(max((start + end - 1) / 2, least_ns), most_ns)


def percentile_ns(buckets: Sequence[tuple[int, int]], fraction: float, least_ns: int, most_ns: int) -> float:
    """Return the value that `fraction` of all values do not exceed (nearest rank), within the width of its bucket.

    Parameters
    ----------
    buckets : sequence of (int, int)
        Bucket and how many, in rising order, not empty.
    fraction : float
        Above 0, at most 1.
    least_ns, most_ns : int
        The extremes that were seen.
    """
    total = sum(count for _, count in buckets)
    rank = max(1, math.ceil(fraction * total - 1e-9))
    seen = 0
    for index, count in buckets:
        seen += count
        if seen >= rank:
            return _value_ns(index, least_ns, most_ns)
    raise ValueError("no values")


def latency_of(counts: Mapping[int, int], least_ns: int, most_ns: int) -> Latency | None:
    """Return the delays that a port counted, or nothing if it counted none.

    Parameters
    ----------
    counts : mapping of int to int
        How many by bucket.
    least_ns, most_ns : int
        The extremes, exact.
    """
    buckets = sorted((index, count) for index, count in counts.items() if count)
    total = sum(count for _, count in buckets)
    if not total:
        return None
    mean_ns = sum(_value_ns(index, least_ns, most_ns) * count for index, count in buckets) / total

    def percentile_s(fraction: float, at_least: int = 1) -> float | None:
        return percentile_ns(buckets, fraction, least_ns, most_ns) / NS if total >= at_least else None

    p50_s, p90_s = percentile_s(0.5), percentile_s(0.9)
    assert p50_s is not None
    assert p90_s is not None
    return Latency(
        count=total,
        min_s=least_ns / NS,
        max_s=most_ns / NS,
        mean_s=mean_ns / NS,
        p50_s=p50_s,
        p90_s=p90_s,
        p99_s=percentile_s(0.99, P99_FROM),
        p999_s=percentile_s(0.999, P999_FROM),
        counts=tuple(_row(index, count, most_ns) for index, count in buckets),
    )


def _row(index: int, count: int, most_ns: int) -> tuple[float, float, int]:
    start, end = bucket_bounds_ns(index)
    if index == BUCKETS - 1:  # everything above is in it
        end = max(end, most_ns + 1)
    return start / NS, end / NS, count
