"""Store a trial: write it in a hidden folder, then rename that when it is on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.beneath import make_folder, remove_tree, rename
from wavebed.experiment.disk import explained, sync, sync_tree
from wavebed.result.names import PARTIAL, TRIALS_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["KEPT", "attempt_name", "keep_partial", "new_partial"]

KEPT = "the trials that had ended can be read"
"""End of the message of a disk error."""


def attempt_name(trial: str, attempt: int) -> str:
    """Return the folder name of an attempt at a trial: ``0001-cubic``, then ``0001-cubic.2``."""
    return trial if attempt == 1 else f"{trial}.{attempt}"


def new_partial(folder: Path, name: str, mark: str, inside: Iterable[str] = ("series", "raw")) -> Path:
    """Make the hidden folder of the unfinished trial `name`.

    Parameters
    ----------
    mark : str
        Unique mark of the run, part of the folder's name; the guard of the run looks for it.
    inside : iterable of str
        Folders to make in it.

    Raises
    ------
    WavebedError
        If it cannot be made.
    """
    partial = folder / TRIALS_FOLDER / f".{name}.{mark}{PARTIAL}"
    with explained(folder, KEPT):
        make_folder(partial)
        for each in inside:
            make_folder(partial / each)
    return partial


def keep_partial(partial: Path, name: str) -> Path:
    """Give a trial its final name, and return its folder; what is left of a damaged trial of this name is removed.

    Raises
    ------
    OSError
        If it cannot be written, as on a full disk.
    """
    whole = partial.parent / name
    sync_tree(partial)
    if whole.is_dir():
        remove_tree(whole, ignore_errors=False)
    rename(partial, whole)
    sync(whole.parent)
    return whole
