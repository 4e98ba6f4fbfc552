"""The journal of a folder of results: an append-only file with one event in each line of JSON.

It is the only source of a run's progress.
"""

from __future__ import annotations

import errno
import io
import os
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

import msgspec

from wavebed.beneath import guard, open_beneath
from wavebed.errors import UserError, WavebedError
from wavebed.experiment.estimate import Estimate
from wavebed.foreign import open_foreign
from wavebed.prepared import prepared
from wavebed.result.model import Verdict
from wavebed.result.names import JOURNAL_FILE
from wavebed.secret import redacted_json
from wavebed.store.disk import KEPT, attempt_name, explained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType


class _Event(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="event"):
    """Fields of every event, set by the journal.

    Parameters
    ----------
    time : datetime or None
        UTC, by the system's real-time clock.
    since_s : float
        Seconds since the start of the run, by the monotonic clock.
    """

    time: datetime | None = None
    since_s: float = 0.0


class RunBegun(_Event, frozen=True, tag="run-begun"):
    """A run begins: of a scenario, a campaign, a forwarding test, or the reproduction of a study."""

    kind: Literal["run", "campaign", "forward", "reproduction"]
    title: str


class PlannedPart(msgspec.Struct, frozen=True, gc=False):
    """One trial of the plan: its name, the seconds it takes, and its kind, which the estimate learns from."""

    trial: str
    expected_s: float
    at_most_s: float | None = None
    kind: str = ""


class RunPlanned(_Event, frozen=True, tag="run-planned"):
    """The plan: its trials in order, and their total duration."""

    trials: int
    expected_s: float
    at_most_s: float | None = None
    parts: tuple[PlannedPart, ...] = ()


class RunResumed(_Event, frozen=True, tag="run-resumed"):
    """A run goes on in its folder; trials of blocks that begin again are set aside.

    Parameters
    ----------
    changed : tuple of str
        What changed since the last start and was accepted, one line each; blocks that have not ended begin again.
    whole : bool
        Whether they begin again without a change too, because they may run on another machine.
    """

    changed: tuple[str, ...] = ()
    whole: bool = False


class StepBegun(_Event, frozen=True, tag="step-begun"):
    """A step other than a trial begins (preparation, warm-up, another tool); `left_s` seconds are left, it included."""

    step: str
    left_s: float = 0.0


class TrialBegun(_Event, frozen=True, tag="trial-begun"):
    """Trial `number` of `trials` begins; `left_s` seconds are left, it included.

    Parameters
    ----------
    treatment, block, seed
        ``None`` in a forwarding test, whose trial is one part at one frame size.
    """

    trial: str
    number: int
    trials: int
    left_s: float
    treatment: str | None = None
    block: int | None = None
    seed: int | None = None
    attempt: int = 1


class WorkloadBegun(_Event, frozen=True, tag="workload-begun"):
    """A workload began at `at_s` of the trial's time."""

    trial: str
    workload: str
    at_s: float


class WorkloadEnded(_Event, frozen=True, tag="workload-ended"):
    """A workload ended at `at_s` of the trial's time."""

    trial: str
    workload: str
    at_s: float


class LoadMeasured(_Event, frozen=True, tag="load-measured"):
    """A forwarding test sent frames at one rate (``None``: unlimited) and counted them; `left_s` seconds are left."""

    trial: str
    offered_pps: float | None
    sent: int
    lost: int
    refused: bool
    left_s: float | None = None


class CheckFailed(_Event, frozen=True, tag="check-failed"):
    """A check of a trial's validity failed; `code` is its stable name for programs."""

    trial: str
    code: str
    severity: Literal["invalid", "suspect"]
    evidence: str


class TrialStored(_Event, frozen=True, tag="trial-stored"):
    """A trial is on the disk; listeners get this event after it is on the disk too."""

    trial: str
    number: int
    verdict: Verdict
    wall_s: float
    reasons: tuple[str, ...] = ()
    attempt: int = 1


class TrialFailed(_Event, frozen=True, tag="trial-failed"):
    """A trial ended without being stored."""

    trial: str
    number: int
    reason: str


class BlockEnded(_Event, frozen=True, tag="block-ended"):
    """Every trial of a block is stored, with its repetitions; `machine` is where it ran."""

    block: int
    machine: str = ""


