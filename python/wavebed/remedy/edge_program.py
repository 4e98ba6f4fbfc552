"""A job of ``wavebed-edge`` on a host of a laboratory."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

from wavebed._core import find_edge
from wavebed.errors import WavebedError
from wavebed.remedy.model import RunningRemedy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wavebed.lab.protocol import Host, Process

__all__ = ["EdgeProgram"]

READY_S = 10.0
STOP_S = 10.0
_LOOK_S = 0.02
_MOST_BYTES = 1 << 20
"""Of its output; it prints a few lines."""


class EdgeProgram(RunningRemedy):
    """A running job; it ends by SIGTERM.

    Parameters
    ----------
    host : Host
        Where it runs.
    arguments : sequence of str
        The job and its arguments.
    log : pathlib.Path
        The file of its standard output and standard error.
    is_ready : callable
        Whether a line of its output says that it works.

    Raises
    ------
    WavebedError
        If it ends, or says nothing for `READY_S` seconds.
    """

    def __init__(self, host: Host, arguments: Sequence[str], log: Path, is_ready: Callable[[str], bool]) -> None:
        self._host = host
        self._log = log
        with log.open("wb") as file:
            self._process: Process = host.start([find_edge(), *arguments], stdout=file, stderr=file)
        end_s = host.clock.monotonic_s() + READY_S
        while not any(is_ready(line) for line in self.lines()):
            if self._process.poll() is not None:
                raise WavebedError(self._ended())
            if host.clock.monotonic_s() >= end_s:
                self._process.kill()
                raise WavebedError(f"{arguments[0]} on {host.name} did not start within {READY_S:g} s")
            host.clock.sleep(_LOOK_S)
        self._name = arguments[0]

    def lines(self) -> list[str]:
        """Return the complete lines of its output so far."""
        with self._log.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8", "replace")
        return text.splitlines() if text.endswith("\n") else text.splitlines()[:-1]

    def _ended(self) -> str:
        said = self.lines()[-1:] or [f"it ended with status {self._process.returncode}"]
        return f"on {self._host.name}: {said[0].removeprefix('wavebed-edge: ')}"

    def stop(self) -> str:
        """End it; return one line if it had ended before or failed."""
        if self._process.poll() is not None:
            return f"{self._ended()}: before the end of the trial"
        self._process.send_signal(signal.SIGTERM)
        try:
            status = self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return f"{self._name} on {self._host.name} did not end within {STOP_S:g} s"
        return self._ended() if status != 0 else ""
