"""Errors of requests to a laboratory."""

from __future__ import annotations

import copy
import select
import threading
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Literal, Protocol, Self, TypeAlias

from wavebed.errors import WavebedError
from wavebed.lab.tools import find

if TYPE_CHECKING:
    import os
    import subprocess
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from wavebed.config.data import Json
    from wavebed.lab.confine import Confined
    from wavebed.lab.tools import Computing


class LaboratoryGoneError(WavebedError):
    """The laboratory ended during a request."""


class LaboratoryKilledError(LaboratoryGoneError):
    """A signal ended the laboratory; a machine without memory sends one."""


class LaboratoryHungError(WavebedError):
    """The laboratory did not answer in time."""


class LaboratoryMalformedError(WavebedError):
    """What the laboratory sent is no answer."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds.

    Parameters
    ----------
    start_s : float
        Until a new laboratory answers.
    answer_s : float
        Until a laboratory answers a request, or a small program inside has ended.
    stop_s : float
        Until a laboratory has ended, with its captures and series written.
    interrupted_s : float
        The same after Ctrl-C or SIGTERM.
    killed_s : float
        Until the kernel has removed killed processes.
    look_s : float
        Between two requests that check whether a laboratory with workloads still answers.
    """

    start_s: float = 20.0
    answer_s: float = 10.0
    stop_s: float = 30.0
    interrupted_s: float = 2.0
    killed_s: float = 3.0
    look_s: float = 5.0


LIMITS = Limits()


PORTS_EACH = 20
"""Ports of a workload that needs no more."""
MOST_WORKLOADS = 32
_SELECTED = 1024
"""Descriptors that select(2) takes."""
MOST_IN_CELL = 250
"""Workloads of a trial with a cell: each has a /24 of its own at the server, from 198.19.1.0 on."""
_FIRST = 20_000
WORKLOAD_PORTS = range(_FIRST, _FIRST + PORTS_EACH * MOST_WORKLOADS)
"""Ports of all workloads of a trial, TCP and UDP."""


def first_ports(counts: Sequence[int]) -> list[int]:
    """Return the first port of each workload of a trial, from how many each needs; no other has its ports."""
    return [_FIRST + sum(counts[:place]) for place in range(len(counts))]


FLOW_TEXTS = ("host", "local", "remote", "state", "congestion", "ca_state")
FLOWS = (
    "time_ns",
    "host",
    "cookie",
    "local",
    "remote",
    "state",
    "congestion",
    "ca_state",
    "cwnd_segments",
    "ssthresh_segments",
    "mss_bytes",
    "rtt_us",
    "rttvar_us",
    "min_rtt_us",
    "rto_us",
    "unacked_segments",
    "lost_segments",
    "total_retrans_segments",
    "bytes_sent",
    "bytes_retrans",
    "bytes_acked",
    "bytes_received",
    "delivery_rate_bps",
    "delivery_app_limited",
    "pacing_rate_bps",
    "notsent_bytes",
    "busy_us",
    "rwnd_limited_us",
    "sndbuf_limited_us",
)
CPU = ("time_ns", "core", "busy", "softirq")


Redirect: TypeAlias = int | IO[bytes] | IO[str] | None
"""A file, a descriptor, ``subprocess.PIPE`` or ``subprocess.DEVNULL``; ``None``: as this process."""

Port: TypeAlias = tuple[Literal["tcp", "udp"], int]


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """How far a clock is ahead of another one, and the largest error of this, seconds."""

    ahead_s: float = 0.0
    error_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Undelivered:
    """Data on the way from program to program.

    Parameters
    ----------
    queued_segments : int
        In the links.
    unacknowledged_bytes : int
        Sent by programs of any host and not acknowledged; bytes of ended programs count too.
    unread_bytes : int
        At sockets of the server and the edge, not yet read.
    """

    queued_segments: int = 0
    unacknowledged_bytes: int = 0
    unread_bytes: int = 0

    def __bool__(self) -> bool:
        return self.queued_segments + self.unacknowledged_bytes + self.unread_bytes > 0

    def __str__(self) -> str:
        return (
            f"{self.queued_segments} segments in the links, {self.unacknowledged_bytes} bytes unacknowledged,"
            f" {self.unread_bytes} bytes unread"
        )


class Stamps(Protocol):
    """Gives the time since time zero of what programs read from their clocks."""

    def of_monotonic_ns(self, at_ns: int) -> float:
        """Return the seconds since time zero of a moment of CLOCK_MONOTONIC, as programs read it."""

    def of_unix_s(self, at_s: float) -> float:
        """Return the seconds since time zero of a moment of the system's clock, as programs read it."""


