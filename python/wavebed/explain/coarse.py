"""The same from the series per millisecond: queues, outages and losses of each link, without single packets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from wavebed.explain.causes import CAUSES, PLACE
from wavebed.explain.follow import Fates
from wavebed.explain.split import MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from wavebed.explain.causes import Cause
    from wavebed.explain.dark import Dark, Ints

__all__ = ["coarse_fates", "link_counts"]

_MS_NS = 1_000_000
_COUNTS = ("blocks_sent", "blocks_failed", "link_failures")
_PREFIX, _SUFFIX = "dropped_", "_segments"


def link_counts(rows: pa.Table, span: tuple[int, int]) -> dict[str, int]:
    """Return the sums of a link over a time: segments, delivered segments, blocks and failures.

    Parameters
    ----------
    rows : pyarrow.Table
        The table ``links``, of this link only.
    """
    inside = _inside(rows, span)
    known = [name for name in _COUNTS if name in inside.column_names]  # link_failures came later
    found = dict.fromkeys(_COUNTS, 0) | {name: int(pc.sum(inside[name]).as_py() or 0) for name in known}
    found["segments"] = int(pc.sum(inside["offered_segments"]).as_py() or 0)
    found["delivered_segments"] = int(pc.sum(inside["delivered_segments"]).as_py() or 0)
    return found


def coarse_fates(link: str, rows: pa.Table, dark: Mapping[Cause, Dark], span: tuple[int, int]) -> Fates:
    """Return what is known of the segments of a link: the time in its queue, and the drops, of each millisecond.

    The time in the queue, except for the parts in which the link had no rate, is `queue`. Each millisecond is a row
    with the mean of the packets that left the queue, which weighs as many segments as were delivered, and one without
    weight with the longest time.
    """
    inside = _inside(rows, span)
    at = inside["time_ms"].to_numpy() * _MS_NS
    weights = np.maximum(inside["delivered_segments"].to_numpy(), 1)
    parts = [
        _waits(at, inside["sojourn_mean_ns"], weights, dark),
        _waits(at, inside["sojourn_max_ns"], np.zeros(len(at), np.int64), dark),
    ]
    for column in rows.column_names:
        if column.startswith(_PREFIX):
            dropped = inside[column].to_numpy()
            reason = column.removeprefix(_PREFIX).removesuffix(_SUFFIX)
            parts.append(_drops(at[dropped > 0], dropped[dropped > 0], link, reason))
    joined = (np.concatenate([getattr(part, name) for part in parts]) for name in Fates.__dataclass_fields__)
    return Fates(*joined)


def _inside(rows: pa.Table, span: tuple[int, int]) -> pa.Table:
    at = pc.multiply(rows["time_ms"], _MS_NS)
    return rows.filter(pc.and_(pc.greater_equal(at, span[0]), pc.less(at, span[1])))


def _waits(at: Ints, column: pa.ChunkedArray, weights: Ints, dark: Mapping[Cause, Dark]) -> Fates:
    known = column.is_valid().to_numpy()
    at, waited = at[known], column.drop_null().to_numpy().astype(np.int64)
    ns = np.zeros((len(at), len(CAUSES)), np.int64)
    left = waited.copy()
    for cause, times in dark.items():
        ns[:, PLACE[cause]] = times.within(at - waited, at)
        left -= ns[:, PLACE[cause]]
    ns[:, PLACE["queue"]] = left
    nothing = np.full(len(at), None, object)
    return Fates(at, weights[known], waited, ns, nothing, nothing)


def _drops(at: Ints, segments: Ints, link: str, reason: str) -> Fates:
    count = len(at)
    return Fates(
        at,
        segments.astype(np.int64),
        np.full(count, MISSING),
        np.zeros((count, len(CAUSES)), np.int64),
        np.full(count, link, object),
        np.full(count, reason, object),
    )
