"""A program on a host, whose streams an agent carries."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.hosts.frames import MOST_PAYLOAD_BYTES
from wavebed.lab.errors import LaboratoryGoneError
from wavebed.lab.protocol import Process
from wavebed.stranger import MOST_CAPTURED_BYTES, MOST_FILE_BYTES, StrangerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.hosts.agent import Agent
    from wavebed.lab.protocol import Redirect

__all__ = ["AgentProcess", "Sink"]

_STANDARD = {"stdout": 1, "stderr": 2}
_ENDED_S = 5.0


class Sink:
    """Where an output stream of a program goes on this machine.

    Parameters
    ----------
    name : str
        ``stdout`` or ``stderr``.
    given : int, file or None
        As for `wavebed.lab.protocol.Host.start`.
    is_far : bool
        Whether what it carries goes over a network: output for a file then comes when the program has ended.
    """

    def __init__(self, name: str, given: Redirect, *, is_far: bool) -> None:
        self._name = name
        self._chunks: list[bytes] | None = [] if given == subprocess.PIPE else None
        self._left = MOST_FILE_BYTES if self._chunks is None else MOST_CAPTURED_BYTES
        self._descriptor: int | None = None
        self.closed = threading.Event()
        self.mode = "live"
        if given == subprocess.DEVNULL:
            self.mode = "null"
        elif self._chunks is None:
            number = _STANDARD[name] if given is None else given if isinstance(given, int) else given.fileno()
            self._descriptor = os.dup(number)
            if is_far and stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                self.mode = "at_end"
        if self.mode != "live":
            self.closed.set()

    def take(self, data: bytes) -> None:
        """Write bytes; a reader that is gone wants none.

        Raises
        ------
        StrangerError
            If they are too many.
        """
        self._left -= len(data)
        if self._left < 0:
            most = MOST_FILE_BYTES if self._chunks is None else MOST_CAPTURED_BYTES
            raise StrangerError(f"the {self._name} of a program has more than {most} bytes")
        if self._chunks is not None:
            self._chunks.append(data)
            return
        view = memoryview(data)
        with suppress(OSError):
            while view and self._descriptor is not None:
                view = view[os.write(self._descriptor, view) :]

    def close(self) -> None:
        """Close it: its last writer has ended."""
        self.closed.set()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def text(self) -> str | None:
        """Return what came, if it was to be kept."""
        return None if self._chunks is None else b"".join(self._chunks).decode(errors="replace")


class AgentProcess(Process):
    """A program that runs on a host.

    Parameters
    ----------
    agent : Agent
        That of its host.
    args : sequence of str
        Its command line.
    sinks : mapping
        Where its output goes.
    """

    def __init__(self, agent: Agent, args: Sequence[str], sinks: dict[str, Sink]) -> None:
        self._agent = agent
        self._sinks = sinks
        self._status: int | None = None
        self._over = threading.Event()
        self.pid = 0
        self.args = list(args)
        self.returncode: int | None = None

    def hear(self, stream: str, data: bytes) -> None:
        """Take output."""
        self._sinks[stream].take(data)

    def hear_closed(self, stream: str) -> None:
        """Take the end of an output stream."""
        self._sinks[stream].close()

    def hear_exit(self, status: int) -> None:
        """Take its exit status, negative for a signal."""
        self._status = status
        for sink in self._sinks.values():
            if sink.mode != "live":
                sink.close()
        self._over.set()

    def hear_gone(self) -> None:
        """Take the end of the agent."""
        for sink in self._sinks.values():
            sink.close()
        self._over.set()

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal; ``None`` while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status, negative for a signal."""
        if not self._over.wait(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        if self._status is None:
            raise LaboratoryGoneError(self._agent.why)
        self.returncode = self._status
        return self._status

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self._over.is_set():
            return
        try:
            self._agent.ask({"do": "kill", "pid": self.pid, "signal": int(number)})
        except LaboratoryGoneError:
            return
        except UserError:
            # It may have ended since; the news is on its way.
            if not self._over.wait(1.0):
                raise

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def output(self) -> tuple[str | None, str | None]:
        """Wait for its end; return its standard output and standard error, where they are ``PIPE``."""
        self._over.wait()
        end_s = time.monotonic() + _ENDED_S
        for sink in self._sinks.values():
            sink.closed.wait(max(0.0, end_s - time.monotonic()))
        return self._sinks["stdout"].text(), self._sinks["stderr"].text()

    def give(self, data: bytes) -> None:
        """Give bytes to its standard input."""
        for start in range(0, len(data), MOST_PAYLOAD_BYTES):
            self._agent.ask({"do": "input", "pid": self.pid}, data[start : start + MOST_PAYLOAD_BYTES])

    def end_input(self) -> None:
        """Close its standard input."""
        self._agent.ask({"do": "input", "pid": self.pid})

    def give_from(self, descriptor: int) -> None:
        """Give what comes from a descriptor, which this closes at its end, in a thread."""

        def work() -> None:
            try:
                while chunk := os.read(descriptor, 1 << 16):
                    self.give(chunk)
                self.end_input()
            except (LaboratoryGoneError, UserError, OSError):
                pass  # the program or its host has ended, which others report
            finally:
                os.close(descriptor)

        threading.Thread(target=work, name=f"input of {self.args[0]}", daemon=True).start()