class Clock(Stamps, Protocol):
    """The time of a laboratory. A virtual clock jumps when all threads wait, so all of them must wait by it."""

    def now_s(self) -> float:
        """Return the seconds since time zero, when the pattern begins. Time must have begun."""

    def monotonic_s(self) -> float:
        """Return the seconds since an arbitrary moment; for limits, also before time zero."""

    def sleep(self, seconds: float) -> None:
        """Wait."""

    def wait(self, event: threading.Event, limit_s: float | None = None) -> bool:
        """Wait for an event, `limit_s` seconds at most, and return whether it is set."""

    def wait_readable(self, descriptor: int, limit_s: float) -> bool:
        """Wait until a descriptor can be read, `limit_s` seconds at most, and return whether it can."""

    def start(self, work: Callable[[], None], name: str) -> threading.Event:
        """Run `work` in a daemon thread; return the event of its end."""


class Process(Protocol):
    """A program on a host. Only one thread may wait for it."""

    returncode: int | None
    """Its exit status, negative for a signal; ``None`` until a call of `poll` or `wait` has seen its end."""

    def poll(self) -> int | None:
        """Return the exit status; ``None`` while it runs.

        Raises
        ------
        LaboratoryGoneError
            If the laboratory ended first.
        """

    def wait(self, timeout: float | None = None) -> int:
        """Wait `timeout` seconds at most for the end, and return the exit status.

        Raises
        ------
        subprocess.TimeoutExpired
            If it still runs then.
        LaboratoryGoneError
            If the laboratory ended first.
        """

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs.

        Raises
        ------
        UserError
            If the laboratory has lost it and its exit status.
        """

    def kill(self) -> None:
        """Send SIGKILL."""

    def output(self) -> tuple[str | None, str | None]:
        """Wait for its end; return its standard output and standard error, where they are ``PIPE``."""


class Host(Stamps, Protocol):
    """A host of a laboratory."""

    name: str
    """All hosts resolve it to an address of this one."""
    clock: Clock
    """The clock of its laboratory."""
    is_far: bool = False
    """Whether it is another machine: it has neither Python nor the files of this one."""
    workload: str = ""
    """The workload whose programs it starts; empty: none of them."""
    only_address: str = ""
    """Its address on the path, if it can be given no further ones; empty: it can."""

    def start(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        stdin: Redirect = ...,
        stdout: Redirect = None,
        stderr: Redirect = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        confined: bool | Confined = False,
    ) -> Process:
        """Start a program and return at once.

        Parameters
        ----------
        argv : sequence of str
            The program and its arguments.
        stdin, stdout, stderr : int or file, optional
            Its streams; standard input is empty by default.
        env : mapping, optional
            Its variables; by default as this process, or a small set if it is confined.
        cwd : path, optional
            Its working folder.
        confined : bool or Confined
            Whether it runs without privileges, and its exceptions.

        Raises
        ------
        UserError
            If there is no such program.
        LaboratoryGoneError, LaboratoryHungError
            If the laboratory has ended, or did not answer.
        """

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
        """Run a program and wait for its end, as `subprocess.run` does.

        Raises
        ------
        subprocess.TimeoutExpired
            If it took longer than `timeout` seconds; it has been killed.
        subprocess.CalledProcessError
            If `check` and the exit status is not 0.
        UserError, LaboratoryGoneError, LaboratoryHungError
            As `start`.
        """

    def wait_for_port(self, port: int, timeout: float = 10.0, *, udp: bool = False) -> None:
        """Wait until a program listens on a TCP port, or with `udp` has bound that UDP port, without a packet.

        Raises
        ------
        TimeoutError
            If none does within `timeout` seconds.
        """
        wanted = {("tcp", port), ("udp", port)} if udp else {("tcp", port)}
        end_s = self.clock.monotonic_s() + timeout
        while not wanted & self.open_ports():
            if self.clock.monotonic_s() >= end_s:
                raise TimeoutError(f"nothing on {self.name} listens on port {port} after {timeout:g} s")
            self.clock.sleep(0.05 if self.is_far else 0.005)

    def open_ports(self) -> frozenset[Port]:
        """Return the ports of its listening TCP sockets, and of its UDP sockets without a peer.

        Raises
        ------
        LaboratoryGoneError, LaboratoryHungError
            If the laboratory has ended, or did not answer.
        """

    def clock_offset(self, at_s: float) -> ClockOffset | None:
        """Return the offset of its system clock from the laboratory's clock, whose hosts share one by default.

        Parameters
        ----------
        at_s : float
            The moment, seconds since time zero; also after the end of the laboratory.

        Returns
        -------
        ClockOffset or None
            ``None``: a clock was set during the trial.
        """
        del at_s
        return ClockOffset()

    def of_monotonic_ns(self, at_ns: int) -> float:
        """Return the seconds since time zero of a moment of its CLOCK_MONOTONIC."""
        return self.clock.of_monotonic_ns(at_ns)

    def of_unix_s(self, at_s: float) -> float:
        """Return the seconds since time zero of a moment of its system's clock."""
        return self.clock.of_unix_s(at_s)

    def of_workload(self, name: str) -> Self:
        """Return this host as one workload is to see it, so that its laboratory knows whose programs are started."""
        own = copy.copy(self)
        own.workload = name
        return own

    def program(self, name: str) -> str:
        """Return the path of a program on it.

        Raises
        ------
        MachineError
            If it is not installed there; the message names its package.
        """
        return find(name)


