"""Time until the capacity is used, after the start and after each change of the radio. Windows of 100 ms."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.result.course import LinkCourse

__all__ = ["Recovery", "ramp_up_s", "recoveries"]

WINDOW_MS = 100
REACHED = 0.9


@dataclass(frozen=True, slots=True)
class Recovery:
    """A change of a link's capacity under load, and the time until the new capacity was used.

    Parameters
    ----------
    time_s : float
        Time of the change since time zero.
    recovery_s : float or None
        From the change to the end of the first used window; ``None`` if the next change came first.
    """

    time_s: float
    recovery_s: float | None


def ramp_up_s(course: LinkCourse) -> float | None:
    """Return the time from the start of the load to the end of the first used window."""
    used = _used(course)
    if used is None:
        return None
    found = np.flatnonzero(used[course.first_ms :])
    return None if len(found) == 0 else (int(found[0]) + WINDOW_MS) / 1000


def recoveries(course: LinkCourse) -> list[Recovery]:
    """Return every change under load with room for a window before the next change."""
    used = _used(course)
    if used is None or course.capacity_bits is None:
        return []
    found = []
    bounds = [*course.change_ms.tolist(), len(course.load)]
    for change, end in pairwise(bounds):
        loaded = course.load[change:end]
        stop = change + (len(loaded) if loaded.all() else int(np.argmin(loaded)))
        if stop - change < WINDOW_MS or course.capacity_bits[stop] == course.capacity_bits[change]:
            continue
        windows = np.flatnonzero(used[change : stop - WINDOW_MS + 1])
        recovery_s = None if len(windows) == 0 else (int(windows[0]) + WINDOW_MS) / 1000
        found.append(Recovery(change / 1000, recovery_s))
    return found


def _used(course: LinkCourse) -> NDArray[np.bool_] | None:
    """Return by the first millisecond of each window whether it is used: 90 % of the capacity was delivered."""
    if course.capacity_bits is None or len(course.load) < WINDOW_MS:
        return None
    delivered = np.concatenate(([0.0], np.cumsum(course.delivered_bits)))
    sent = delivered[WINDOW_MS:] - delivered[:-WINDOW_MS]
    possible = (course.capacity_bits[WINDOW_MS:] - course.capacity_bits[:-WINDOW_MS]) * (1 - course.failed_fraction)
    return np.asarray((possible > 0) & (sent >= REACHED * possible))
