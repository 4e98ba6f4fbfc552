"""Raw outputs of untrusted programs, in folders that they own while they run."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING, BinaryIO

from wavebed.errors import UserError
from wavebed.foreign import open_foreign

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["create", "open_to_all", "read_end"]

_READABLE = stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH
_SEARCHABLE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


def create(file: Path) -> BinaryIO:
    """Make a new file and open it for writing.

    Raises
    ------
    FileExistsError
        If the name exists, even as a link.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(file, flags, 0o644), "wb")


def read_end(file: Path, most_bytes: int = 1 << 16) -> str:
    """Return the text at the end of a regular file; empty if there is none."""
    try:
        with open_foreign(file, "let it write less", most=sys.maxsize, follow=False) as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - most_bytes))
            return stream.read(most_bytes).decode("utf-8", errors="replace")
    except (OSError, UserError):
        return ""


def open_to_all(path: Path) -> None:
    """Let every user read a file, or a folder with its content: programs run as another user."""
    for each in [path, *path.rglob("*")] if path.is_dir() else [path]:
        mode = each.lstat().st_mode
        if stat.S_ISLNK(mode):
            continue
        wanted = mode | _READABLE | (_SEARCHABLE if stat.S_ISDIR(mode) else 0)
        if wanted != mode:
            each.chmod(stat.S_IMODE(wanted))
