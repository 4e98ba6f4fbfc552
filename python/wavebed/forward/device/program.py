"""Devices that are a process: ``wavebed-core device KIND``."""

from __future__ import annotations

import json
import select
from typing import TYPE_CHECKING

from wavebed._core import find_core
from wavebed.errors import MachineError, WavebedError
from wavebed.forward.device.model import Device, give_addresses

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

    from wavebed.forward.setup import EmulatedSetup

__all__ = ["ProgramDevice"]

READY_WITHIN_S = 10.0


class ProgramDevice(Device):
    """A router with a forwarding program of ours; the kernel answers all other packets, such as ARP."""

    def __init__(self, values: Mapping[str, int]) -> None:
        super().__init__(values)
        self._program: subprocess.Popen[str] | None = None

    def arguments(self) -> list[str]:
        """Return the options of its command line."""
        return []

    def set_up(self, setup: EmulatedSetup) -> None:
        """Give the ports addresses, start the program, and wait until it forwards."""
        give_addresses(setup)
        ports = (setup.device_in.interface, setup.device_out.interface)
        macs = ["--in-next-mac", setup.mac(setup.tx), "--out-next-mac", setup.mac(setup.rx)]
        command = [find_core(), "device", self.name, *ports, *macs, *self.arguments()]
        program = setup.start("dut", command, setup.device_core)
        assert program.stdout is not None, "it was asked for"
        ready, _, _ = select.select([program.stdout], [], [], READY_WITHIN_S)
        line = program.stdout.readline() if ready else ""
        if not line:
            ended = "said nothing" if program.poll() is None else f"ended with status {program.returncode}"
            raise WavebedError(f"the device {self.name} {ended} within {READY_WITHIN_S:.0f} s")
        answer = json.loads(line)
        if "error" in answer:
            raise MachineError(f"the device {self.name}: {answer['error']}")
        self._program = program

    def tear_down(self) -> None:
        """End the program; an end of its own before that is a fault of the device.

        Raises
        ------
        WavebedError
            If it had ended already.
        """
        program, self._program = self._program, None
        if program is None:
            return
        status = program.poll()
        if status is not None:
            raise WavebedError(f"the device {self.name} ended during the test (status {status})")
        assert program.stdin is not None, "it was asked for"
        program.stdin.close()
