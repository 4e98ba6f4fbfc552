"""The engine's per-millisecond series, in the form that tables and charts need. Missing is ``None``, never 0."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

__all__ = ["Capacity", "LinkSeries", "binned", "percentile", "read_capacity", "read_link_series"]

_COLUMNS = ("time_ms", "offered_bytes", "delivered_bytes", "queue_peak_bytes", "sojourn_mean_ns")


@dataclass(frozen=True, slots=True)
class LinkSeries:
    """One link by the millisecond since time zero.

    Parameters
    ----------
    delivered_bytes, queue_peak_bytes : list of int
        IP bytes that left the link; the most that its queue held.
    sojourn_ms : list of float or None
        Mean time in the queue of what left it, milliseconds; ``None`` where nothing left it.
    """

    delivered_bytes: list[int]
    queue_peak_bytes: list[int]
    sojourn_ms: list[float | None]


def read_link_series(file: Path) -> LinkSeries:
    """Read ``LINK.csv`` as ``--log`` writes it, plain or compressed.

    Raises
    ------
    UserError
        If a column is missing.
    """
    series = LinkSeries([], [], [])
    with gzip.open(file, "rt", encoding="ascii") if file.suffix == ".gz" else file.open(encoding="ascii") as stream:
        rows = csv.reader(stream)
        header = next(rows, [])
        missing = [name for name in _COLUMNS if name not in header]
        if missing:
            raise UserError(f"{file}: has no column {missing[0]!r}: it must be a series that --log wrote")
        time_at, _, delivered_at, queue_at, sojourn_at = (header.index(name) for name in _COLUMNS)
        for row in rows:
            gap = int(row[time_at]) - len(series.delivered_bytes)
            for values, nothing in ((series.delivered_bytes, 0), (series.queue_peak_bytes, 0)):
                values.extend([nothing] * gap)
            series.sojourn_ms.extend([None] * gap)
            series.delivered_bytes.append(int(row[delivered_at]))
            series.queue_peak_bytes.append(int(row[queue_at]))
            series.sojourn_ms.append(int(row[sojourn_at]) / 1e6 if row[sojourn_at] else None)
    return series


@dataclass(frozen=True, slots=True)
class Capacity:
    """The steps of a native pattern: `rate_bps[i]` holds from `time_s[i]` to the next time.

    Parameters
    ----------
    time_s : list of float
        Where each step begins, seconds.
    rate_bps : list of int
        Bits of IP packets per second.
    duration_s : float
        Where the pattern ends.
    """

    time_s: list[float]
    rate_bps: list[int]
    duration_s: float

    def bits(self, start_s: float, end_s: float) -> float:
        """Return what the link could carry from `start_s` to `end_s`, in bits of IP packets."""
        total = 0.0
        for begin, end, rate_bps in zip(self.time_s, [*self.time_s[1:], self.duration_s], self.rate_bps, strict=True):
            total += rate_bps * max(0.0, min(end, end_s) - max(begin, start_s))
        return total


def read_capacity(file: Path) -> Capacity:
    """Read the rates of a native pattern of steps."""
    duration_s = 0.0
    time_s: list[float] = []
    rate_bps: list[int] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        key, _, value = line.removeprefix("# ").partition(" = ")
        if key == "duration_s":
            duration_s = float(value)
        elif line[:1].isdigit():
            cells = line.split(",")
            time_s.append(float(cells[0]))
            rate_bps.append(int(cells[1]))
    return Capacity(time_s, rate_bps, duration_s)


def binned(values: Sequence[float | None], size: int, how: str) -> list[float | None]:
    """Reduce `values` in groups of `size`: ``sum``, ``max`` or ``mean``; a group of nothing is ``None``."""
    result: list[float | None] = []
    for start in range(0, len(values), size):
        present = [value for value in values[start : start + size] if value is not None]
        if not present:
            result.append(None)
        elif how == "max":
            result.append(max(present))
        else:
            result.append(sum(present) / (len(present) if how == "mean" else 1))
    return result


def percentile(values: Iterable[float], share: float) -> float | None:
    """Return the value that `share` of the values do not exceed, interpolated; ``None`` of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
