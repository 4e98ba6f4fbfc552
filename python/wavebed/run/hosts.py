"""The summary of a trial between real hosts: its checks, data volume, and the state of the modem."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import groupby, pairwise
from math import sqrt
from statistics import median
from typing import TYPE_CHECKING, cast

from wavebed.result.model import Check
from wavebed.run.checks import BUSY_FRACTION
from wavebed.workload.model import Event, Metric, Series

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wavebed.config.data import Json

LATE_FRACTION = 0.02
"""Suspect if more of a host's samples of its processors were late by half an interval."""
LEAST_PINGS = 10
SHIFT_MS, SHIFT_PART = 1.0, 0.25
"""A shift of the idle round-trip time below either is no sign of cross traffic."""
_CORRELATION_BIAS = 0.1
"""The correlation of twenty pings is estimated too low by this much."""
SHIFT_Z = 3.29
"""Of the statistic of Mann and Whitney: exceeded by chance once in a thousand trials, from either side."""


def hosts_checks(summary: Mapping[str, Json]) -> list[Check]:
    """Return the checks of a trial between real hosts.

    Parameters
    ----------
    summary : mapping
        From `wavebed.hosts.lab.RealHosts`; empty if the trial ended without one.
    """
    if not summary:
        return [
            Check("the hosts gave their counters", False, "invalid", "the trial ended without a summary", "no-summary")
        ]
    hosts = cast("list[dict[str, Json]]", summary["hosts"])
    idle = cast("dict[str, list[float]]", summary.get("idle_rtts_ms") or {})
    return [
        _address_check(hosts),
        _clock_check(hosts),
        _drops_check(hosts),
        _load_check(hosts),
        _cell_check(cast("dict[str, Json]", summary.get("modem") or {})),
        cross_traffic_check(idle.get("before", []), idle.get("after", [])),
    ]


def _address_check(hosts: list[dict[str, Json]]) -> Check:
    changed = [
        f"{host['name']}: {host['address']} became {host['address_at_end']}"
        for host in hosts
        if host["address"] != host["address_at_end"]
    ]
    told = "; ".join(changed) or ", ".join(f"{host['name']} {host['address'] or 'unknown'}" for host in hosts)
    return Check("addresses stayed the same", not changed, "invalid", told, "address-changed")


def _clock_check(hosts: list[dict[str, Json]]) -> Check:
    was_set = [str(host["name"]) for host in hosts if host.get("clock_error_s") is None]
    told = ", ".join(
        f"{host['name']} {1e3 * cast('float', host['clock_ahead_s']):+.3f} ms"
        f" (error at most {1e3 * cast('float', host['clock_error_s']):.3f} ms)"
        for host in hosts
        if host.get("clock_error_s") is not None
    )
    if was_set:
        told = f"the clock of {' and '.join(was_set)} was set during the trial" + (f"; {told}" if told else "")
    return Check("clocks ran on", not was_set, "suspect", told, "clock-set")


def _drops_check(hosts: list[dict[str, Json]]) -> Check:
    dropped = {str(host["name"]): _drops(host) for host in hosts}
    told = ", ".join(f"{count} by the interface of {name}" for name, count in dropped.items())
    return Check("no loss at the interfaces of the hosts", not any(dropped.values()), "suspect", told, "lost-at-host")


def _drops(host: Mapping[str, Json]) -> int:
    return cast("int", host.get("rx_dropped") or 0) + cast("int", host.get("tx_dropped") or 0)


def _cell_check(modem: Mapping[str, Json]) -> Check:
    samples = cast("list[dict[str, Json]]", modem.get("samples") or [])
    found = {
        what: list(dict.fromkeys(str(each[what]) for each in samples if each[what] is not None))
        for what in ("cell", "band")
    }
    changed = any(len(values) > 1 for values in found.values())
    told = "; ".join(f"{what} {' then '.join(values)}" for what, values in found.items() if values)
    return Check("cell and band stayed the same", not changed, "suspect", told or "not known", "cell-changed")


def _load_check(hosts: list[dict[str, Json]]) -> Check:
    slow, told = False, []
    for host in hosts:
        load = cast("dict[str, int]", host.get("load") or {})
        intervals, saturated, late = (load.get(key, 0) for key in ("intervals", "saturated", "late"))
        slow = slow or saturated > BUSY_FRACTION * intervals or late > max(1, LATE_FRACTION * intervals)
        told.append(f"{host['name']}: saturated in {saturated} of {intervals} intervals of 0.1 s, {late} samples late")
    bounds = f" (bounds {BUSY_FRACTION:.0%} and {LATE_FRACTION:.0%})"
    return Check("every host kept up", not slow, "suspect", "; ".join(told) + bounds, "host-slow")


def cross_traffic_check(before: Sequence[float], after: Sequence[float]) -> Check:
    """Compare the round-trip times of the idle path before and after a trial.

    Cross traffic is suspected if the medians differ by more than `SHIFT_PART` of the lower one and by more than
    `SHIFT_MS`, and the statistic of Mann and Whitney is beyond `SHIFT_Z`. So without any cross traffic at most
    one trial in a thousand is suspected if pings are independent; docs/guides/hosts.md has the rate where they are not.
    """
    name, code = "no sign of cross traffic", "cross-traffic"
    if min(len(before), len(after)) < LEAST_PINGS:
        told = f"not judged: {len(before)} pings answered before the trial, {len(after)} after it"
        return Check(name, True, "suspect", told, code)
    first_ms, last_ms = median(before), median(after)
    shift_ms = abs(last_ms - first_ms)
    is_large = shift_ms > max(SHIFT_MS, SHIFT_PART * min(first_ms, last_ms))
    suspected = is_large and abs(_mann_whitney_z(before, after)) > SHIFT_Z
    told = f"median round trip of the idle path {first_ms:.3g} ms before the trial, {last_ms:.3g} ms after it"
    return Check(name, not suspected, "suspect", told, code)


def _mann_whitney_z(first: Sequence[float], second: Sequence[float]) -> float:
    """Return how far the second values are above the first, in standard deviations of equal ones.

    Neighbours that are alike say less than independent ones: the deviation grows with their correlation.
    """
    pairs = len(first) * len(second)
    above = sum((b > a) + (b == a) / 2 for a in first for b in second)
    alike = max((_correlation(first) + _correlation(second)) / 2, 0.0) + _CORRELATION_BIAS
    variance = pairs * (len(first) + len(second) + 1) / 12 * (1 + alike) / (1 - alike)
    return float((above - pairs / 2) / sqrt(variance))


def _correlation(values: Sequence[float]) -> float:
    """Return the correlation of neighbours, by their ranks."""
    order = sorted(values)
    middle = (len(values) - 1) / 2
    ranks = [(bisect_left(order, each) + bisect_right(order, each) - 1) / 2 - middle for each in values]
    spread = sum(each * each for each in ranks)
    return sum(a * b for a, b in pairwise(ranks)) / spread if spread else 0.0


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
