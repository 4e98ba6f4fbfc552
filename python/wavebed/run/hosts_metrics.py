"""What the summary of a trial between real hosts says beside the checks: data volume, and the state of the modem."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, cast

from wavebed.workload.model import Event, Metric, Series

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wavebed.config.data import Json

__all__ = ["MODEM", "hosts_metrics", "modem_events", "modem_series"]

MODEM = "modem"
"""In the place of a workload's name, in the series of a trial."""


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


def _samples(summary: Mapping[str, Json]) -> list[dict[str, Json]]:
    return cast("list[dict[str, Json]]", cast("dict[str, Json]", summary.get("modem") or {}).get("samples") or [])


def modem_series(summary: Mapping[str, Json]) -> list[Series]:
    """Return the strength of the signal over time; nothing without a modem."""
    samples = _samples(summary)
    found = []
    for name, unit, key in (("rsrp", "dBm", "rsrp_dbm"), ("sinr", "dB", "sinr_db")):
        values = [cast("float | None", each[key]) for each in samples]
        if any(value is not None for value in values):
            found.append(Series(name, unit, [cast("float", each["time_s"]) for each in samples], values))
    return found


def modem_events(summary: Mapping[str, Json]) -> list[Event]:
    """Return the periods of each cell and band; nothing without a modem."""
    samples = _samples(summary)
    events = []
    for what in ("cell", "band"):
        known = [each for each in samples if each[what] is not None]
        for (value, first_s), last_s in _periods(known, what):
            events.append(Event(what, first_s, last_s, value))
    return events


def _periods(samples: Sequence[dict[str, Json]], what: str) -> Iterator[tuple[tuple[str, float], float]]:
    """Yield each value with its first time, and the time at which the next begins or the samples end."""
    for value, group in groupby(enumerate(samples), lambda pair: str(pair[1][what])):
        members = list(group)
        after = members[-1][0] + 1
        end = samples[after] if after < len(samples) else members[-1][1]
        yield (value, cast("float", members[0][1]["time_s"])), cast("float", end["time_s"])
