"""The lock of this machine, by which concurrent runs detect each other, because they disturb each other.

A run holds a shared flock(2) on one empty file while it measures, a campaign an exclusive one; the kernel releases it
when the process ends. The kernel's list of locks names the other holders.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.result.model import Check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["BESIDE", "VARIABLE", "Neighbours", "measuring"]

VARIABLE = "WAVEBED_LOCK"
"""Names another file: in a container that shares processors with its host, the file of the host."""

BESIDE = "another run measured at the same time"
"""Begins the evidence of a trial that was not alone."""

_LOOK_S = 0.5


class Neighbours:
    """Other processes that measure on this machine.

    Parameters
    ----------
    descriptor : int or None
        The locked file; ``None`` if there is none, or nobody else can hold it.
    """

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self._seen: set[int] = set()

    def look(self) -> None:
        """Note the present holders of the lock."""
        if self._descriptor is not None:
            self._seen |= _holders(self._descriptor) - {os.getpid()}

    def check(self) -> Check:
        """Return the check of a trial: no other holder since the last call."""
        self.look()
        seen, self._seen = sorted(self._seen), set()
        processes = ", ".join(map(str, seen))
        said = f"{BESIDE} (process {processes})" if seen else "no other run was seen"
        return Check("the only run on this machine", not seen, "suspect", said, "neighbours")


@contextmanager
def measuring(waiting: Callable[[str], None] = lambda _: None, *, alone: bool = False) -> Iterator[Neighbours]:
    """Hold the machine's lock in the block.

    A run that is not `alone` waits for the end of one that is, and reports the others. One that is `alone` waits for
    all others.

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
        # Reading the kernel's list takes 10 ms, in which all locks wait; nobody else is in it while this one is alone.
        yield Neighbours(None if alone else descriptor)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _wait(descriptor: int, lock: int, waiting: Callable[[str], None]) -> None:
    """Take a lock; a file system without locks has no others to wait for."""
    while True:
        try:
            fcntl.flock(descriptor, lock | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting(", ".join(map(str, sorted(_holders(descriptor) - {os.getpid()}))) or "unknown")
            time.sleep(_LOOK_S)
        except OSError:
            return
        else:
            return


def _open() -> int | None:
    chosen = os.environ.get(VARIABLE)
    folders = ["/run/lock", os.environ.get("XDG_RUNTIME_DIR")]
    files = [Path(chosen)] if chosen else [Path(folder) / "wavebed.lock" for folder in folders if folder]
    for file in files:
        # First without O_CREAT: with it the kernel refuses to open another user's file in a world-writable folder
        # (fs.protected_regular).
        for flags in (0, os.O_CREAT | os.O_EXCL, 0):
            with suppress(OSError):
                return os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | flags, 0o644)
    return None


def _holders(descriptor: int) -> set[int]:
    """Return the processes that hold a flock on this file, from the kernel's list of locks."""
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return set()
    info = os.fstat(descriptor)
    file = f"{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}:{info.st_ino}"
    # `1: FLOCK ADVISORY READ 13760 fe:00:9978034 0 EOF`; a waiting process has `->` after the number.
    rows = (line.split() for line in lines)
    return {int(row[4]) for row in rows if len(row) > 5 and row[1] == "FLOCK" and row[5] == file and int(row[4]) > 0}
