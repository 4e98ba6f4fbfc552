"""The programs of a workload: files of their output, and waiting for their end."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

from wavebed.errors import UserError
from wavebed.foreign import open_foreign, read_text
from wavebed.lab.protocol import LIMITS

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wavebed.lab.protocol import Clock, Process


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


LOOK_EVERY_S = 0.05
_LINE_LENGTH = 300
MOST_OUTPUT_BYTES = 256 << 20
"""Largest output of a program that is parsed."""


def wait_for_end(
    process: Process, asked: threading.Event, failure: Callable[[], str | None] = lambda: None
) -> str | None:
    """Wait until a program has ended, it was `asked` to stop, or `failure` returns a line; return that line.

    Parameters
    ----------
    failure : callable
        Called 20 times a second; returns a line about a failed dependency.
    """
    while not asked.is_set():
        try:
            process.wait(LOOK_EVERY_S)
        except subprocess.TimeoutExpired:
            line = failure()
            if line is not None:
                return line
        else:
            break
    return None


def end_within(process: Process, seconds: float, number: int = signal.SIGTERM, grace_s: float = 2.0) -> bool:
    """Wait `seconds` for a program to end by itself, then send signal `number`, and SIGKILL after `grace_s`.

    Return whether it ended by itself.
    """
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        _send(process, number)
    else:
        return True
    _end_by(process, grace_s)
    return False


def end_all(processes: Sequence[Process], grace_s: float, clock: Clock) -> None:
    """Send SIGTERM to programs that still run, and SIGKILL to those that run `grace_s` seconds later."""
    running = [process for process in processes if process.poll() is None]
    for process in running:
        _send(process, signal.SIGTERM)
    end_s = clock.monotonic_s() + grace_s
    for process in running:
        _end_by(process, max(0.001, end_s - clock.monotonic_s()))


def _end_by(process: Process, seconds: float) -> None:
    """Wait `seconds` for the end of a program, then send SIGKILL."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        _send(process, signal.SIGKILL)
        process.wait(LIMITS.answer_s)


def _send(process: Process, number: int) -> None:
    # A program that has just ended is unknown to the laboratory; the wait reports its end.
    with suppress(UserError):
        process.send_signal(number)


def output_of(file: Path) -> str:
    """Return the content of a program's output file; empty if there is none.

    Raises
    ------
    UserError
        If it is too large, or not a regular file any more.
    """
    return read_text(file, "let it write less", most=MOST_OUTPUT_BYTES, errors="replace") if file.exists() else ""


def last_line(file: Path) -> str:
    """Return the last line of a program's output file; empty if there is none."""
    lines = read_end(file).strip().splitlines()
    return lines[-1].strip()[:_LINE_LENGTH] if lines else ""
