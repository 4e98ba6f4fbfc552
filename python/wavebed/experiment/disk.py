"""Folders of results on the disk: new folders, locks, fsync, and errors of one line."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wavebed.errors import UserError, WavebedError
from wavebed.result.names import PARTIAL, RUN_FILE, TRIALS_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["check_new", "explained", "held", "make_new", "remove_leftovers", "sync", "sync_tree"]


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
    if held is not None:
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
def held(folder: Path) -> Iterator[bool]:
    """Hold the lock of a folder of results in the block; the kernel releases it when the process ends.

    Yields
    ------
    bool
        False if another process holds it, or the file system has no such locks.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path) -> None:
    """Remove unfinished trials of a run that was killed together with its guard."""
    trials = folder / TRIALS_FOLDER
    if not any(trials.glob(f".*{PARTIAL}")):
        return
    with held(folder) as ours:
        if ours:
            for partial in trials.glob(f".*{PARTIAL}"):
                shutil.rmtree(partial, ignore_errors=True)


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
