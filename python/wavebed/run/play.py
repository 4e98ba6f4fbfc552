"""Run the workloads of one trial: start each at its time, stop it at its limit, collect its results."""

from __future__ import annotations

import math
import subprocess
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from wavebed.beneath import make_folders
from wavebed.errors import WavebedError
from wavebed.lab.protocol import first_ports
from wavebed.workload.model import Outcome, TimeSpan, TrialContext

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from wavebed.lab.protocol import Clock, Host, Lab, Undelivered
    from wavebed.workload.model import AnyWorkload, Schedule, Session

STOP_GRACE_S = 10.0
"""A session must end within 5 s of `stop`; after twice that the laboratory is ended."""
OPEN_S = 120.0
"""Time to open a session: servers take 10 s at most, a browser on a busy machine a minute."""
AT_ONCE = 8
"""Workloads of a cell that are opened at the same time."""
LOOK_EVERY_S = 0.2


class HungError(WavebedError):
    """A workload did not end when it was asked to."""


class StoppedError(WavebedError):
    """The time came at which the trial was to be stopped."""


@dataclass(eq=False)
class RunningWorkload:
    """The state of a workload in this trial.

    Parameters
    ----------
    session : Session or None
        ``None`` if it could not be opened; `problem` has the reason.
    started, over : threading.Event
        Set at its start, and at its end or when it will not start any more.
    asked : threading.Event
        Set when it was asked to stop; a workload that has not started by then never starts.
    thread : threading.Event or None
        The end of its thread.
    limited : bool
        Whether it was stopped at its limit.
    """

    workload: AnyWorkload
    context: TrialContext
    session: Session | None = None
    problem: str = ""
    start_s: float | None = None
    end_s: float | None = None
    limited: bool = False
    asked_s: float | None = None
    thread: threading.Event | None = None
    asked: threading.Event = field(default_factory=threading.Event)
    started: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def span(self) -> TimeSpan | None:
        """Its span; ``None`` if it never started or has not ended."""
        if self.start_s is None or self.end_s is None:
            return None
        return TimeSpan(self.start_s, self.end_s, self.workload.is_load)

    def ask_to_stop(self) -> None:
        """Ask it once to stop."""
        if self.asked_s is None and self.session is not None:
            self.asked_s = self.context.clock.monotonic_s()
            self.asked.set()
            try:
                self.session.stop()
            except Exception as error:  # noqa: BLE001 - its program may be gone; the others go on
                self.problem = self.problem or _error_text(error)


def open_all(
    workloads: Sequence[AnyWorkload], lab: Lab, raw: Path, seed: int, host: Callable[[str], Host] | None = None
) -> list[RunningWorkload]:
    """Open all workloads in parallel, because browsers take seconds; a failure to open is the workload's `problem`.

    Parameters
    ----------
    raw : pathlib.Path
        Each workload gets a folder in it.
    host : callable, optional
        Returns a host of the laboratory by its name, as the programs of workloads are to see it.
    """
    running: list[RunningWorkload] = []
    host = host or lab.host
    ports = first_ports([workload.port_count for workload in workloads])
    for number, workload in enumerate(workloads):
        folder = raw / workload.name
        make_folders(folder)
        context = TrialContext(
            server=host(workload.common.server).of_workload(workload.name),
            client=host(workload.common.client_host).of_workload(workload.name),
            folder=folder,
            clock=lab.clock,
            port=ports[number],
            address=f"198.19.{number + 1}.",
            seed=seed,
            limit_s=workload.common.limit_s,
            undelivered=partial(_undelivered, lab, running, number),
        )
        running.append(RunningWorkload(workload, context))
    # Ctrl-C does not wait for browsers: they end with the laboratory.
    if any(workload.common.device is not None for workload in workloads):
        _open_a_few_at_once(running, lab.clock)
        return running
    opened = [lab.clock.start(partial(_open, one), one.workload.name) for one in running]
    end_s = lab.clock.monotonic_s() + OPEN_S
    for one, is_open in zip(running, opened, strict=True):
        if not lab.clock.wait(is_open, max(0.0, end_s - lab.clock.monotonic_s())):
            one.problem = f"did not open within {OPEN_S:g} s"
            one.over.set()
    return running


