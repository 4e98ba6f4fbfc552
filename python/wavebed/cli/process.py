"""The process of a command: its standard streams, the pipes that a shell passes as files, and signals."""

from __future__ import annotations

import io
import os
import signal
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from wavebed.errors import UserError, WavebedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed import ReadableBuffer


class OutputLostError(WavebedError):
    """Standard output could not be written."""


class _Output(io.FileIO):
    """Standard output: an error is one line, but that its reader left is an end as by SIGPIPE."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            reason = (error.strerror or "cannot be written").lower()
            raise OutputLostError(f"standard output: {reason}: the rest was not printed") from None


class _Messages(io.FileIO):
    """Standard error: a message that cannot be written is dropped."""

    def write(self, data: ReadableBuffer, /) -> int:
        with suppress(OSError):
            written: int | None = super().write(data)
            if written is not None:  # None: a descriptor that does not block is full
                return written
        return memoryview(data).nbytes


def prepare_streams() -> None:
    """Make the standard streams safe to print to, unless another program that runs this one has its own.

    A descriptor that is closed is opened on ``/dev/null``: otherwise the next file that is opened would get its number
    and all that is printed.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            os.set_inheritable(number, True)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - it stays open
    if sys.stdout is None or sys.stdout is sys.__stdout__:
        sys.stdout = _over(_Output(1, "wb", closefd=False), sys.stdout, "strict")
    if sys.stderr is None or sys.stderr is sys.__stderr__:
        sys.stderr = _over(_Messages(2, "wb", closefd=False), sys.stderr, "backslashreplace")


def give_up_output() -> None:
    """Discard the output that is still buffered, so that the interpreter does not try again at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def _over(raw: io.FileIO, before: TextIO | None, errors: str) -> TextIO:
    """Return a text stream over `raw` that is like the one before."""
    if before is not None:
        before.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(before, "encoding", None) or "utf-8",
        errors=getattr(before, "errors", None) or errors,
        line_buffering=raw.isatty() or raw.fileno() == 2,
        write_through=getattr(before, "write_through", False),
    )


_CHUNK_BYTES = 1 << 20


def keep_pipes(arguments: Iterable[str], most_bytes: int | None = None) -> None:
    """Replace each pipe that an argument names by a file in memory with the same number.

    A pipe can be read once. A trace or a scenario is read several times, also by programs that are started here.
    Arguments after ``--`` belong to another program: their pipes stay.

    Parameters
    ----------
    arguments : iterable of str
        The arguments of the program; one may be ``--option=NAME``.
    most_bytes : int
        Largest content; by default the limit of any other file.

    Raises
    ------
    UserError
        If the content of a pipe is larger.
    """
    from wavebed.foreign import MAX_BYTES, descriptor_of  # most commands start without

    for argument in arguments:
        if argument == "--":
            return
        name = argument.rpartition("=")[2]
        descriptor = descriptor_of(name)
        if descriptor is not None and _is_pipe(descriptor):
            _keep(descriptor, name, MAX_BYTES if most_bytes is None else most_bytes)


def _is_pipe(descriptor: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except (OSError, OverflowError):
        return False


def _keep(descriptor: int, name: str, most_bytes: int) -> None:
    memory = os.memfd_create("pipe")
    try:
        with open(memory, "wb", closefd=False) as kept:
            while chunk := os.read(descriptor, _CHUNK_BYTES):
                if kept.tell() + len(chunk) > most_bytes:
                    raise UserError(f"{name}: is larger than {most_bytes} bytes: name a smaller file")
                kept.write(chunk)
        os.dup2(memory, descriptor)
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise UserError(f"{name}: {reason}: name a file") from None
    finally:
        os.close(memory)


AGAIN_S = 1.0
"""After a second signal the process ends within this time, whatever hangs, and what it holds ends with it: every
laboratory, port and guard watches a socket or pipe of this process. Nothing is left 3 s after that signal."""


def end_on_signals() -> None:
    """Clear away at SIGTERM what was begun, as at Ctrl-C; end the process soon after a second signal of either kind."""
    import threading  # wavebed shell, which does without, starts with this module

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    # The numbers of signals arrive here even while the main thread cannot run a handler.
    reading, writing = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reading,), name="signals", daemon=True).start()


def _watch(reading: int) -> None:
    import time

    asked: list[int] = []
    while len(asked) < 2:
        asked += [number for number in os.read(reading, 64) if number in (signal.SIGINT, signal.SIGTERM)]
    time.sleep(AGAIN_S)
    os._exit(128 + asked[-1])
