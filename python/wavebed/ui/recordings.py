"""Recordings: the points of a laboratory in files of one folder, which the command line names.

No request names a file: a recording has a number, and its file a name made of the laboratory's and the time.
"""

from __future__ import annotations

import os
import stat
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from wavebed.errors import UserError, WavebedError
from wavebed.path.control import understood
from wavebed.ui.messages import RefusedError
from wavebed.ui.points import COLUMNS, Meter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from wavebed.path.watch import Watch
    from wavebed.ui.points import Point

__all__ = ["MOST_BYTES", "MOST_RUNNING", "Recorded", "Recordings"]

MOST_RUNNING = 4
MOST_KEPT = 100
MOST_BYTES = 4 << 30
"""Of one file: days of a laboratory with two links each 10 ms."""
_LOOK_S = 0.2
_STOP_S = 30.0
"""What is written last may wait for the disk."""
_FLUSH_S = 1.0
_CHUNK_BYTES = 1 << 18

State: TypeAlias = Literal["running", "stopped", "ended", "full", "failed"]


class Recorded(Struct, frozen=True):
    """A recording: a CSV file with a row for each link and point."""

    id: int
    lab: str
    file: Annotated[str, Meta(description="its name in the folder of `--record-to`")]
    every_ms: int
    started: Annotated[str, Meta(description="UTC, ISO 8601")]
    state: Annotated[
        State,
        Meta(description="`ended`: the laboratory did; `full`: the file has 4 GiB; `failed`: it cannot be written"),
    ]
    points: int
    lost: Annotated[int, Meta(description="samples that are missing because this machine was late")]
    bytes: int


class Recordings:
    """The recordings of one server.

    Parameters
    ----------
    folder : path or None
        Where the files go; without one, no recording is possible.

    Raises
    ------
    UserError
        If the folder cannot be made or opened.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder: int | None = None
        self._lock = threading.Lock()
        self._kept: dict[int, _Recording] = {}
        self._last = 0
        if folder is None:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            reason = (error.strerror or "cannot be opened").lower()
            raise UserError(f"--record-to: {str(folder)!r}: {reason}: name a folder that can be made") from None

    @property
    def possible(self) -> bool:
        """Whether there is a folder for them."""
        return self._folder is not None

    def all(self) -> list[Recorded]:
        """Return their states, the oldest first."""
        with self._lock:
            return [each.state() for each in self._kept.values()]

    def start(self, lab: str, every_ms: int, open_watch: Callable[[], Watch]) -> Recorded:
        """Start one.

        Raises
        ------
        RefusedError
            If there is no folder, too many run, or the file cannot be made.
        """
        with self._lock:
            folder = self._folder
            if folder is None:
                raise RefusedError(409, "this server records nothing: start it with wavebed ui --record-to DIR")
            if sum(each.runs for each in self._kept.values()) >= MOST_RUNNING:
                raise RefusedError(409, f"{MOST_RUNNING} recordings run, which is as many as there may be: stop one")
            watch = open_watch()
            self._last += 1
            try:
                made = _Recording(self._last, lab, every_ms, folder, watch)
            except OSError as error:
                watch.close()
                reason = (error.strerror or "cannot be made").lower()
                raise RefusedError(409, f"the file of the recording: {reason}") from None
            except BaseException:
                watch.close()
                raise
            self._kept[self._last] = made
            for number in [number for number, each in self._kept.items() if not each.runs][:-MOST_KEPT]:
                del self._kept[number]
        return made.state()

    def stop(self, number: int) -> Recorded:
        """Stop one and return its state; one that has ended stays as it is.

        Raises
        ------
        RefusedError
            If there is none of this number.
        """
        recording = self._of(number)
        recording.stop()
        return recording.state()

    def read(self, number: int) -> tuple[str, Iterator[bytes]]:
        """Return the name and the content of a file, as far as it is written.

        Raises
        ------
        RefusedError
            If there is none of this number, or the file is gone.
        """
        recording = self._of(number)
        try:
            return recording.name, recording.content()
        except OSError:
            raise RefusedError(410, f"the file {recording.name} is gone") from None

    def close(self) -> None:
        """Stop all of them."""
        with self._lock:
            kept = list(self._kept.values())
            folder, self._folder = self._folder, None
            if folder is not None:
                os.close(folder)
        for each in kept:
            each.stop()

    def _of(self, number: int) -> _Recording:
        with self._lock:
            found = self._kept.get(number)
        if found is None:
            raise RefusedError(404, f"there is no recording {number}")
        return found


class _Recording:
    """One recording, with its thread."""

    def __init__(self, number: int, lab: str, every_ms: int, folder: int, watch: Watch) -> None:
        began = time.gmtime()
        self.name = f"{lab}-{time.strftime('%Y%m%d-%H%M%S', began)}-{number}.csv"
        self._facts = (number, lab, self.name, every_ms, time.strftime("%Y-%m-%dT%H:%M:%SZ", began))
        self._watch = watch
        self._state: State = "running"
        self._points = self._lost = self._bytes = 0
        self._stop = threading.Event()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._folder = os.dup(folder)
        weakref.finalize(self, os.close, self._folder)
        self._file = os.fdopen(os.open(self.name, flags, 0o666, dir_fd=folder), "w", encoding="ascii", newline="")
        self._thread = threading.Thread(target=self._run, name=f"recording {number}", daemon=True)
        self._thread.start()

    @property
    def runs(self) -> bool:
        return self._state == "running"

    def state(self) -> Recorded:
        number, lab, name, every_ms, started = self._facts
        return Recorded(number, lab, name, every_ms, started, self._state, self._points, self._lost, self._bytes)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(_STOP_S)

    def content(self) -> Iterator[bytes]:
        """Return the present content of the file, which is opened again by its own name in the folder."""
        found = os.stat(self.name, dir_fd=self._folder, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode):
            raise FileNotFoundError(self.name)
        return self._read(found.st_size)

    def _read(self, size: int) -> Iterator[bytes]:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self.name, flags, dir_fd=self._folder), "rb") as stream:
            while size > 0 and (chunk := stream.read(min(size, _CHUNK_BYTES))):
                size -= len(chunk)
                yield chunk

    def _run(self) -> None:
        end: State = "failed"
        try:
            end = self._record()
        except OSError:
            pass  # the disk is full, or the folder is gone: the state says so
        finally:
            self._watch.close()
            with suppress(OSError):
                self._file.close()
            self._state = end

    def _record(self) -> State:
        head = self._watch.head
        meter = Meter(head)
        self._write(",".join(("time_s", "link", *(column.name for column in COLUMNS))) + "\r\n")
        flushed_s = time.monotonic()
        while not self._stop.is_set():
            try:
                sample = self._watch.next(_LOOK_S)
                self._lost = sample.lost
                with understood(self._watch.name):
                    point = meter.point(sample)
                    if point is not None:
                        self._write("".join(_rows(head.links, point)))
                        self._points += 1
            except TimeoutError:
                continue
            except WavebedError:
                return "ended"
            if time.monotonic() - flushed_s >= _FLUSH_S:
                self._file.flush()
                flushed_s = time.monotonic()
            if self._bytes >= MOST_BYTES:
                return "full"
        self._file.flush()
        return "stopped"

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._bytes += len(text)


def _rows(links: tuple[str, ...], point: Point) -> Iterator[str]:
    for name, row in zip(links, point.links, strict=True):
        values = ("" if value is None else str(value) for value in row)
        yield ",".join((f"{point.time_s:.6f}", name, *values)) + "\r\n"
