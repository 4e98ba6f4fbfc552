"""A program of a remedy on a host of a laboratory."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

from wavebed._core import find_edge
from wavebed.errors import WavebedError
from wavebed.lab.limits import LIMITS
from wavebed.remedy.model import RunningRemedy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wavebed.lab.protocol import Host, Process

__all__ = ["RunningProgram", "edge_program", "said_on"]

READY_S = 10.0
STOP_S = 10.0
_LOOK_S = 0.02
_MOST_BYTES = 1 << 20
"""Of its output that is looked at."""


class RunningProgram(RunningRemedy):
    """A running program; it ends by SIGTERM.

    Parameters
    ----------
    name : str
        What it is called in messages.
    host : Host
        Where it runs.
    argv : sequence of str
        The program and its arguments.
    log : pathlib.Path
        The file of its standard output and standard error.
    ended : int
        Its exit status after SIGTERM, negative if the signal ends it.
    """

    def __init__(self, name: str, host: Host, argv: Sequence[str], log: Path, *, ended: int = 0) -> None:
        self.name = name
        self.host = host
        self._log = log
        self._expected = ended
        with log.open("wb") as file:
            self._process: Process = host.start(argv, stdout=file, stderr=file)

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        """Wait until it works.

        Raises
        ------
        WavebedError
            If it ends, or is not ready within `READY_S` seconds; then it has been killed.
        """
        clock = self.host.clock
        end_s = clock.monotonic_s() + READY_S
        while not is_ready():
            if self._process.poll() is not None:
                raise WavebedError(self._ended())
            if clock.monotonic_s() >= end_s:
                self._process.kill()
                raise WavebedError(f"{self.name} on {self.host.name} did not start within {READY_S:g} s")
            clock.sleep(_LOOK_S)

    def wait_for_line(self, is_wanted: Callable[[str], bool]) -> str:
        """Wait until it has printed a line, and return that.

        Raises
        ------
        WavebedError
            As `wait_until`.
        """
        self.wait_until(lambda: any(map(is_wanted, self.lines())))
        return next(line for line in self.lines() if is_wanted(line))

    def lines(self) -> list[str]:
        """Return the complete lines of its output so far."""
        with self._log.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8", "replace")
        return text.splitlines() if text.endswith("\n") else text.splitlines()[:-1]

    def _ended(self) -> str:
        said = self.lines()[-1:] or [f"it ended with status {self._process.returncode}"]
        return f"on {self.host.name}: {said[0].removeprefix('wavebed-edge: ')}"

    def stop(self) -> str:
        """End it; return one line if it had ended before or failed."""
        if self._process.poll() is not None:
            return f"{self._ended()}: before the end of the trial"
        self._process.send_signal(signal.SIGTERM)
        try:
            status = self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return f"{self.name} on {self.host.name} did not end within {STOP_S:g} s"
        return self._ended() if status != self._expected else ""


def edge_program(host: Host, arguments: Sequence[str], log: Path) -> RunningProgram:
    """Start a job of ``wavebed-edge``: its name and its arguments."""
    return RunningProgram(arguments[0], host, [find_edge(), *arguments], log)


def said_on(host: Host, argv: Sequence[str], given: str | None = None) -> str:
    """Run a program on a host, and return what it prints.

    Parameters
    ----------
    given : str, optional
        What it reads from standard input.

    Raises
    ------
    WavebedError
        If it fails.
    """
    try:
        done = host.run(argv, capture_output=True, timeout=LIMITS.answer_s, input=given)
    except subprocess.TimeoutExpired:
        raise WavebedError(f"on {host.name}: {argv[0]} did not end within {LIMITS.answer_s:g} s") from None
    if done.returncode != 0:
        words = done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"]
        command = " ".join(argv[:3])
        raise WavebedError(f"on {host.name}: {command}: {words[0]}")
    return done.stdout
