"""The figures of a direction over the whole time that is explained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.explain.causes import CAUSES, LATE, PLACE
from wavebed.explain.model import CauseShare, OfDirection
from wavebed.explain.moments import losses, windows, worst_delays, worst_losses
from wavebed.explain.split import MISSING
from wavebed.result.transport import weighted_percentile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.explain.dark import Ints
    from wavebed.explain.follow import Fates

__all__ = ["of_direction"]


def of_direction(
    name: str,
    links: Sequence[str],
    fates: Fates,
    counts: Mapping[str, int],
    *,
    span: tuple[int, int],
    step_ns: int,
    most: int,
    whole: bool,
) -> OfDirection:
    """Return the explanation of a direction.

    Parameters
    ----------
    fates : Fates
        Its segments, of this time only.
    counts : mapping
        ``blocks_sent``, ``blocks_failed``, ``link_failures`` of its radios; of the series also ``segments`` and
        ``delivered_segments``.
    span : (int, int)
        The time, nanoseconds.
    whole : bool
        Whether the causes are the whole delay: they come from the packet log.
    """
    arrived = fates.of(fates.total_ns != MISSING)
    weight = arrived.segments.astype(float)
    delays = arrived.total_ns / 1e6
    lost = losses(fates)
    lost_segments = sum(each.segments for each in lost)
    segments = counts.get("segments", int(fates.segments.sum()))
    delivered = counts.get("delivered_segments", int(weight.sum()))

    def percentile(percent: float) -> float | None:
        return weighted_percentile(delays, weight, percent) if weight.any() else None

    return OfDirection(
        name=name,
        links=list(links),
        segments=segments,
        delivered_segments=delivered,
        lost_segments=lost_segments,
        unfinished_segments=segments - delivered - lost_segments if whole else None,
        base_delay_ms=_mean(arrived.ns[:, PLACE["propagation"]], weight) if whole else None,
        delay_mean_ms=_mean(arrived.total_ns, weight),
        delay_p50_ms=percentile(50),
        delay_p95_ms=percentile(95),
        delay_p99_ms=percentile(99),
        delay_max_ms=float(delays.max()) if len(delays) else None,
        late_mean_ms=_mean(arrived.late_ns, weight),
        blocks_sent=counts["blocks_sent"],
        blocks_failed=counts["blocks_failed"],
        link_failures=counts["link_failures"],
        causes=_shares(arrived, weight),
        lost=lost,
        worst_delays=worst_delays(fates, span, most),
        worst_losses=worst_losses(fates, span, most),
        windows=windows(fates, span, step_ns),
    )


def _shares(arrived: Fates, weight: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[CauseShare]:
    """Return the causes that occur, in their order."""
    if not weight.any():
        return []
    sums = weight @ arrived.ns
    late = sum(sums[PLACE[cause]] for cause in LATE)
    found = []
    for cause in CAUSES:
        place = PLACE[cause]
        if not arrived.ns[:, place].any():
            continue
        percent = None if cause not in LATE or not late else round(100 * float(sums[place] / late), 3)
        found.append(
            CauseShare(
                cause=cause,
                mean_ms=round(float(sums[place] / weight.sum()) / 1e6, 6),
                max_ms=round(float(arrived.ns[:, place].max()) / 1e6, 6),
                late_percent=percent,
            )
        )
    return found


def _mean(ns: Ints, weight: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float | None:
    return round(float(np.average(ns, weights=weight)) / 1e6, 6) if weight.any() else None
