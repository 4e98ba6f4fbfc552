"""The check that a link with a full queue delivers the rate of its pattern; otherwise the engine was the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from wavebed.result.course import held
from wavebed.result.model import Check

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from wavebed.run.capacity import Steps

__all__ = ["backlog_check"]

CODE = "backlogged"
WINDOW_MS = 200
LEAST_QUEUE_BYTES = 15_000
"""Ten packets; a shorter queue can be the end of a burst."""
SHORT = 0.95
TOLERATED = 0.01
_COLUMNS = (
    "time_ms",
    "queue_bytes",
    "delivered_bytes",
    "delivered_segments",
    "dropped_loss_segments",
    "dropped_corrupted_header_segments",
)


def backlog_check(links: pa.Table, course: Steps) -> Check:
    """Compare the delivered bytes of a link with its pattern while the queue is never empty.

    A window of 200 ms counts if the rate is constant and the queue holds at least ten packets in every millisecond of
    the window and of the link's delay before it (a packet leaves the queue one delay before its delivery). A
    millisecond without a row has the queue of the previous one, so a stopped link has a full queue. A window may lack
    one usual delivery, a packet or a super-packet. A link without such a window passes.

    Parameters
    ----------
    links : pyarrow.Table
        The table ``links`` of a trial.
    course : Steps
        The link's steps with all repetitions.
    """
    name = f"{course.link} delivers what its pattern allows while its queue is full"
    own = links.filter(pc.equal(links.column("link"), course.link))
    rows = {column: own.column(column).to_numpy() for column in _COLUMNS}
    length = int(rows["time_ms"].max()) + 1 if len(own) else 0
    windows = length // WINDOW_MS
    if windows < 2:
        return Check(name, True, "suspect", "its queue was never full for 0.4 s", CODE)
    delivered = np.zeros(windows * WINDOW_MS)
    early = rows["time_ms"] < windows * WINDOW_MS
    inside = {column: values[early] for column, values in rows.items()}
    at = inside["time_ms"]
    queue = held(inside["queue_bytes"], at, windows * WINDOW_MS)
    delivered[at] = inside["delivered_bytes"] + _lost_after_the_queue(inside)
    delivered[at] += inside["delivered_segments"] * course.overhead_bytes
    at_a_time = np.median(delivered[delivered > 0]) if delivered.any() else 0.0
    full = queue.reshape(windows, WINDOW_MS).min(axis=1) >= LEAST_QUEUE_BYTES
    back = 1 + course.delay_ns // (WINDOW_MS * 1_000_000)
    full = np.array([full[max(0, window - back) : window + 1].all() for window in range(windows)])
    full[:back] = False
    starts_ns = np.arange(windows) * WINDOW_MS * 1_000_000
    rate = course.rate_bps[np.searchsorted(course.time_ns, starts_ns, side="right") - 1]
    changes = np.unique(course.time_ns[1:] // (WINDOW_MS * 1_000_000)).astype(int)
    for change in changes[changes < windows]:
        full[change : change + 1 + back] = False
    possible = rate[full] * WINDOW_MS / 8000
    came = delivered.reshape(windows, WINDOW_MS).sum(axis=1)[full] + at_a_time
    used = came[possible > 0] / possible[possible > 0]
    if course.packets_per_s is not None:
        packets = np.zeros(windows * WINDOW_MS)
        packets[at] = inside["delivered_segments"] + inside["dropped_loss_segments"]
        handled = packets.reshape(windows, WINDOW_MS).sum(axis=1)[full][possible > 0]
        used = used + handled / (course.packets_per_s * WINDOW_MS / 1000)
    if not len(used):
        return Check(name, True, "suspect", "its queue was never full for 0.4 s at one rate", CODE)
    short = float((used < SHORT).mean())
    return Check(
        name,
        short <= TOLERATED,
        "suspect",
        f"{short:.1%} of {len(used)} windows of 0.2 s with a full queue below {SHORT:.0%} of the capacity",
        CODE,
    )


def _lost_after_the_queue(rows: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the approximate bytes lost after the bottleneck, which used its capacity."""
    mean = rows["delivered_bytes"].sum() / max(rows["delivered_segments"].sum(), 1)
    lost = rows["dropped_loss_segments"] + rows["dropped_corrupted_header_segments"]
    return np.asarray(lost * mean)
