"""The files of programs on hosts: what goes there before they start, and what comes back."""

from __future__ import annotations

import itertools
import os
import signal
import stat
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.hosts.agent import MOST_PAYLOAD_BYTES, Agent, ClockSteppedError, Closed, Exit, File, Piece, ProgramOutput
from wavebed.lab.confine import Confined, confinement_rules, program_files
from wavebed.lab.protocol import ClockOffset, Host, LaboratoryGoneError, Process
from wavebed.lab.tools import find, known_names, missing, not_found
from wavebed.stranger import MOST_CAPTURED_BYTES, MOST_FILE_BYTES, Budget, StrangerError, is_inside, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wavebed.config.data import Json
    from wavebed.hosts.agent import ClockBounds, Event, Header, HostAddress
    from wavebed.lab.protocol import MachineClock, Port, Redirect


_PIECE_BYTES = MOST_PAYLOAD_BYTES // 4


class Pushed:
    """The files of this machine that an agent has.

    Parameters
    ----------
    agent : Agent
        The agent.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._known: dict[str, tuple[int, int, int]] = {}

    def push(self, path: Path) -> None:
        """Give the agent a file, or a folder with everything in it, unless it has it already.

        Raises
        ------
        UserError
            If the host refuses: it has too little memory.
        LaboratoryGoneError, LaboratoryHungError
            If the agent has ended or does not answer.
        OSError
            If a file cannot be read here.
        """
        if path.is_dir():
            self._agent.ask({"do": "folder", "path": str(path)})
            for below in sorted(path.rglob("*")):
                if below.is_dir():
                    self._agent.ask({"do": "folder", "path": str(below)})
                elif below.is_file():
                    self._push_file(below)
        elif path.is_file():
            self._push_file(path)

    def _push_file(self, path: Path) -> None:
        found = path.stat()
        state = (found.st_ino, found.st_size, found.st_mtime_ns)
        if self._known.get(str(path)) == state:
            return
        mode = found.st_mode
        self._agent.ask(
            {
                "do": "file",
                "path": str(path),
                "bytes": found.st_size,
                "executable": bool(mode & stat.S_IXUSR),
                "private": not mode & stat.S_IRGRP,
            }
        )
        for offset, piece in _pieces(path):
            self._agent.ask({"do": "write", "path": str(path), "offset": offset}, piece)
        self._known[str(path)] = state


def _pieces(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the parts of a file that are no holes."""
    with path.open("rb", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        offset = 0
        while offset < end:
            try:
                start = os.lseek(file.fileno(), offset, os.SEEK_DATA)
            except OSError:  # nothing but a hole follows
                return
            stop = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            for at in range(start, stop, _PIECE_BYTES):
                yield at, os.pread(file.fileno(), min(_PIECE_BYTES, stop - at), at)
            offset = stop


class Fetched:
    """Files that come from an agent into folders here; the reading thread writes them.

    A host may send any name: one that leads out of the folder is refused, and an existing link is not followed. Its
    files have bounds (`wavebed.stranger`), and no byte is written beyond the size that a file was said to have.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._folders: dict[int, Path] = {}
        self._sizes: dict[str, int] = {}
        self._budget = Budget()
        self._problem = ""

    def fetch(self, agent: Agent, far: Path, here: Path, limit_s: float) -> None:
        """Get the files of a folder that were made or changed on the host.

        Raises
        ------
        WavebedError
            If a file cannot be written, a name is none of a file in the folder, or they are too many or too large.
        LaboratoryGoneError, LaboratoryHungError
            If the agent has ended or does not answer.
        """
        number = next(self._numbers)  # of this time alone: what comes too late belongs to no other
        self._problem, self._sizes = "", {}
        self._folders[number] = here
        try:
            agent.ask({"do": "fetch", "path": str(far), "tag": number}, limit_s=limit_s)
        finally:
            del self._folders[number]
        if self._problem:
            raise WavebedError(f"{agent.name}: {self._problem}")

    def hear(self, event: File | Piece, payload: bytes) -> None:
        """Take a file's name and size, or a piece of it."""
        folder = self._folders.get(event.tag)
        if folder is None or self._problem:
            return
        try:
            self._take(folder, event, payload)
        except StrangerError as error:
            self._problem = str(error)
        except OSError as error:
            self._problem = f"{folder / event.name}: {(error.strerror or 'cannot be written').lower()}"

    def _take(self, folder: Path, event: File | Piece, payload: bytes) -> None:
        path, is_new = folder / event.name, isinstance(event, File)
        if isinstance(event, File):
            self._budget.file(event.name, event.bytes)
            self._sizes[event.name] = event.bytes
        elif not is_inside(event.name):
            raise StrangerError(f"{one_line(event.name)!r} came as the name of a file")
        elif event.offset + len(payload) > self._sizes.get(event.name, 0):
            raise StrangerError(f"{event.name}: more came than the file has")
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_TRUNC if is_new else 0)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, flags, 0o644)
        try:
            if isinstance(event, File):
                os.ftruncate(descriptor, event.bytes)
            else:
                os.pwrite(descriptor, payload, event.offset)
        finally:
            os.close(descriptor)


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
        The agent of its host.
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


