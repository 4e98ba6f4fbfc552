"""A program in user space."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from wavebed.forward.device.model import Option, whole_microseconds
from wavebed.forward.device.program import ProgramDevice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.forward.setup import EmulatedSetup

__all__ = ["Relay"]


class Relay(ProgramDevice):
    """Busy-polls rings of AF_PACKET, and keeps each frame for a known time."""

    name = "relay"
    summary = "a program in user space forwards, after a known delay"
    options: ClassVar[Mapping[str, Option]] = {"delay": Option("how long each frame is kept", 0, whole_microseconds)}

    def set_up(self, setup: EmulatedSetup) -> None:
        """Start the program, in the kernel's place: a ring only shows it frames, which the kernel would forward too."""
        keys = ["net.ipv4.ip_forward", *(["net.ipv6.conf.all.forwarding"] if setup.has_v6 else [])]
        setup.set("dut", dict.fromkeys(keys, "0"))
        super().set_up(setup)

    def arguments(self) -> list[str]:
        """Return the delay."""
        return ["--delay-us", str(self.values["delay"])] if self.values["delay"] else []
