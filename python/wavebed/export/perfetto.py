"""The SINR of the radio links of a trial over its time, from the patterns that are stored beside it."""

from __future__ import annotations

import gzip
from contextlib import closing, suppress
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wavebed.errors import UserError
from wavebed.export.trace_file import Lanes, TraceFile
from wavebed.output import write_output
from wavebed.pattern import read_trace
from wavebed.result.names import AIR, INCOMPLETE, SPEC_FILE
from wavebed.result.transport import connections
from wavebed.spec.network import links
from wavebed.spec.patterns import StoredPatterns, nearest_folder
from wavebed.spec.trial import load_spec
from wavebed.spec.types import PatternRate, RadioStage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.export.trace_file import Value
    from wavebed.export.trial import ExportedTrial, TimeWindow
    from wavebed.pattern.model import Pattern


def sinr_of_links(trial: ExportedTrial) -> dict[str, list[tuple[int, float]]]:
    """Return the steps of each radio link: time since time zero (ns; the first may be before) and SINR (dB).

    A link without SINR in its pattern has none, and so has a trial without its specification or patterns, as in a copy
    of its folder alone.
    """
    file = trial.path / SPEC_FILE
    found: dict[str, list[tuple[int, float]]] = {}
    with suppress(UserError):
        network = load_spec(file, INCOMPLETE).network
        rates = {
            link: stage.rate for link, stages in links(network) for stage in stages if isinstance(stage, RadioStage)
        }
        rated = {link: rate for link, rate in rates.items() if isinstance(rate, PatternRate)}
        with closing(StoredPatterns({rate.file for rate in rated.values()}, nearest_folder(file))) as stored:
            for link, rate in rated.items():
                pattern = read_trace(Path(stored.files[rate.file]), "native")
                found[link] = _steps(pattern, rate, trial.end_ns)
    return {link: steps for link, steps in found.items() if steps}


