"""Folders of results on the disk: new folders, their locks, unfinished trials and their guard, fsync."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from wavebed.beneath import guard, make_folder, open_beneath, remove, remove_tree, rename
from wavebed.errors import UserError, WavebedError
from wavebed.result.names import METRICS_FOLDER, PARTIAL, RUN_FILE, TRIALS_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_ENDS_S = 1.0
"""The lock of a run that was killed is released as its process ends."""
_LOOKED_AT_S = 30.0
"""Whoever looks whether a folder is in use shares its lock for less than a millisecond, unless it stands still."""
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
    guard(folder)
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
def held(folder: Path) -> Iterator[bool]:
    """Keep runs out of a folder of results in the block; a run that begins meanwhile waits.

    Yields
    ------
    bool
        False if a run is under way in it, or the file system has no such locks.
    """
    descriptor = open_beneath(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield _locked(descriptor, fcntl.LOCK_SH) is True
    finally:
        os.close(descriptor)


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder of results while its run is under way; a missing folder is made.

    The kernel releases the lock when the process ends.

    Raises
    ------
    UserError
        If another process runs in it, or it cannot be made.
    """
    guard(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = open_beneath(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise _refused(folder, error) from None
    try:
        if not _claim(descriptor):
            raise UserError(f"{folder}: is in use by another process: wavebed campaign status shows its progress")
        yield
    finally:
        os.close(descriptor)


def _claim(descriptor: int) -> bool:
    """Lock a folder, unless another run has; one that only looks is waited for longer."""
    began_s = time.monotonic()
    while _locked(descriptor, fcntl.LOCK_EX) is False:
        is_looked_at = _locked(descriptor, fcntl.LOCK_SH)
        if is_looked_at:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        if time.monotonic() - began_s >= (_LOOKED_AT_S if is_looked_at else _ENDS_S):
            return False
        time.sleep(_LOOK_S)
    return True


def _locked(descriptor: int, kind: int) -> bool | None:
    """Lock a folder at once, or not; ``None`` if the file system has no such locks."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def remove_leftovers(folder: Path, *, ours: bool = False) -> None:
    """Remove unfinished trials and files of a run that was killed together with its guard.

    Parameters
    ----------
    ours : bool
        Whether this process has claimed the folder; without, nothing is removed while its run is under way.
    """
    guard(folder)
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
            remove_tree(each)
        else:
            with suppress(OSError):
                remove(each)


def sync_tree(folder: Path) -> None:
    """Wait until a folder and its content are on the disk."""
    for path in folder.rglob("*"):
        sync(path)
    sync(folder)


def sync(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    descriptor = open_beneath(path, os.O_RDONLY)
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


# The shell waits for the end of its standard input, which comes with any end of this process. The laboratory ends at
# the same time and may still write for a moment. The second argument, the run's mark, protects other runs in the same
# folder. The shell reads by itself: a separate reader could be killed alone.
_SCRIPT = f"""trap "" INT TERM HUP
while read -r _; do :; done
for again in 1 2 3 4 5; do
    rm -rf -- "$1"/.*."$2"{PARTIAL} && break
    sleep 0.2
done"""


@contextlib.contextmanager
def guarded(run_folder: Path, mark: str) -> Iterator[None]:
    """Remove the partial trials of the run `mark` at the end of the block or of the process.

    The caller has claimed the folder (`wavebed.store.disk.claimed`), so leftovers of a killed run and its killed
    guard are removed at once.

    Parameters
    ----------
    mark : str
        Unique part of the names of this run's partial trials (`wavebed.store.disk.new_partial`).
    """
    remove_leftovers(run_folder, ours=True)
    watched, end = os.pipe2(os.O_CLOEXEC)
    try:
        guard = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "sh", str((run_folder / TRIALS_FOLDER).absolute()), mark],
            stdin=watched,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    finally:
        os.close(watched)
    try:
        yield
    finally:
        os.close(end)
        if guard.wait():  # it was killed
            remove_leftovers(run_folder, ours=True)
