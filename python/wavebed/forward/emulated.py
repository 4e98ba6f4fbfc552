"""An emulated device in namespaces, between two ports of the tester."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from wavebed.forward.device import read_device
from wavebed.forward.iperf3 import Host
from wavebed.forward.port import Port
from wavebed.forward.session import Setup
from wavebed.forward.setup import EmulatedSetup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wavebed.forward.command import EmulatedDevice, ForwardSpec
    from wavebed.forward.device.model import Device

__all__ = ["emulated_device"]

PREFIX_BITS = 24


@contextmanager
def emulated_device(spec: ForwardSpec, target: EmulatedDevice) -> Iterator[Setup]:
    """Make the setup, the device and the ports, and remove them afterwards.

    Raises
    ------
    MachineError
        If this machine cannot make them.
    """
    device = read_device(target.text)
    with ExitStack() as stack:
        setup = stack.enter_context(EmulatedSetup())
        device.set_up(setup)
        stack.callback(device.tear_down)
        tx, rx = (
            stack.enter_context(Port.local(port.interface, netns=port.namespace, core=setup.tester_core))
            for port in (setup.tx, setup.rx)
        )
        yield Setup(
            tx,
            rx,
            device.layout(6 if spec.settings.headers.ipv6 else 4, spec.flows),
            device.name,
            cores=None if setup.device_core is None else [setup.device_core],
            hosts=lambda: _hosts(setup, device),
            overruns=setup.receiver_overruns,
            doubts=tuple(setup.doubts),
        )


def _hosts(setup: EmulatedSetup, device: Device) -> tuple[Host, Host]:
    """Give the tester's ports the addresses that it answered for until now, so that programs can use them."""
    layout = device.layout(4)
    hosts = []
    for port, span, hop in (
        (setup.tx, layout.sources, layout.next_hop),
        (setup.rx, layout.destinations, layout.back_hop),
    ):
        lines = [f"address add {span.first}/{PREFIX_BITS} dev {port.interface}"]
        lines += [f"route add default via {hop} dev {port.interface}"] if hop is not None else []
        setup.batch(lines, port.namespace)
        hosts.append(Host(port.namespace, str(span.first), setup.tester_core))
    return hosts[0], hosts[1]
