"""A Linux bridge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.forward.device.model import FIRST_HOST, HOSTS, INSIDE, Device
from wavebed.forward.layout import FLOWS, Layout
from wavebed.forward.model import Span

if TYPE_CHECKING:
    from wavebed.forward.setup import EmulatedSetup

__all__ = ["Bridge"]

FIRST_FAR_HOST = 100


class Bridge(Device):
    """Both ports in one Ethernet segment; the bridge learns addresses and has none of its own."""

    name = "bridge"
    summary = "a Linux bridge joins both ports"

    def set_up(self, setup: EmulatedSetup) -> None:
        """Make the bridge. It says nothing by itself: no spanning tree, no multicast queries."""
        ports = (setup.device_in, setup.device_out)
        setup.batch(
            [
                "link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
                *(f"link set dev {port.interface} master br0" for port in ports),
                "link set dev br0 multicast off",
            ],
            "dut",
        )
        if setup.has_v6:
            setup.set("dut", {"net.ipv6.conf.br0.disable_ipv6": "1"})
        setup.batch(["link set dev br0 up"], "dut")

    def layout(self, version: int, flows: int = FLOWS) -> Layout:
        """Return test frames between hosts of one segment."""
        return Layout(
            Span(INSIDE[version].format(FIRST_HOST), 1),
            Span(INSIDE[version].format(FIRST_FAR_HOST), HOSTS),
            flows=flows,
        )
