"""Atomic files and folders of the cache.

A new folder has a temporary name beside its target, and its process holds a lock on it. The next process removes
unlocked leftovers of killed processes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from wavebed.errors import MachineError
from wavebed.output import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


_PREFIX = ".new-"
_SURELY_LOCKED_S = 1.0
_DATE_S = 1_767_225_600
"""2026-01-01 00:00 UTC."""


@contextmanager
def drafted(file: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Yield a new file that replaces `file` at the end of the block; a failed block leaves nothing.

    Parameters
    ----------
    mode : int
        Of the file, before the umask.

    Raises
    ------
    MachineError
        If the system refuses, for want of space for instance.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file, mode) as draft:
            yield draft
    except OSError as error:
        raise MachineError(f"{file}: cannot be made: {(error.strerror or str(error)).lower()}") from None


def date_files(path: Path) -> None:
    """Give a file, or a folder with its content, a date that servers tell (``ETag``) and that is always the same."""
    for each in [path, *path.rglob("*")]:
        os.utime(each, (_DATE_S, _DATE_S), follow_symlinks=False)


@contextmanager
def drafted_folder(parent: Path) -> Iterator[Path]:
    """Yield an empty folder in `parent`; remove it at the end of the block, also if a signal ends the program."""
    _sweep(parent)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with _terminable():
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _sweep(parent: Path) -> None:
    """Remove the unlocked folders of ended processes."""
    for left in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            lock = os.open(left, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                # A folder that was made a moment ago may not be locked yet.
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_old(lock):
                    shutil.rmtree(left, ignore_errors=True)
                    left.unlink(missing_ok=True)
            finally:
                os.close(lock)


def _is_old(descriptor: int) -> bool:
    return time.time() - os.fstat(descriptor).st_ctime > _SURELY_LOCKED_S


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does, unless the program handles them itself."""
    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    for number in numbers:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)
