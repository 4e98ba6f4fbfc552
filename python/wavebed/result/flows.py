"""Retransmissions and fairness from the flows' TCP_INFO."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from wavebed.result.course import Tables

__all__ = ["bulk_bytes", "connections", "jain", "retransmission_fraction"]

BULK_BUSY = 0.5
"""A flow is bulk if it had data to send for at least this fraction of its time."""
LEAST_S = 1.0
"""Shortest flow, and shortest time common to all flows, that is used."""
_COLUMNS = ["time_ns", "host", "cookie", "remote", "bytes_sent", "bytes_retrans", "bytes_acked", "busy_us"]


def connections(flows: pa.Table) -> pd.DataFrame:
    """Return the rows of the connections between hosts, in order of time."""
    frame: pd.DataFrame = flows.select(_COLUMNS).to_pandas()
    within_host = frame["remote"].fillna("").str.match(r"127\.|\[?::1\]?:|\[?::ffff:127\.")
    return frame[~within_host.astype(bool)].sort_values("time_ns", kind="stable")


def retransmission_fraction(tables: Tables) -> float | None:
    """Return retransmitted bytes / sent bytes of all flows; ``None`` if nothing was sent."""
    last = (
        connections(tables["flows"])
        .groupby(["host", "cookie"], observed=True)[["bytes_sent", "bytes_retrans"]]
        .max()
        .dropna()
    )
    sent = float(last["bytes_sent"].sum())
    return float(last["bytes_retrans"].sum()) / sent if sent > 0 else None


def bulk_bytes(tables: Tables, *, down: bool) -> list[float]:
    """Return the bytes acknowledged of each bulk flow in the time common to all of them.

    Parameters
    ----------
    down : bool
        Flows towards the client; otherwise from it.
    """
    frame = connections(tables["flows"])
    frame = frame[(frame["host"] != "client") if down else (frame["host"] == "client")]
    bulk = [rows for _, rows in frame.groupby(["host", "cookie"], observed=True) if _is_bulk(rows)]
    if not bulk:
        return []
    start = max(int(rows["time_ns"].iloc[0]) for rows in bulk)
    end = min(int(rows["time_ns"].iloc[-1]) for rows in bulk)
    if end - start < LEAST_S * 1e9:
        return []
    return [_acked(rows, end) - _acked(rows, start) for rows in bulk]


def _is_bulk(rows: pd.DataFrame) -> bool:
    lasted_us = (int(rows["time_ns"].iloc[-1]) - int(rows["time_ns"].iloc[0])) / 1000
    busy = rows["busy_us"].dropna()
    if lasted_us < LEAST_S * 1e6 or len(busy) == 0 or rows["bytes_acked"].isna().all():
        return False
    return float(busy.iloc[-1] - busy.iloc[0]) >= BULK_BUSY * lasted_us


def _acked(rows: pd.DataFrame, at_ns: int) -> float:
    place = int(np.searchsorted(rows["time_ns"].to_numpy(), at_ns, side="right")) - 1
    return float(rows["bytes_acked"].iloc[place])


def jain(throughputs: list[float]) -> float | None:
    """Return Jain's index of fairness; ``None`` for fewer than two flows, or if all are 0."""
    squares = sum(each * each for each in throughputs)
    if len(throughputs) < 2 or squares == 0:
        return None
    return sum(throughputs) ** 2 / (len(throughputs) * squares)