class BlocksPlaced(_Event, frozen=True, tag="blocks-placed"):
    """Which blocks run on workers now; `ended` of `planned` blocks have ended, and `left_s` seconds are left.

    Parameters
    ----------
    workers : int
        Connected workers, busy or not.
    """

    blocks: tuple[int, ...]
    workers: int
    ended: int
    planned: int
    left_s: float

    def text(self) -> str:
        """Return it for people."""
        done = f"{self.ended} of {self.planned} blocks ended"
        if not self.blocks:
            return f"{done}, waiting for a worker of the scheduler"
        names = ", ".join(map(str, self.blocks))
        return f"{done}; {names} on {len(self.blocks)} of {self.workers} workers"


class RunEnded(_Event, frozen=True, tag="run-ended"):
    """Every trial is stored, or the stop rule ended the run, for the reason `stopped`."""

    trials: int
    stopped: str = ""


class RunInterrupted(_Event, frozen=True, tag="run-interrupted"):
    """The run ends before its last trial. A killed run has neither this event nor ``run-ended``."""

    reason: str


Event: TypeAlias = (
    RunBegun
    | RunPlanned
    | RunResumed
    | StepBegun
    | TrialBegun
    | WorkloadBegun
    | WorkloadEnded
    | LoadMeasured
    | CheckFailed
    | TrialStored
    | TrialFailed
    | BlockEnded
    | BlocksPlaced
    | RunEnded
    | RunInterrupted
)


_DURABLE = (TrialStored, BlockEnded, RunResumed, RunEnded)
"""Events that are on the disk before listeners get them."""
MOST_BYTES = 1 << 34
"""A trial takes about 1 kB, and each start of a run 60 bytes for each trial of its plan."""


class Journal:
    """Writes the events of a run and sends them to listeners; an error in the block adds ``run-interrupted``.

    Parameters
    ----------
    listeners : callable
        Called with each event, after it was written.
    kept : str
        End of the message of a disk error.
    """

    def __init__(self, *listeners: Callable[[Event], None], kept: str = KEPT) -> None:
        self._listeners = listeners
        self._kept = kept
        self._began_s = time.monotonic()
        self._early: list[Event] = []
        self._folder: Path | None = None
        self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            with suppress(WavebedError):  # a full disk; `error` is raised
                self.emit(RunInterrupted(reason=str(error) or type(error).__name__))
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def open(self, folder: Path) -> None:
        """Begin the file in a new folder of results with the events so far.

        Raises
        ------
        WavebedError
            If it cannot be written.
        """
        self._open(folder, os.O_EXCL)

    def reopen(self, folder: Path) -> None:
        """Continue the file of a folder of results; an incomplete last line is removed first.

        Raises
        ------
        WavebedError
            If it cannot be written.
        """
        self._open(folder, 0)

    def _open(self, folder: Path, flags: int) -> None:
        guard(folder)
        flags |= os.O_RDWR | os.O_APPEND | os.O_CREAT
        with explained(folder, self._kept):
            self._descriptor = open_beneath(folder / JOURNAL_FILE, flags)
            _cut_incomplete_line(self._descriptor)
        self._folder = folder
        for event in self._early:
            self._write(event)

    @property
    def holds_events(self) -> bool:
        """Whether the file has an event."""
        return os.fstat(self._descriptor).st_size > 0

    def emit(self, event: Event) -> None:
        """Write an event with its time, then send it to the listeners.

        Raises
        ------
        WavebedError
            If it cannot be written; the file then ends with the previous event.
        """
        since_s = round(time.monotonic() - self._began_s, 6)
        stamped = msgspec.structs.replace(event, time=datetime.now(UTC), since_s=since_s)
        if self._folder is None:
            self._early.append(stamped)
        else:
            self._write(stamped)
        for listener in self._listeners:
            listener(stamped)

    def _write(self, event: Event) -> None:
        assert self._folder is not None, "opened"
        line = redacted_json(msgspec.json.encode(event)) + b"\n"
        with explained(self._folder, self._kept):
            before = os.fstat(self._descriptor).st_size
            if os.write(self._descriptor, line) < len(line):
                os.ftruncate(self._descriptor, before)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if isinstance(event, _DURABLE):
                os.fsync(self._descriptor)


