"""The metrics of the transport: goodput, delay, losses, flows, ramp, second radio, processors."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from wavebed.result.course import LinkCourse, bottlenecks, delivered_bytes, load_spans
from wavebed.spec.network import second_leg
from wavebed.workload.model import Metric

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from wavebed.result.course import Floats, Tables
    from wavebed.spec.types import Network
    from wavebed.workload.model import Schedule

PACKET_BITS = 1500 * 8
"""Packet size of the omniscient sender, as in Sprout."""


def queueing_delay_ms(course: LinkCourse, percentile: float) -> float | None:
    """Return a percentile of the time in the queue, over the bytes that left it under load."""
    there = course.load & ~np.isnan(course.sojourn_ms)
    return weighted_percentile(course.sojourn_ms[there], course.left_bytes[there], percentile)


def omniscient_delay_ms(course: LinkCourse) -> Floats | None:
    """Return the time since the link could last finish a packet, by millisecond; ``None`` without a rate."""
    if course.capacity_bits is None:
        return None
    packets = np.floor(course.capacity_bits / PACKET_BITS + 1e-9)
    at = np.arange(len(course.load))
    served = np.where(np.diff(packets) > 0, at, -1)
    # The grid begins at time zero; earlier service is unknown.
    last = np.maximum(np.maximum.accumulate(served), 0)
    return (at - last).astype(np.float64)


def signal_delay_ms(course: LinkCourse) -> Floats | None:
    """Return the age of the newest data past the queue, by millisecond, while newer data waits in the queue.

    The delay of the omniscient sender is the lower bound, and the value while the queue is empty.
    """
    least = omniscient_delay_ms(course)
    if least is None:
        return None
    at = np.arange(len(course.load), dtype=np.float64)
    departs = ~np.isnan(course.sojourn_ms)
    entered = np.maximum.accumulate(np.where(departs, at - course.sojourn_ms, -np.inf))
    waiting = (departs | (course.queue_bytes > 0)) & np.isfinite(entered)
    return np.maximum(np.where(waiting, at - entered, 0.0), least)


def weighted_percentile(values: Floats, weights: Floats, percentile: float) -> float | None:
    """Return the weighted percentile (nearest rank); ``None`` without weight."""
    total = weights.sum()
    if not total > 0:
        return None
    order = np.argsort(values, kind="stable")
    done = np.cumsum(weights[order])
    place = int(np.searchsorted(done, total * percentile / 100 * (1 - 1e-12), side="left"))
    return float(values[order[min(place, len(order) - 1)]])


BULK_BUSY = 0.5
"""A flow is bulk if it had data to send for at least this fraction of its time."""
LEAST_S = 1.0
"""Shortest flow, and shortest time common to all flows, that is used."""
_WITHIN_HOST = r"^(127\.|\[?::1\]?:|\[?::ffff:127\.)"
_Rows = dict[str, np.ndarray]
"""Columns of one connection, in order of time; a missing number is NaN."""


def connections(flows: pa.Table) -> pa.Table:
    """Return the rows of the connections between hosts, in order of time."""
    import pyarrow.compute as pc  # the names of the metrics need no Arrow

    remote = flows.column("remote")
    between = pc.or_kleene(pc.is_null(remote), pc.invert(pc.match_substring_regex(remote, _WITHIN_HOST)))
    return flows.filter(between).sort_by("time_ns")


def retransmission_fraction(tables: Tables) -> float | None:
    """Return retransmitted bytes / sent bytes of all flows; ``None`` if nothing was sent."""
    sent = repeated = 0.0
    for _, rows in _each(tables["flows"], ["bytes_sent", "bytes_retrans"]):
        known = [rows[name][~np.isnan(rows[name])] for name in ("bytes_sent", "bytes_retrans")]
        if all(len(each) for each in known):
            sent += float(known[0].max())
            repeated += float(known[1].max())
    return repeated / sent if sent > 0 else None


def bulk_bytes(tables: Tables, *, down: bool, clients: Collection[str] = ("client",)) -> list[float]:
    """Return the bytes acknowledged of each bulk flow in the time common to all of them.

    Parameters
    ----------
    down : bool
        Flows towards the clients; otherwise from them.
    """
    found = _each(tables["flows"], ["bytes_acked", "busy_us"])
    bulk = [rows for host, rows in found if (host not in clients) == down and _is_bulk(rows)]
    if not bulk:
        return []
    start = max(int(rows["time_ns"][0]) for rows in bulk)
    end = min(int(rows["time_ns"][-1]) for rows in bulk)
    if end - start < LEAST_S * 1e9:
        return []
    return [_acked(rows, end) - _acked(rows, start) for rows in bulk]


def _each(flows: pa.Table, columns: list[str]) -> Iterator[tuple[str, _Rows]]:
    """Yield the host and the columns of each connection, in the order of hosts and cookies."""
    import pyarrow.compute as pc

    rows = connections(flows.select(["time_ns", "host", "cookie", "remote", *columns]))
    rows = rows.filter(pc.and_(pc.is_valid(rows.column("host")), pc.is_valid(rows.column("cookie"))))
    host = rows.column("host").combine_chunks().dictionary_encode()
    cookie = rows.column("cookie").to_numpy()
    names = host.dictionary.to_pylist()
    hosts = sorted(names)
    number = np.searchsorted(hosts, names)[host.indices.to_numpy()]
    order = np.lexsort((cookie, number))  # stable: the rows of a connection stay in order of time
    changes = (np.diff(number[order]) != 0) | (np.diff(cookie[order]) != 0)
    values = {name: rows.column(name).to_numpy()[order] for name in ("time_ns", *columns)}
    starts = [0, *(np.flatnonzero(changes) + 1)] if len(order) else []
    for start, end in pairwise([*starts, len(order)]):
        yield hosts[number[order[start]]], {name: column[start:end] for name, column in values.items()}


def _is_bulk(rows: _Rows) -> bool:
    lasted_us = (int(rows["time_ns"][-1]) - int(rows["time_ns"][0])) / 1000
    busy = rows["busy_us"][~np.isnan(rows["busy_us"])]
    if lasted_us < LEAST_S * 1e6 or len(busy) == 0 or np.isnan(rows["bytes_acked"]).all():
        return False
    return float(busy[-1] - busy[0]) >= BULK_BUSY * lasted_us


def _acked(rows: _Rows, at_ns: int) -> float:
    return float(rows["bytes_acked"][np.searchsorted(rows["time_ns"], at_ns, side="right") - 1])


def jain(throughputs: list[float]) -> float | None:
    """Return Jain's index of fairness; ``None`` for fewer than two flows, or if all are 0."""
    squares = sum(each * each for each in throughputs)
    if len(throughputs) < 2 or squares == 0:
        return None
    return sum(throughputs) ** 2 / (len(throughputs) * squares)


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


