"""Process untrusted files within limits of time and memory."""

from __future__ import annotations

import gc
import os
import resource
import selectors
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.errors import UserError, WavebedError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["bounded"]

LEAST_MEMORY_BYTES = 512 << 20
MEMORY_FOR_A_BYTE = 4
_ORPHAN_S = 60
WAIT_FOR_A_SECOND = 6
"""Longest wait for a second of processor time: on a busy machine a process gets a part of a processor."""
_ERRORS = {error.exit_status: error for error in (WavebedError, UserError)}
_TOO_MUCH = 4
_LONGEST_LINE = 4096


def bounded(name: str, do: Callable[[], None], limit_s: float, size_bytes: int) -> None:
    """Call `do` in a process of its own, which leaves only files.

    Parameters
    ----------
    name : str
        Of the file, for messages.
    limit_s : float
        Processor time that it may take.
    size_bytes : int
        Size of the file: it may take four times as much memory, and half a gigabyte in any case.

    Raises
    ------
    UserError
        If it exceeds a limit, or raises an error.
    WavebedError
        If it fails for another reason.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _inside(do, writing, max(size_bytes * MEMORY_FOR_A_BYTE, LEAST_MEMORY_BYTES), limit_s)
    os.close(writing)
    try:
        line = _line(reading, time.monotonic() + WAIT_FOR_A_SECOND * limit_s)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if line is None:
        raise UserError(f"{name}: is not imported after {WAIT_FOR_A_SECOND * limit_s:g} s: name a smaller one")
    if line == "" and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
        raise UserError(f"{name}: takes longer than {limit_s:g} s to import: name a smaller one")
    if line == "":
        raise WavebedError(f"{name}: the import ended without a word (status {status})")
    code, _, said = line.partition(" ")
    if int(code) == _TOO_MUCH:
        raise UserError(f"{name}: takes too much memory to import: name a smaller one")
    if int(code) != 0:
        raise _ERRORS.get(int(code), WavebedError)(said)


def _line(reading: int, end: float) -> str | None:
    """Return the child's line; empty if there is none in time."""
    data = b""
    with selectors.DefaultSelector() as selector:
        selector.register(reading, selectors.EVENT_READ)
        while not data.endswith(b"\n"):
            if not selector.select(max(0.0, end - time.monotonic())):
                return None
            more = os.read(reading, _LONGEST_LINE)
            if not more:
                break
            data += more
    return data.decode("utf-8", "replace").removesuffix("\n")


def _inside(do: Callable[[], None], writing: int, memory_bytes: int, limit_s: float) -> None:
    """Run in the child, which ends with its parent."""
    try:
        gc.freeze()  # the parent's objects, which would be copied by being looked at
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGPROF):
            signal.signal(number, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, limit_s)
        # The parent ends it before; this is for one that has lost its parent.
        signal.setitimer(signal.ITIMER_REAL, WAIT_FOR_A_SECOND * limit_s + _ORPHAN_S)
        resource.setrlimit(resource.RLIMIT_DATA, (_held_bytes() + memory_bytes, resource.RLIM_INFINITY))
        answer = _answer(do)
    except BaseException as error:  # noqa: BLE001 - nothing of the parent's may go on in the child
        answer = f"{WavebedError.exit_status} {type(error).__name__}: {error}"
    with suppress(OSError):
        os.write(writing, f"{' '.join(answer.split())[:_LONGEST_LINE]}\n".encode("utf-8", "replace"))
    os._exit(0)


def _answer(do: Callable[[], None]) -> str:
    try:
        do()
    except WavebedError as error:
        return f"{error.exit_status} {error}"
    except MemoryError:
        return f"{_TOO_MUCH}"
    except OSError as error:
        return f"{WavebedError.exit_status} {error.filename or 'the cache'}: {error.strerror}: cannot be built there"
    return "0"


def _held_bytes() -> int:
    """Return the present data size of this process, from the kernel."""
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0
