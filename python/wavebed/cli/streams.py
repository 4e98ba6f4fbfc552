"""The standard streams of the program: that one is closed, full or broken loses no result and ends in no traceback."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from wavebed.errors import WavebedError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["OutputLostError", "give_up_output", "prepare_streams"]


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
