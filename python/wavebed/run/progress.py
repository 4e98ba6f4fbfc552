"""Progress of a run on standard error, with an estimate of the time that is left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeAlias, cast

from wavebed.experiment.estimate import duration_text
from wavebed.store.journal import (
    BlocksPlaced,
    Event,
    RunEnded,
    RunInterrupted,
    RunPlanned,
    StepBegun,
    TrialBegun,
    TrialStored,
)
from wavebed.terminal import StatusLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Lab
    from wavebed.run.play import RunningWorkload

Counters: TypeAlias = tuple[int, dict[str, int]]
"""The time, and the bytes that each link delivered."""
WAITING = "waiting for the end of another run on this machine"
OVERHEAD_S = 1.0
BROWSER_S = 1.5
"""Of a Chromium with a fresh profile, before the trial and after it; measured: 1.3 to 1.9 s with all overhead."""


class Live(StatusLine):
    """The progress line of a run: a listener of its journal."""

    tells_verdicts = True
    """Whether each trial that is not valid is printed, with the first reason."""
    tells_suspects = True
    """Whether suspect trials are among them."""
    _before: Counters | None = None
    _trial: TrialBegun | None = None
    _began_s = 0.0
    _planned = 0
    _awaited = ""

    def __call__(self, event: Event) -> None:
        """Show an event."""
        match event:
            case RunPlanned():
                self._planned = event.trials
            case StepBegun():
                self.say(event.step)
            case BlocksPlaced():
                self.say(f"{duration_text(event.left_s)} left, {event.text()}", event.left_s)
            case TrialBegun():
                self._trial, self._before = event, None
                self._began_s = self._said_s = time.monotonic()
            case TrialStored() if event.verdict == "suspect" and not self.tells_suspects:
                pass
            case TrialStored() if event.verdict != "valid" and self._planned and self.tells_verdicts:
                place = f"trial {event.number} of {self._planned} ({event.trial})"
                self.note(f"{place} is {event.verdict}: {event.reasons[0]}")
            case RunEnded() | RunInterrupted():
                self.clear()
            case _:
                pass

    def waiting(self, processes: str) -> None:
        """Show that another run measures on this machine, as often as the line is due."""
        if processes != self._awaited or self.is_due():
            self.say(f"{WAITING} (process {processes})")
        self._awaited = processes

    def position(self) -> tuple[str, float]:
        """Return the running trial as text, and the seconds left."""
        trial = self._trial
        assert trial is not None, "a trial has begun"
        left_s = max(trial.left_s - (time.monotonic() - self._began_s), 0.0)
        return f"{trial.number} of {trial.trials}, {trial.treatment}", left_s

    def look(self, lab: Lab, running: Sequence[RunningWorkload]) -> None:
        """Show the state of the running trial, if the line is due."""
        if not self.is_due():
            return
        head, left_s = self.position()
        shown, self._before = show_text(lab.show(), self._before)
        self.say(f"{head}, {duration_text(left_s)} left: {shown or names_text(running)}", left_s)


def names_text(running: Sequence[RunningWorkload]) -> str:
    """Return the names of the workloads that run."""
    names = ", ".join(one.workload.name for one in running if one.started.is_set() and not one.over.is_set())
    return names or "waiting"


def show_text(show: dict[str, Json], before: Counters | None) -> tuple[str, Counters | None]:
    """Return throughput and round-trip time as text, and the counters for the next call.

    Parameters
    ----------
    show : dict
        The value of `Lab.show`.
    before : tuple or None
        The counters of the previous call.
    """
    now_ns = show.get("now_ns")
    if not isinstance(now_ns, int):
        return "", None
    links = cast("list[dict[str, Json]]", show["links"])
    delivered = {cast("str", link["name"]): cast("int", link["delivered_bytes"]) for link in links}
    parts = []
    if before is not None and now_ns > before[0]:
        rates = []
        for direction, sign in (("down", "↓"), ("up", "↑")):
            names = [name for name in delivered if name.endswith(f".{direction}")]
            last = names[-1] if direction == "down" else names[0]
            rate_bps = (delivered[last] - before[1].get(last, 0)) * 8e9 / (now_ns - before[0])
            rates.append(f"{sign}{rate_bps / 1e6:.{0 if rate_bps >= 1e7 else 1}f}")
        parts.append(f"{' '.join(rates)} Mbit/s")
    flows = show.get("flows")
    if isinstance(flows, dict) and isinstance(flows.get("max_rtt_us"), int | float):
        parts.append(f"RTT {cast('float', flows['max_rtt_us']) / 1e3:.0f} ms")
    return ", ".join(parts), (now_ns, delivered)
