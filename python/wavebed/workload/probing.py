"""Probes: their windows, one-way delays, and the programs that send them."""

from __future__ import annotations

import math
import signal
import subprocess
import threading
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from statistics import median
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from msgspec import Struct

from wavebed.config.problems import Problem, described
from wavebed.config.reader import reader
from wavebed.config.table import Key
from wavebed.config.values import TIME_SCHEMA, seconds, time_ns, time_text
from wavebed.errors import WavebedError
from wavebed.lab.confine import Confined
from wavebed.workload.model import Metric, Workload
from wavebed.workload.programs import create, last_line
from wavebed.workload.serve import RunningServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Clock, Host, Process
    from wavebed.workload.model import Better, Schedule, TimeSpan


def least_values(rank: int) -> int:
    """Return the least number of values for a percentile; with fewer, none is expected above it."""
    return ceil(100 / (100 - rank))


def percentile(values: Sequence[float], rank: int, least: int = 1) -> float | None:
    """Return the percentile `rank` (1 to 99), linear between values; ``None`` below `least` or `least_values`."""
    if len(values) < max(least, least_values(rank)):
        return None
    return float(np.percentile(values, rank))


PERCENTILES = (50, 95, 99)
LEAST_PROBES = 20
"""With fewer probes in a window, its percentiles are missing (p99 needs 100)."""

DRAIN_S = 1.0
"""Time after a load in which its queue may still drain."""

WITHOUT_ANSWER_MS = 1000.0
"""Longest time of an answer if no answer came at all."""

Window: TypeAlias = Literal["idle", "loaded"]
WINDOWS: tuple[Window, Window] = ("idle", "loaded")


@dataclass(frozen=True, slots=True)
class EchoProbe:
    """One probe.

    Parameters
    ----------
    number : int
        Its sequence number, from 0 or 1, without wrapping.
    sent_s : float
        Time of sending, seconds since time zero.
    rtt_ms : float or None
        Round-trip time; ``None`` if no answer came.
    up_ms, down_ms : float or None
        One-way delay to the server and back, if measured.
    lost : str
        Direction of the loss: ``up``, ``down``, ``somewhere``; empty if it was answered.
    """

    number: int
    sent_s: float
    rtt_ms: float | None
    up_ms: float | None = None
    down_ms: float | None = None
    lost: Literal["", "up", "down", "somewhere"] = ""


def answered_or_lost(probes: Sequence[EchoProbe], end_s: float) -> list[EchoProbe]:
    """Leave out undetermined probes: unanswered, and sent so late that the answer can be in flight.

    Parameters
    ----------
    probes : sequence of EchoProbe
        In the order of their numbers.
    end_s : float
        End of the program, seconds since time zero. The longest answer is the limit for the others.
    """
    longest_ms = max((probe.rtt_ms for probe in probes if probe.rtt_ms is not None), default=WITHOUT_ANSWER_MS)
    return [probe for probe in probes if probe.rtt_ms is not None or probe.sent_s + longest_ms / 1e3 <= end_s]


def loads_of(schedule: Schedule) -> list[TimeSpan]:
    """Return the spans of the workloads that put load on the path."""
    return [span for span in schedule.values() if span.is_load]


def window_of(sent_s: float, loads: Sequence[TimeSpan]) -> Window | None:
    """Return the state of the path when a probe was sent; ``None`` while the queue of a load may drain."""
    if any(span.start_s <= sent_s <= span.end_s for span in loads):
        return "loaded"
    if any(span.end_s < sent_s < span.end_s + DRAIN_S for span in loads):
        return None
    return "idle"


def mdev(values: Sequence[float]) -> float | None:
    """Return the population standard deviation sqrt(E[x²] - E[x]²), like ping."""
    return float(np.std(values)) if len(values) else None


def _in_windows(probes: Iterable[EchoProbe], loads: Sequence[TimeSpan]) -> dict[Window, list[EchoProbe]]:
    found: dict[Window, list[EchoProbe]] = {window: [] for window in WINDOWS}
    for probe in probes:
        window = window_of(probe.sent_s, loads)
        if window is not None:
            found[window].append(probe)
    return found


