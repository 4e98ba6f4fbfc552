"""A router that floods broadcasts of its own."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, ClassVar

from wavebed.forward.device.model import OUTSIDE, Device, Option, count_from, give_addresses
from wavebed.forward.namespaces import within

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.forward.setup import EmulatedSetup

__all__ = ["Flooding"]

DISCARD = 9
PERIOD_S = 0.01


class Flooding(Device):
    """Besides forwarding, it sends broadcasts out of ``out0``, so many per second."""

    name = "flooding"
    summary = "routing with a flood of broadcasts of its own"
    options: ClassVar[Mapping[str, Option]] = {
        "rate": Option("broadcasts per second", 10_000, count_from(100, 100_000))
    }

    def __init__(self, values: Mapping[str, int]) -> None:
        super().__init__(values)
        self._stop = threading.Event()
        self._sender: threading.Thread | None = None

    def set_up(self, setup: EmulatedSetup) -> None:
        """Give the ports addresses and begin to send."""
        give_addresses(setup)
        with within("dut"):
            source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        source.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        source.bind((OUTSIDE[4].format(1), 0))
        self._sender = threading.Thread(target=self._send, args=(source,), daemon=True)
        self._sender.start()

    def _send(self, source: socket.socket) -> None:
        at_once = max(1, round(self.values["rate"] * PERIOD_S))
        with source:
            while not self._stop.wait(PERIOD_S):
                # The port may be gone before we are.
                with contextlib.suppress(OSError):
                    for _ in range(at_once):
                        source.sendto(bytes(18), (OUTSIDE[4].format(255), DISCARD))

    def tear_down(self) -> None:
        """Stop sending."""
        self._stop.set()
        if self._sender is not None:
            self._sender.join()
