"""Names inside folders of results, which may be anybody's: no symbolic link in them is followed, whoever opens one.

A command, a reader or a writer that gets a folder of results calls `guard` once. From then on every name inside is
reached from the folder step by step, each without following a link and without going up: for reading by
`wavebed.foreign`, for writing by `wavebed.output`, for all else by the functions here. The name of the folder itself,
and every name outside such folders, follows links: a user typed it. Steps by ``openat(2)`` need no system call that
older kernels and containers refuse, as ``openat2(2)`` would.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_GUARDED: set[str] = set()
"""Absolute names of folders of results. A process never forgets one."""


def guard(folder: str | os.PathLike[str]) -> None:
    """Follow no link inside a folder of results from now on."""
    if _split(folder) is None:
        _GUARDED.add(_absolute(folder))
        _found.cache_clear()


def is_beneath(file: str | os.PathLike[str]) -> bool:
    """Return whether a name is inside a folder of results."""
    return _split(file) is not None


@contextmanager
def place_of(file: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    """Yield a descriptor of the folder of a file, and the file's name in it.

    Raises
    ------
    OSError
        If a step to it is missing, no folder, or inside a folder of results a link.
    """
    split = _split(file)
    if split is None:
        path = Path(file)
        at, name = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), path.name or "."
    else:
        root, (*steps, name) = split
        at = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for step in steps:
            above = at
            try:
                at = _down(above, step)
            finally:
                os.close(above)
    try:
        if split is not None and name == "..":
            raise _upwards()
        yield at, name
    finally:
        os.close(at)


def open_beneath(file: str | os.PathLike[str], flags: int, mode: int = 0o666) -> int:
    """Return a descriptor of a file or folder; inside a folder of results it is no link, pipe or device.

    Raises
    ------
    OSError
        If it cannot be opened.
    """
    inside = is_beneath(file)
    flags |= os.O_CLOEXEC | ((os.O_NOFOLLOW | os.O_NONBLOCK) if inside else 0)
    with place_of(file) as (at, name):
        try:
            descriptor = os.open(name, flags, mode, dir_fd=at)
        except OSError as error:
            raise _explained(error, at, name) from None
    if inside and stat.S_IFMT(os.fstat(descriptor).st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is neither a regular file nor a folder")
    return descriptor


def make_folder(folder: str | os.PathLike[str], *, mode: int = 0o777) -> None:
    """Make a folder, unless it is there.

    Raises
    ------
    OSError
        If it cannot be made, or something else has its name.
    """
    with place_of(folder) as (at, name):
        try:
            os.mkdir(name, mode, dir_fd=at)
        except FileExistsError:
            if is_beneath(folder):
                os.close(_down(at, name))
            elif not stat.S_ISDIR(os.stat(name, dir_fd=at).st_mode):
                raise


def make_folders(folder: str | os.PathLike[str]) -> None:
    """Make a folder and the missing ones above it, unless it is there.

    Raises
    ------
    OSError
        If one cannot be made.
    """
    try:
        make_folder(folder)
    except FileNotFoundError:
        make_folders(Path(folder).parent)
        make_folder(folder)


def remove(file: str | os.PathLike[str]) -> None:
    """Remove a file or a link, if it is there.

    Raises
    ------
    OSError
        If it cannot be removed.
    """
    with suppress(FileNotFoundError), place_of(file) as (at, name):
        os.unlink(name, dir_fd=at)


def remove_tree(folder: str | os.PathLike[str], *, ignore_errors: bool = True) -> None:
    """Remove a folder and its content; a link in its place stays."""
    import shutil  # 3 ms of the start of a shell, which removes none

    try:
        with place_of(folder) as (at, name):
            shutil.rmtree(name, dir_fd=at, ignore_errors=ignore_errors)
    except OSError:
        if not ignore_errors:
            raise


def rename(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Rename a file or folder.

    Raises
    ------
    OSError
        If it cannot be renamed.
    """
    with place_of(source) as (source_at, old), place_of(target) as (target_at, new):
        os.rename(old, new, src_dir_fd=source_at, dst_dir_fd=target_at)


def _down(at: int, step: str) -> int:
    if step == "..":
        raise _upwards()
    try:
        return os.open(step, _STEP, dir_fd=at)
    except OSError as error:
        raise _explained(error, at, step) from None


def _explained(error: OSError, at: int, name: str) -> OSError:
    """Return the error of a step, which does not tell a link from a file."""
    with suppress(OSError):
        if stat.S_ISLNK(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
            return OSError(errno.ELOOP, f"{name!r} is a symbolic link, which is not followed in a folder of results")
    return error


def _upwards() -> OSError:
    return OSError(errno.EXDEV, "'..' leads out of the folder of results")


def _absolute(name: str | os.PathLike[str]) -> str:
    """Return a name from the root, without ``.``.

    A user who works inside a folder of results types ``../page.html``. Names from the content of a folder begin with
    the name of the folder. So a ``..`` at the beginning is resolved, and any other ``..`` stays and is refused.
    """
    text = str(name if isinstance(name, Path) else Path(name))
    if text.startswith("/"):
        return text
    whole = str(Path(text).absolute())
    return os.path.normpath(whole) if text == ".." or text.startswith("../") else whole


def _split(name: str | os.PathLike[str]) -> tuple[str, tuple[str, ...]] | None:
    """Return the outermost folder of results that a name is in, and the steps from there."""
    return _found(_absolute(name)) if _GUARDED else None


@lru_cache(maxsize=64)  # each file is asked for some times in a row
def _found(whole: str) -> tuple[str, tuple[str, ...]] | None:
    end = whole.find("/", 1)
    while end > 0:
        if whole[:end] in _GUARDED:
            return whole[:end], tuple(whole[end + 1 :].split("/"))
        end = whole.find("/", end + 1)
    return None
