"""Checks of a trial between real hosts, whose network is not ours: what its summary says of hosts and clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from wavebed.result.model import Check

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.config.data import Json

__all__ = ["hosts_checks"]


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
    return [_address_check(hosts), _clock_check(hosts), _drops_check(hosts)]


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