class Lab(Protocol):
    """A running laboratory; everything inside ends with the ``with`` block."""

    clock: Clock
    messages: str
    """Its printed output, after its end."""
    summary: dict[str, Json] | None
    """The engine's counters, after its end; ``None`` if it could not give them."""
    computing: Computing | None = None
    """In virtual time, after its end: the host's processor time of its programs. ``None``: the kernel does not count
    it."""

    @property
    def problem(self) -> str:
        """The laboratory's own failure, one line, or an empty text."""

    def host(self, name: str) -> Host:
        """Return a host by its name.

        Raises
        ------
        UserError
            If the path has none of this name.
        """

    def begin(self) -> int:
        """Begin the time of a waiting laboratory; return time zero, nanoseconds of CLOCK_MONOTONIC.

        Raises
        ------
        UserError
            If time has begun already.
        LaboratoryGoneError, LaboratoryHungError
            If it has ended, or did not answer.
        """

    def show(self) -> dict[str, Json]:
        """Return the counters of all links.

        Raises
        ------
        LaboratoryGoneError, LaboratoryHungError
            If it has ended, or did not answer.
        """

    def undelivered(self) -> Undelivered | None:
        """Return the data on the way; ``None`` where the network is not the laboratory's, so nobody knows.

        Raises
        ------
        LaboratoryGoneError, LaboratoryHungError
            If it has ended, or did not answer.
        """
        return None

    def set(self, **changes: str) -> None:
        """Change links from now on: ``rate``, ``delay``, ``loss``, ``pattern``, or one link's, ``radio.down.rate``.

        Raises
        ------
        UserError
            If a value is wrong or no link takes it.
        """

    def is_alive(self) -> bool:
        """Return whether it still runs."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class MachineClock(Clock):
    """A laboratory's time on this machine's clocks."""

    def __init__(self) -> None:
        self._zero_ns: int | None = None
        self._unix_minus_monotonic_ns = 0

    def begin(self, zero_ns: int) -> None:
        """Set time zero, nanoseconds of CLOCK_MONOTONIC."""
        self._zero_ns = zero_ns
        self._unix_minus_monotonic_ns = time.time_ns() - time.monotonic_ns()

    def now_s(self) -> float:
        """Return the seconds since time zero."""
        return self.of_monotonic_ns(time.monotonic_ns())

    def monotonic_s(self) -> float:
        """Return the seconds of CLOCK_MONOTONIC."""
        return time.monotonic()

    def of_monotonic_ns(self, at_ns: int) -> float:
        """Return the seconds since time zero of a moment of CLOCK_MONOTONIC."""
        assert self._zero_ns is not None, "the laboratory's time has begun"
        return (at_ns - self._zero_ns) / 1e9

    def to_monotonic_ns(self, at_s: float) -> int:
        """Return the moment of CLOCK_MONOTONIC of a time since time zero."""
        assert self._zero_ns is not None, "the laboratory's time has begun"
        return self._zero_ns + round(at_s * 1e9)

    @property
    def unix_minus_monotonic_ns(self) -> int:
        """The system's clock minus CLOCK_MONOTONIC at time zero, nanoseconds."""
        return self._unix_minus_monotonic_ns

    def of_unix_s(self, at_s: float) -> float:
        """Return the seconds since time zero of a moment of the system's clock."""
        return self.of_monotonic_ns(round(at_s * 1e9) - self._unix_minus_monotonic_ns)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def wait(self, event: threading.Event, limit_s: float | None = None) -> bool:
        """Wait for an event, `limit_s` seconds at most, and return whether it is set."""
        return event.wait(limit_s)

    def wait_readable(self, descriptor: int, limit_s: float) -> bool:
        """Wait until a descriptor can be read, `limit_s` seconds at most, and return whether it can."""
        if descriptor < _SELECTED:
            return bool(select.select([descriptor], [], [], limit_s)[0])
        poll = select.poll()  # of a crowd
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(1000 * limit_s))

    def start(self, work: Callable[[], None], name: str) -> threading.Event:
        """Run `work` in a daemon thread; return the event of its end."""
        ended = threading.Event()

        def do() -> None:
            try:
                work()
            finally:
                ended.set()

        threading.Thread(target=do, name=name, daemon=True).start()
        return ended
