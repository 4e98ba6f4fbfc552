"""Folders of results on the disk: new folders, locks, fsync, and errors of one line."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from wavebed.errors import UserError, WavebedError
from wavebed.result.names import METRICS_FOLDER, PARTIAL, RUN_FILE, TRIALS_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["check_new", "claimed", "explained", "held", "make_new", "remove_leftovers", "sync", "sync_tree"]

_LOOKED_AT_S = 1.0
"""Whoever looks whether a folder is in use holds its lock for less than a millisecond."""
_LOOK_S = 0.01
_DRAFTS = ".wavebed-*"
"""Files that had a name but not yet their own (`wavebed.output`)."""


def check_new(folder: Path) -> None:
    """Check that the folder is empty or missing.

    Raises
    ------
    UserError
        If it is not empty, or not a folder.
    """
    try:
        held = next(folder.iterdir(), None)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _refused(folder, error) from None
    if held is not None and not held.match(_DRAFTS):
        what = "a run" if (folder / RUN_FILE).exists() else f"other files ({held.name})"
        raise UserError(f"{folder}: holds {what}: name a new folder")


def make_new(folder: Path) -> None:
    """Make the folder if it is missing.

    Raises
    ------
    UserError
        If it is not empty, or cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(folder, error) from None
    check_new(folder)


def _refused(folder: Path, error: OSError) -> UserError:
    return UserError(f"{folder}: {(error.strerror or 'cannot be made').lower()}: name a new folder")


@contextmanager
def held(folder: Path, within_s: float = 0.0) -> Iterator[bool]:
    """Hold the lock of a folder of results in the block; the kernel releases it when the process ends.

    Parameters
    ----------
    within_s : float
        How long a lock that another process holds is waited for.

    Yields
    ------
    bool
        False if another process holds it, or the file system has no such locks.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield _locked(descriptor, time.monotonic() + within_s) is True
    finally:
        os.close(descriptor)


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder of results while its run is under way; a missing folder is made.

    Raises
    ------
    UserError
        If another process runs in it, or it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _refused(folder, error) from None
    try:
        if _locked(descriptor, time.monotonic() + _LOOKED_AT_S) is False:
            raise UserError(f"{folder}: is in use by another process: wavebed campaign status shows its progress")
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int, until_s: float) -> bool | None:
    """Lock a folder; ``None`` if the file system has no such locks."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until_s:
                return False
            time.sleep(_LOOK_S)
        except OSError:
            return None
        else:
            return True


def remove_leftovers(folder: Path, *, ours: bool = False) -> None:
    """Remove unfinished trials and files of a run that was killed together with its guard.

    Parameters
    ----------
    ours : bool
        Whether this process has claimed the folder; without, nothing is removed while its run is under way.
    """
    if not any(True for _ in _leftovers(folder)):
        return
    if ours:
        _remove(_leftovers(folder))
        return
    with held(folder) as free:
        if free:
            _remove(_leftovers(folder))


def _leftovers(folder: Path) -> Iterator[Path]:
    yield from (folder / TRIALS_FOLDER).glob(f".*{PARTIAL}")
    yield from folder.glob(_DRAFTS)
    yield from (folder / METRICS_FOLDER).glob(_DRAFTS)


def _remove(leftovers: Iterator[Path]) -> None:
    for each in list(leftovers):
        if each.is_dir():
            shutil.rmtree(each, ignore_errors=True)
        else:
            with suppress(OSError):
                each.unlink()


def sync_tree(folder: Path) -> None:
    """Wait until a folder and its content are on the disk."""
    for path in folder.rglob("*"):
        sync(path)
    sync(folder)


def sync(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def explained(folder: Path, kept: str) -> Iterator[None]:
    """Raise `WavebedError` instead of `OSError`: one line that ends with `kept`."""
    try:
        yield
    except OSError as error:
        raise WavebedError(f"{folder}: {(error.strerror or 'cannot be written').lower()}: {kept}") from error
