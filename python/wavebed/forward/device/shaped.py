"""A router that lets a known number of packets through."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from wavebed.forward.device.model import Device, Option, count_from, give_addresses

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.forward.bench import Bench

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
    """A token bucket of packets, by nftables: what comes above the rate is lost, at every frame size."""

    name = "shaped"
    summary = "routing that drops what exceeds a packet rate"
    options: ClassVar[Mapping[str, Option]] = {
        "rate": Option("packets per second", 100_000, count_from(100, 10_000_000)),
        "burst": Option("packets that may come at once", 128, count_from(1, 100_000)),
    }

    def set_up(self, bench: Bench) -> None:
        """Give the ports addresses and load the rule."""
        give_addresses(bench)
        bench.run("dut", "nft", "-f", "-", text=RULES.format(**self.values))
