"""Metrics of the path for requirements, beside those of the transport: what links delivered and dropped, and RTT."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from wavebed.result.parquet import read_parquet
from wavebed.workload.model import Metric

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.result.model import TrialRecord

__all__ = ["known_link_metrics", "link_metrics"]

_RTTS = ("p50", "p95", "max")


def link_metrics(trial: TrialRecord, folder: Path) -> list[Metric]:
    """Return what the path delivered and dropped, by direction, and the RTT of TCP connections.

    Parameters
    ----------
    folder : pathlib.Path
        Of the trial.

    Raises
    ------
    UserError
        If its table of flows is damaged.
    """
    links = cast("list[Mapping[str, Json]]", trial.engine.get("links") or [])
    spans = [each.span for each in trial.workloads if each.span is not None]
    lasted_s = max((span.end_s for span in spans), default=0.0) - min((span.start_s for span in spans), default=0.0)
    found = [metric for direction in ("down", "up") for metric in _of_direction(links, direction, lasted_s)]
    return found + _rtts(folder / "series" / "flows.parquet")


def known_link_metrics() -> list[Metric]:
    """Return the metrics of `link_metrics` without values."""
    none = [_of_direction([{"name": f".{each}", "delivered_bytes": 0}], each, 0.0) for each in ("down", "up")]
    return [*none[0], *none[1], *_rtt_metrics([])]


def _of_direction(links: Sequence[Mapping[str, Json]], direction: str, lasted_s: float) -> list[Metric]:
    own = [link for link in links if cast("str", link["name"]).endswith(f".{direction}")]
    if not own:
        return []
    # The far end of the downlink is the last hop, that of the uplink the first.
    last = own[-1] if direction == "down" else own[0]
    delivered = cast("int", last["delivered_bytes"])
    dropped = sum(sum(cast("Mapping[str, int]", link.get("dropped_segments") or {}).values()) for link in own)
    rate = delivered * 8 / 1e6 / lasted_s if lasted_s > 0 else None
    return [
        Metric(f"delivered {direction}", rate, "Mbit/s", "higher", "IP bytes / time of the workloads"),
        Metric(f"dropped {direction}", float(dropped), "segments", "lower", "on all hops, whatever the reason"),
    ]


def _rtts(file: Path) -> list[Metric]:
    """Return percentiles of the smoothed RTT of all connections of the client's host, a sample every 10 ms."""
    values: list[float] = []
    if file.exists():
        table = read_parquet(file, ["host", "rtt_us"])
        pairs = zip(table.column("host").to_pylist(), table.column("rtt_us").to_pylist(), strict=True)
        values = [rtt_us / 1e3 for host, rtt_us in pairs if host == "client" and rtt_us is not None]
    return _rtt_metrics(values)


def _rtt_metrics(values: Sequence[float]) -> list[Metric]:
    found = [float(value) for value in np.percentile(values, (50, 95, 100))] if values else [None] * len(_RTTS)
    return [
        Metric(f"tcp rtt {name}", value, "ms", "lower", "smoothed RTT of TCP_INFO at the client, all connections")
        for name, value in zip(_RTTS, found, strict=True)
    ]
