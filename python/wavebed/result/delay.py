"""Queueing delay, signal delay and the least possible delay. Formulas: docs/models/transport-metrics.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from wavebed.result.course import Floats, LinkCourse

__all__ = ["omniscient_delay_ms", "queueing_delay_ms", "signal_delay_ms", "weighted_percentile"]

PACKET_BITS = 1500 * 8
"""Packet size of the omniscient sender, as in Sprout."""


def queueing_delay_ms(course: LinkCourse, percentile: float) -> float | None:
    """Return a percentile of the time in the queue, over the bytes that left it under load."""
    there = course.load & ~np.isnan(course.sojourn_ms)
    return weighted_percentile(course.sojourn_ms[there], course.left_bytes[there], percentile)


def omniscient_delay_ms(course: LinkCourse) -> Floats | None:
    """Return the time since the link could last finish a packet, by millisecond; ``None`` without a rate."""
    if course.capacity_bits is None:
        return None
    packets = np.floor(course.capacity_bits / PACKET_BITS + 1e-9)
    at = np.arange(len(course.load))
    served = np.where(np.diff(packets) > 0, at, -1)
    # The grid begins at time zero; earlier service is unknown.
    last = np.maximum(np.maximum.accumulate(served), 0)
    return (at - last).astype(np.float64)


def signal_delay_ms(course: LinkCourse) -> Floats | None:
    """Return the age of the newest data past the queue, by millisecond, while newer data waits in the queue.

    The delay of the omniscient sender is the lower bound, and the value while the queue is empty.
    """
    least = omniscient_delay_ms(course)
    if least is None:
        return None
    at = np.arange(len(course.load), dtype=np.float64)
    departs = ~np.isnan(course.sojourn_ms)
    entered = np.maximum.accumulate(np.where(departs, at - course.sojourn_ms, -np.inf))
    waiting = (departs | (course.queue_bytes > 0)) & np.isfinite(entered)
    return np.maximum(np.where(waiting, at - entered, 0.0), least)


def weighted_percentile(values: Floats, weights: Floats, percentile: float) -> float | None:
    """Return the weighted percentile (nearest rank); ``None`` without weight."""
    total = weights.sum()
    if not total > 0:
        return None
    order = np.argsort(values, kind="stable")
    done = np.cumsum(weights[order])
    place = int(np.searchsorted(done, total * percentile / 100 * (1 - 1e-12), side="left"))
    return float(values[order[min(place, len(order) - 1)]])
