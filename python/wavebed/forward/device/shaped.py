"""A router that lets a known number of packets through."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from wavebed.forward.device.model import Device, Option, count_from, give_addresses

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.forward.setup import EmulatedSetup

__all__ = ["Shaped"]

RULES = """
table inet shaper {{
    chain forward {{
        type filter hook forward priority filter
        limit rate over {rate}/second burst {burst} packets drop
    }}
}}
"""


class Shaped(Device):
    """A token bucket of packets, by nftables: packets above the rate are lost, at every frame size."""

    name = "shaped"
    summary = "routing that drops packets above a rate"
    options: ClassVar[Mapping[str, Option]] = {
        "rate": Option("packets per second", 100_000, count_from(100, 10_000_000)),
        "burst": Option("packets that may come at once; 0: those of 2 ms, at least 64", 0, count_from(0, 100_000)),
    }

    def __init__(self, values: Mapping[str, int]) -> None:
        super().__init__(values)
        if not self.values["burst"]:
            # A trial of T seconds passes this much more than its rate: 0.2 % for 1 s. Less would count a sender or a
            # poller that is late for a moment as loss.
            self.values["burst"] = max(64, self.values["rate"] // 500)

    def set_up(self, setup: EmulatedSetup) -> None:
        """Give the ports addresses and load the rule."""
        give_addresses(setup)
        setup.run("dut", "nft", "-f", "-", text=RULES.format(**self.values))
