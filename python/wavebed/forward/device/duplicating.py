"""A router that sends some frames twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from wavebed.forward.device.model import Device, Option, count_from, give_addresses

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.forward.setup import EmulatedSetup

__all__ = ["Duplicating"]

RULES = """
table netdev fault {{
    chain leave {{
        type filter hook egress device "out0" priority filter
        meta l4proto udp numgen inc mod {every} 0 dup to "out0"
    }}
}}
"""


class Duplicating(Device):
    """One frame of so many, copies counted, leaves twice."""

    name = "duplicating"
    summary = "routing that sends some frames twice"
    options: ClassVar[Mapping[str, Option]] = {
        "every": Option("one frame of so many is sent twice", 100, count_from(2, 1_000_000))
    }

    def set_up(self, setup: EmulatedSetup) -> None:
        """Give the ports addresses and load the rule."""
        give_addresses(setup)
        setup.run("dut", "nft", "-f", "-", text=RULES.format(**self.values))