_SIDES = ("down", "up")


def second_radio_links(network: Network) -> list[str]:
    """Return the names of the links of the client's second radio; none without one."""
    leg = second_leg(network)
    return [] if leg is None else [f"{hop.name}.{side}" for hop in leg.hops for side in _SIDES]


def second_radio_metrics(tables: Tables, network: Network) -> list[Metric]:
    """Return the bytes that each radio of the client delivered, and the fraction of the second one.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        From `wavebed.result.tables.write_tables`.
    network : Network
        The network of the trial.

    Returns
    -------
    list of Metric
        None without a second radio.
    """
    second = second_leg(network)
    if second is None:
        return []
    first = network.legs[len(network.hosts) - 2]
    delivered = _delivered_bytes(tables)
    found = []
    for side in _SIDES:
        # The last link of each leg in this direction: what it delivers reaches the next host.
        place = -1 if side == "down" else 0
        links = [f"{leg.hops[place].name}.{side}" for leg in (first, second)]
        counts = [delivered.get(link, 0) for link in links]
        source = "IP bytes delivered by the link, repetitions too"
        found += [
            Metric(f"delivered {link}", count / 1e6, "MB", "neither", source)
            for link, count in zip(links, counts, strict=True)
        ]
        share = 100 * counts[1] / sum(counts) if sum(counts) else None
        found.append(Metric(f"share of second radio {side}", share, "%", "neither", f"delivered {links[1]} / both"))
    return found


def _delivered_bytes(tables: Tables) -> dict[str, int]:
    links = tables["links"].group_by("link").aggregate([("delivered_bytes", "sum")])
    return dict(zip(links["link"].to_pylist(), links["delivered_bytes_sum"].to_pylist(), strict=True))


_SAID = "busy time of all processors under load: programs, kernel, emulator"


def processor_metrics(tables: Tables, spans: Schedule, delivered_bytes: float) -> Iterator[Metric]:
    """Yield the processor time under load, and its ratio to what was delivered.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        From `wavebed.result.tables.write_tables`; nothing without the series of the processors.
    spans : mapping of str to Span
        Of the workloads, by name; nothing without load.
    delivered_bytes : float
        IP bytes that left the bottleneck of each direction, and a second radio, under load.
    """
    loaded = load_spans(spans)
    cpu = tables.get("cpu")
    if cpu is None or not cpu.num_rows or not loaded:
        return
    end_ns, busy = cpu.column("time_ns").to_numpy(), cpu.column("busy").to_numpy()
    times = np.unique(end_ns)
    if len(times) < 2:
        return
    interval_s = float(np.median(np.diff(times))) / 1e9
    inside = np.zeros(len(end_ns), bool)
    for start_ms, end_ms in loaded:
        inside |= (end_ns > start_ms * 1e6) & (end_ns <= end_ms * 1e6)
    used_s = float(busy[inside].sum()) * interval_s
    per_gb = used_s / (delivered_bytes / 1e9) if delivered_bytes else None
    yield from named(used_s, per_gb)


