"""A Linux router."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.forward.device.model import Device, give_addresses

if TYPE_CHECKING:
    from wavebed.forward.bench import Bench

__all__ = ["Routing"]


class Routing(Device):
    """The kernel's own forwarding."""

    name = "routing"
    summary = "the kernel forwards between two networks"

    def set_up(self, bench: Bench) -> None:
        """Give the ports addresses; the bench has switched forwarding on."""
        give_addresses(bench)
