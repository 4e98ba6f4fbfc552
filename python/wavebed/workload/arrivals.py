"""The moments at which a program has received its first bytes: it writes them into a pipe, which a thread reads."""

from __future__ import annotations

import fcntl
import os
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wavebed.lab.protocol import Clock

__all__ = ["Arrivals"]

_PIPE_BYTES = 1 << 20
"""Eight milliseconds at 1 Gbit/s: a reader that is late by less does not slow the program."""

_Made = TypeVar("_Made")


class Arrivals:
    """Reads what a program writes, and keeps when its first byte and each number of bytes had come.

    Parameters
    ----------
    marks : sequence of int
        Numbers of bytes.
    clock : Clock
        Of the laboratory.

    Attributes
    ----------
    first_s : float or None
        When the first byte had come, on the clock.
    reached_s : dict
        When each number of bytes had come.
    """

    def __init__(self, marks: Sequence[int], clock: Clock) -> None:
        self.first_s: float | None = None
        self.reached_s: dict[int, float] = {}
        self._left = sorted(marks)
        self._clock = clock
        self._thread = threading.Thread(target=self._read, name="arrivals", daemon=True)
        self._end, self._begin = os.pipe()
        fcntl.fcntl(self._begin, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def started(self, start: Callable[[int], _Made]) -> _Made:
        """Call a function that starts the program with the pipe as its standard output, and read from then on."""
        try:
            made = start(self._begin)
        except BaseException:
            os.close(self._end)
            raise
        finally:
            os.close(self._begin)
        self._thread.start()
        return made

    def end(self) -> None:
        """Wait until all is read; the program has ended."""
        self._thread.join()

    def _read(self) -> None:
        got = 0
        while piece := len(os.read(self._end, _PIPE_BYTES)):
            now_s = self._clock.now_s()
            self.first_s = now_s if self.first_s is None else self.first_s
            got += piece
            while self._left and got >= self._left[0]:
                self.reached_s[self._left.pop(0)] = now_s
        os.close(self._end)
