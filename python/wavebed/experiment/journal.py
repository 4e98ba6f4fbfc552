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
from typing import TYPE_CHECKING, Self

import msgspec

from wavebed.beneath import guard, open_beneath
from wavebed.errors import UserError, WavebedError
from wavebed.experiment.disk import explained
from wavebed.experiment.events import BlockEnded, Event, RunEnded, RunInterrupted, RunResumed, TrialStored
from wavebed.experiment.store import KEPT
from wavebed.foreign import open_foreign
from wavebed.prepared import prepared
from wavebed.result.names import JOURNAL_FILE
from wavebed.secret import redacted_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import TracebackType

__all__ = ["Journal", "JournalReader", "read_journal"]

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
