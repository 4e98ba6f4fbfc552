"""The interface between remedies and trials.

A plug-in is one module with one class derived from `Remedy`; `wavebed.remedy.KINDS` names it. In a trial a remedy is
started on its host before the workloads are opened, and stopped after the last one has ended. Until the workloads
start, the laboratory's time stands still: hosts take settings, but no packet crosses a link.
"""

from __future__ import annotations

import json
import signal
import subprocess
from abc import ABC, abstractmethod
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

from msgspec import Struct

from wavebed._core import find_edge
from wavebed.errors import WavebedError
from wavebed.lab.protocol import LIMITS
from wavebed.lab.tools import find

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wavebed.lab.protocol import Host, Lab, Process


HOSTS = ("server", "edge", "client")
"""The hosts of a path, in order."""
EDGE = "wavebed-edge"

_Options = TypeVar("_Options", bound=Struct)


class RunningRemedy(ABC):
    """A remedy on a host."""

    @abstractmethod
    def stop(self) -> str:
        """End it; return one line if it had ended before or failed, else an empty text.

        Raises
        ------
        LaboratoryGoneError, LaboratoryHungError
            If the laboratory has ended, or did not answer.
        """


class Remedy(ABC, Generic[_Options]):
    """A remedy as a scenario describes it.

    Parameters
    ----------
    options : Struct
        Its keys.
    """

    kind: ClassVar[str]
    summary: ClassVar[str]
    options_type: ClassVar[type[Struct]]
    """The type of its options: a table of a scenario (`wavebed.config.table`)."""
    hosts: ClassVar[Sequence[str]] = HOSTS
    """The hosts that can have it."""
    programs: ClassVar[Sequence[str]] = (EDGE,)
    """The programs that it runs: `EDGE`, or keys of `wavebed.lab.tools.PACKAGES`."""

    def __init__(self, options: _Options) -> None:
        self.options = options

    @property
    def peer(self) -> str | None:
        """The host of its other end; ``None``: it is on one host alone."""
        return None

    @abstractmethod
    def start(self, lab: Lab, host: str, log: Path) -> RunningRemedy:
        """Start it on a host; return when it works.

        Parameters
        ----------
        lab : Lab
            The laboratory, whose time stands still.
        host : str
            Name of the host.
        log : pathlib.Path
            The file of its output, which is kept. Further files of its own have names that begin with its name.

        Raises
        ------
        WavebedError
            If it does not start: the trial is invalid with this line.
        """


AnyRemedy: TypeAlias = Remedy[Any]
"""A remedy of any kind."""


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


_FIRST = 2860
_BEFORE = 100
"""Priorities between the rule for the tunnel's own packets and that for all others."""


@dataclass(frozen=True, slots=True)
class RemedyEnd:
    """One of the two hosts.

    Parameters
    ----------
    host : Host
        The host.
    device, address : str
        The path's device towards the other host, and the host's own address for it.
    mtu : int
        Of the device, bytes.
    """

    host: Host
    device: str
    address: str
    mtu: int


def ends_of(lab: Lab, host: str, peer: str) -> tuple[RemedyEnd, RemedyEnd]:
    """Return the two ends, the one nearer to the server first.

    Raises
    ------
    WavebedError
        If a host does not tell its addresses.
    """
    near, far = (lab.host(name) for name in sorted((host, peer), key=HOSTS.index))
    # Any address of the far host will do to find the route there, which tells the near one's own.
    first = _end(near, _some_address(far))
    return first, _end(far, first.address)


def _some_address(host: Host) -> str:
    found = json.loads(said_on(host, [find("ip"), "-json", "-4", "address", "show", "scope", "global"]))
    for device in found:
        for address in device.get("addr_info", ()):
            return str(address["local"])
    raise WavebedError(f"on {host.name}: no device has an IPv4 address")


def _end(host: Host, to: str) -> RemedyEnd:
    (route,) = json.loads(said_on(host, [find("ip"), "-json", "route", "get", to]))
    (link,) = json.loads(said_on(host, [find("ip"), "-json", "link", "show", "dev", route["dev"]]))
    return RemedyEnd(host, route["dev"], route["prefsrc"], link["mtu"])


