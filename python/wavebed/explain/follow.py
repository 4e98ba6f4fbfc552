"""The packets of a direction, followed from its first link to its last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wavebed.explain.causes import CAUSES, PLACE
from wavebed.explain.split import MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.explain.dark import Ints
    from wavebed.explain.split import LinkSplit

__all__ = ["Fates", "follow"]


@dataclass(frozen=True, eq=False)
class Fates:
    """Segments of a direction and what became of them; segments of one packet with the same times are one row.

    Parameters
    ----------
    at_ns : int64 array
        When they entered the first link. Of `worst` rows of the series only, about when they did.
    segments : int64 array
        How many.
    total_ns : int64 array
        One-way delay: until they were written to the device, or left the last link; -1 if they did neither.
    ns : int64 array, rows by causes
        The delay by cause.
    lost_link, lost_reason : object array
        Link and reason of the drop, or ``None``.
    """

    at_ns: Ints
    segments: Ints
    total_ns: Ints
    ns: Ints
    lost_link: NDArray[np.object_]
    lost_reason: NDArray[np.object_]

    def of(self, keep: NDArray[np.bool_]) -> Fates:
        """Return some of the rows."""
        return Fates(
            self.at_ns[keep],
            self.segments[keep],
            self.total_ns[keep],
            self.ns[keep],
            self.lost_link[keep],
            self.lost_reason[keep],
        )

    @property
    def late_ns(self) -> Ints:
        """The delay above the base delay; 0 of what was not delivered."""
        late: Ints = self.ns.sum(axis=1) - self.ns[:, PLACE["propagation"]]
        return late


def follow(names: Sequence[str], links: Sequence[LinkSplit]) -> Fates:
    """Join the rows of the links of a direction, and account for every nanosecond of the delay of each packet.

    Parameters
    ----------
    names : sequence of str
        The names of the links, in the order in which packets pass them.
    links : sequence of LinkSplit
        Their rows.
    """
    cuts = np.unique(np.concatenate([part for link in links for part in (link.start, link.end)]))
    rows = [_row_at(link, cuts) for link in links]
    there = rows[0] != MISSING
    cuts, segments = cuts[there], np.diff(cuts, append=cuts[-1:])[there]
    rows = [row[there] for row in rows]
    at_ns = links[0].entered_ns[rows[0]]
    ns = np.zeros((len(cuts), len(CAUSES)), np.int64)
    lost_link, lost_reason = np.full(len(cuts), None, object), np.full(len(cuts), None, object)
    for name, link, row in zip(names, links, rows, strict=True):
        has = row != MISSING
        ns[has] += link.ns[row[has]]
        lost = has & (_taken(link.dropped_ns, row) != MISSING)
        lost_link[lost] = name
        lost_reason[lost] = link.reason[row[lost]]
    left_ns, written_ns = _taken(links[-1].delivered_ns, rows[-1]), _taken(links[-1].written_ns, rows[-1])
    arrived = left_ns != MISSING
    written = arrived & (written_ns != MISSING)
    ns[:, PLACE["host"]] += np.where(written, written_ns - left_ns, 0)
    total_ns = np.where(written, written_ns, left_ns) - at_ns
    total_ns[~arrived] = MISSING
    ns[~arrived] = 0
    ns[:, PLACE["unexplained"]] += np.where(arrived, total_ns - ns.sum(axis=1), 0)
    return Fates(at_ns, segments, total_ns, ns, lost_link, lost_reason)


def _row_at(link: LinkSplit, cuts: Ints) -> Ints:
    """Return the row of a link that covers each place; -1 for none."""
    if not len(link.start):
        return np.full(len(cuts), MISSING)
    row = np.maximum(np.searchsorted(link.start, cuts, side="right") - 1, 0)
    return np.where((link.start[row] <= cuts) & (cuts < link.end[row]), row, MISSING)


def _taken(values: Ints, row: Ints) -> Ints:
    if not len(values):
        return np.full(len(row), MISSING)
    return np.where(row != MISSING, values[np.maximum(row, 0)], MISSING)
