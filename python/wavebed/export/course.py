"""The course of a trial on tracks of a trace: workloads, radio states, queues, rates, TCP, samples, processors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow.compute as pc

from wavebed.result.transport import connections

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from wavebed.export.trace_file import TraceFile
    from wavebed.export.trial import Trial, Window

__all__ = ["add_connections", "add_link", "add_processors", "add_sinr", "add_workloads"]

_LEAST_BYTES = 100_000
"""Connections that moved less (requests, control connections) are left out."""


class _Event(NamedTuple):
    """A row of the table ``events``."""

    time_s: float
    end_s: float | None
    name: str
    text: str | None
    value: float | None


def add_workloads(trace: TraceFile, trial: Trial, window: Window, links: Sequence[str]) -> None:
    """Add each workload: its span, its events and its series.

    Parameters
    ----------
    links : sequence of str
        Names that are links', whose events are radio states.

    Raises
    ------
    UserError
        If the file has too many events.
    """
    samples, events = trial.table("samples"), trial.table("events")
    for workload in trial.record.workloads:
        group = trace.group(f"workload {workload.name}")
        span = workload.span
        if span is not None and _overlaps(_ns(span.start_s), _ns(span.end_s), window):
            arguments = {"kind": workload.kind, "status": workload.outcome.status}
            span_ns = (_ns(span.start_s), _ns(span.end_s))
            trace.slice(trace.track("run", group), span_ns, workload.name, arguments)
        if workload.name not in links:
            _add_events(trace, group, _of(events, "workload", workload.name), window)
        _add_samples(trace, group, _of(samples, "workload", workload.name), window)


def add_link(trace: TraceFile, group: int, name: str, trial: Trial, window: Window) -> None:
    """Add the states, the capacity, the delivered rate, the queue and the drops of a link.

    Raises
    ------
    UserError
        If the file has too many events.
    """
    _add_events(trace, group, _of(trial.table("events"), "workload", name), window)
    capacity = _of(trial.table("capacity"), "link", name)
    times, rates = capacity["time_s"].to_numpy(), capacity["rate_bps"].to_pylist()
    rated = [(_ns(at), rate / 1e6) for at, rate in zip(times, rates, strict=True) if rate is not None]
    _add_steps(trace, group, ("capacity", "Mbit/s"), rated, window)
    rows = _of(trial.table("links"), "link", name)
    # The queue at the begin is that at the end of the millisecond before.
    start, end = window.start_ns // 1_000_000 - 1, -(-window.end_ns // 1_000_000)
    rows = rows.filter(pc.and_(pc.greater_equal(rows["time_ms"], start), pc.less(rows["time_ms"], end)))
    if not rows.num_rows:
        return
    at_ns = rows["time_ms"].to_numpy() * 1_000_000
    dropped = sum(rows[column].to_numpy() for column in rows.column_names if column.startswith("dropped_"))
    # The rates are those of the millisecond that begins; a queue is that at its end.
    for title, unit, times_ns, values in (
        ("delivered", "Mbit/s", at_ns, rows["delivered_bytes"].to_numpy() * 8 / 1e3),
        ("queue", "byte", at_ns + 1_000_000, rows["queue_bytes"].to_numpy()),
        ("dropped", "segments/ms", at_ns, dropped),
    ):
        if np.any(values):
            _add_steps(trace, group, (title, unit), list(zip(times_ns.tolist(), values.tolist(), strict=True)), window)


def add_sinr(trace: TraceFile, group: int, steps: Sequence[tuple[int, float]], window: Window) -> None:
    """Add the SINR of a link: time (ns) and dB.

    Raises
    ------
    UserError
        If the file has too many events.
    """
    _add_steps(trace, group, ("SINR", "dB"), steps, window)


def add_connections(trace: TraceFile, trial: Trial, window: Window) -> None:
    """Add congestion window, RTT, delivery rate and retransmissions of each TCP connection that moved data.

    Raises
    ------
    UserError
        If the file has too many events.
    """
    frame = connections(trial.table("flows")).to_pandas()
    for (host, _), rows in frame.groupby(["host", "cookie"], observed=True, sort=False):
        if not rows["bytes_acked"].max() >= _LEAST_BYTES:
            continue
        inside = rows[(rows["time_ns"] >= window.start_ns) & (rows["time_ns"] < window.end_ns)]
        if not len(inside):
            continue
        head = rows.iloc[-1]
        group = trace.group(f"TCP of {host}: {head['local']} to {head['remote']}, {head['congestion']}")
        for title, unit, values in (
            ("cwnd", "byte", inside["cwnd_segments"] * inside["mss_bytes"]),
            ("RTT", "ms", inside["rtt_us"] / 1e3),
            ("delivery rate", "Mbit/s", inside["delivery_rate_bps"] / 1e6),
            ("retransmitted", "segments", inside["total_retrans_segments"]),
        ):
            known = values.dropna()
            points = list(zip(inside.loc[known.index, "time_ns"].tolist(), known.tolist(), strict=True))
            _add_steps(trace, group, (title, unit), points, window)


def add_processors(trace: TraceFile, trial: Trial, window: Window) -> None:
    """Add the busy fraction of each processor.

    Raises
    ------
    UserError
        If the file has too many events.
    """
    cpu = trial.table("cpu")
    cores = sorted(set(cpu["core"].to_pylist()))
    group = trace.group("processors") if cores else 0
    for core in cores:
        rows = _of(cpu, "core", core)
        values = [100 * busy for busy in rows["busy"].to_pylist()]
        times_ns = rows["time_ns"].to_pylist()
        # A row has the end of its interval; a counter holds from where it is set.
        points = list(zip([0, *times_ns[:-1]], values, strict=True))
        _add_steps(trace, group, (f"processor {core}", "%"), points, window)


def _add_events(trace: TraceFile, group: int, events: pa.Table, window: Window) -> None:
    """Add the events of a workload or the states of a link, those of each name on tracks of their own."""
    by_name: dict[str, list[_Event]] = {}
    for event in map(_Event._make, zip(*(events[name].to_pylist() for name in _Event._fields), strict=True)):
        by_name.setdefault(event.name, []).append(event)
    for name, found in by_name.items():
        lanes: dict[int, int] = {}
        for event in found:
            begin_ns = _ns(event.time_s)
            end_ns = begin_ns if event.end_s is None else _ns(event.end_s)
            if begin_ns < 0 or not _overlaps(begin_ns, end_ns, window):
                continue
            lane = next((lane for lane, busy_ns in lanes.items() if busy_ns <= begin_ns), None)
            lane = trace.track(name, group) if lane is None else lane
            lanes[lane] = end_ns
            if event.end_s is None:
                trace.instant(lane, begin_ns, event.text or name, {"value": event.value})
            else:
                trace.slice(lane, (begin_ns, end_ns), event.text or name, {"value": event.value})


def _add_samples(trace: TraceFile, group: int, samples: pa.Table, window: Window) -> None:
    for series in pc.unique(samples["series"]).to_pylist():
        rows = _of(samples, "series", series)
        rows = rows.filter(pc.is_valid(rows["value"])).sort_by("time_s")
        if rows.num_rows:
            points = zip(map(_ns, rows["time_s"].to_pylist()), rows["value"].to_pylist(), strict=True)
            _add_steps(trace, group, (series, rows["unit"][0].as_py()), list(points), window)


def _add_steps(
    trace: TraceFile, group: int, name_and_unit: tuple[str, str], points: Sequence[tuple[int, float]], window: Window
) -> None:
    """Add a counter: the value that holds where the window begins, and every later one that differs from the last."""
    before = [value for at_ns, value in points if at_ns < window.start_ns][-1:]
    inside = [point for point in points if window.start_ns <= point[0] < window.end_ns]
    known = inside[0][0] == window.start_ns if inside else False
    held = [] if known else [(window.start_ns, value) for value in before]
    if not held and not inside:
        return
    track = trace.counter(*name_and_unit, group)
    last = None
    for at_ns, value in [*held, *inside]:
        if value != last:
            trace.value(track, at_ns, float(value))
            last = value


def _of(table: pa.Table, column: str, value: str | int) -> pa.Table:
    return table.filter(pc.equal(table[column], value))


def _overlaps(begin_ns: int, end_ns: int, window: Window) -> bool:
    return begin_ns < window.end_ns and end_ns >= window.start_ns


def _ns(time_s: float) -> int:
    return round(time_s * 1e9)