def named(used_s: float | None, per_gb: float | None) -> Iterator[Metric]:
    """Return the metrics of the processors with these values."""
    yield Metric("processor time", used_s, "s", "lower", _SAID)
    yield Metric("processor time per GB", per_gb, "s/GB", "lower", f"{_SAID} / IP bytes delivered, both directions")


_PERCENTILES = (50, 95)
_DIRECTIONS = ("down", "up")


def transport_metrics(
    tables: Tables, spans: Schedule, aside: Collection[str] = (), clients: Collection[str] = ("client",)
) -> list[Metric]:
    """Return the metrics of the path and its flows under load; none without load.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        From `wavebed.result.tables.write_tables`.
    spans : mapping of str to Span
        Of the workloads, by name.
    aside : collection of str
        Links of a second radio, or of the devices of a cell: never the bottleneck; their delivered bytes count.
    clients : collection of str
        The client, or the devices of a cell.
    """
    courses = bottlenecks(tables, spans, aside)
    found: list[Metric] = []
    for direction, course in courses.items():
        found += _use(direction, course)
        found += _delays(direction, course)
        found += _recovery(direction, course)
    if any(span.is_load for span in spans.values()):
        fairness = {side: jain(bulk_bytes(tables, down=side == "down", clients=clients)) for side in _DIRECTIONS}
        found += _of_flows(retransmission_fraction(tables), fairness)
    carrying = [*(course.link for course in courses.values()), *aside]
    found += processor_metrics(tables, spans, delivered_bytes(tables, spans, carrying))
    return found


def known_transport_metrics() -> list[Metric]:
    """Return the metrics of `transport_metrics` without values; a path without a rate lacks some of them."""
    none, times = np.empty(0), np.empty(0, np.int64)
    course = LinkCourse("the bottleneck", np.empty(0, bool), 0, none, none, none, none, None, times, 0.0)
    found = [each for side in _DIRECTIONS for part in (_use, _delays, _recovery) for each in part(side, course)]
    return [*found, *_of_flows(None, dict.fromkeys(_DIRECTIONS)), *named(None, None)]


def _use(direction: str, course: LinkCourse) -> Iterator[Metric]:
    possible = course.possible_bits()
    used = None if not possible else float(course.delivered_bits[course.load].sum()) / possible * 100
    yield Metric(
        f"share of capacity used {direction}", used, "%", "higher", f"delivered bits / capacity of {course.link}"
    )
    yield Metric(
        f"time to ramp up {direction}",
        ramp_up_s(course),
        "s",
        "lower",
        "to the end of the first 100 ms with 90 % of the capacity",
    )


def _delays(direction: str, course: LinkCourse) -> Iterator[Metric]:
    signal, least = signal_delay_ms(course), omniscient_delay_ms(course)
    for percentile in _PERCENTILES:
        queueing = queueing_delay_ms(course, percentile)
        yield Metric(
            f"queueing delay p{percentile} {direction}", queueing, "ms", "lower", "time in the queue, by bytes"
        )
        if signal is None or least is None:
            age = bound = inflicted = None
        else:
            age = float(np.percentile(signal[course.load], percentile))
            bound = float(np.percentile(least[course.load], percentile))
            inflicted = age - bound
        yield Metric(f"signal delay p{percentile} {direction}", age, "ms", "lower", "Sprout 2013, without propagation")
        yield Metric(
            f"omniscient delay p{percentile} {direction}", bound, "ms", "neither", "Sprout 2013, without propagation"
        )
        yield Metric(
            f"self-inflicted delay p{percentile} {direction}",
            inflicted,
            "ms",
            "lower",
            "Sprout 2013: signal delay - omniscient delay",
        )


def _recovery(direction: str, course: LinkCourse) -> Iterator[Metric]:
    found = recoveries(course)
    # A direction whose capacity was never used (acknowledgements) has no recovery.
    judged = bool(found) and ramp_up_s(course) is not None
    times = [each.recovery_s for each in found if judged and each.recovery_s is not None]
    said = "to the end of the first 100 ms with 90 % of the capacity after a change"
    yield Metric(f"time to recover p50 {direction}", float(np.median(times)) if times else None, "s", "lower", said)
    yield Metric(f"time to recover max {direction}", max(times, default=None), "s", "lower", said)
    yield Metric(f"changes of capacity {direction}", len(found), "", "neither", "of state, or of rate by more than two")
    missed = len(found) - len(times)
    yield Metric(
        f"changes not recovered from {direction}", missed if judged else None, "", "lower", "before the next change"
    )


def _of_flows(fraction: float | None, fairness: Mapping[str, float | None]) -> Iterator[Metric]:
    yield Metric(
        "retransmission share",
        None if fraction is None else fraction * 100,
        "%",
        "lower",
        "TCP_INFO: bytes_retrans / bytes_sent, over all flows",
    )
    for direction, index in fairness.items():
        yield Metric(f"fairness between flows {direction}", index, "", "higher", "Jain 1984")
