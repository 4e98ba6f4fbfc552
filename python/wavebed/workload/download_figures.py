"""Metrics and details of a download from the figures that curl writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from wavebed.config.data import number_in
from wavebed.errors import UserError
from wavebed.workload.model import Metric
from wavebed.workload.waiting import output_of

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.workload.model import Status

__all__ = ["details_of", "metrics_of", "part_figures", "read_figures"]


def part_figures(log: Path, output: Path) -> None:
    """Move curl's figures, the last line that it wrote, from its log to the file of its output."""
    messages, _, figures = log.read_text(encoding="utf-8", errors="replace").rpartition("\n")
    if figures.startswith("{"):
        log.write_text(messages, encoding="utf-8")
        output.write_text(figures, encoding="utf-8")


def read_figures(file: Path) -> dict[str, object] | None:
    """Return curl's figures; ``None`` without them."""
    try:
        figures = json.loads(output_of(file))
    except (UserError, ValueError):
        return None
    return figures if isinstance(figures, dict) and number_in(figures, "exitcode") is not None else None


def _moment(figures: dict[str, object], key: str) -> float | None:
    """Return a time of curl in ms; ``None`` for curl's 0 (has not happened)."""
    seconds = number_in(figures, key)
    return seconds * 1e3 if seconds else None


def metrics_of(
    figures: dict[str, object], status: Status, got_bytes: int | None, *, looks_up: bool = False
) -> list[Metric]:
    """Return the metrics of a download; `looks_up`: curl asks a resolver on the path for the server's name."""
    total_s = number_in(figures, "time_total")
    goodput = None if not total_s or got_bytes is None else got_bytes * 8 / total_s / 1e6
    complete_s = total_s if status == "ok" else None
    first_ms = _moment(figures, "time_starttransfer")
    metrics = [
        Metric("goodput", goodput, "Mbit/s", "higher", "curl size_download / time_total"),
        Metric("download time", complete_s, "s", "lower", "curl time_total"),
        Metric("time to first byte", first_ms, "ms", "lower", "curl time_starttransfer"),
        Metric("connect time", _moment(figures, "time_connect"), "ms", "lower", "curl time_connect"),
        Metric("bytes", got_bytes, "bytes", "higher", "curl size_download"),
    ]
    if looks_up:
        looked_up_ms = _moment(figures, "time_namelookup")
        metrics.append(Metric("name lookup", looked_up_ms, "ms", "lower", "curl time_namelookup"))
    return metrics


def details_of(figures: dict[str, object], size_bytes: int) -> dict[str, Json]:
    """Return the details of a download: its size, its version of HTTP and its flow."""
    return {
        "size_bytes": size_bytes,
        "http_version": str(figures.get("http_version")),
        "flow": {
            "local": f"{figures.get('local_ip')}:{figures.get('local_port')}",
            "remote": f"{figures.get('remote_ip')}:{figures.get('remote_port')}",
        },
    }
