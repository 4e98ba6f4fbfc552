"""Programs that probe a path until they are stopped."""

from __future__ import annotations

import math
import signal
import subprocess
import threading
from typing import TYPE_CHECKING, Annotated, ClassVar, Protocol, TypeVar

from msgspec import Struct

from wavebed.config.problems import Problem, described
from wavebed.config.reader import reader
from wavebed.config.table import Key
from wavebed.config.values import TIME_SCHEMA, seconds, time_ns, time_text
from wavebed.errors import WavebedError
from wavebed.lab.confine import Confined
from wavebed.workload.model import Workload
from wavebed.workload.raw import create
from wavebed.workload.serve import RunningServer
from wavebed.workload.waiting import last_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.lab.protocol import Clock, Host, Process

__all__ = ["OTHERS", "Prober", "Probing", "ProbingOptions", "ProbingWorkload", "Watch", "duration", "start_server"]

OTHERS = "others"
"""The duration of a workload that runs until all others have ended."""

_END_S = 8.0
"""A prober writes its result at SIGINT; a busy machine runs it seconds later. The trial allows 10 s."""
_LOOK_S = 0.2


@reader(
    "others|TIME",
    {"anyOf": [{"const": OTHERS}, dict(TIME_SCHEMA)]},
    lambda duration_s: OTHERS if duration_s is None else time_text(duration_s),
)
def duration(value: object) -> float | None:
    """Read ``others`` (``None``) or a time, in seconds."""
    if value == OTHERS:
        return None
    if not isinstance(value, str):
        raise Problem(f'{described(value)} is not a duration: write "others" or a time such as "10s"')
    return time_ns(value) / 1e9


class ProbingOptions(Struct, frozen=True, kw_only=True):
    """The keys of a workload that can run until all others have ended."""

    duration_s: Annotated[
        float | None, Key(duration, "how long; `others`: until all others have ended", absent="`others`")
    ] = None
    tail_s: Annotated[float, Key(seconds(0, 60), "time for which it continues after all others have ended")] = 1.0


_Options = TypeVar("_Options", bound=ProbingOptions)


class ProbingWorkload(Workload[_Options]):
    """A workload that puts no load on the path and can run until all others have ended."""

    is_load: ClassVar[bool] = False

    @property
    def endless(self) -> bool:
        """Whether it runs until all others have ended."""
        return self.options.duration_s is None

    @property
    def tail_s(self) -> float:
        """Seconds for which it continues after all others have ended."""
        return self.options.tail_s if self.endless else 0.0

    def expected_s(self) -> float:
        """Return its duration, or its tail if it is endless."""
        return self.tail_s if self.options.duration_s is None else self.options.duration_s


class Probing(Protocol):
    """A prober that runs until `end`."""

    def look(self) -> None:
        """Check that it still works; otherwise raise a `WavebedError`."""

    def end(self) -> None:
        """End it; raise a `WavebedError` if it does not end or had ended before."""


class Prober:
    """A program on a host that probes until SIGINT.

    Parameters
    ----------
    name : str
        Its name in messages.
    host : Host
        Its host.
    argv : sequence of str
        Its command line.
    folder : pathlib.Path
        Folder for ``NAME.txt`` and ``NAME.err``.
    writes : bool
        Whether it writes a file of its own there.
    """

    def __init__(self, name: str, host: Host, argv: Sequence[str], folder: Path, *, writes: bool = False) -> None:
        self.name = name
        self.output = folder / f"{name}.txt"
        self._errors = folder / f"{name}.err"
        with create(self.output) as output, create(self._errors) as errors:
            self._process: Process = host.start(
                argv, stdout=output, stderr=errors, confined=Confined(write=[folder] if writes else ())
            )

    def look(self) -> None:
        """Check that it still runs.

        Raises
        ------
        WavebedError
            If it has ended, with its last line.
        """
        status = self._process.poll()
        if status is not None:
            raise WavebedError(f"{self.name} ended early with {status}: {self._last_words()}")

    def end(self) -> None:
        """Interrupt it and wait until it has written its results.

        Raises
        ------
        WavebedError
            If it does not end, or had ended before.
        """
        self.look()
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise WavebedError(f"{self.name} did not end within {_END_S:g} s") from None

    def _last_words(self) -> str:
        return last_line(self._errors) or "no message"


class Watch:
    """Watches probers until the end of their duration or `stop`, then ends them.

    Parameters
    ----------
    clock : Clock
        The laboratory's.
    duration_s : float or None
        Their duration; ``None``: until `stop`.
    tail_s : float
        Seconds for which they continue after `stop`.
    """

    def __init__(self, clock: Clock, duration_s: float | None, tail_s: float) -> None:
        self._clock = clock
        self._duration_s = duration_s
        self._tail_s = tail_s
        self._stop = threading.Event()
        self.stopped_early = False

    def stop(self) -> None:
        """End the wait."""
        self._stop.set()

    def keep(self, probers: Sequence[Probing]) -> float:
        """Wait, then end all probers; return that time, seconds since time zero.

        Raises
        ------
        WavebedError
            If one ended early or does not end; the others are ended too.
        """
        problem: WavebedError | None = None
        try:
            self._wait(probers)
        except WavebedError as error:
            problem = error
        told_s = self._clock.now_s()
        for prober in probers:
            try:
                prober.end()
            except WavebedError as error:
                problem = problem or error
        if problem is not None:
            raise problem
        return told_s

    def _wait(self, probers: Sequence[Probing]) -> None:
        now_s = self._clock.monotonic_s
        end_s = math.inf if self._duration_s is None else now_s() + self._duration_s
        while not self._stop.is_set() and now_s() < end_s:
            for prober in probers:
                prober.look()
            self._clock.wait(self._stop, max(0.0, min(_LOOK_S, end_s - now_s())))
        if self._duration_s is None:
            self._clock.sleep(self._tail_s)
        else:
            self.stopped_early = now_s() < end_s


def start_server(name: str, host: Host, argv: Sequence[str], port: int, folder: Path) -> None:
    """Start a server, which ends with the laboratory, and wait until it has opened `port`.

    Raises
    ------
    WavebedError
        If it does not start.
    """
    log = folder / f"{name}.log"
    with create(log) as output:
        process = host.start(argv, stdout=output, stderr=output, confined=True)
    RunningServer(name, process, log).wait_until_bound(host, port)
