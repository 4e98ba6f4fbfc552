"""What every folder of results needs of the disk: it is new, it is really there, and an error is one line."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wavebed.errors import UserError, WavebedError
from wavebed.result.names import RUN_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["explained", "make_new", "sync", "sync_tree"]


def make_new(folder: Path) -> None:
    """Make the folder if it is not there.

    Raises
    ------
    UserError
        If it holds something, or cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = next(folder.iterdir(), None)
    except OSError as error:
        raise UserError(f"{folder}: {(error.strerror or 'cannot be made').lower()}: name a new folder") from None
    if held is not None:
        what = "a run" if (folder / RUN_FILE).exists() else f"other files ({held.name})"
        raise UserError(f"{folder}: holds {what}: name a new folder")


def sync_tree(folder: Path) -> None:
    """Wait until a folder and all that is in it are on the disk."""
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
    """Turn an error of the disk into one line, which ends with what was kept.

    Raises
    ------
    WavebedError
        In the place of `OSError`.
    """
    try:
        yield
    except OSError as error:
        raise WavebedError(f"{folder}: {(error.strerror or 'cannot be written').lower()}: {kept}") from error
