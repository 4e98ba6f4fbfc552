"""The files of programs on hosts: what goes there before they start, and what comes back."""

from __future__ import annotations

import itertools
import os
import stat
from typing import TYPE_CHECKING

from wavebed.errors import WavebedError
from wavebed.hosts.frames import MOST_PAYLOAD_BYTES
from wavebed.hosts.messages import File
from wavebed.stranger import Budget, StrangerError, is_inside, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wavebed.hosts.agent import Agent
    from wavebed.hosts.messages import Piece

__all__ = ["Fetched", "Pushed"]

_PIECE_BYTES = MOST_PAYLOAD_BYTES // 4


class Pushed:
    """The files of this machine that an agent has.

    Parameters
    ----------
    agent : Agent
        The agent.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._known: dict[str, tuple[int, int, int]] = {}

    def push(self, path: Path) -> None:
        """Give the agent a file, or a folder with everything in it, unless it has it already.

        Raises
        ------
        UserError
            If the host refuses: it has too little memory.
        LaboratoryGoneError, LaboratoryHungError
            If the agent has ended or does not answer.
        OSError
            If a file cannot be read here.
        """
        if path.is_dir():
            self._agent.ask({"do": "folder", "path": str(path)})
            for below in sorted(path.rglob("*")):
                if below.is_dir():
                    self._agent.ask({"do": "folder", "path": str(below)})
                elif below.is_file():
                    self._push_file(below)
        elif path.is_file():
            self._push_file(path)

    def _push_file(self, path: Path) -> None:
        found = path.stat()
        state = (found.st_ino, found.st_size, found.st_mtime_ns)
        if self._known.get(str(path)) == state:
            return
        mode = found.st_mode
        self._agent.ask(
            {
                "do": "file",
                "path": str(path),
                "bytes": found.st_size,
                "executable": bool(mode & stat.S_IXUSR),
                "private": not mode & stat.S_IRGRP,
            }
        )
        for offset, piece in _pieces(path):
            self._agent.ask({"do": "write", "path": str(path), "offset": offset}, piece)
        self._known[str(path)] = state


def _pieces(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the parts of a file that are no holes."""
    with path.open("rb", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        offset = 0
        while offset < end:
            try:
                start = os.lseek(file.fileno(), offset, os.SEEK_DATA)
            except OSError:  # nothing but a hole follows
                return
            stop = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            for at in range(start, stop, _PIECE_BYTES):
                yield at, os.pread(file.fileno(), min(_PIECE_BYTES, stop - at), at)
            offset = stop


class Fetched:
    """Files that come from an agent into folders here; the reading thread writes them.

    A host may send any name: one that leads out of the folder is refused, and an existing link is not followed. Its
    files have bounds (`wavebed.stranger`), and no byte is written beyond the size that a file was said to have.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._folders: dict[int, Path] = {}
        self._sizes: dict[str, int] = {}
        self._budget = Budget()
        self._problem = ""

    def fetch(self, agent: Agent, far: Path, here: Path, limit_s: float) -> None:
        """Get the files of a folder that were made or changed on the host.

        Raises
        ------
        WavebedError
            If a file cannot be written, a name is none of a file in the folder, or they are too many or too large.
        LaboratoryGoneError, LaboratoryHungError
            If the agent has ended or does not answer.
        """
        number = next(self._numbers)  # of this time alone: what comes too late belongs to no other
        self._problem, self._sizes = "", {}
        self._folders[number] = here
        try:
            agent.ask({"do": "fetch", "path": str(far), "tag": number}, limit_s=limit_s)
        finally:
            del self._folders[number]
        if self._problem:
            raise WavebedError(f"{agent.name}: {self._problem}")

    def hear(self, event: File | Piece, payload: bytes) -> None:
        """Take a file's name and size, or a piece of it."""
        folder = self._folders.get(event.tag)
        if folder is None or self._problem:
            return
        try:
            self._take(folder, event, payload)
        except StrangerError as error:
            self._problem = str(error)
        except OSError as error:
            self._problem = f"{folder / event.name}: {(error.strerror or 'cannot be written').lower()}"

    def _take(self, folder: Path, event: File | Piece, payload: bytes) -> None:
        path, is_new = folder / event.name, isinstance(event, File)
        if isinstance(event, File):
            self._budget.file(event.name, event.bytes)
            self._sizes[event.name] = event.bytes
        elif not is_inside(event.name):
            raise StrangerError(f"{one_line(event.name)!r} came as the name of a file")
        elif event.offset + len(payload) > self._sizes.get(event.name, 0):
            raise StrangerError(f"{event.name}: more came than the file has")
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_TRUNC if is_new else 0)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, flags, 0o644)
        try:
            if isinstance(event, File):
                os.ftruncate(descriptor, event.bytes)
            else:
                os.pwrite(descriptor, payload, event.offset)
        finally:
            os.close(descriptor)
