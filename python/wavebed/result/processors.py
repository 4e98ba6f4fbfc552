"""Processor time of a trial, from the series of the processors: what a remedy costs beside no remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.result.course import load_spans
from wavebed.workload.model import Metric

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wavebed.result.course import Tables
    from wavebed.workload.model import Schedule

__all__ = ["processor_metrics"]

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
