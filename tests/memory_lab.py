"""A laboratory in memory, in virtual time, for tests: its hosts run scripts, and no link is between them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self, TypeAlias

from tests.virtual_clock import VirtualClock

from wavebed.errors import UserError
from wavebed.lab.protocol import Host, Lab, LaboratoryGoneError, LaboratoryHungError, Process

if TYPE_CHECKING:
    from types import TracebackType

    from wavebed.config.data import Json
    from wavebed.lab.confine import Confined
    from wavebed.lab.protocol import Port, Redirect, Undelivered

__all__ = ["MemoryHost", "MemoryLab", "MemoryProcess", "Program", "Script"]

_POLL_S = 0.001


@dataclass(frozen=True, slots=True)
class Program:
    """A script: opens ports, waits for its end or a signal, and says what it has to say.

    Parameters
    ----------
    lasts_s : float or None
        From its start to its end; ``None``: until a signal.
    status : int
        Exit status, if no signal ends it.
    output, errors : str
        What it writes to standard output and standard error as it ends.
    ports : sequence of int
        What it listens on.
    opens_s : float
        From its start until it listens.
    on_signal : mapping
        The exit status after a signal; ``None``: it takes no notice. By default the signal ends it.
    """

    lasts_s: float | None = 0.0
    status: int = 0
    output: str = ""
    errors: str = ""
    ports: Sequence[int] = ()
    opens_s: float = 0.0
    on_signal: Mapping[int, int | None] = field(default_factory=dict)

    def __call__(self, process: MemoryProcess) -> int:
        """Do it, and return the exit status."""
        now_s = process.host.clock.monotonic_s
        end_s = None if self.lasts_s is None else now_s() + self.lasts_s
        if self.ports:
            process.host.clock.sleep(self.opens_s)
            process.listen(*self.ports)
        status: int | None = None
        while status is None:
            number = process.next_signal(None if end_s is None else end_s - now_s())
            status = self.status if number is None else self.on_signal.get(number, -number)
        process.write(self.output, self.errors)
        return status


class MemoryProcess(Process):
    """A script that runs on a host.

    Parameters
    ----------
    host : MemoryHost
        Where it runs.
    args : sequence of str
        Its command line.
    streams : tuple of binary files
        Standard input, output and error.
    captured : tuple of bool
        Whether `output` returns what went to the last two.
    """

    def __init__(
        self,
        host: MemoryHost,
        args: Sequence[str],
        streams: tuple[BinaryIO, BinaryIO, BinaryIO],
        captured: tuple[bool, bool],
    ) -> None:
        self.host = host
        self.args = list(args)
        self.returncode: int | None = None
        self.stdin, self._stdout, self._stderr = streams
        self._captured = captured
        self._said: list[str] = []
        self._status: int | None = None
        self._over = threading.Event()
        self._told = threading.Event()
        self._signals: list[int] = []
        self._ports: tuple[int, ...] = ()

    def run(self, script: Script) -> None:
        """Do what the script says; then it has ended."""
        self.end(script(self))

    def listen(self, *ports: int) -> None:
        """Listen on ports until the end."""
        self._ports = ports
        self.host.ports.update(ports)

    def next_signal(self, limit_s: float | None) -> int | None:
        """Wait for a signal or the end, `limit_s` seconds at most, and return the signal's number, if there was one."""
        if not self._signals and not self.has_ended:
            self._told.clear()
            self.host.clock.wait(self._told, limit_s)
        return self._signals.pop(0) if self._signals else None

    def read_line(self) -> str:
        """Wait for a line on standard input, which is a pipe, and return it; nothing if there is none any more."""
        self.host.clock.wait_until(lambda: self.has_ended or bool(select.select([self.stdin], [], [], 0)[0]))
        return "" if self.has_ended else self.stdin.readline().decode()

    def write(self, output: str = "", errors: str = "") -> None:
        """Write to standard output and standard error, unless it has ended."""
        if not self.has_ended:
            self._stdout.write(output.encode())
            self._stderr.write(errors.encode())

    def end(self, status: int | None) -> None:
        """End, if it has not ended; without a status, because the laboratory ended."""
        if self.has_ended:
            return
        self._status = status
        for stream in (self._stdout, self._stderr):
            self._said.append(stream.getvalue().decode() if isinstance(stream, BytesIO) else "")
            stream.close()
        self.stdin.close()
        self.host.ports.difference_update(self._ports)
        self._over.set()
        self._told.set()

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, by itself, by a signal or with the laboratory."""
        return self._over.is_set()

    def poll(self) -> int | None:
        """Return the exit status; ``None`` while it runs."""
        try:
            return self.wait(_POLL_S)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status, negative for a signal."""
        if self.returncode is None:
            if not self.host.clock.wait(self._over, timeout):
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            if self._status is None:
                raise LaboratoryGoneError("laboratory 'memory' has ended")
            self.returncode = self._status
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if number == signal.SIGKILL:
            self.end(-number)
        else:
            self._signals.append(number)
            self._told.set()

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def output(self) -> tuple[str | None, str | None]:
        """Wait for its end; return what it wrote, where that was ``PIPE``."""
        self.host.clock.wait(self._over)
        out, errors = (said if wanted else None for said, wanted in zip(self._said, self._captured, strict=True))
        return out, errors


Script: TypeAlias = Callable[[MemoryProcess], int]
"""What a program does in virtual time, in a thread of its own; returns its exit status. `Program` is one."""


