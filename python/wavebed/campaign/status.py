"""The progress of a campaign, from its journal: by any process, at any time."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.experiment.estimate import duration_text
from wavebed.store.disk import held
from wavebed.store.journal import (
    BlockEnded,
    BlocksPlaced,
    JournalReader,
    RunBegun,
    RunEnded,
    RunInterrupted,
    RunPlanned,
    RunResumed,
    StepBegun,
    TrialBegun,
    TrialStored,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.store.journal import Event

WATCH_S = 1.0


@dataclass(slots=True)
class CampaignStatus:
    """The progress of a run or campaign.

    Parameters
    ----------
    state : str
        ``running``, ``ended``, ``interrupted`` (Ctrl-C, an error) or ``killed``.
    stored : dict
        Verdict of the last attempt at each trial, by number.
    attempts : int
        Attempts in all.
    resumed : int
        How often it was resumed.
    step : str
        What it does between trials, such as preparing, or waiting for another run.
    current : TrialBegun or None
        The running trial.
    placed : BlocksPlaced or None
        The blocks that run on workers.
    estimate : tuple or None
        Seconds that were left at a time; without the time, they do not pass yet.
    reason : str
        Why it was interrupted, or which rule stopped it.
    """

    title: str = ""
    state: str = "running"
    planned: int = 0
    stored: dict[int, str] = field(default_factory=dict)
    attempts: int = 0
    blocks: set[int] = field(default_factory=set)
    resumed: int = 0
    step: str = ""
    current: TrialBegun | None = None
    placed: BlocksPlaced | None = None
    estimate: tuple[float, datetime | None] | None = None
    reason: str = ""

    @property
    def left_s(self) -> float | None:
        """Seconds left, if it runs."""
        if self.state != "running" or self.estimate is None:
            return None
        left_s, since = self.estimate
        return left_s if since is None else max(left_s - (datetime.now(UTC) - since).total_seconds(), 0.0)

    def add(self, event: Event) -> None:
        """Take the next event of the journal."""
        match event:
            case RunBegun():
                self.title = event.title
            case RunPlanned():
                self.planned, self.estimate = event.trials, (event.expected_s, None)
            case RunResumed():
                self._go_on("running", "")
                self.resumed += 1
            case StepBegun():
                self.step, self.estimate = event.step, (event.left_s, None)
            case BlocksPlaced():
                self.placed, self.step, self.estimate = event, "", (event.left_s, event.time)
            case TrialBegun():
                self.current, self.step, self.estimate = event, "", (event.left_s, event.time)
            case TrialStored():
                self.stored[event.number] = event.verdict
                self.attempts += 1
                self.current = None
            case BlockEnded():
                self.blocks.add(event.block)
            case RunEnded():
                self._go_on("ended", event.stopped)
            case RunInterrupted():
                self._go_on("interrupted", event.reason)
            case _:
                pass

    def _go_on(self, state: str, reason: str) -> None:
        self.state, self.reason, self.step, self.current, self.placed = state, reason, "", None, None


class Progress:
    """Follows the journal of a folder of results; each look reads what is new."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reader = JournalReader(folder)
        self._status = CampaignStatus()

    def look(self) -> CampaignStatus:
        """Return the progress.

        Raises
        ------
        UserError
            If the folder has no journal, or a damaged one.
        """
        self._read()
        while self._status.state == "running" and _is_free(self._folder):
            # Nobody holds it: it was killed, unless it ended or went on since it was read.
            if not self._read():
                return replace(self._status, state="killed", step="", current=None, placed=None)
        return replace(self._status)

    def _read(self) -> bool:
        new = False
        for event in self._reader.new():
            self._status.add(event)
            new = True
        if not new and not self._status.planned:
            raise UserError(
                f"{self._folder}: has no journal: name a folder that wavebed campaign run or wavebed run wrote"
            )
        return new


def status_of(folder: Path) -> CampaignStatus:
    """Return the progress of the run in a folder.

    Raises
    ------
    UserError
        If it has no journal, or a damaged one.
    """
    return Progress(folder).look()


def _is_free(folder: Path) -> bool:
    with held(folder) as ours:
        return ours


def status_text(folder: Path, status: CampaignStatus) -> str:
    """Return the progress for people."""
    verdicts = Counter(status.stored.values())
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
    trials = f"{len(status.stored)} of {status.planned} trials{f' ({counts})' if counts else ''}"
    others = f"{len(status.blocks)} blocks ended, {status.attempts - len(status.stored)} repetitions"
    lines = [f"{status.title}: {_state(folder, status)}", f"{trials}, {others}"]
    if status.step:
        lines.append(f"now: {status.step}")
    if status.placed is not None:
        lines.append(f"now: {status.placed.text()}")
    if status.current is not None:
        lines.append(f"now: {status.current.trial}, block {status.current.block}, seed {status.current.seed}")
    return "\n".join(lines)


def _state(folder: Path, status: CampaignStatus) -> str:
    if status.state == "running":
        left_s = status.left_s
        return "running" + (f", about {duration_text(left_s)} left" if left_s is not None else "")
    if status.state == "ended":
        return "ended" + (f", since {status.reason}" if status.reason else "")
    why = f" ({status.reason})" if status.reason else ""
    return f"{status.state}{why}: go on with wavebed campaign run --resume {folder}"


def status_json(status: CampaignStatus) -> dict[str, Json]:
    """Return the progress for programs."""
    return {
        "title": status.title,
        "state": status.state,
        "reason": status.reason,
        "trials": status.planned,
        "stored": len(status.stored),
        "attempts": status.attempts,
        "blocks_ended": len(status.blocks),
        "verdicts": dict(Counter(status.stored.values())),
        "resumed": status.resumed,
        "step": status.step or None,
        "current": None if status.current is None else status.current.trial,
        "blocks": [] if status.placed is None else list(status.placed.blocks),
        "left_s": status.left_s,
    }


def watch(folder: Path, every_s: float = WATCH_S) -> Iterator[CampaignStatus]:
    """Yield the progress until the run is over."""
    progress = Progress(folder)
    while True:
        status = progress.look()
        yield status
        if status.state != "running":
            return
        time.sleep(every_s)
