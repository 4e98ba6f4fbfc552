"""A port of the tester: requests with one answer each within a time limit, and the lines that carry them.

The conversation is described in docs/development/port-protocol.md.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from typing import IO, TYPE_CHECKING, Self, TypeVar

from wavebed._core import find_core
from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.forward.answers import (
    VERSION,
    CeilingAnswer,
    Description,
    FrameCountersAnswer,
    Mac,
    Nothing,
    On,
    Probe,
    ReceiverKind,
    answer_of,
)
from wavebed.forward.model import InterfaceCounters, Sent, to_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from wavebed.forward.model import Binding, Ceiling, FrameCounters, FrameSpec, PortInfo, ValueRange
    from wavebed.secret import Secret

NS = 1_000_000_000
_Answer = TypeVar("_Answer")

QUICK_S = 10.0
"""Limit of a request that only asks the kernel. It takes milliseconds; the machine may be busy."""
ATTACH_S = 30.0
"""Limit of a request that loads programs or makes interfaces."""
SLACK_S = 10.0
"""A request may take so much longer than the time that it asks for."""
TICK_S = 0.5
"""The caller is called so often while frames are sent."""


class Port:
    """One conversation with a port.

    Parameters
    ----------
    lines : Lines
        Its transport.

    Raises
    ------
    UserError, MachineError, WavebedError
        From every request, as the port says.
    PortGoneError
        From every request, if the port ended, vanished, or did not answer within the limit; it is ended then.
    """

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    @classmethod
    def local(cls, interface: str, *, netns: str | None = None, core: int | None = None) -> Self:
        """Start a port on this machine.

        Parameters
        ----------
        netns : str, optional
            The named network namespace that it is in.
        core : int, optional
            The processor to stay on.

        Raises
        ------
        MachineError
            If ``wavebed-core`` cannot be started.
        """
        return cls(LocalLines.port(interface, netns=netns, core=core))

    @classmethod
    def remote(cls, host: str, port: int, interface: str, token: Secret) -> Self:
        """Connect to ``wavebed serve forward`` on another machine.

        Raises
        ------
        UserError
            If the token is wrong, or the interface is in use or does not exist.
        PortGoneError
            If nobody answers there.
        """
        return cls(RemoteLines(host, port, interface, token))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The interface, and the machine if it is another."""
        return self._lines.name

    @property
    def pid(self) -> int | None:
        """The number of the process, if it is one of this machine."""
        return self._lines.pid

    def close(self) -> None:
        """End the conversation; the port stops whatever it does and ends."""
        self._lines.close()

    def _ask(
        self,
        what: str,
        limit_s: float,
        kind: type[_Answer],
        tick: Callable[[], None] | None = None,
        /,
        **fields: object,
    ) -> _Answer:
        line = json.dumps({"do": what, **fields}, allow_nan=False)
        return answer_of(self._lines.ask(line, limit_s, tick, TICK_S), what, kind)

    def describe(self) -> PortInfo:
        """Return the description of the interface."""
        return self._ask("describe", QUICK_S, Description).info()

    def counters(self) -> InterfaceCounters:
        """Return the interface's counters now."""
        return self._ask("counters", QUICK_S, InterfaceCounters)

    def set_offload(self, name: str, *, on: bool) -> bool:
        """Set an offload feature by the kernel's name and return its state afterwards."""
        return self._ask("offload", QUICK_S, On, name=name, on=on).on

    def probe(self) -> tuple[tuple[Binding, ...], tuple[Binding, ...]]:
        """Return the ways to send and to receive, best first."""
        answer = self._ask("probe", ATTACH_S, Probe)
        return answer.senders, answer.receivers

    def answer(self, addresses: ValueRange | None) -> None:
        """Answer ARP and neighbour discovery for these addresses from now on; `None` ends it."""
        self._ask("answer", QUICK_S, Nothing, addresses=[] if addresses is None else to_plain(addresses))

    def resolve(self, address: str, source: str, *, vlan: int | None = None, timeout_s: float = 3.0) -> str:
        """Ask for the MAC address of `address` in the name of `source`."""
        timeout_ns = round(timeout_s * NS)
        asked = {"address": address, "source": source, "timeout_ns": timeout_ns, "vlan": vlan}
        return self._ask("resolve", timeout_s + SLACK_S, Mac, **asked).mac

    def receive(self, frames: FrameSpec, trial: int, *, sample: int = 0, receiver: str | None = None) -> str:
        """Start the frame counters of a trial at zero and return the way to receive."""
        asked = {"frames": to_plain(frames), "trial": trial, "sample": sample, "receiver": receiver}
        return self._ask("receive", ATTACH_S, ReceiverKind, **asked).receiver

    def frame_counters(self) -> FrameCounters:
        """Return the frame counters so far."""
        return self._ask("frame_counters", QUICK_S, FrameCountersAnswer).frame_counters()

    def send(
        self,
        frames: FrameSpec,
        trial: int,
        count: int,
        *,
        rate_pps: float | None,
        batch: int,
        deadline_s: float,
        sender: str | None = None,
        tick: Callable[[], None] | None = None,
    ) -> Sent:
        """Send `count` frames, or as many as the time allows.

        Parameters
        ----------
        rate_pps : float or None
            Frames per second; `None`: as fast as it goes.
        batch : int
            Frames that leave together, 1 to 64.
        deadline_s : float
            When to give up, from now on.
        tick : callable, optional
            Called every half second meanwhile. An exception of it ends the port, which stops sending.
        """
        if not 1 <= batch <= 64:
            raise UserError(f"a batch of {batch} frames: give 1 to 64")
        return self._ask(
            "send",
            deadline_s + ATTACH_S,
            Sent,
            tick,
            frames=to_plain(frames),
            trial=trial,
            count=count,
            rate_pps=rate_pps,
            batch=batch,
            deadline_ns=round(deadline_s * NS),
            sender=sender,
        )

    def release(self) -> None:
        """Detach the receiver's program and close its sockets."""
        self._ask("release", QUICK_S, Nothing)

    def ceiling(
        self,
        sizes_bytes: Sequence[int],
        flows: int,
        *,
        seconds: float = 0.5,
        sender: str | None = None,
        receiver: str | None = None,
    ) -> Ceiling:
        """Return how fast this port is by itself, through a pair of interfaces of its own."""
        sizes = tuple(sizes_bytes)
        asked = {"size_bytes": sizes, "flows": flows, "seconds": seconds, "sender": sender, "receiver": receiver}
        return self._ask("ceiling", seconds + ATTACH_S, CeilingAnswer, **asked).ceiling(sizes)


LONGEST_LINE = 16 << 20
"""No answer is as long: frame counters with a thousand samples have some 0.3 MB."""
END_GRACE_S = 3.0
STATUS_S = 30.0
"""A process that has closed its output ends within this; how it ended says what went wrong."""
CONNECT_S = 5.0
HELLO_S = 30.0
"""The other machine starts a program before it answers the first question, and may be busy."""

VANISHED_S = 5
"""After this long without a sign of the other machine it counts as gone."""


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
