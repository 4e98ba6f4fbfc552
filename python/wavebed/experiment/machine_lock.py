"""The lock of this machine: it lets concurrent runs detect each other, because they disturb each other.

A run holds a shared flock(2) on one empty file while it measures, a campaign an exclusive one; the kernel releases it
when the process ends. The kernel's list of locks names the other holders.

Each user has a file of its own, which nobody else can open: who can open a file can lock it, for as long as it likes.
So a run waits only for runs of its own user. Runs of other users are seen in the kernel's list, and make a trial
suspect.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.lab import tools
from wavebed.result.model import Check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VARIABLE = "WAVEBED_LOCK"
"""Names another file: in a container that shares processors with its host, the file of the host."""

BESIDE = "another run measured at the same time"
"""Begins the evidence of a trial that was not alone."""

_LOOK_S = 0.5
_NAME = re.compile(r"wavebed-([0-9]+)\.lock")
_MOST_NAMED = 5
"""Processes that evidence names."""


class Neighbours:
    """Other processes that measure on this machine.

    Parameters
    ----------
    descriptor : int or None
        The locked file; ``None`` if there is none.
    alone : bool
        Whether only other users' runs can be seen.
    """

    def __init__(self, descriptor: int | None, *, alone: bool = False) -> None:
        self._descriptor = descriptor
        self._alone = alone
        self._seen: set[int] = set()

    def look(self) -> None:
        """Note the present holders of the lock during a trial, unless none of this user is possible.

        Reading the kernel's list takes 10 ms, in which all locks wait.
        """
        if not self._alone:
            self._look()

    def _look(self) -> None:
        if self._descriptor is not None:
            self._seen |= _holders(_file_of(os.fstat(self._descriptor)), *_files_of_others()) - {os.getpid()}

    def check(self) -> Check:
        """Return the check of a trial: no other holder since the last call."""
        self._look()
        seen, self._seen = sorted(self._seen), set()
        processes = ", ".join(map(str, seen[:_MOST_NAMED])) + (" and more" if len(seen) > _MOST_NAMED else "")
        said = f"{BESIDE} (process {processes})" if seen else "no other run was seen"
        return Check("the only run on this machine", not seen, "suspect", said, "neighbours")


@contextmanager
def measuring(waiting: Callable[[str], None] = lambda _: None, *, alone: bool = False) -> Iterator[Neighbours]:
    """Hold the machine's lock in the block.

    A run that is not `alone` waits for the end of one that is, and reports the others. One that is `alone` waits for
    all others. Runs of other users are reported, and not waited for.

    Parameters
    ----------
    waiting : callable
        Called twice a second during the wait, with the processes that hold the lock.
    alone : bool
        Whether no other run may measure at the same time.
    """
    descriptor = _open()
    try:
        if descriptor is not None:
            _wait(descriptor, fcntl.LOCK_EX if alone else fcntl.LOCK_SH, waiting)
        yield Neighbours(descriptor, alone=alone)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _wait(descriptor: int, lock: int, waiting: Callable[[str], None]) -> None:
    """Take a lock; a file system without locks has no others to wait for."""
    while True:
        try:
            fcntl.flock(descriptor, lock | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting(", ".join(map(str, sorted(_holders(_file_of(os.fstat(descriptor))) - {os.getpid()}))) or "unknown")
            time.sleep(_LOOK_S)
        except OSError:
            return
        else:
            return


def _open() -> int | None:
    chosen = os.environ.get(VARIABLE)
    return tools.open_file(Path(chosen)) if chosen else tools.open_lock()


def _file_of(found: os.stat_result) -> str:
    """Return how the kernel's list of locks names a file."""
    return f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"


def _files_of_others() -> Iterator[str]:
    """Yield the files of other users, each of the user in its name; none where the file is a chosen one."""
    if os.environ.get(VARIABLE):
        return
    with suppress(OSError), os.scandir(tools.FOLDER) as entries:
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            if match is None:
                continue
            found = entry.stat(follow_symlinks=False)
            if found.st_uid == int(match[1]) != os.geteuid():
                yield _file_of(found)


def _holders(*files: str) -> set[int]:
    """Return the processes that hold a flock on one of these files, from the kernel's list of locks."""
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return set()
    # `1: FLOCK ADVISORY READ 13760 fe:00:9978034 0 EOF`; a waiting process has `->` after the number.
    rows = (line.split() for line in lines)
    return {int(row[4]) for row in rows if len(row) > 5 and row[1] == "FLOCK" and row[5] in files and int(row[4]) > 0}
