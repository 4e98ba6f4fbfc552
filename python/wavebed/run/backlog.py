"""Did a link with a full queue deliver what its pattern allows? If not, the engine was the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.result.model import Check

if TYPE_CHECKING:
    import pandas as pd

    from wavebed.run.capacity import Steps

__all__ = ["backlog_check"]

WINDOW_MS = 200
LEAST_QUEUE_BYTES = 15_000
"""Ten packets: less may be the last packet of a burst."""
SHORT = 0.95
TOLERATED = 0.01


def backlog_check(links: pd.DataFrame, course: Steps) -> Check:
    """Compare what a link delivered while its queue never ran empty with what its pattern allows.

    Windows of 200 ms count whose queue held at least ten packets at every millisecond, of the window and of the one
    before (what is delivered now may have left the queue a delay earlier), and in which the rate was the same all the
    time. A link without such a window holds.

    Parameters
    ----------
    links : DataFrame
        The table ``links`` of a trial.
    course : Steps
        The link's course, written out.
    """
    name = f"{course.link} delivers what its pattern allows while its queue is full"
    rows = links[links["link"] == course.link]
    length = int(rows["time_ms"].max()) + 1 if len(rows) else 0
    windows = length // WINDOW_MS
    if windows < 2:
        return Check(name, True, "doubtful", "its queue was never full for 0.4 s")
    queue = np.zeros(windows * WINDOW_MS)
    delivered = np.zeros(windows * WINDOW_MS)
    inside = rows[rows["time_ms"] < windows * WINDOW_MS]
    at = inside["time_ms"].to_numpy()
    queue[at] = inside["queue_bytes"].to_numpy()
    delivered[at] = inside["delivered_bytes"].to_numpy() + _lost_after_the_queue(inside)
    full = queue.reshape(windows, WINDOW_MS).min(axis=1) >= LEAST_QUEUE_BYTES
    full[1:] &= full[:-1].copy()
    full[0] = False
    starts_ns = np.arange(windows) * WINDOW_MS * 1_000_000
    rate = course.rate_bps[np.searchsorted(course.time_ns, starts_ns, side="right") - 1]
    changes = np.unique(course.time_ns[1:] // (WINDOW_MS * 1_000_000)).astype(int)
    for change in changes[changes < windows]:
        full[change : change + 2] = False
    possible = rate[full] * WINDOW_MS / 8000
    share = delivered.reshape(windows, WINDOW_MS).sum(axis=1)[full][possible > 0] / possible[possible > 0]
    if not len(share):
        return Check(name, True, "doubtful", "its queue was never full for 0.4 s at one rate")
    short = float((share < SHORT).mean())
    return Check(
        name,
        short <= TOLERATED,
        "doubtful",
        f"{short:.1%} of {len(share)} windows of 0.2 s with a full queue below {SHORT:.0%} of the capacity",
    )


def _lost_after_the_queue(rows: pd.DataFrame) -> np.ndarray:
    """Return about how many bytes were lost behind the bottleneck: they used it."""
    mean = rows["delivered_bytes"].sum() / max(rows["delivered_segments"].sum(), 1)
    return np.asarray(rows["dropped_loss_segments"].to_numpy() * mean)
