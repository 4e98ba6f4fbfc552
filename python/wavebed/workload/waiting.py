"""Wait for a program of a workload without ever waiting for ever."""

from __future__ import annotations

import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.foreign import read_text
from wavebed.workload.raw import read_end

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from pathlib import Path

    from wavebed.lab.protocol import Process

__all__ = ["end_within", "last_line", "output_of", "wait_for_end"]

LOOK_EVERY_S = 0.05
_LINE_LENGTH = 300
MOST_OUTPUT_BYTES = 256 << 20
"""Of a program's output that is read for figures."""


def wait_for_end(
    process: Process, asked: threading.Event, failure: Callable[[], str | None] = lambda: None
) -> str | None:
    """Wait until a program has ended, or it was `asked` to stop, or what it needs has failed.

    Parameters
    ----------
    failure : callable
        Asked 20 times a second for a line about what has failed.

    Returns
    -------
    str or None
        The line, if there was one.
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
    """Wait `seconds` for a program to end by itself; then send it signal `number`, and SIGKILL after `grace_s`.

    Returns
    -------
    bool
        Whether it ended by itself.
    """
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        _send(process, number)
    else:
        return True
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        _send(process, signal.SIGKILL)
        process.wait(grace_s)
    return False


def _send(process: Process, number: int) -> None:
    # If it has ended in this very moment the laboratory does not know it any more; waiting for it says so.
    with suppress(UserError):
        process.send_signal(number)


def output_of(file: Path) -> str:
    """Return what a program wrote into a file, or nothing if there is none.

    Raises
    ------
    UserError
        If it is too much, or the program has put something else in the place of the file.
    """
    return read_text(file, "let it write less", most=MOST_OUTPUT_BYTES, errors="replace") if file.exists() else ""


def last_line(file: Path) -> str:
    """Return the last line that a program wrote into a file, or nothing."""
    lines = read_end(file).strip().splitlines()
    return lines[-1].strip()[:_LINE_LENGTH] if lines else ""
