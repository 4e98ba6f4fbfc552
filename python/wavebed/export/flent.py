"""Export a trial as a data file of flent (format version 4), named after the flent test with suitable plots."""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from wavebed import __version__
from wavebed.errors import UserError
from wavebed.output import write_output
from wavebed.result.devices import cell_of
from wavebed.result.transport import connections

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import pandas as pd

    from wavebed.export.trial import ExportedTrial
    from wavebed.result.model import TrialRecord
    from wavebed.store.load import Run


FLENT_FORMAT = 4
SUFFIX = ".flent.gz"
STEP_S = 0.2
"""Flent's usual step."""
LEAST_BYTES = 100_000
"""Smaller flows (requests, control connections) are left out."""
_PINGS = {"rtt": "ICMP", "udp rtt": "UDP"}


@dataclass(frozen=True)
class _Series:
    """A series of flent: its name and unit, times (s) and values."""

    name: str
    unit: str
    time_s: Sequence[float]
    value: Sequence[float]

    def on_grid(self, steps: int) -> list[float | None]:
        """Return the mean of each step; ``None`` without a value."""
        at = np.asarray(self.time_s) // STEP_S
        value = np.asarray(self.value, dtype=np.float64)
        keep = (at >= 0) & (at < steps) & np.isfinite(value)
        place = at[keep].astype(np.int64)
        count = np.bincount(place, minlength=steps)
        total = np.bincount(place, weights=value[keep], minlength=steps)
        return [float(sums / number) if number else None for sums, number in zip(total, count, strict=True)]


def export_flent(opened: ExportedTrial, file: Path) -> str:
    """Write one trial as a file for ``flent FILE``.

    Parameters
    ----------
    opened : ExportedTrial
        The trial.
    file : pathlib.Path
        ``NAME.flent.gz``.

    Returns
    -------
    str
        Name of the flent test.

    Raises
    ------
    UserError
        If the trial has neither flows nor pings.
    """
    if not file.name.endswith(SUFFIX):
        raise UserError(f"{file}: flent opens only files with the ending {SUFFIX}: write one")
    run, record = opened.run, opened.record
    trial = record.folder
    clients = cell_of(record)[1] or ["client"]
    downs, ups = _throughputs(run, trial, clients)
    pings = _pings(run, record)
    if not (downs or ups or pings):
        raise UserError(f"{run.folder}: trial {trial} has neither TCP flows nor pings: flent has nothing to plot")
    name, series = _as_test(downs, ups, pings)
    text = json.dumps(_document(run, record, name, series, (len(downs), len(ups))), allow_nan=False)
    write_output(file, gzip.compress(text.encode()))
    return name


def _throughputs(run: Run, trial: str, clients: Sequence[str]) -> tuple[list[_Series], list[_Series]]:
    """Return the throughput of each flow towards the clients, and from them, without names."""
    downs: list[_Series] = []
    ups: list[_Series] = []
    for (host, _), rows in (
        connections(run.arrow("flows", trial=trial)).to_pandas().groupby(["host", "cookie"], observed=True)
    ):
        acked = rows["bytes_acked"].dropna()
        if len(acked) < 2 or acked.iloc[-1] < LEAST_BYTES:
            continue
        (ups if host in clients else downs).append(_throughput(rows.loc[acked.index]))
    return downs, ups


def _throughput(rows: pd.DataFrame) -> _Series:
    """Return the acknowledged throughput in each step, Mbit/s."""
    time_s = rows["time_ns"].to_numpy() / 1e9
    acked = rows["bytes_acked"].to_numpy(dtype=np.float64)
    first, last = math.floor(time_s[0] / STEP_S), math.ceil(time_s[-1] / STEP_S)
    edges = np.arange(first, last + 1) * STEP_S
    # Between samples the counter is interpolated linearly.
    rate = np.diff(np.interp(edges, time_s, acked)) * 8 / STEP_S / 1e6
    return _Series("", "Mbits/s", list(edges[:-1] + STEP_S / 2), list(rate))


def _pings(run: Run, record: TrialRecord) -> list[_Series]:
    samples = run.table("samples", trial=record.folder)
    found = []
    for name, kind in _PINGS.items():
        for workload in record.workloads:
            mine = samples[(samples["workload"] == workload.name) & (samples["series"] == name)]
            if workload.kind == "latency" and mine["value"].notna().any():
                found.append(_Series(f"Ping (ms) {kind}", "ms", list(mine["time_s"]), list(mine["value"])))
                break
    return found


def _as_test(downs: Sequence[_Series], ups: Sequence[_Series], pings: Sequence[_Series]) -> tuple[str, list[_Series]]:
    """Return the flent test for these series, and the series with its names."""
    if downs and ups:
        return "tcp_bidirectional", [_sum("TCP download", downs), _sum("TCP upload", ups), *pings]
    if not downs and not ups:
        return "ping", list(pings)
    word, name = ("download", "tcp_ndown") if downs else ("upload", "tcp_nup")
    flows = [replace(flow, name=f"TCP {word}::{number}") for number, flow in enumerate(downs or ups, start=1)]
    # Flent computes sum, average and fairness itself.
    return name, [*flows, *pings]


def _sum(name: str, parts: Sequence[_Series]) -> _Series:
    total: dict[float, float] = {}
    for part in parts:
        for at, value in zip(part.time_s, part.value, strict=True):
            # Times are the middles of steps of one grid; rounding makes equal times identical.
            total[round(at, 6)] = total.get(round(at, 6), 0.0) + value
    ordered = sorted(total.items())
    return _Series(name, parts[0].unit, [at for at, _ in ordered], [value for _, value in ordered])


def _document(
    run: Run, record: TrialRecord, name: str, series: Sequence[_Series], streams: tuple[int, int]
) -> dict[str, object]:
    steps = max(math.floor(max(each.time_s) / STEP_S) + 1 for each in series)
    length_s = round(steps * STEP_S)
    zero = datetime.fromisoformat(record.started).astimezone(UTC)
    down, up = streams
    return {
        "version": FLENT_FORMAT,
        "x_values": [round(step * STEP_S, 6) for step in range(steps)],
        "results": {each.name: each.on_grid(steps) for each in series},
        "raw_values": {each.name: _raw(each, zero) for each in series},
        "metadata": {
            "NAME": name,
            "TITLE": f"{run.record.title} {record.treatment}",
            "NOTE": f"trial {record.folder}, seed {record.seed}, {record.verdict}; exported by wavebed {__version__}",
            "TIME": _flent_time(zero),
            "T0": _flent_time(zero),
            "HOST": "server",
            "HOSTS": ["server"],
            "LOCAL_HOST": (cell_of(record)[1] or ["client"])[0],
            "LENGTH": length_s,
            "TOTAL_LENGTH": length_s,
            "STEP_SIZE": STEP_S,
            "IP_VERSION": 4,
            "KERNEL_NAME": "Linux",
            "KERNEL_RELEASE": run.record.versions.get("kernel"),
            "TEST_PARAMETERS": {"download_streams": str(down), "upload_streams": str(up)},
            "SERIES_META": {each.name: {"UNITS": each.unit, "MEAN_VALUE": _mean(each.value)} for each in series},
        },
    }


def _raw(series: _Series, zero: datetime) -> list[dict[str, float]]:
    return [
        {"t": (zero + timedelta(seconds=float(at))).timestamp(), "val": float(value)}
        for at, value in zip(series.time_s, series.value, strict=True)
        if math.isfinite(value)
    ]


def _mean(values: Iterable[float]) -> float | None:
    known = [value for value in values if math.isfinite(value)]
    return math.fsum(known) / len(known) if known else None


def _flent_time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
