"""A router whose ports lose their link while it starts again."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, ClassVar

from wavebed.errors import WavebedError
from wavebed.forward.device.model import Device, Option, give_addresses, whole_microseconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.forward.setup import EmulatedSetup

__all__ = ["Rebooting"]


class Rebooting(Device):
    """Loses the link at both ports, again and again, as a device does that starts anew."""

    name = "rebooting"
    summary = "routing that loses its links now and then"
    options: ClassVar[Mapping[str, Option]] = {
        "after": Option("how long it forwards", 2_000_000, whole_microseconds),
        "down": Option("how long its links are down", 200_000, whole_microseconds),
    }

    def __init__(self, values: Mapping[str, int]) -> None:
        super().__init__(values)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def set_up(self, setup: EmulatedSetup) -> None:
        """Give the ports addresses and let the time run."""
        give_addresses(setup)
        if setup.has_v6:
            # It has the same addresses afterwards.
            setup.set("dut", {"net.ipv6.conf.all.keep_addr_on_down": "1"})
        self._thread = threading.Thread(target=self._reboot, args=(setup,), daemon=True)
        self._thread.start()

    def _reboot(self, setup: EmulatedSetup) -> None:
        while not self._stop.wait(self.values["after"] / 1e6):
            # The setup may be gone before we are.
            with contextlib.suppress(WavebedError):
                self._all(setup, "down")
                self._stop.wait(self.values["down"] / 1e6)
                self._all(setup, "up")

    def _all(self, setup: EmulatedSetup, state: str) -> None:
        ports = (setup.device_in, setup.device_out)
        setup.batch([f"link set dev {port.interface} {state}" for port in ports], "dut")

    def tear_down(self) -> None:
        """Leave the links up."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
