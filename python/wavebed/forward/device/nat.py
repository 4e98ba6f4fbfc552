"""A router that follows connections and hides the inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.forward.device.model import Device, give_addresses

if TYPE_CHECKING:
    from wavebed.forward.setup import EmulatedSetup

__all__ = ["Nat"]

RULES = """
table inet router {
    chain forward {
        type filter hook forward priority filter; policy drop
        ct state established,related accept
        iifname "in0" accept
    }
    chain leave {
        type nat hook postrouting priority srcnat
        meta nfproto ipv4 oifname "out0" masquerade
    }
}
"""


class Nat(Device):
    """As a home router: connections from inside only, IPv4 behind the router's address, IPv6 with its own."""

    name = "nat"
    summary = "routing with connection tracking, and NAT for IPv4: from in0 to out0"

    def set_up(self, setup: EmulatedSetup) -> None:
        """Give the ports addresses and load the rules."""
        give_addresses(setup)
        setup.run("dut", "nft", "-f", "-", text=RULES)
