"""Retransmissions and fairness from the flows' TCP_INFO."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from wavebed.result.course import Tables

__all__ = ["bulk_bytes", "connections", "jain", "retransmission_fraction"]

BULK_BUSY = 0.5
"""A flow is bulk if it had data to send for at least this fraction of its time."""
LEAST_S = 1.0
"""Shortest flow, and shortest time common to all flows, that is used."""
_WITHIN_HOST = r"^(127\.|\[?::1\]?:|\[?::ffff:127\.)"
_Rows = dict[str, np.ndarray]
"""Columns of one connection, in order of time; a missing number is NaN."""


def connections(flows: pa.Table) -> pa.Table:
    """Return the rows of the connections between hosts, in order of time."""
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


def bulk_bytes(tables: Tables, *, down: bool) -> list[float]:
    """Return the bytes acknowledged of each bulk flow in the time common to all of them.

    Parameters
    ----------
    down : bool
        Flows towards the client; otherwise from it.
    """
    found = _each(tables["flows"], ["bytes_acked", "busy_us"])
    bulk = [rows for host, rows in found if (host != "client") == down and _is_bulk(rows)]
    if not bulk:
        return []
    start = max(int(rows["time_ns"][0]) for rows in bulk)
    end = min(int(rows["time_ns"][-1]) for rows in bulk)
    if end - start < LEAST_S * 1e9:
        return []
    return [_acked(rows, end) - _acked(rows, start) for rows in bulk]


def _each(flows: pa.Table, columns: list[str]) -> Iterator[tuple[str, _Rows]]:
    """Yield the host and the columns of each connection, in the order of hosts and cookies."""
    rows = connections(flows.select(["time_ns", "host", "cookie", "remote", *columns]))
    rows = rows.filter(pc.and_(pc.is_valid(rows.column("host")), pc.is_valid(rows.column("cookie"))))
    host = rows.column("host").combine_chunks().dictionary_encode()
    cookie = rows.column("cookie").to_numpy()
    names = host.dictionary.to_pylist()
    hosts = sorted(names)
    number = np.searchsorted(hosts, names)[host.indices.to_numpy()]
    order = np.lexsort((cookie, number))  # stable: those of a connection stay in order of time
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
