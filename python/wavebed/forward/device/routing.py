"""A Linux router."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.forward.device.model import Device, give_addresses

if TYPE_CHECKING:
    from wavebed.forward.setup import EmulatedSetup

__all__ = ["Routing"]


class Routing(Device):
    """The kernel's own forwarding."""

    name = "routing"
    summary = "the kernel forwards between two networks"

    def set_up(self, setup: EmulatedSetup) -> None:
        """Give the ports addresses; the setup has switched forwarding on."""
        give_addresses(setup)
