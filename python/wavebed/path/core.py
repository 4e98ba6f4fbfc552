"""The process of a laboratory that this process owns: start it, connect to it, end it."""

from __future__ import annotations

import os
import socket
import subprocess
from typing import TYPE_CHECKING

from wavebed._core import find_core
from wavebed.lab.errors import LaboratoryGoneError
from wavebed.path.control import Connection
from wavebed.path.launch import clean_environment
from wavebed.path.process import Pump

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.lab.limits import Limits

__all__ = ["Core"]


class Core:
    """``wavebed-core lab``, which ends with this process at the latest.

    Parameters
    ----------
    name : str
        The laboratory's name.
    file : int
        The descriptor of the laboratory file.
    descriptors : sequence of int
        What it inherits beside that.
    """

    def __init__(self, name: str, file: int, descriptors: Sequence[int], limits: Limits) -> None:
        self.name = name
        self.problem = ""
        self._limits = limits
        # Connections travel over this channel. However this process ends, its end closes, and the laboratory with it.
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = subprocess.Popen(
                [find_core(), "lab", f"/proc/self/fd/{file}", "--control", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=clean_environment(os.environ),
                pass_fds=[theirs.fileno(), file, *descriptors],
                start_new_session=True,
            )
        except BaseException:
            self._channel.close()
            raise
        finally:
            theirs.close()
        self._channel.settimeout(limits.answer_s)
        assert self._process.stderr is not None, "it was asked for"
        self._messages = Pump(os.dup(self._process.stderr.fileno()))
        self._process.stderr.close()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Return whether it still runs."""
        return self._process.poll() is None

    def connect(self) -> Connection:
        """Return a new connection to the laboratory.

        Raises
        ------
        LaboratoryGoneError
            If it has ended.
        """
        if self.problem:  # it was killed: its end takes a moment
            raise LaboratoryGoneError(self.problem)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            socket.send_fds(self._channel, [b"C"], [theirs.fileno()])
        except OSError as error:
            ours.close()
            # One that takes no more connections is killed like one that does not answer. One that has closed its
            # channel is about to end, and must keep its exit status.
            told = f"laboratory {self.name!r} has ended"
            if isinstance(error, TimeoutError):
                told = f"laboratory {self.name!r} hangs: it takes no connection"
                self.kill(told)
            raise LaboratoryGoneError(told) from None
        finally:
            theirs.close()
        return Connection(self.name, ours, self._limits.answer_s, self.kill)

    def kill(self, why: str = "") -> None:
        """End it at once, whatever hangs inside; the kernel ends the rest."""
        self.problem = self.problem or why
        self._process.kill()

    def wait(self, limit_s: float) -> int | None:
        """Wait for its end; return the exit status, or ``None`` if it still runs."""
        try:
            return self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None

    def end(self, limit_s: float) -> None:
        """Let go of it; kill it if it is not gone after `limit_s`. One that the kernel then keeps is a problem."""
        try:
            self._channel.close()
            if self.wait(limit_s) is None:
                self.kill()
        finally:
            if self.is_alive():
                self._process.kill()
            killed_s = self._limits.killed_s
            if self.wait(killed_s) is None:
                self.problem = self.problem or f"laboratory {self.name!r} was killed, and stays for {killed_s:g} s"

    def messages(self) -> str:
        """Return what it printed, once it has ended."""
        return self._messages.result(self._limits.killed_s)
