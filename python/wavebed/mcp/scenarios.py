"""Files of the scenarios that an agent gives as text: each is removed with its use, or by the next server."""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from wavebed.mcp.model import ToolError

__all__ = ["ScenarioFiles"]

_PREFIX = ".wavebed-mcp-"
_SUFFIX = ".toml"


class ScenarioFiles:
    """The scenario files of a server.

    The server holds a lock on each of its files. A file without one is left from a server that was killed; it is
    removed at the start.

    Parameters
    ----------
    folder : pathlib.Path
        Where they are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._files: dict[Path, IO[str]] = {}
        self._closed = False
        for file in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
            _remove_unlocked(file)

    def make(self, text: str) -> Path:
        """Write a scenario to a new file and return the file.

        Raises
        ------
        ToolError
            If the server ends, or the file cannot be written.
        """
        with self._lock:
            if self._closed:
                raise ToolError("the server ends")
            file = self._made()
            path = Path(file.name)
            self._files[path] = file
        try:
            file.write(text)
            file.flush()
        except OSError as error:
            self.remove(path)
            raise ToolError(f"toml: cannot be written to a file: {error.strerror}") from None
        except BaseException:
            self.remove(path)
            raise
        return path

    def _made(self) -> IO[str]:
        """Return a new, locked file."""
        while True:
            file = NamedTemporaryFile(  # noqa: SIM115 - `remove` closes it
                "w", encoding="utf-8", dir=self._folder, prefix=_PREFIX, suffix=_SUFFIX, delete=False
            )
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink:
                return file
            file.close()  # another server started between both calls, and removed it

    def remove(self, path: Path) -> None:
        """Remove a file, unless it has been removed."""
        with self._lock:
            file = self._files.pop(path, None)
        if file is not None:
            path.unlink(missing_ok=True)
            with suppress(OSError):  # what it holds back when the disk is full
                file.close()

    def close(self) -> None:
        """Remove all files, and make no other one."""
        with self._lock:
            self._closed, left = True, list(self._files)
        for path in left:
            self.remove(path)


def _remove_unlocked(path: Path) -> None:
    """Remove a scenario file on which no server holds a lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return  # it is gone, or it is no file of a server
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    except OSError:
        pass  # a server uses it, or has removed it
    finally:
        os.close(descriptor)