def _open_a_few_at_once(running: Sequence[RunningWorkload], clock: Clock) -> None:
    """Open the workloads of a cell: with all browsers of a crowd at once, each passes its own limit."""
    left = deque(running)
    opened = {one.workload.name: threading.Event() for one in running}

    def work() -> None:
        while left:
            with suppress(IndexError):  # another thread took the last one
                one = left.popleft()
                try:
                    _open(one)
                finally:
                    opened[one.workload.name].set()

    for number in range(min(AT_ONCE, len(running))):
        clock.start(work, f"opening {number + 1}")
    limit_s = OPEN_S * -(-len(running) // AT_ONCE)
    end_s = clock.monotonic_s() + limit_s
    for one in running:
        if not clock.wait(opened[one.workload.name], max(0.0, end_s - clock.monotonic_s())):
            left.clear()
            one.problem = f"did not open within {limit_s:g} s"
            one.over.set()


def _undelivered(lab: Lab, running: Sequence[RunningWorkload], number: int) -> Undelivered | None:
    """Return the data on the way, unless it may be another workload's."""
    others = (one for place, one in enumerate(running) if place != number)
    is_alone = not any(one.started.is_set() and not one.over.is_set() for one in others)
    return lab.undelivered() if is_alone else None


def _open(one: RunningWorkload) -> None:
    try:
        session = one.workload.open(one.context)
        if not one.over.is_set():
            one.session = session
    except Exception as error:  # noqa: BLE001 - a fault in one workload must not end the run
        one.problem = _error_text(error)
        one.over.set()


def _error_text(error: Exception) -> str:
    """Return one line about an error."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"{error.cmd[0]} did not end within {error.timeout:g} s"
    if isinstance(error, WavebedError | TimeoutError | OSError):
        return str(error) or type(error).__name__
    return f"internal error of wavebed: {type(error).__name__}: {error}"


def perform(running: Sequence[RunningWorkload], lab: Lab, look: Callable[[], None], until_s: float = math.inf) -> None:
    """Run the opened workloads; return when all, or the laboratory, have ended.

    Parameters
    ----------
    running : sequence of RunningWorkload
        Their clock has begun.
    look : callable
        Called a few times a second.
    until_s : float
        When to stop, seconds since time zero.

    Raises
    ------
    HungError
        If one did not end in time after `Session.stop`.
    StoppedError
        If the time to stop came.
    """
    by_name = {one.workload.name: one for one in running}
    wake = threading.Event()
    for one in running:
        if one.session is not None:
            one.thread = lab.clock.start(partial(_play, one, by_name, wake), one.workload.name)
    while not all(one.over.is_set() for one in running):
        # The clock is read without a time to stop too: in virtual time each reading takes its time.
        lab.clock.wait(wake, min(LOOK_EVERY_S, max(until_s - lab.clock.now_s(), 0.0)))
        wake.clear()
        if lab.clock.now_s() >= until_s:
            raise StoppedError(f"stopped at {until_s:.6f} s")
        if not lab.is_alive():
            _fail_unfinished(running)
            return
        _hold_to_limits(running)
        look()


def _play(one: RunningWorkload, running: Mapping[str, RunningWorkload], wake: threading.Event) -> None:
    assert one.session is not None, "checked by the caller"
    clock = one.context.clock
    try:
        left_s = one.workload.common.start_s
        other = running.get(one.workload.common.after or "")
        if other is not None:
            clock.wait(other.over)
        else:
            left_s -= clock.now_s()
        if clock.wait(one.asked, max(0.0, left_s)):
            one.problem = one.problem or "all others had ended before its start"
            return
        one.start_s = clock.now_s()
        one.started.set()
        one.session.run()
    except Exception as error:  # noqa: BLE001 - a fault in one workload must not leave the trial waiting
        one.problem = one.problem or _error_text(error)
    finally:
        if one.start_s is not None:
            one.end_s = clock.now_s()
        one.over.set()
        wake.set()


def _hold_to_limits(running: Sequence[RunningWorkload]) -> None:
    others_over = all(one.over.is_set() for one in running if not one.workload.endless)
    for one in running:
        clock = one.context.clock
        if one.over.is_set():
            continue
        if one.workload.endless and others_over:
            one.ask_to_stop()
        elif one.start_s is not None and clock.now_s() - one.start_s > one.workload.common.limit_s:
            one.limited = one.limited or one.asked_s is None
            one.ask_to_stop()
        if one.asked_s is not None and clock.monotonic_s() - one.asked_s > STOP_GRACE_S + one.workload.tail_s:
            raise HungError(f"{one.workload.name}: did not end within {STOP_GRACE_S:.0f} s of being asked to")


def settle(running: Sequence[RunningWorkload], clock: Clock) -> None:
    """Wait for the remaining threads after the end of the laboratory; a workload that has not started never starts."""
    end_s = clock.monotonic_s() + STOP_GRACE_S
    _fail_unfinished(running)
    for one in running:
        one.asked.set()
    for one in running:
        if one.thread is not None:
            clock.wait(one.thread, max(0.0, end_s - clock.monotonic_s()))


def _fail_unfinished(running: Sequence[RunningWorkload]) -> None:
    for one in running:
        if not one.over.is_set():
            one.problem = one.problem or "the laboratory ended before it"


def outcomes(running: Sequence[RunningWorkload]) -> list[Outcome]:
    """Return the results of every session, after the end of the laboratory."""
    schedule: Schedule = {one.workload.name: span for one in running if (span := one.span) is not None}
    return [_outcome(one, schedule) for one in running]


def _outcome(one: RunningWorkload, schedule: Schedule) -> Outcome:
    if one.session is None or one.start_s is None:
        return Outcome("failed", one.problem or "it never started")
    try:
        outcome = one.session.report(schedule)
    except Exception as error:  # noqa: BLE001 - raw outputs of a failed program may be anything
        return Outcome("failed", one.problem or f"its output cannot be read: {type(error).__name__}: {error}")
    return replace(outcome, status="failed", reason=one.problem) if one.problem else outcome
