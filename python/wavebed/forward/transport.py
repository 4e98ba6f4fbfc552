"""Carry the lines of a conversation with a port: to a process of this machine, or over TCP to another."""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from typing import IO, TYPE_CHECKING, Self

from wavebed._core import find_core
from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.forward.answers import VERSION, Nothing, answer_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from wavebed.secret import Secret

__all__ = ["Lines", "LocalLines", "PortGoneError", "RemoteLines", "keep_watch"]

LONGEST_LINE = 16 << 20
"""No answer is as long: frame counters with a thousand samples have some 0.3 MB."""
END_GRACE_S = 3.0
STATUS_S = 30.0
"""A process that has closed its output ends within this; how it ended says what went wrong."""
CONNECT_S = 5.0
HELLO_S = 30.0
"""The other machine starts a program before it answers the first question, and may be busy."""

VANISHED_S = 5
"""After so long without a sign of the other machine it counts as gone."""


class PortGoneError(WavebedError):
    """A port ended, vanished, or did not answer in time."""


class Lines(ABC):
    """A stream of lines in both directions, in which one question is open at a time.

    Parameters
    ----------
    name : str
        For messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.pid: int | None = None
        self._rest = b""
        self._closed = False

    @abstractmethod
    def _descriptors(self) -> tuple[int, int]:
        """Return where to read and where to write, both without blocking."""

    @abstractmethod
    def _ended(self) -> WavebedError:
        """Return why the stream ended, once it has."""

    @abstractmethod
    def _close(self) -> None:
        """Let go of the other end."""

    def close(self) -> None:
        """End the conversation; idempotent."""
        if not self._closed:
            self._closed = True
            self._close()

    def ask(self, line: str, limit_s: float, tick: Callable[[], None] | None = None, tick_s: float = 1.0) -> str:
        """Send a line and return the one that comes back.

        Whatever interrupts this, the conversation is closed: an answer that comes later would be taken for another's.

        Raises
        ------
        PortGoneError
            If the other end is gone, or says nothing for `limit_s`.
        """
        if self._closed:
            raise PortGoneError(f"the port {self.name} is closed")
        try:
            return self._exchange(line, limit_s, tick, tick_s)
        except BaseException:
            self.close()
            raise

    def _exchange(self, line: str, limit_s: float, tick: Callable[[], None] | None, tick_s: float) -> str:
        end = time.monotonic() + limit_s
        next_tick = time.monotonic() + tick_s
        reading, writing = self._descriptors()
        data = memoryview(line.encode() + b"\n")
        with selectors.DefaultSelector() as selector:
            self._watch(selector, reading, writing, writes=True)
            while b"\n" not in self._rest:
                now = time.monotonic()  # before the look: what has come by then is read though the time is over
                if tick is not None and now >= next_tick and not data:
                    tick()
                    next_tick = time.monotonic() + tick_s  # whatever it took: an answer is read in between
                    continue
                wake = min(end, next_tick) if tick is not None else end
                ready = selector.select(max(0.0, wake - now))
                if not ready and now >= end:
                    raise PortGoneError(f"the port {self.name} did not answer within {limit_s:g} s and was ended")
                for key, events in ready:
                    if events & selectors.EVENT_WRITE and data:
                        data = data[self._write(key.fd, data) :]
                        if not data:
                            self._watch(selector, reading, writing, writes=False)
                    if events & selectors.EVENT_READ:
                        self._rest += self._read(reading)
        answer, _, self._rest = self._rest.partition(b"\n")
        return answer.decode(errors="replace")

    @staticmethod
    def _watch(selector: selectors.BaseSelector, reading: int, writing: int, *, writes: bool) -> None:
        for fd in {key.fd for key in selector.get_map().values()}:
            selector.unregister(fd)
        if reading == writing:
            selector.register(reading, selectors.EVENT_READ | (selectors.EVENT_WRITE if writes else 0))
            return
        selector.register(reading, selectors.EVENT_READ)
        if writes:
            selector.register(writing, selectors.EVENT_WRITE)

    def _write(self, fd: int, data: memoryview) -> int:
        try:
            return os.write(fd, data)
        except BlockingIOError:
            return 0
        except OSError:
            raise self._ended() from None

    def _read(self, fd: int) -> bytes:
        try:
            chunk = os.read(fd, 1 << 16)
        except BlockingIOError:
            return b""
        except OSError:
            raise self._ended() from None
        if not chunk:
            raise self._ended()
        if len(self._rest) + len(chunk) > LONGEST_LINE:
            raise PortGoneError(f"the port {self.name} sent a line of more than {LONGEST_LINE} bytes")
        return chunk


class LocalLines(Lines):
    """A process of this machine, over its standard streams.

    It is in a session of its own, so that Ctrl-C reaches it only through us, and ends when its input does.

    Parameters
    ----------
    command : list of str
        The program and its arguments.
    """

    def __init__(self, name: str, command: list[str]) -> None:
        super().__init__(name)
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            self._errors.close()
            raise MachineError(f"cannot run {command[0]}: {error.strerror}") from None
        self.pid = self._process.pid
        for fd in self._descriptors():
            os.set_blocking(fd, False)

    @classmethod
    def port(cls, interface: str, *, netns: str | None = None, core: int | None = None) -> Self:
        """Start ``wavebed-core port`` for `interface`."""
        command = [find_core(), "port", interface]
        if core is not None:
            command += ["--core", str(core)]
        if netns is not None:
            command = ["ip", "netns", "exec", netns, *command]
        return cls(interface, command)

    def _descriptors(self) -> tuple[int, int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdout.fileno(), self._process.stdin.fileno()

    def _ended(self) -> WavebedError:
        try:
            status = self._process.wait(STATUS_S)
        except subprocess.TimeoutExpired:
            return PortGoneError(f"the port {self.name} ended its conversation")
        self._errors.seek(0)
        lines = self._errors.read()[-4096:].decode(errors="replace").strip().splitlines()
        said = lines[-1] if lines else ""
        for kind in (UserError, MachineError):
            if said and status == kind.exit_status:
                return kind(said.removeprefix("error: "))
        return PortGoneError(f"the port {self.name} ended with status {status}{': ' if said else ''}{said}")

    def _close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            self._process.stdout.close()
            self._errors.close()


def keep_watch(connection: socket.socket) -> None:
    """Have the kernel end a connection whose other machine says nothing for `VANISHED_S` seconds."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, VANISHED_S - 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, VANISHED_S * 1000)


class RemoteLines(Lines):
    """A port of another machine, behind ``wavebed serve forward``."""

    def __init__(self, host: str, port: int, interface: str, token: Secret) -> None:
        super().__init__(f"{interface} of {host}")
        try:
            self._socket = socket.create_connection((host, port), timeout=CONNECT_S)
        except (socket.gaierror, UnicodeError):
            raise UserError(f"{host!r} is no machine that can be found: name it as in --peer HOST:PORT") from None
        except OSError as error:
            raise PortGoneError(
                f"nobody answers at {host} port {port} ({error.strerror or error}): run `wavebed serve forward` there"
            ) from None
        keep_watch(self._socket)
        self._socket.setblocking(False)
        hello = json.dumps({"version": VERSION, "token": token.reveal(), "interface": interface})
        try:
            answer_of(self.ask(hello, HELLO_S), "hello", Nothing)
        except BaseException:
            self.close()
            raise

    def _descriptors(self) -> tuple[int, int]:
        return self._socket.fileno(), self._socket.fileno()

    def _ended(self) -> WavebedError:
        return PortGoneError(f"the connection to the port {self.name} ended: the other machine went away")

    def _close(self) -> None:
        self._socket.close()