def _steps(pattern: Pattern, rate: PatternRate, end_ns: int) -> list[tuple[int, float]]:
    if pattern.sinr_mdb is None:
        return []
    laps = -(-(end_ns + rate.start_ns) // pattern.period) if rate.end == "repeat" else 1
    rows = list(zip(pattern.index.tolist(), pattern.sinr_mdb.tolist(), strict=True))
    return [
        (lap * pattern.period + at_ns - rate.start_ns, sinr_mdb / 1000)
        for lap in range(laps)
        for at_ns, sinr_mdb in rows
    ]


_SPAN = itemgetter(0, 1)
_FLOW_BITS = 40
"""Bits of the number of a row in the number of its flow."""


class _Packet(NamedTuple):
    """A row of the table ``packets``."""

    packet: int
    first: int
    segments: int
    bytes: int
    entered_ns: int
    dequeued_ns: int | None
    sent_ns: int | None
    released_ns: int | None
    delivered_ns: int | None
    dropped_ns: int | None
    drop_reason: str | None
    blocks: list[int]
    transmissions: int | None

    def arguments(self) -> dict[str, Value | None]:
        return {"packet": self.packet, "first segment": self.first, "segments": self.segments, "bytes": self.bytes}

    @property
    def was_queued(self) -> bool:
        """Whether it came to a queue: a link may have none."""
        return self.delivered_ns is None or self.dequeued_ns is not None or self.sent_ns is not None

    @property
    def is_linked(self) -> bool:
        """Whether it has more than one slice."""
        went_on = (self.dequeued_ns, self.sent_ns, self.dropped_ns)
        return self.was_queued and any(at_ns is not None for at_ns in went_on)

    def left_queue_ns(self, end_ns: int) -> int:
        """When it left the queue; `end_ns` if it never did."""
        times = (self.dequeued_ns, self.sent_ns, self.released_ns, self.dropped_ns)
        return next((at_ns for at_ns in times if at_ns is not None), end_ns)


class _Block(NamedTuple):
    """A row of the table ``blocks``."""

    number: int
    attempt: int
    slot_ns: int
    decoded_ns: int
    process: int
    carrier: int
    is_fallback: bool
    bytes: int
    failed: bool
    misheard: bool
    rate_bps: int
    sinr_db: float | None
    need_db: float | None
    turn_ns: int | None
    turn_of: int | None

    def arguments(self) -> dict[str, Value | None]:
        found: dict[str, Value | None] = {
            "block": self.number,
            "transmission": self.attempt,
            "bytes": self.bytes,
            "HARQ process": self.process,
            "carrier": "fallback" if self.is_fallback else self.carrier,
            "channel rate (Mbit/s)": self.rate_bps / 1e6,
            "SINR (dB)": self.sinr_db,
            "SINR for 10 % errors (dB)": self.need_db,
        }
        if self.turn_ns:
            found["waited for its turn (ms)"] = (self.slot_ns - self.turn_ns) / 1e6
            found["behind device"] = "another user" if self.turn_of is None or self.turn_of < 0 else self.turn_of + 1
        return {**found, "feedback": "wrong"} if self.misheard else found


def in_window(packets: pa.Table, window: TimeWindow, end_ns: int) -> pa.Table:
    """Return the rows of ``packets`` that are in their link during the window; undelivered ones are until `end_ns`."""
    left = pc.coalesce(packets["delivered_ns"], packets["dropped_ns"], pa.scalar(end_ns, pa.int64()))
    inside = pc.and_(pc.less(packets["entered_ns"], window.end_ns), pc.greater_equal(left, window.start_ns))
    return packets.filter(inside)


def add_packets(
    trace: TraceFile, link: tuple[int, int], packets: pa.Table, blocks: pa.Table, window: TimeWindow, end_ns: int
) -> tuple[int, int]:
    """Add the packets that are in a link during the window, and its blocks; both whole, also outside the window.

    Parameters
    ----------
    link : (int, int)
        Its track, and a number that distinguishes its flows.
    packets, blocks : pyarrow.Table
        Tables ``packets`` and ``blocks``, of this link only.
    end_ns : int
        End of the trial, until which undelivered packets wait.

    Returns
    -------
    (int, int)
        Wire segments and transmissions of blocks that were added.

    Raises
    ------
    UserError
        If the file has too many events.
    """
    group, number = link
    rows = list(map(_Packet._make, _values(in_window(packets, window, end_ns), _Packet._fields)))
    base = (number << _FLOW_BITS) + 1
    flows = [[flow] if row.is_linked else [] for flow, row in enumerate(rows, base)]
    carried = {block for row in rows for block in row.blocks}
    sent = [
        block
        for block in map(_Block._make, _values(_with_turns(blocks), _Block._fields))
        if block.number in carried or window.start_ns <= block.slot_ns < window.end_ns
    ]
    _add_queue(trace, group, rows, flows, end_ns)
    if sent:
        _add_blocks(trace, group, sent, _flows_of_blocks(rows, flows))
        _add_order(trace, group, rows, flows, sent)
    else:
        _add_transmissions(trace, group, rows, flows)
    _add_ends(trace, group, rows, flows)
    return sum(row.segments for row in rows), len(sent)


def _with_turns(blocks: pa.Table) -> pa.Table:
    """Return the table with the columns of turns, which a result of an earlier version lacks."""
    for name in ("turn_ns", "turn_of"):
        if name not in blocks.column_names:
            blocks = blocks.append_column(name, pa.nulls(len(blocks), pa.int64()))
    return blocks


def _values(table: pa.Table, columns: Sequence[str]) -> zip[tuple[object, ...]]:
    return zip(*(table[name].to_pylist() for name in columns), strict=True)


def _flows_of_blocks(rows: Sequence[_Packet], flows: Sequence[list[int]]) -> Mapping[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row, flow in zip(rows, flows, strict=True):
        for block in row.blocks:
            found.setdefault(block, []).extend(flow)
    return found


def _add_queue(trace: TraceFile, group: int, rows: Sequence[_Packet], flows: Sequence[list[int]], end_ns: int) -> None:
    lanes = Lanes(trace, "packets queued", group)
    for row, flow in zip(rows, flows, strict=True):
        if row.was_queued:
            lanes.slice((row.entered_ns, row.left_queue_ns(end_ns)), "queued", row.arguments(), flow)


def _add_blocks(trace: TraceFile, group: int, sent: Sequence[_Block], flows: Mapping[int, list[int]]) -> None:
    """Add every transmission; all transmissions of a block are in the flows of its packets."""
    first, again = Lanes(trace, "transport blocks", group), Lanes(trace, "HARQ retransmissions", group)
    for block in sent:
        what = "transport block" if block.attempt == 1 else "retransmission"
        lanes = first if block.attempt == 1 else again
        name = f"{what}, failed" if block.failed else what
        span_ns = (block.slot_ns, block.decoded_ns)
        lanes.slice(span_ns, name, block.arguments(), flows.get(block.number, ()))


def _add_order(
    trace: TraceFile, group: int, rows: Sequence[_Packet], flows: Sequence[list[int]], sent: Sequence[_Block]
) -> None:
    """Add the wait of decoded packets for earlier ones."""
    decoded: dict[int, int] = {}
    for block in sent:
        if not block.failed:
            decoded.setdefault(block.number, block.decoded_ns)
    lanes = Lanes(trace, "in-order delivery", group)
    waits = []
    for row, flow in zip(rows, flows, strict=True):
        arrived_ns = max((decoded[block] for block in row.blocks if block in decoded), default=None)
        left_ns = row.released_ns if row.released_ns is not None else row.dropped_ns
        if arrived_ns is not None and left_ns is not None and left_ns > arrived_ns:
            waits.append((arrived_ns, left_ns, flow, row))
    for arrived_ns, left_ns, flow, row in sorted(waits, key=_SPAN):
        lanes.slice((arrived_ns, left_ns), "waits for earlier packets", row.arguments(), flow)


def _add_transmissions(trace: TraceFile, group: int, rows: Sequence[_Packet], flows: Sequence[list[int]]) -> None:
    """Add the time that the server of a link without blocks takes for each packet."""
    lanes = Lanes(trace, "transmission", group)
    served = [
        (row.dequeued_ns, row.released_ns, flow, row)
        for row, flow in zip(rows, flows, strict=True)
        if row.dequeued_ns is not None and row.released_ns is not None
    ]
    for begin_ns, end_ns, flow, row in sorted(served, key=_SPAN):
        lanes.slice((begin_ns, end_ns), "sent", row.arguments(), flow)


def _add_ends(trace: TraceFile, group: int, rows: Sequence[_Packet], flows: Sequence[list[int]]) -> None:
    """Add what ends each flow: the rest of the link up to the delivery, or the drop."""
    lanes, drops = Lanes(trace, "delivery", group), None
    ends = []
    for row, flow in zip(rows, flows, strict=True):
        if row.delivered_ns is not None:
            begin_ns = row.released_ns if row.released_ns is not None else row.entered_ns
            ends.append((begin_ns, row.delivered_ns, flow, row))
        elif row.dropped_ns is not None:
            ends.append((row.dropped_ns, row.dropped_ns, flow, row))
    for begin_ns, end_ns, flow, row in sorted(ends, key=_SPAN):
        if row.delivered_ns is not None:
            arguments = {**row.arguments(), "transmissions": row.transmissions}
            lanes.slice((begin_ns, end_ns), "delivery", arguments, (), flow)
        else:
            drops = trace.track("drops", group) if drops is None else drops
            trace.instant(drops, begin_ns, f"dropped: {row.drop_reason}", row.arguments(), flow)


_LEAST_BYTES = 100_000
"""Connections that moved less (requests, control connections) are left out."""


class _Event(NamedTuple):
    """A row of the table ``events``."""

    time_s: float
    end_s: float | None
    name: str
    text: str | None
    value: float | None


def add_workloads(trace: TraceFile, trial: ExportedTrial, window: TimeWindow, links: Sequence[str]) -> None:
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


def add_link(trace: TraceFile, group: int, name: str, trial: ExportedTrial, window: TimeWindow) -> None:
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
    air_ns = rows[AIR].fill_null(0).to_numpy() if AIR in rows.column_names else np.zeros(len(at_ns))
    # Rates belong to the millisecond that begins; a queue is as at its end.
    for title, unit, times_ns, values in (
        ("delivered", "Mbit/s", at_ns, rows["delivered_bytes"].to_numpy() * 8 / 1e3),
        ("queue", "byte", at_ns + 1_000_000, rows["queue_bytes"].to_numpy()),
        ("dropped", "segments/ms", at_ns, dropped),
        ("air time", "%", at_ns, air_ns / 1e4),
    ):
        if np.any(values):
            _add_steps(trace, group, (title, unit), list(zip(times_ns.tolist(), values.tolist(), strict=True)), window)


def add_sinr(trace: TraceFile, group: int, steps: Sequence[tuple[int, float]], window: TimeWindow) -> None:
    """Add the SINR of a link: time (ns) and dB.

    Raises
    ------
    UserError
        If the file has too many events.
    """
    _add_steps(trace, group, ("SINR", "dB"), steps, window)


def add_connections(trace: TraceFile, trial: ExportedTrial, window: TimeWindow) -> None:
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


def add_processors(trace: TraceFile, trial: ExportedTrial, window: TimeWindow) -> None:
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


def _add_events(trace: TraceFile, group: int, events: pa.Table, window: TimeWindow) -> None:
    """Add the events of a workload or the states of a link, each name on tracks of its own."""
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


def _add_samples(trace: TraceFile, group: int, samples: pa.Table, window: TimeWindow) -> None:
    for series in pc.unique(samples["series"]).to_pylist():
        rows = _of(samples, "series", series)
        rows = rows.filter(pc.is_valid(rows["value"])).sort_by("time_s")
        if rows.num_rows:
            points = zip(map(_ns, rows["time_s"].to_pylist()), rows["value"].to_pylist(), strict=True)
            _add_steps(trace, group, (series, rows["unit"][0].as_py()), list(points), window)


def _add_steps(
    trace: TraceFile,
    group: int,
    name_and_unit: tuple[str, str],
    points: Sequence[tuple[int, float]],
    window: TimeWindow,
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


def _overlaps(begin_ns: int, end_ns: int, window: TimeWindow) -> bool:
    return begin_ns < window.end_ns and end_ns >= window.start_ns


def _ns(time_s: float) -> int:
    return round(time_s * 1e9)


SUFFIX = ".perfetto-trace"
MOST_EVENTS = 1_000_000
"""Some 80 MB, and 16 s of processor time."""
_GZIP_LEVEL = 6


@dataclass
class Exported:
    """Content of a trace file.

    Parameters
    ----------
    events : int
        Slices, instants and values of counters.
    segments, blocks : int
        Wire segments, each once for every link, and transmissions of transport blocks.
    bytes : int
        Size of the file.
    """

    events: int = 0
    segments: int = 0
    blocks: int = 0
    bytes: int = 0


def export_perfetto(trial: ExportedTrial, file: Path, window: TimeWindow, most: int = MOST_EVENTS) -> Exported:
    """Write a part of a trial as a trace; without a packet log it has no packets.

    Parameters
    ----------
    file : pathlib.Path
        The file; compressed if its name ends with ``.gz``.
    most : int
        Number of events that it may have.

    Raises
    ------
    UserError
        If it would have more events, a table is damaged, or the file cannot be written.
    """
    start_s, end_s = window.start_ns / 1e9, window.end_ns / 1e9
    trace = TraceFile(
        most,
        f"{trial.path}: {start_s:g} s to {end_s:g} s has more than {most} events: choose a shorter part by --from and"
        " --to, or raise --most-events",
    )
    found = Exported()
    links = list(dict.fromkeys(trial.table("links")["link"].to_pylist()))
    groups = {link: trace.group(f"link {link}") for link in links}
    if trial.has_packet_log:
        packets, blocks = trial.table("packets"), trial.table("blocks")
        for number, link in enumerate(links, 1):
            of_link = _named_columns(packets, link), _named_columns(blocks, link)
            segments, sent = add_packets(trace, (groups[link], number), *of_link, window, trial.end_ns)
            found.segments += segments
            found.blocks += sent
    sinr = sinr_of_links(trial)
    for link, group in groups.items():
        add_link(trace, group, link, trial, window)
        add_sinr(trace, group, sinr.get(link, ()), window)
    add_workloads(trace, trial, window, links)
    add_connections(trace, trial, window)
    add_processors(trace, trial, window)
    content = trace.content()
    if file.suffix == ".gz":
        content = gzip.compress(content, _GZIP_LEVEL, mtime=0)
    write_output(file, content)
    found.events, found.bytes = trace.events, len(content)
    return found


def _named_columns(table: pa.Table, link: str) -> pa.Table:
    return table.filter(pc.equal(table["link"], link))
