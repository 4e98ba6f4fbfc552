"""Ports and device of a forwarding test, as its specification names them."""

from __future__ import annotations

import ipaddress
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.config.problems import Problem
from wavebed.forward.command import EmulatedDevice, ForwardSpec, PeerPorts, RealPorts
from wavebed.forward.layout import Layout, Tags
from wavebed.forward.model import Span
from wavebed.forward.port import Port

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from wavebed.forward.iperf3 import Host

__all__ = ["Setup", "set_up"]

# RFC 2544, appendix C.2.2, and RFC 5180, section 8, set these addresses aside for tests of devices.
TEST_NETWORKS = {4: ("198.18.0.2", "198.18.1.2"), 6: ("2001:2::2", "2001:2:0:1::2")}
TEST_HOSTS = 16


@dataclass(frozen=True, slots=True)
class Setup:
    """The ports of a test and the device between them.

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

    tx: Port
    rx: Port
    layout: Layout
    kind: str
    cores: Collection[int] | None = None
    hosts: Callable[[], tuple[Host, Host]] | None = None
    overruns: Callable[[], int] | None = None
    doubts: tuple[str, ...] = ()


@contextmanager
def set_up(spec: ForwardSpec) -> Iterator[Setup]:
    """Open the ports, and make the device if it is to be made; all is gone afterwards."""
    if isinstance(spec.target, EmulatedDevice):
        from wavebed.forward.emulated import emulated_device

        with emulated_device(spec, spec.target) as setup:
            yield setup
        return
    with ExitStack() as stack:
        tx = stack.enter_context(Port.local(spec.target.tx))
        rx = stack.enter_context(_receiving(spec.target))
        yield Setup(tx, rx, _layout(spec, spec.target.tx, tx, rx), "external")


def _receiving(target: RealPorts | PeerPorts) -> Port:
    if isinstance(target, RealPorts):
        return Port.local(target.rx)
    return Port.remote(target.host, target.port, target.rx, target.token)


def _layout(spec: ForwardSpec, interface: str, tx: Port, rx: Port) -> Layout:
    """Return the test frames by the specification, and by the ports' own addresses where it names none."""
    version = 6 if spec.settings.headers.ipv6 else 4
    sources = spec.sources or _own(tx, version)
    if sources is None:
        sources = Span(TEST_NETWORKS[version][0], 1)
        if spec.gateway is not None and not _near(spec.gateway, str(sources.first), version):
            raise Problem(
                f"is missing: {interface} has no IPv{version} address of its own, and {sources.first} is not a"
                f" neighbour of {spec.gateway}: write an address of the device's network",
                "--sources",
            )
    destinations = spec.destinations or _own(rx, version) or Span(TEST_NETWORKS[version][1], TEST_HOSTS)
    tags = Tags(spec.vlan, spec.pppoe_session)
    return Layout(sources, destinations, next_hop=spec.gateway, flows=spec.flows, tags=tags)


def _own(port: Port, version: int) -> Span | None:
    """Return the first address of a port's interface that others can reach."""
    for text in port.describe().addresses:
        address = ipaddress.ip_interface(text)
        if address.version == version and not address.ip.is_link_local and not address.ip.is_loopback:
            return Span(str(address.ip), 1)
    return None


def _near(one: str, other: str, version: int) -> bool:
    network = ipaddress.ip_network(f"{other}/{24 if version == 4 else 64}", strict=False)
    return ipaddress.ip_address(one) in network