def delay_metrics(
    probes: Sequence[EchoProbe],
    loads: Sequence[TimeSpan],
    name: str,
    delay: Callable[[EchoProbe], float | None],
    *,
    increase: str,
    definition: str,
) -> list[Metric]:
    """Return percentiles, average and mdev of a delay in both windows, and the increase from one to the other.

    Parameters
    ----------
    name, increase : str
        Names of the delay and of its increase.
    delay : callable
        Returns the delay of a probe, ms.
    definition : str
        The measurement method.
    """
    metrics: list[Metric] = []
    windows = _in_windows(probes, loads)
    taken = {window: [ms for ms in map(delay, windows[window]) if ms is not None] for window in WINDOWS}
    found = {
        (window, rank): percentile(taken[window], rank, LEAST_PROBES) for window in WINDOWS for rank in PERCENTILES
    }
    rule = f"{definition}; linear percentile of the probes sent while the path was {{}}"
    metrics += [_ms(f"{name} {window} p{rank}", value, rule.format(window)) for (window, rank), value in found.items()]
    for rank in PERCENTILES:
        idle, loaded = found["idle", rank], found["loaded", rank]
        difference = None if idle is None or loaded is None else loaded - idle
        text = f"p{rank} of the loaded window − p{rank} of the separate idle window; {definition}"
        metrics.append(_ms(f"{increase} p{rank}", difference, text))
    everything = [ms for ms in map(delay, probes) if ms is not None]
    for label, values in (("", everything), (" loaded", taken["loaded"])):
        average = float(np.mean(values)) if values else None
        metrics.append(_ms(f"{name}{label} average", average, f"mean, as ping prints it; {definition}"))
        text = f"sqrt(E[x²] − E[x]²), as ping prints it; {definition}"
        metrics.append(_ms(f"{name}{label} mdev", mdev(values), text))
    return metrics


def loss_metrics(
    probes: Sequence[EchoProbe],
    loads: Sequence[TimeSpan],
    name: str,
    is_lost: Callable[[EchoProbe], bool],
    definition: str,
) -> list[Metric]:
    """Return the percentage of lost probes: of all, and in both windows."""
    windows = _in_windows(probes, loads)
    metrics = []
    for label, some in (("", probes), (" idle", windows["idle"]), (" loaded", windows["loaded"])):
        percent = 100 * sum(map(is_lost, some)) / len(some) if some else None
        metrics.append(Metric(f"{name}{label}", percent, "%", "lower", definition))
    return metrics


def variation_metrics(
    probes: Sequence[EchoProbe],
    loads: Sequence[TimeSpan],
    name: str,
    delay: Callable[[EchoProbe], float | None],
    definition: str,
) -> list[Metric]:
    """Return the mean of |IPDV| in both windows: the change of delay between two consecutive probes."""
    changes: dict[Window, list[float]] = {window: [] for window in WINDOWS}
    for before, probe in pairwise(probes):
        earlier, later = delay(before), delay(probe)
        window = window_of(probe.sent_s, loads)
        if probe.number == before.number + 1 and earlier is not None and later is not None and window is not None:
            changes[window].append(abs(later - earlier))
    return [
        _ms(
            f"{name} {window}",
            float(np.mean(changes[window])) if len(changes[window]) >= LEAST_PROBES else None,
            definition,
        )
        for window in WINDOWS
    ]


def _ms(name: str, value: float | None, definition: str, better: Better = "lower") -> Metric:
    return Metric(name, value, "ms", better, definition)


MOST_ERROR = 0.1
"""One-way delays are given if the error of the clocks is at most this part of their median."""


def on_one_clock(probes: Sequence[EchoProbe], server: Host, client: Host) -> tuple[list[EchoProbe], dict[str, Json]]:
    """Return probes with one-way delays on the laboratory's clock, and what is known of the clocks.

    Without a known offset, or with one too uncertain for these delays, the probes have no one-way delays.

    Parameters
    ----------
    probes : sequence of EchoProbe
        Their one-way delays are differences of the two hosts' system clocks.
    """
    corrected: list[EchoProbe] = []
    errors_ms: list[float] = []
    for probe in probes:
        of_server, of_client = server.clock_offset(probe.sent_s), client.clock_offset(probe.sent_s)
        if of_server is None or of_client is None:
            return _without(probes), {"one-way delays": "none: a clock was set during the trial"}
        ahead_ms = 1e3 * (of_server.ahead_s - of_client.ahead_s)
        errors_ms.append(1e3 * (of_server.error_s + of_client.error_s))
        corrected.append(
            replace(
                probe,
                up_ms=None if probe.up_ms is None else probe.up_ms - ahead_ms,
                down_ms=None if probe.down_ms is None else probe.down_ms + ahead_ms,
            )
        )
    delays_ms = [each for probe in corrected for each in (probe.up_ms, probe.down_ms) if each is not None]
    if not delays_ms or max(errors_ms) == 0:
        return corrected, {}
    worst_ms, middle_ms = max(errors_ms), median(delays_ms)
    known: dict[str, Json] = {"error of the clocks, ms": worst_ms}
    if worst_ms > MOST_ERROR * middle_ms:
        told = f"none: the clocks are known to ±{worst_ms:.3f} ms, and the median would be {middle_ms:.3f} ms"
        return _without(probes), {**known, "one-way delays": told}
    return corrected, known


def _without(probes: Sequence[EchoProbe]) -> list[EchoProbe]:
    return [replace(probe, up_ms=None, down_ms=None) for probe in probes]


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


class ProbeWatch:
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
