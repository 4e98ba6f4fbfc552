"""The progress of a campaign, from its journal: by any process, at any time."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.experiment.disk import held
from wavebed.experiment.events import (
    BlockEnded,
    BlocksPlaced,
    Event,
    RunBegun,
    RunEnded,
    RunInterrupted,
    RunPlanned,
    RunResumed,
    TrialBegun,
    TrialStored,
)
from wavebed.experiment.journal import read_journal
from wavebed.run.progress import duration_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wavebed.config.data import Json

__all__ = ["Status", "status_json", "status_of", "status_text", "watch"]

WATCH_S = 1.0


@dataclass(slots=True)
class Status:
    """The progress of a run or campaign.

    Parameters
    ----------
    state : str
        ``running``, ``ended``, ``interrupted`` (Ctrl-C, an error) or ``killed``.
    stored : dict
        Verdict of the last attempt at each trial, by number.
    attempts : int
        Attempts in all.
    current : TrialBegun or BlocksPlaced or None
        The running trial, or the blocks that run on workers.
    reason : str
        Why it was interrupted, or which rule stopped it.
    """

    title: str = ""
    state: str = "running"
    planned: int = 0
    expected_s: float = 0.0
    stored: dict[int, str] = field(default_factory=dict)
    attempts: int = 0
    blocks: set[int] = field(default_factory=set)
    resumed: int = 0
    current: TrialBegun | BlocksPlaced | None = None
    reason: str = ""

    @property
    def left_s(self) -> float | None:
        """Seconds left, if it runs."""
        if self.state != "running":
            return None
        if self.current is None or self.current.time is None:
            return self.expected_s
        return max(self.current.left_s - (datetime.now(UTC) - self.current.time).total_seconds(), 0.0)


def status_of(folder: Path) -> Status:
    """Return the progress of the run in a folder.

    Raises
    ------
    UserError
        If it has no journal.
    """
    status = Status()
    events = read_journal(folder) if folder.is_dir() else []
    if not events:
        raise UserError(f"{folder}: has no journal: name a folder that wavebed campaign run or wavebed run wrote")
    for event in events:
        _take(status, event)
    if status.state == "running" and _is_free(folder):
        status.state, status.current = "killed", None
    return status


def _take(status: Status, event: Event) -> None:
    match event:
        case RunBegun():
            status.title = event.title
        case RunPlanned():
            status.planned, status.expected_s = event.trials, event.expected_s
        case RunResumed():
            status.state, status.reason, status.current = "running", "", None
            status.resumed += 1
        case TrialBegun() | BlocksPlaced():
            status.current = event
        case TrialStored():
            status.stored[event.number] = event.verdict
            status.attempts += 1
            if isinstance(status.current, TrialBegun):
                status.current = None
        case BlockEnded():
            status.blocks.add(event.block)
        case RunEnded():
            status.state, status.reason, status.current = "ended", event.stopped, None
        case RunInterrupted():
            status.state, status.reason, status.current = "interrupted", event.reason, None
        case _:
            pass


def _is_free(folder: Path) -> bool:
    with held(folder) as ours:
        return ours


def status_text(folder: Path, status: Status) -> str:
    """Return the progress for people."""
    verdicts = Counter(status.stored.values())
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
    trials = f"{len(status.stored)} of {status.planned} trials{f' ({counts})' if counts else ''}"
    others = f"{len(status.blocks)} blocks ended, {status.attempts - len(status.stored)} repetitions"
    lines = [f"{status.title}: {_state(folder, status)}", f"{trials}, {others}"]
    if isinstance(status.current, BlocksPlaced):
        lines.append(f"now: {status.current.text()}")
    elif status.current is not None:
        lines.append(f"now: {status.current.trial}, block {status.current.block}, seed {status.current.seed}")
    return "\n".join(lines)


def _state(folder: Path, status: Status) -> str:
    if status.state == "running":
        left_s = status.left_s
        return "running" + (f", about {duration_text(left_s)} left" if left_s is not None else "")
    if status.state == "ended":
        return "ended" + (f", since {status.reason}" if status.reason else "")
    why = f" ({status.reason})" if status.reason else ""
    return f"{status.state}{why}: go on with wavebed campaign run --resume {folder}"


def status_json(status: Status) -> dict[str, Json]:
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
        "current": status.current.trial if isinstance(status.current, TrialBegun) else None,
        "blocks": list(status.current.blocks) if isinstance(status.current, BlocksPlaced) else [],
        "left_s": status.left_s,
    }


def watch(folder: Path, every_s: float = WATCH_S) -> Iterator[Status]:
    """Yield the progress until the run is over."""
    while True:
        status = status_of(folder)
        yield status
        if status.state != "running":
            return
        time.sleep(every_s)
