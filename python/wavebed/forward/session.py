"""A forwarding test from its order to its record: ports, device, tester, all parts of the test, other tools beside."""

from __future__ import annotations

import ipaddress
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.config.problems import Problem
from wavebed.forward.command import MadeDevice, Order, PeerPorts, RealPorts
from wavebed.forward.layout import Layout, Tags
from wavebed.forward.model import Span
from wavebed.forward.port import Port

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from wavebed.forward.iperf3 import Host
    from wavebed.forward.port import TesterPort

__all__ = ["Setup", "set_up"]

# RFC 2544, appendix C.2.2, and RFC 5180, section 8, set these addresses aside for tests of devices.
TEST_NETWORKS = {4: ("198.18.0.2", "198.18.1.2"), 6: ("2001:2::2", "2001:2:0:1::2")}
TEST_HOSTS = 16


@dataclass(frozen=True, slots=True)
class Setup:
    """Where a test takes place.

    Parameters
    ----------
    kind : str
        Of the device.
    cores : collection of int, optional
        The device's processors, if it is on this machine.
    hosts : callable, optional
        Makes hosts of the sending and the receiving port, where other tools can run.
    overruns : callable, optional
        Counts frames that the tester itself lost behind the device.
    """

    tx: TesterPort
    rx: TesterPort
    layout: Layout
    kind: str
    cores: Collection[int] | None = None
    hosts: Callable[[], tuple[Host, Host]] | None = None
    overruns: Callable[[], int] | None = None
    doubts: tuple[str, ...] = ()


@contextmanager
def set_up(order: Order) -> Iterator[Setup]:
    """Open the ports, and make the device if it is to be made; all is gone afterwards."""
    if isinstance(order.target, MadeDevice):
        from wavebed.forward.made import made_device

        with made_device(order, order.target) as setup:
            yield setup
        return
    with ExitStack() as stack:
        tx = stack.enter_context(Port.local(order.target.tx))
        rx = stack.enter_context(_receiving(order.target))
        yield Setup(tx, rx, _layout(order, order.target.tx, tx, rx), "external")


def _receiving(target: RealPorts | PeerPorts) -> Port:
    if isinstance(target, RealPorts):
        return Port.local(target.rx)
    return Port.remote(target.host, target.port, target.rx, target.token)


def _layout(order: Order, interface: str, tx: TesterPort, rx: TesterPort) -> Layout:
    """Return what the test frames say, from the order, and from the ports' own addresses where it says nothing."""
    version = 6 if order.settings.headers.ipv6 else 4
    sources = order.sources or _own(tx, version)
    if sources is None:
        sources = Span(TEST_NETWORKS[version][0], 1)
        if order.gateway is not None and not _near(order.gateway, str(sources.first), version):
            raise Problem(
                f"is missing: {interface} has no IPv{version} address of its own, and {sources.first} is not a"
                f" neighbour of {order.gateway}: write an address of the device's network",
                "--sources",
            )
    destinations = order.destinations or _own(rx, version) or Span(TEST_NETWORKS[version][1], TEST_HOSTS)
    tags = Tags(order.vlan, order.pppoe_session)
    return Layout(sources, destinations, next_hop=order.gateway, flows=order.flows, tags=tags)


def _own(port: TesterPort, version: int) -> Span | None:
    """Return the first address of a port's interface that others can reach."""
    for text in port.describe().addresses:
        address = ipaddress.ip_interface(text)
        if address.version == version and not address.ip.is_link_local and not address.ip.is_loopback:
            return Span(str(address.ip), 1)
    return None


def _near(one: str, other: str, version: int) -> bool:
    network = ipaddress.ip_network(f"{other}/{24 if version == 4 else 64}", strict=False)
    return ipaddress.ip_address(one) in network
