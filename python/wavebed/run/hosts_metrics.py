"""Metrics of a trial between real hosts from its summary: what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from wavebed.workload.model import Metric

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.config.data import Json

__all__ = ["hosts_metrics"]


def hosts_metrics(summary: Mapping[str, Json]) -> list[Metric]:
    """Return the data volume of a trial.

    Parameters
    ----------
    summary : mapping
        From `wavebed.hosts.lab.RealHosts`; empty if the trial ended without one.
    """
    hosts = cast("list[dict[str, Json]]", summary.get("hosts") or [])
    client = next((host for host in hosts if host["name"] == "client"), {})
    parts = [client.get("rx_bytes"), client.get("tx_bytes")]
    known = [each for each in parts if isinstance(each, int)]
    volume_mb = sum(known) / 1e6 if len(known) == len(parts) else None
    about = "all bytes of the client's interface in the trial, both ways, with Ethernet's headers"
    return [Metric("data volume", volume_mb, "MB", "lower", about)]
