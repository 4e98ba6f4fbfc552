"""A host of the backend ``hosts``: programs start on it by its agent."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, cast

from wavebed.errors import MachineError, UserError
from wavebed.hosts.agent import Agent
from wavebed.hosts.clocks import ClockSteppedError
from wavebed.hosts.files import Fetched, Pushed
from wavebed.hosts.messages import Closed, Exit, File, Output, Piece
from wavebed.hosts.process import AgentProcess, Sink
from wavebed.lab.confine import Confined, confinement_rules, program_files
from wavebed.lab.protocol import ClockOffset, Host
from wavebed.lab.tools import find, known_names, missing, not_found

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wavebed.config.data import Json
    from wavebed.hosts.address import HostAddress
    from wavebed.hosts.clocks import ClockBounds
    from wavebed.hosts.messages import Event, Header
    from wavebed.lab.clock import MachineClock
    from wavebed.lab.protocol import Port, Redirect

__all__ = ["AgentHost"]

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
        That of the laboratory.
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
        """Return the offset of its system clock from that of this machine; ``None`` if one of them was set."""
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
                case Output():
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
