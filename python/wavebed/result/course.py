"""One link on a grid of milliseconds, while the workloads put load on the path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from wavebed.workload.model import Schedule

Tables: TypeAlias = "Mapping[str, pa.Table]"
"""The tables of one trial, by name."""
_DROPPED_IN_QUEUE = ("overflow", "aqm", "outage", "ended", "discard", "malformed", "packet_memory")
Floats: TypeAlias = "NDArray[np.float64]"


@dataclass(frozen=True, eq=False)
class LinkCourse:
    """A link in each millisecond, from time zero to the end of the load.

    Parameters
    ----------
    link : str
        ``HOP.down`` or ``HOP.up``.
    load : bool array
        Whether a workload puts load on the path.
    first_ms : int
        The first millisecond with load.
    delivered_bits : float array
        IP bits that left the link.
    queue_bytes : float array
        Queue at the end of the millisecond.
    sojourn_ms : float array
        Mean time in the queue of the packets that left it; NaN if none did.
    left_bytes : float array
        Bytes that left the queue, from the packet counters.
    capacity_bits : float array or None
        Cumulative capacity in IP bits before the start of each millisecond, with one more entry than there are
        milliseconds; ``None`` if the link had no limit at some time under load.
    change_ms : int array
        Changes of the radio's state, and of the rate by a factor of more than two.
    failed_fraction : float
        Fraction of the radio's blocks that failed under load; 0 without a radio.
    """

    link: str
    load: NDArray[np.bool_]
    first_ms: int
    delivered_bits: Floats
    queue_bytes: Floats
    sojourn_ms: Floats
    left_bytes: Floats
    capacity_bits: Floats | None
    change_ms: NDArray[np.int64]
    failed_fraction: float

    def possible_bits(self) -> float | None:
        """Return the capacity under load in bits."""
        return None if self.capacity_bits is None else float(np.diff(self.capacity_bits)[self.load].sum())


def load_spans(spans: Schedule) -> list[tuple[int, int]]:
    """Return start and end of the times with load, milliseconds, in order; adjacent times are joined."""
    found: list[tuple[int, int]] = []
    for span in sorted((span for span in spans.values() if span.is_load), key=lambda span: span.start_s):
        start, end = max(0, int(span.start_s * 1000)), int(np.ceil(span.end_s * 1000))
        if end <= start:
            continue
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def bottlenecks(tables: Tables, spans: Schedule, aside: Collection[str] = ()) -> dict[str, LinkCourse]:
    """Return the link with the least capacity under load for each direction (``down``, ``up``), but none of `aside`.

    A direction without a rate is left out; without load all are.
    """
    loaded = load_spans(spans)
    if not loaded:
        return {}
    chosen: dict[str, tuple[float, LinkCourse]] = {}
    for link in dict.fromkeys(tables["capacity"].column("link").to_pylist()):
        if link in aside:
            continue
        course = _course(tables, link, loaded)
        possible = course.possible_bits()
        weight = np.inf if possible is None else possible
        direction = link.rpartition(".")[2]
        if direction not in chosen or weight < chosen[direction][0]:
            chosen[direction] = (weight, course)
    return {direction: course for direction, (_, course) in sorted(chosen.items())}


def delivered_bytes(tables: Tables, spans: Schedule, links: Collection[str]) -> int:
    """Return the IP bytes that links delivered under load, together."""
    rows = tables["links"]
    time_ms = rows["time_ms"].to_numpy()
    counts = np.isin(rows["link"].to_numpy(zero_copy_only=False), list(links))
    loaded = np.zeros(len(time_ms), bool)
    for start, end in load_spans(spans):
        loaded |= (time_ms >= start) & (time_ms < end)
    return int(rows["delivered_bytes"].to_numpy()[counts & loaded].sum())


def _course(tables: Tables, link: str, loaded: list[tuple[int, int]]) -> LinkCourse:
    length = loaded[-1][1]
    load = np.zeros(length, bool)
    for start, end in loaded:
        load[start:end] = True
    rows = {name: column.to_numpy() for name, column in _of_link(tables["links"], link).items()}
    keep = (rows["time_ms"] >= 0) & (rows["time_ms"] < length)
    rows = {name: column[keep].astype(np.float64) for name, column in rows.items()}
    at = rows["time_ms"].astype(np.int64)
    queue = held(rows["queue_bytes"], at, length)
    sojourn = np.full(length, np.nan)
    sojourn[at] = rows["sojourn_mean_ns"] / 1e6
    lost = np.sum([rows[f"dropped_{reason}_segments"] for reason in _DROPPED_IN_QUEUE], axis=0)
    segments = rows["offered_segments"].sum()
    mean_bytes = rows["offered_bytes"].sum() / segments if segments else 0.0
    left = _on_grid(rows["offered_bytes"] - lost * mean_bytes, at, length) - np.diff(queue, prepend=0.0)
    left[np.isnan(sojourn)] = 0.0
    blocks = _on_grid(rows["blocks_sent"], at, length)[load].sum()
    failed = _on_grid(rows["blocks_failed"], at, length)[load].sum()
    capacity, changes = _capacity(tables, link, load)
    return LinkCourse(
        link=link,
        load=load,
        first_ms=loaded[0][0],
        delivered_bits=_on_grid(rows["delivered_bytes"], at, length) * 8,
        queue_bytes=queue,
        sojourn_ms=sojourn,
        left_bytes=np.maximum(left, 0.0),
        capacity_bits=capacity,
        change_ms=changes,
        failed_fraction=float(failed / blocks) if blocks else 0.0,
    )


def _capacity(tables: Tables, link: str, load: NDArray[np.bool_]) -> tuple[Floats | None, NDArray[np.int64]]:
    """Return the cumulative capacity in bits before each millisecond, and the milliseconds of changes."""
    rows = _of_link(tables["capacity"], link)
    time_ms = rows["time_s"].to_numpy() * 1000
    rates = rows["rate_bps"].to_pylist()
    states = rows["state"].to_pylist()
    length = len(load)
    changes = [
        int(np.ceil(at))
        for at, rate, before, state, state_before in zip(
            time_ms[1:], rates[1:], rates, states[1:], states, strict=False
        )
        if state != state_before or _jumps(before, rate)
    ]
    rate_at = np.array([np.nan if rate is None else rate / 1000 for rate in rates])
    edges = np.append(time_ms, np.inf)
    grid = np.arange(length + 1, dtype=np.float64)
    per_step = np.concatenate(([0.0], np.cumsum(np.diff(time_ms) * np.nan_to_num(rate_at[:-1]))))
    step = np.maximum(np.searchsorted(edges, grid, side="right") - 1, 0)
    step = np.minimum(step, len(rate_at) - 1)
    bits = per_step[step] + np.maximum(grid - time_ms[step], 0.0) * np.nan_to_num(rate_at[step])
    unlimited = np.isnan(rate_at[step[:-1]])
    return (None if unlimited[load].any() else bits), np.array([at for at in changes if at < length], np.int64)


def _jumps(before: int | None, after: int | None) -> bool:
    """Return whether the rate changed by a factor of more than two."""
    if before is None or after is None:
        return before is not after
    return max(before, after) > 2 * min(before, after)


def _of_link(table: pa.Table, link: str) -> dict[str, pa.ChunkedArray]:
    import pyarrow.compute as pc

    rows = table.filter(pc.equal(table.column("link"), link))
    return {name: rows.column(name) for name in rows.column_names if name != "link"}


def _on_grid(values: Floats, at: NDArray[np.int64], length: int) -> Floats:
    grid = np.zeros(length)
    grid[at] = values
    return grid


def held(values: Floats, at: NDArray[np.int64], length: int) -> Floats:
    """Return the value of the last row at each millisecond, 0 before the first row."""
    last = np.zeros(length, np.int64)
    last[at] = np.arange(1, len(at) + 1)
    return np.concatenate(([0.0], values))[np.maximum.accumulate(last)]
