"""Progress on standard error: one line that is refreshed on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Self

from wavebed.printable import printable

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Progress"]

_PLAIN_EVERY_S = 15.0
_REFRESH_S = 0.5


class Progress:
    """Says what is going on and how long it will still take.

    Parameters
    ----------
    command : str
        What each line begins with.
    patience_s : float
        Nothing is said in the first so many seconds.
    """

    def __init__(self, command: str, patience_s: float = 0.0) -> None:
        self._command = command
        self._speak_s = time.monotonic() + patience_s
        self._end_s = time.monotonic()
        self._step = "starting"
        self._terminal = sys.stderr.isatty()
        self._said = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._refresh, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def step(self, text: str, left_s: float) -> None:
        """Say that a new step begins, and that it and all that follow are expected to take `left_s` seconds."""
        self._step = text
        self._end_s = time.monotonic() + left_s
        self._say(force=True)

    def note(self, text: str) -> None:
        """Say a line that stays."""
        begin = "\r\x1b[K" if self._terminal else ""
        print(f"{begin}{self._command}: {printable(text)}", file=sys.stderr, flush=True)

    def go_on(self, text: str, left_s: float) -> None:
        """Take note of one of many small steps; it is said when it is time for a word."""
        self._step = text
        self._end_s = time.monotonic() + left_s

    def _refresh(self) -> None:
        while not self._end.wait(_REFRESH_S):
            self._say(force=False)

    def _say(self, *, force: bool) -> None:
        now = time.monotonic()
        if now < self._speak_s:
            return
        left_s = max(0.0, self._end_s - now)
        line = f"{self._command}: {printable(self._step)} (about {left_s:.0f} s left)"
        if self._terminal:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        elif force or now - self._said >= _PLAIN_EVERY_S:
            self._said = now
            print(line, file=sys.stderr, flush=True)
