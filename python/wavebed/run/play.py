"""The workloads of one trial in time: each starts at its moment, is held to its limit, and is judged afterwards."""

from __future__ import annotations

import subprocess
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from wavebed.errors import WavebedError
from wavebed.workload.model import Outcome, Span, TrialContext

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from wavebed.lab.protocol import Clock, Lab
    from wavebed.workload.model import AnyWorkload, Schedule, Session

__all__ = ["HungError", "RunningWorkload", "open_all", "outcomes", "perform", "settle"]

STOP_GRACE_S = 10.0
"""A session must end within 5 s of being asked; after twice that the laboratory is ended under it."""
OPEN_S = 120.0
"""A session must be open by then: servers take 10 s at most, a browser on a busy machine a minute."""
FIRST_PORT = 20_000
PORTS_EACH = 20
LOOK_EVERY_S = 0.2


class HungError(WavebedError):
    """A workload did not end when it was asked to."""


@dataclass(eq=False)
class RunningWorkload:
    """A workload in this trial.

    Parameters
    ----------
    session : Session or None
        ``None`` if it could not be opened; `problem` says why.
    started, over : threading.Event
        Set when it begins and when it has ended, or never will begin.
    asked : threading.Event
        Set when it was asked to end: if it has not begun by then, it never will.
    thread : threading.Event or None
        The end of the thread that runs it; ``None`` if there is none.
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
    def span(self) -> Span | None:
        """When it ran; ``None`` if it never began or has not ended."""
        if self.start_s is None or self.end_s is None:
            return None
        return Span(self.start_s, self.end_s, self.workload.is_load)

    def ask_to_stop(self) -> None:
        """Ask it once to end."""
        if self.asked_s is None and self.session is not None:
            self.asked_s = self.context.clock.monotonic_s()
            self.asked.set()
            try:
                self.session.stop()
            except Exception as error:  # noqa: BLE001 - its program may be gone; the others go on
                self.problem = self.problem or _told(error)


def open_all(workloads: Sequence[AnyWorkload], lab: Lab, raw: Path, seed: int) -> list[RunningWorkload]:
    """Open every workload, side by side: browsers take seconds. One that does not open has its `problem`."""
    running = []
    for number, workload in enumerate(workloads):
        folder = raw / workload.name
        folder.mkdir(parents=True)
        context = TrialContext(
            server=lab.host(workload.common.server),
            client=lab.host(workload.common.client),
            folder=folder,
            clock=lab.clock,
            port=FIRST_PORT + PORTS_EACH * number,
            address=f"198.19.{number + 1}.",
            seed=seed,
            limit_s=workload.common.limit_s,
        )
        running.append(RunningWorkload(workload, context))
    # After Ctrl-C nobody waits for browsers: the laboratory ends under them.
    opened = [lab.clock.start(partial(_open, one), one.workload.name) for one in running]
    end_s = lab.clock.monotonic_s() + OPEN_S
    for one, is_open in zip(running, opened, strict=True):
        if not lab.clock.wait(is_open, max(0.0, end_s - lab.clock.monotonic_s())):
            one.problem = f"did not open within {OPEN_S:g} s"
            one.over.set()
    return running


def _open(one: RunningWorkload) -> None:
    try:
        session = one.workload.open(one.context)
        if not one.over.is_set():
            one.session = session
    except Exception as error:  # noqa: BLE001 - a fault in one workload must not end the run
        one.problem = _told(error)
        one.over.set()


def _told(error: Exception) -> str:
    """Return what people read of an error: one line."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"{error.cmd[0]} did not end within {error.timeout:g} s"
    if isinstance(error, WavebedError | TimeoutError | OSError):
        return str(error) or type(error).__name__
    return f"a fault of wavebed: {type(error).__name__}: {error}"


def perform(running: Sequence[RunningWorkload], lab: Lab, look: Callable[[], None]) -> None:
    """Run the workloads that were opened; return when all have ended.

    Parameters
    ----------
    running : sequence of RunningWorkload
        Their clock has begun.
    lab : Lab
        Where they run; when it has ended, this returns.
    look : callable
        Called a few times a second.

    Raises
    ------
    HungError
        If one did not end in time after it was asked to.
    """
    by_name = {one.workload.name: one for one in running}
    wake = threading.Event()
    for one in running:
        if one.session is not None:
            one.thread = lab.clock.start(partial(_play, one, by_name, wake), one.workload.name)
    while not all(one.over.is_set() for one in running):
        lab.clock.wait(wake, LOOK_EVERY_S)
        wake.clear()
        if not lab.is_alive():
            _blame_laboratory(running)
            return
        _hold_to_limits(running)
        look()


def _play(one: RunningWorkload, running: Mapping[str, RunningWorkload], wake: threading.Event) -> None:
    assert one.session is not None, "looked at by the caller"
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
        one.problem = one.problem or _told(error)
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
    """Wait for what still runs, now that the laboratory is gone under it; what has not begun never will."""
    end_s = clock.monotonic_s() + STOP_GRACE_S
    _blame_laboratory(running)
    for one in running:
        one.asked.set()
    for one in running:
        if one.thread is not None:
            clock.wait(one.thread, max(0.0, end_s - clock.monotonic_s()))


def _blame_laboratory(running: Sequence[RunningWorkload]) -> None:
    for one in running:
        if not one.over.is_set():
            one.problem = one.problem or "the laboratory ended under it"


def outcomes(running: Sequence[RunningWorkload]) -> list[Outcome]:
    """Ask every session for its report, now that the laboratory is gone."""
    schedule: Schedule = {one.workload.name: span for one in running if (span := one.span) is not None}
    return [_outcome(one, schedule) for one in running]


def _outcome(one: RunningWorkload, schedule: Schedule) -> Outcome:
    if one.session is None or one.start_s is None:
        return Outcome("failed", one.problem or "it never began")
    try:
        outcome = one.session.report(schedule)
    except Exception as error:  # noqa: BLE001 - raw outputs of a failed program may be anything
        told = one.problem or f"its output cannot be read: {type(error).__name__}: {error}"
        return Outcome("failed", told)
    if one.problem:
        return Outcome(
            "failed",
            one.problem,
            outcome.metrics,
            outcome.series,
            outcome.events,
            outcome.details,
            outcome.doubts,
        )
    return outcome