class MemoryHost(Host):
    """A host in memory."""

    def __init__(self, lab: MemoryLab, name: str) -> None:
        self.lab = lab
        self.name = name
        self.clock = lab.clock
        self.ports: set[int] = set()

    def start(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        stdin: Redirect = subprocess.DEVNULL,
        stdout: Redirect = None,
        stderr: Redirect = None,
        env: Mapping[str, str] | None = None,  # noqa: ARG002 - scripts have no variables
        cwd: str | os.PathLike[str] | None = None,  # noqa: ARG002 - nor a folder
        confined: bool | Confined = False,  # noqa: ARG002 - nor privileges
    ) -> MemoryProcess:
        """Start the script of a program and return at once."""
        self.lab.answer()
        args = [os.fspath(argument) for argument in argv]
        name = Path(args[0]).name
        script = self.lab.programs.get(f"{self.name}:{name}") or self.lab.programs.get(name)
        if script is None:
            raise UserError(f"{name!r}: no such program")
        streams = (_opened(stdin, "rb"), _opened(stdout, "wb"), _opened(stderr, "wb"))
        captured = (stdout == subprocess.PIPE, stderr == subprocess.PIPE)
        process = MemoryProcess(self, args, streams, captured)
        self.lab.started.append(process)
        self.clock.start(lambda: process.run(script), name)
        return process

    def run(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        capture_output: bool = False,
        timeout: float | None = None,
        check: bool = False,
        input: str | None = None,  # noqa: A002, ARG002 - scripts know what they would be told
        confined: bool | Confined = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run the script of a program and wait for its end."""
        redirect = subprocess.PIPE if capture_output else None
        process = self.start(argv, stdout=redirect, stderr=redirect, confined=confined)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        output, errors = process.output()
        if check and status != 0:
            raise subprocess.CalledProcessError(status, process.args, output, errors)
        return subprocess.CompletedProcess(process.args, status, output, errors)

    def open_ports(self) -> frozenset[Port]:
        """Return the ports on which scripts listen."""
        self.lab.answer()
        return frozenset(("tcp", port) for port in self.ports)


def _opened(given: Redirect, mode: str) -> BinaryIO:
    """Open a copy of a file or descriptor, as a process that is started has one; in memory if there is none."""
    if given is None or given in (subprocess.PIPE, subprocess.DEVNULL):
        return BytesIO()
    descriptor = given if isinstance(given, int) else given.fileno()
    return os.fdopen(os.dup(descriptor), mode, buffering=0)  # type: ignore[return-value]


class MemoryLab(Lab):
    """A laboratory in memory.

    Parameters
    ----------
    programs : mapping
        The scripts, by ``PROGRAM`` or ``HOST:PROGRAM``.
    hosts : sequence of str
        Names of its hosts.
    """

    def __init__(self, programs: Mapping[str, Script], hosts: Sequence[str] = ("server", "client")) -> None:
        self.programs = programs
        self.clock = VirtualClock()
        self.messages = ""
        self._problem = ""
        self.summary: dict[str, Json] | None = None
        self.started: list[MemoryProcess] = []
        """Every process, in the order of their starts."""
        self.changes: list[tuple[float, str, str]] = []
        """Every change: when, in seconds since time zero, key and value."""
        self.on_the_way: Callable[[float], Undelivered | None] = lambda _: None
        """The data on the way by the time since time zero, seconds."""
        self._hosts = {name: MemoryHost(self, name) for name in hosts}
        self._begun = self._gone = self._hangs = False

    @property
    def problem(self) -> str:
        """What went wrong: that it hangs, or nothing."""
        return self._problem

    def host(self, name: str) -> MemoryHost:
        """Return a host by its name."""
        if name not in self._hosts:
            raise UserError(f"{name}: this path has no {name} host")
        return self._hosts[name]

    def begin(self) -> int:
        """Let time begin, and return time zero."""
        self.answer()
        if self._begun:
            raise UserError("time has begun already")
        self._begun = True
        return self.clock.begin()

    def show(self) -> dict[str, Json]:
        """Return the counters of a link that carries nothing, and what was changed."""
        self.answer()
        changed: dict[str, Json] = {key: value for _, key, value in self.changes}
        links: list[Json] = [
            {"name": f"radio.{direction}", "delivered_bytes": 0, "queued_bytes": 0, **changed}
            for direction in ("down", "up")
        ]
        return {"now_ns": round(self.clock.now_s() * 1e9) if self._begun else None, "links": links}

    def undelivered(self) -> Undelivered | None:
        """Return the data on the way now."""
        self.answer()
        return self.on_the_way(self.clock.now_s())

    def set(self, **changes: str) -> None:
        """Take note of changes, with the time."""
        self.answer()
        self.changes.extend((self.clock.now_s(), key, value) for key, value in changes.items())

    def is_alive(self) -> bool:
        """Return whether it still runs."""
        return not self._gone

    def answer(self) -> None:
        """Answer a request, or do not.

        Raises
        ------
        LaboratoryGoneError
            If it has ended.
        LaboratoryHungError
            If it hangs; then it has ended.
        """
        if self._hangs and not self._gone:
            self.close()
            self._problem = "laboratory 'memory' hangs: it did not answer"
            raise LaboratoryHungError(self.problem)
        if self._gone:
            raise LaboratoryGoneError("laboratory 'memory' has ended")

    def hang(self) -> None:
        """Answer nothing from now on."""
        self._hangs = True

    def close(self) -> None:
        """End every process."""
        self._gone = True
        for process in self.started:
            process.end(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
