"""Files that this user's processes lock on this machine, wherever their caches and results are."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

__all__ = ["FOLDER", "open_file", "open_lock"]

FOLDER = Path("/run/lock")


def open_lock(end: str = "") -> int | None:
    """Open the file ``wavebed-USER<end>.lock`` of this user, which nobody else can open, so that nobody else locks it.

    Returns
    -------
    int or None
        A descriptor that is not inherited. ``None``: there is no place for the file.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    user = os.geteuid()
    for file in (FOLDER / f"wavebed-{user}{end}.lock", *([Path(runtime) / f"wavebed{end}.lock"] if runtime else [])):
        with suppress(OSError):
            if user == 0 and file.lstat().st_uid != 0:
                file.unlink()  # another user has made it, who could lock it
        descriptor = open_file(file)
        if descriptor is None:
            continue
        found = os.fstat(descriptor)
        if found.st_uid == user and stat.S_ISREG(found.st_mode):
            os.fchmod(descriptor, 0o600)  # an earlier version let all users open it
            return descriptor
        os.close(descriptor)
    return None


def open_file(file: Path) -> int | None:
    """Open a file to lock it, or make it for this user alone; ``None`` if neither is possible."""
    # First without O_CREAT: with it the kernel refuses to open another user's file in a world-writable folder
    # (fs.protected_regular).
    for make in (0, os.O_CREAT | os.O_EXCL, 0):
        with suppress(OSError):
            return os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | make, 0o600)
    return None