_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt")
_LONGEST_S = 20.0


class AgentHost(Host):
    """A host with an agent.

    Parameters
    ----------
    name : str
        ``server`` or ``client``.
    address : HostAddress
        Where it is.
    clock : MachineClock
        The laboratory's clock.
    memory : sequence of pathlib.Path
        The folders of this machine in which files for programs may be.
    """

    def __init__(self, name: str, address: HostAddress, clock: MachineClock, memory: Sequence[Path]) -> None:
        self.name = name
        self.clock: MachineClock = clock
        self.address = address
        self.is_far = not address.is_local
        self._memory = list(memory)
        self._processes: dict[int, AgentProcess] = {}
        self._written: dict[Path, None] = {}
        self._fetched = Fetched()
        self._programs: dict[str, str] = {}
        self.agent = Agent(name, address, self._hear)
        self._pushed = Pushed(self.agent)

    def hello(self, names: Mapping[str, str]) -> Header:
        """Prepare its file system and its names; return what it says of itself.

        Raises
        ------
        MachineError
            If it cannot be reached, or cannot run programs.
        """
        return self.agent.hello(
            {
                "memory": [str(folder) for folder in self._memory],
                "names": [[name, address] for name, address in names.items()],
                "read": confinement_rules()["read"] if self.address.is_local else [],
            }
        )

    def start(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        stdin: Redirect = subprocess.DEVNULL,
        stdout: Redirect = None,
        stderr: Redirect = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        input: str | None = None,  # noqa: A002 - as in subprocess.run
        confined: bool | Confined = False,
    ) -> AgentProcess:
        """Start a program; the files that it needs go to the host first."""
        words = [os.fspath(word) for word in argv]
        if not words:
            raise UserError("argv: is empty: name a program")
        needs = Confined() if confined is True else confined or None
        sinks = {
            name: Sink(name, given, is_far=not self.address.is_local)
            for name, given in (("stdout", stdout), ("stderr", stderr))
        }
        process = AgentProcess(self.agent, words, sinks)
        has_input = input is not None or stdin not in (None, subprocess.DEVNULL)
        request: dict[str, Json] = {
            "do": "run",
            "argv": [*words],
            "env": [[key, value] for key, value in (env or {}).items()],
            "cwd": None if cwd is None else os.fspath(cwd),
            "confine": None if needs is None else self._needs(words[0], needs),
            "input": has_input,
            "stdout": sinks["stdout"].mode,
            "stderr": sinks["stderr"].mode,
        }

        def started(answer: Header) -> None:
            process.pid = cast("int", answer["pid"])
            self._processes[process.pid] = process

        try:
            self.agent.ask(request, then=started)
        except BaseException:
            process.hear_gone()
            raise
        if input is not None:
            process.give(input.encode())
            process.end_input()
        elif has_input:
            process.give_from(_reading_end(stdin))
        return process

    def _needs(self, program: str, needs: Confined) -> dict[str, Json]:
        read = [Path(path).absolute() for path in needs.read]
        write = [Path(path).absolute() for path in needs.write]
        for path in (*read, *write):
            if any(path.is_relative_to(folder) for folder in self._memory):
                self._pushed.push(path)
            elif not self.address.is_local and not any(path.is_relative_to(folder) for folder in _SYSTEM):
                raise UserError(
                    f"{path}: programs on {self.address} get files of results and of the cache only: move it there"
                )
        self._written |= dict.fromkeys(write)
        own = program_files(program) if self.address.is_local else []
        return {
            "read": [*own, *map(str, read)],
            "write": [*map(str, write)],
            "capabilities": [*needs.capabilities],
        }

    def run(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        capture_output: bool = False,
        timeout: float | None = None,
        check: bool = False,
        input: str | None = None,  # noqa: A002 - as in subprocess.run
        confined: bool | Confined = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program and wait for its end."""
        redirect = subprocess.PIPE if capture_output else None
        process = self.start(argv, stdout=redirect, stderr=redirect, input=input, confined=confined)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.output()
            raise subprocess.TimeoutExpired(process.args, timeout or 0.0, output, errors) from None
        except BaseException:
            process.kill()
            raise
        output, errors = process.output()
        if check and status != 0:
            raise subprocess.CalledProcessError(status, process.args, output, errors)
        return subprocess.CompletedProcess(process.args, status, output, errors)

    def open_ports(self) -> frozenset[Port]:
        """Return the ports of the host's listening TCP sockets, and of its UDP sockets without a peer."""
        return frozenset(cast("list[Port]", self.agent.ask({"do": "ports"})["ports"]))

    def clock_offset(self, at_s: float) -> ClockOffset | None:
        """Return the offset of its system clock from this machine's; ``None`` if one of them was set."""
        at_ns = self.clock.to_monotonic_ns(at_s)
        if self.address.is_local:
            return ClockOffset() if self.agent.unix.is_consistent() else None
        try:
            offset_ns, error_ns = self.agent.unix.at(at_ns)
        except ClockSteppedError:
            return None
        return ClockOffset((offset_ns - self.clock.unix_minus_monotonic_ns) / 1e9, error_ns / 1e9)

    def of_monotonic_ns(self, at_ns: int) -> float:
        """Return the seconds since time zero of a moment of its CLOCK_MONOTONIC."""
        return self.clock.of_monotonic_ns(_without(self.agent.monotonic, at_ns) if self.is_far else at_ns)

    def of_unix_s(self, at_s: float) -> float:
        """Return the seconds since time zero of a moment of its system's clock."""
        if not self.is_far:
            return self.clock.of_unix_s(at_s)
        return self.clock.of_monotonic_ns(_without(self.agent.unix, round(at_s * 1e9)))

    def program(self, name: str) -> str:
        """Return the path of a program on it; raises a `MachineError` that names the package if it has none."""
        if not self.is_far:
            return find(name)
        self.require([name])
        return self._programs[name]

    def require(self, names: Iterable[str]) -> None:
        """Look for programs on it.

        Raises
        ------
        MachineError
            If some are not installed there; the message names their packages.
        """
        absent = [] if self.is_far else missing(names)
        for name in names if self.is_far else ():
            asked = " || ".join(f"command -v {each}" for each in known_names(name))
            found = self.run(["sh", "-c", asked], capture_output=True, timeout=_LONGEST_S).stdout.strip()
            self._programs[name] = found
            absent += [] if found else [name]
        if absent:
            raise MachineError(f"{self.name}, {self.address}: {not_found(absent)}{' there' if self.is_far else ''}")

    def fetch_written(self, limit_s: float) -> None:
        """Get the files that programs wrote into their folders.

        Raises
        ------
        WavebedError
            If one cannot be written here, or the agent does not answer.
        """
        for folder in self._written:
            self.fetch(folder, folder, limit_s)

    def fetch(self, far: Path, here: Path, limit_s: float) -> None:
        """Get the changed files of a folder of the host into one of this machine; raises as `fetch_written`."""
        self._fetched.fetch(self.agent, far, here, limit_s)

    def close(self, limit_s: float) -> None:
        """End its programs and its agent."""
        self.agent.close(limit_s)

    def _hear(self, event: Event | None, payload: bytes) -> None:
        if event is None:
            for process in list(self._processes.values()):
                process.hear_gone()
        elif isinstance(event, File | Piece):
            self._fetched.hear(event, payload)
        elif (running := self._processes.get(event.pid)) is not None:
            match event:
                case ProgramOutput():
                    running.hear(event.stream, payload)
                case Closed():
                    running.hear_closed(event.stream)
                case Exit():
                    running.hear_exit(event.status)


def _without(offset: ClockBounds, at_ns: int) -> int:
    """Return the moment of our CLOCK_MONOTONIC at which a clock with this offset from it showed `at_ns`."""
    ours_ns = at_ns
    for _ in range(3):  # the offset is known by our time, and changes by less than a thousandth of it
        ours_ns = at_ns - offset.middle(ours_ns)
    return ours_ns


def _reading_end(given: Redirect) -> int:
    if given is None or given == subprocess.PIPE:
        raise UserError("stdin: give a file, a descriptor or DEVNULL")
    return os.dup(given if isinstance(given, int) else given.fileno())
