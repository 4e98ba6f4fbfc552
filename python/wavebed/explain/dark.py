"""The times in which a link has no rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow.compute as pc

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from wavebed.explain.causes import Cause

__all__ = ["Dark", "Ints", "dark_times"]

Ints: TypeAlias = "NDArray[np.int64]"
_HANDOVER = "handover"


@dataclass(frozen=True, eq=False)
class Dark:
    """Intervals without a rate, in order: from `starts` (ns) up to `ends`."""

    starts: Ints
    ends: Ints

    def within(self, begin: Ints, end: Ints) -> Ints:
        """Return how long it was dark between these times, nanoseconds."""
        return self._until(end) - self._until(begin)

    def _until(self, at: Ints) -> Ints:
        if not len(self.starts):
            return np.zeros_like(at)
        before = np.concatenate(([0], np.cumsum(self.ends - self.starts)))
        place = np.searchsorted(self.starts, at, side="right")
        last = np.maximum(place - 1, 0)
        inside = np.where(place > 0, np.minimum(at, self.ends[last]) - self.starts[last], 0)
        return before[last] + np.where(place > 0, inside, 0)


def dark_times(capacity: pa.Table, link: str) -> dict[Cause, Dark]:
    """Return the times of ``outage`` (a rate of zero) and of ``handover`` (its state) of a link.

    Parameters
    ----------
    capacity : pyarrow.Table
        The table ``capacity`` of the trial.
    """
    rows = capacity.filter(pc.equal(capacity["link"], link))
    rows = rows.take(np.argsort(rows["time_s"].to_numpy(), kind="stable"))
    at = np.round(rows["time_s"].to_numpy() * 1e9).astype(np.int64)
    rates, states = rows["rate_bps"].to_pylist(), rows["state"].to_pylist()
    ends = np.append(at[1:], np.iinfo(np.int64).max // 4)
    moves = np.array([state == _HANDOVER for state in states], bool)
    still = np.array([rate == 0 for rate in rates], bool) & ~moves
    return {"outage": Dark(at[still], ends[still]), "handover": Dark(at[moves], ends[moves])}