class Detour:
    """Rules and routes on one host: all that would leave by the path's device leaves by another one.

    The routes are the path's, with their source addresses and congestion control, without the default route:
    packets to nowhere would pass to and fro in the tunnel. The tunnel's own packets, UDP at one port of one address,
    keep to the path.

    Parameters
    ----------
    end : RemedyEnd
        The host.
    other : str
        Name of the host at the other end.
    own : str
        Selector of ``ip rule`` for the tunnel's own packets, as ``to 198.18.0.1 ipproto udp dport 2861``.
    carried : sequence of str
        Selectors of the packets that are routed into the other device; by default all.
    """

    def __init__(self, end: RemedyEnd, other: str, own: str, carried: Sequence[str] = ("from all",)) -> None:
        self._end = end
        self._table = number_to(other)
        self._own = own
        self._carried = carried
        self._families: list[str] = []

    def begin(self, device: str) -> None:
        """Route the traffic into `device`, which exists and is up.

        Raises
        ------
        WavebedError
            If a rule or a route is refused.
        """
        for family in ("-4", "-6"):
            routes = self._routes(family, device)
            if not routes:
                continue
            rules = [f"rule add {each} lookup {self._table} priority {self._table}" for each in self._carried]
            if family == "-4":
                rules.insert(0, f"rule add {self._own} lookup main priority {self._table - _BEFORE}")
            self._batch(family, [*routes, *rules])
            self._families.append(family)

    def end(self) -> None:
        """Remove the rules and routes.

        Raises
        ------
        WavebedError
            If one cannot be removed.
        """
        while self._families:
            family = self._families.pop()
            rules = [f"rule del {each} priority {self._table}" for each in self._carried]
            if family == "-4":
                rules.append(f"rule del priority {self._table - _BEFORE}")
            self._batch(family, rules)  # the routes go with their device

    def _routes(self, family: str, device: str) -> list[str]:
        shown = said_on(self._end.host, [find("ip"), family, "route", "show", "dev", self._end.device])
        lines = [line.strip() for line in shown.splitlines() if line.strip()]
        # The kernel's own are to this host's addresses, and to link-local ones.
        lines = [line for line in lines if "proto kernel" not in line and not line.startswith("default ")]
        return [f"route add {line} dev {device} table {self._table}" for line in lines]

    def _batch(self, family: str, commands: list[str]) -> None:
        said_on(self._end.host, [find("ip"), family, "-batch", "-"], "".join(f"{each}\n" for each in commands))


def number_to(other: str) -> int:
    """Return the number of what is for a host at the other end: routing table, priority of its rule, UDP port."""
    return _FIRST + HOSTS.index(other if other in HOSTS else "client")  # a device of a cell is a client


class TwoEnded(RunningRemedy):
    """Programs on two hosts, and detours into their devices.

    Parameters
    ----------
    verdict : callable
        Called at the end with the programs, which still run; returns one line if they did not work.
    """

    def __init__(self, verdict: Callable[[Sequence[RunningProgram]], str] = lambda _: "") -> None:
        self.programs: list[RunningProgram] = []
        self._verdict = verdict
        self._detours: list[Detour] = []

    def guarded(self) -> ExitStack:
        """Return a context that takes back what was begun, unless its callbacks are taken out."""
        undo = ExitStack()
        undo.callback(self._take_back)
        return undo

    def divert(self, detour: Detour, device: str) -> None:
        """Route traffic into a device that exists.

        Raises
        ------
        WavebedError
            If a rule or a route is refused.
        """
        self._detours.append(detour)
        detour.begin(device)

    def stop(self) -> str:
        """Put the routes back and end the programs."""
        said = [self._verdict(self.programs), *self._take_back()]
        return "; ".join(dict.fromkeys(line for line in said if line))

    def _take_back(self) -> list[str]:
        steps: list[Callable[[], str | None]] = [detour.end for detour in self._detours]
        steps += [program.stop for program in self.programs]
        said = []
        for step in steps:
            try:
                said.append(step() or "")
            except WavebedError as error:
                said.append(str(error))
        return said


def file_of(log: Path, host: str, ending: str) -> Path:
    """Return the file of this ending for one of the two hosts, beside the log of the remedy."""
    return log.with_name(f"{log.stem}.{host}{ending}")


def wait_for_device(program: RunningProgram, device: str) -> None:
    """Wait until a program has made its device, and it is up.

    Raises
    ------
    WavebedError
        If the program ends, or does not make it in time.
    """

    def is_there() -> bool:
        shown = json.loads(said_on(program.host, [find("ip"), "-json", "link", "show", "up"]) or "[]")
        return any(link.get("ifname") == device for link in shown)

    program.wait_until(is_there)