def _cut_incomplete_line(descriptor: int) -> None:
    """Remove what follows the last end of a line, as a killed process or a full disk left it."""
    end = os.fstat(descriptor).st_size
    kept, chunk = end, 1 << 16
    while kept:
        begin = max(kept - chunk, 0)
        found = os.pread(descriptor, kept - begin, begin).rfind(b"\n")
        if found >= 0:
            kept = begin + found + 1
            break
        kept = begin
    if kept < end:
        os.ftruncate(descriptor, kept)


class JournalReader:
    """Reads the events of a folder of results, also while they are being written."""

    def __init__(self, folder: Path) -> None:
        guard(folder)
        self._file = folder / JOURNAL_FILE
        self._offset = 0
        self._lines = 0

    def new(self) -> Iterator[Event]:
        """Yield the events since the last call in order; none without a journal, as in older folders.

        An incomplete last line (being written, or of a killed process) is left for the next call.

        Raises
        ------
        UserError
            If the file is damaged.
        """
        if not self._file.exists():
            return
        decoder = msgspec.json.Decoder(prepared(Event))
        opened = open_foreign(self._file, "the journal cannot be read", most=MOST_BYTES)
        with io.BufferedReader(opened) as stream:
            stream.seek(self._offset)
            for line in stream:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                self._lines += 1
                try:
                    yield decoder.decode(line)
                except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                    raise UserError(
                        f"{self._file}: line {self._lines} is not an event ({error}): the journal is damaged; without"
                        " this line a resume finds its trial by its folder"
                    ) from None


def read_journal(folder: Path) -> list[Event]:
    """Return the events of a folder of results in order; see `JournalReader`."""
    return list(JournalReader(folder).new())


class PlannedTrials:
    """The trials of an experiment in order, recorded in its journal; they are numbered from 1.

    Parameters
    ----------
    emit : callable
        Records the events; the plan is the first.
    parts : sequence of PlannedPart
        Every trial, in order: its name, and the time it takes.
    """

    def __init__(self, emit: Callable[[Event], None], parts: Sequence[PlannedPart]) -> None:
        self.emit = emit
        self.parts = tuple(parts)
        expected_s = [part.expected_s for part in parts]
        most_s = [part.at_most_s for part in parts if part.at_most_s is not None]
        at_most_s = sum(most_s) if len(most_s) == len(parts) else None
        self._estimate = Estimate(expected_s, [part.kind for part in parts])
        emit(RunPlanned(trials=len(parts), expected_s=sum(expected_s), at_most_s=at_most_s, parts=self.parts))

    @property
    def left_s(self) -> float:
        """Seconds left at the start of the next trial."""
        return self._estimate.left_s

    def after_s(self, number: int) -> float:
        """Return the seconds that the trials after one take."""
        return self._estimate.after_s(number)

    def ratio(self, number: int) -> float:
        """Return the measured over the expected time of trials of the kind of this one."""
        return self._estimate.ratio(number)

    def expect(self, number: int, expected_s: float) -> None:
        """Replace the expected duration of a trial that is not stored."""
        self._estimate.expect(number, expected_s)

    def begin(
        self,
        number: int,
        treatment: str | None = None,
        block: int | None = None,
        seed: int | None = None,
        attempt: int = 1,
    ) -> None:
        """Record that a trial begins."""
        self.emit(
            TrialBegun(
                trial=self.name(number, attempt),
                number=number,
                trials=len(self.parts),
                left_s=self._estimate.from_s(number),
                treatment=treatment,
                block=block,
                seed=seed,
                attempt=attempt,
            )
        )

    def stored(
        self, number: int, verdict: Verdict, wall_s: float, reasons: Sequence[str] = (), attempt: int = 1
    ) -> None:
        """Record that a trial is on the disk under its final name."""
        name = self.name(number, attempt)
        self.emit(
            TrialStored(
                trial=name, number=number, verdict=verdict, wall_s=wall_s, reasons=tuple(reasons), attempt=attempt
            )
        )
        self.finished(number, wall_s)

    def finished(self, number: int, wall_s: float) -> None:
        """Add the duration of a trial that is stored already."""
        self._estimate.done(number, wall_s)

    def name(self, number: int, attempt: int = 1) -> str:
        """Return the name of an attempt at a trial."""
        return attempt_name(self.parts[number - 1].trial, attempt)
