"""A device made in namespaces, with a port of the tester on either side."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from wavebed.forward.bench import Bench
from wavebed.forward.device import read_device
from wavebed.forward.iperf3 import Host
from wavebed.forward.port import Port
from wavebed.forward.session import Setup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wavebed.forward.command import MadeDevice, Order
    from wavebed.forward.device.model import Device

__all__ = ["made_device"]

PREFIX_BITS = 24


@contextmanager
def made_device(order: Order, target: MadeDevice) -> Iterator[Setup]:
    """Make the bench, the device and the ports; all is gone afterwards.

    Raises
    ------
    MachineError
        If this machine cannot make them.
    """
    device = read_device(target.text)
    with ExitStack() as stack:
        bench = stack.enter_context(Bench())
        device.set_up(bench)
        stack.callback(device.tear_down)
        tx, rx = (
            stack.enter_context(Port.local(port.interface, netns=port.namespace, core=bench.tester_core))
            for port in (bench.tx, bench.rx)
        )
        yield Setup(
            tx,
            rx,
            device.layout(6 if order.settings.headers.ipv6 else 4, order.flows),
            device.name,
            cores=None if bench.device_core is None else [bench.device_core],
            hosts=lambda: _hosts(bench, device),
            overruns=bench.receiver_overruns,
            doubts=tuple(bench.doubts),
        )


def _hosts(bench: Bench, device: Device) -> tuple[Host, Host]:
    """Give the tester's ports the addresses that it answered for until now, so that programs can use them."""
    layout = device.layout(4)
    hosts = []
    for port, span, hop in (
        (bench.tx, layout.sources, layout.next_hop),
        (bench.rx, layout.destinations, layout.back_hop),
    ):
        lines = [f"address add {span.first}/{PREFIX_BITS} dev {port.interface}"]
        lines += [f"route add default via {hop} dev {port.interface}"] if hop is not None else []
        bench.batch(lines, port.namespace)
        hosts.append(Host(port.namespace, str(span.first), bench.tester_core))
    return hosts[0], hosts[1]
