"""The workloads of one trial in time: each starts at its moment, is held to its limit, and is judged afterwards."""

from __future__ import annotations

import subprocess
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from wavebed.errors import WavebedError
from wavebed.workload.model import Outcome, Span, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from wavebed.lab.protocol import Clock, Lab
    from wavebed.workload.model import AnyWorkload, Schedule, Session

__all__ = ["Act", "HungError", "open_all", "outcomes", "perform", "settle"]

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
class Act:
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
    stage: Stage
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
            self.asked_s = self.stage.clock.monotonic_s()
            self.asked.set()
            try:
                self.session.stop()
            except Exception as error:  # noqa: BLE001 - its program may be gone; the others go on
                self.problem = self.problem or _told(error)


def open_all(workloads: Sequence[AnyWorkload], lab: Lab, raw: Path, seed: int) -> list[Act]:
    """Open every workload, side by side: browsers take seconds. One that does not open has its `problem`."""
    acts = []
    for number, workload in enumerate(workloads):
        folder = raw / workload.name
        folder.mkdir(parents=True)
        stage = Stage(
            server=lab.host(workload.common.server),
            client=lab.host(workload.common.client),
            folder=folder,
            clock=lab.clock,
            port=FIRST_PORT + PORTS_EACH * number,
            address=f"198.19.{number + 1}.",
            seed=seed,
            limit_s=workload.common.limit_s,
        )
        acts.append(Act(workload, stage))
    # After Ctrl-C nobody waits for browsers: the laboratory ends under them.
    opened = [lab.clock.start(partial(_open, act), act.workload.name) for act in acts]
    end_s = lab.clock.monotonic_s() + OPEN_S
    for act, is_open in zip(acts, opened, strict=True):
        if not lab.clock.wait(is_open, max(0.0, end_s - lab.clock.monotonic_s())):
            act.problem = f"did not open within {OPEN_S:g} s"
            act.over.set()
    return acts


def _open(act: Act) -> None:
    try:
        session = act.workload.open(act.stage)
        if not act.over.is_set():
            act.session = session
    except Exception as error:  # noqa: BLE001 - a fault in one workload must not end the run
        act.problem = _told(error)
        act.over.set()


def _told(error: Exception) -> str:
    """Return what people read of an error: one line."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"{error.cmd[0]} did not end within {error.timeout:g} s"
    if isinstance(error, WavebedError | TimeoutError | OSError):
        return str(error) or type(error).__name__
    return f"a fault of wavebed: {type(error).__name__}: {error}"


def perform(acts: Sequence[Act], lab: Lab, look: Callable[[], None]) -> None:
    """Run the workloads that were opened; return when all have ended.

    Parameters
    ----------
    acts : sequence of Act
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
    by_name = {act.workload.name: act for act in acts}
    wake = threading.Event()
    for act in acts:
        if act.session is not None:
            act.thread = lab.clock.start(partial(_play, act, by_name, wake), act.workload.name)
    while not all(act.over.is_set() for act in acts):
        lab.clock.wait(wake, LOOK_EVERY_S)
        wake.clear()
        if not lab.is_alive():
            _blame_laboratory(acts)
            return
        _hold_to_limits(acts)
        look()


def _play(act: Act, acts: Mapping[str, Act], wake: threading.Event) -> None:
    assert act.session is not None, "looked at by the caller"
    clock = act.stage.clock
    try:
        left_s = act.workload.common.start_s
        other = acts.get(act.workload.common.after or "")
        if other is not None:
            clock.wait(other.over)
        else:
            left_s -= clock.now_s()
        if clock.wait(act.asked, max(0.0, left_s)):
            act.problem = act.problem or "all others had ended before its start"
            return
        act.start_s = clock.now_s()
        act.started.set()
        act.session.run()
    except Exception as error:  # noqa: BLE001 - a fault in one workload must not leave the trial waiting
        act.problem = act.problem or _told(error)
    finally:
        if act.start_s is not None:
            act.end_s = clock.now_s()
        act.over.set()
        wake.set()


def _hold_to_limits(acts: Sequence[Act]) -> None:
    others_over = all(act.over.is_set() for act in acts if not act.workload.endless)
    for act in acts:
        clock = act.stage.clock
        if act.over.is_set():
            continue
        if act.workload.endless and others_over:
            act.ask_to_stop()
        elif act.start_s is not None and clock.now_s() - act.start_s > act.workload.common.limit_s:
            act.limited = act.limited or act.asked_s is None
            act.ask_to_stop()
        if act.asked_s is not None and clock.monotonic_s() - act.asked_s > STOP_GRACE_S + act.workload.tail_s:
            raise HungError(f"{act.workload.name}: did not end within {STOP_GRACE_S:.0f} s of being asked to")


def settle(acts: Sequence[Act], clock: Clock) -> None:
    """Wait for what still runs, now that the laboratory is gone under it; what has not begun never will."""
    end_s = clock.monotonic_s() + STOP_GRACE_S
    _blame_laboratory(acts)
    for act in acts:
        act.asked.set()
    for act in acts:
        if act.thread is not None:
            clock.wait(act.thread, max(0.0, end_s - clock.monotonic_s()))


def _blame_laboratory(acts: Sequence[Act]) -> None:
    for act in acts:
        if not act.over.is_set():
            act.problem = act.problem or "the laboratory ended under it"


def outcomes(acts: Sequence[Act]) -> list[Outcome]:
    """Ask every session for its report, now that the laboratory is gone."""
    schedule: Schedule = {act.workload.name: span for act in acts if (span := act.span) is not None}
    return [_outcome(act, schedule) for act in acts]


def _outcome(act: Act, schedule: Schedule) -> Outcome:
    if act.session is None or act.start_s is None:
        return Outcome("failed", act.problem or "it never began")
    try:
        outcome = act.session.report(schedule)
    except Exception as error:  # noqa: BLE001 - raw outputs of a failed program may be anything
        told = act.problem or f"its output cannot be read: {type(error).__name__}: {error}"
        return Outcome("failed", told)
    if act.problem:
        return Outcome(
            "failed",
            act.problem,
            outcome.metrics,
            outcome.series,
            outcome.events,
            outcome.details,
            outcome.doubts,
        )
    return outcome
