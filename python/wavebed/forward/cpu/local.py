"""The processors of this machine: all, or those that the device under test has."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.errors import MachineError
from wavebed.forward.cpu.model import CpuMeter, Reading
from wavebed.forward.cpu.proc import reading

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["LocalMeter"]


class LocalMeter(CpuMeter):
    """Reads /proc.

    Parameters
    ----------
    cores : collection of int, optional
        The device's processors; all by default.
    """

    def __init__(self, cores: Collection[int] | None = None, proc: Path = Path("/proc")) -> None:
        super().__init__("local")
        self._cores = None if cores is None else frozenset(cores)
        self._proc = proc

    def read(self) -> Reading:
        """Read the counters now.

        Raises
        ------
        MachineError
            If /proc/stat cannot be read.
        """
        try:
            stat = (self._proc / "stat").read_text("ascii", "replace")
        except OSError as error:
            raise MachineError(f"--cpu local: {self._proc}/stat cannot be read: {error.strerror}") from None
        return reading(time.monotonic(), stat, self._text("softirqs"), self._text("net/softnet_stat"), self._cores)

    def _text(self, name: str) -> str:
        try:
            return (self._proc / name).read_text("ascii", "replace")
        except OSError:
            return ""
