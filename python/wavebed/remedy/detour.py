"""Traffic between two hosts of a path, routed into a device instead of the path's own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.errors import WavebedError
from wavebed.lab.tools import find
from wavebed.remedy.model import HOSTS
from wavebed.remedy.program import said_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.lab.protocol import Host, Lab

__all__ = ["Detour", "End", "ends_of", "number_to"]

_FIRST = 2860
_BEFORE = 100
"""Priorities between the rule for the tunnel's own packets and that for all others."""


@dataclass(frozen=True, slots=True)
class End:
    """One of the two hosts.

    Parameters
    ----------
    host : Host
        The host.
    device, address : str
        The path's device towards the other host, and the host's own address for it.
    mtu : int
        Of the device, bytes.
    """

    host: Host
    device: str
    address: str
    mtu: int


def ends_of(lab: Lab, host: str, peer: str) -> tuple[End, End]:
    """Return the two ends, the one nearer to the server first.

    Raises
    ------
    WavebedError
        If a host does not tell its addresses.
    """
    near, far = (lab.host(name) for name in sorted((host, peer), key=HOSTS.index))
    # Any address of the far host will do to find the route there, which tells the near one's own.
    first = _end(near, _some_address(far))
    return first, _end(far, first.address)


def _some_address(host: Host) -> str:
    found = json.loads(said_on(host, [find("ip"), "-json", "-4", "address", "show", "scope", "global"]))
    for device in found:
        for address in device.get("addr_info", ()):
            return str(address["local"])
    raise WavebedError(f"on {host.name}: no device has an IPv4 address")


def _end(host: Host, to: str) -> End:
    (route,) = json.loads(said_on(host, [find("ip"), "-json", "route", "get", to]))
    (link,) = json.loads(said_on(host, [find("ip"), "-json", "link", "show", "dev", route["dev"]]))
    return End(host, route["dev"], route["prefsrc"], link["mtu"])


class Detour:
    """Rules and routes on one host, by which all that would leave by the path's device leaves by another one.

    The routes are those of the path, with their source addresses and congestion control, without the default route:
    packets to nowhere would pass to and fro in the tunnel. The tunnel's own packets, UDP at one port of one address,
    keep to the path.

    Parameters
    ----------
    end : End
        The host.
    other : str
        Name of the host at the other end.
    own : str
        Which packets are the tunnel's own, as a selector of ``ip rule``: ``to 198.18.0.1 ipproto udp dport 2861``.
    carried : sequence of str
        Selectors of the packets that are routed into the other device; by default all.
    """

    def __init__(self, end: End, other: str, own: str, carried: Sequence[str] = ("from all",)) -> None:
        self._end = end
        self._table = number_to(other)
        self._own = own
        self._carried = carried
        self._families: list[str] = []

    def begin(self, device: str) -> None:
        """Route the traffic into `device`, which exists and is up.

        Raises
        ------
        WavebedError
            If a rule or a route is refused.
        """
        for family in ("-4", "-6"):
            routes = self._routes(family, device)
            if not routes:
                continue
            rules = [f"rule add {each} lookup {self._table} priority {self._table}" for each in self._carried]
            if family == "-4":
                rules.insert(0, f"rule add {self._own} lookup main priority {self._table - _BEFORE}")
            self._batch(family, [*routes, *rules])
            self._families.append(family)

    def end(self) -> None:
        """Remove the rules and routes.

        Raises
        ------
        WavebedError
            If one cannot be removed.
        """
        while self._families:
            family = self._families.pop()
            rules = [f"rule del {each} priority {self._table}" for each in self._carried]
            if family == "-4":
                rules.append(f"rule del priority {self._table - _BEFORE}")
            self._batch(family, rules)  # the routes go with their device

    def _routes(self, family: str, device: str) -> list[str]:
        shown = said_on(self._end.host, [find("ip"), family, "route", "show", "dev", self._end.device])
        lines = [line.strip() for line in shown.splitlines() if line.strip()]
        # The kernel's own are to this host's addresses, and to link-local ones.
        lines = [line for line in lines if "proto kernel" not in line and not line.startswith("default ")]
        return [f"route add {line} dev {device} table {self._table}" for line in lines]

    def _batch(self, family: str, commands: list[str]) -> None:
        said_on(self._end.host, [find("ip"), family, "-batch", "-"], "".join(f"{each}\n" for each in commands))


def number_to(other: str) -> int:
    """Return the number of what is for a host at the other end: routing table, priority of its rule, UDP port."""
    return _FIRST + HOSTS.index(other)
