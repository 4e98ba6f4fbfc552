"""Progress on standard error: one line that is refreshed on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Progress"]

_PLAIN_EVERY_S = 15.0
_REFRESH_S = 0.5


class Progress:
    """Says what is going on and how long it will still take.

    Parameters
    ----------
    total_s : float
        The time that everything is expected to take, seconds.
    """

    def __init__(self, total_s: float) -> None:
        self._total_s = total_s
        self._start = time.monotonic()
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

    def step(self, text: str) -> None:
        """Say that a new step begins."""
        self._step = text
        self._say(force=True)

    def _refresh(self) -> None:
        while not self._end.wait(_REFRESH_S):
            self._say(force=False)

    def _say(self, *, force: bool) -> None:
        now = time.monotonic()
        left_s = max(0.0, self._total_s - (now - self._start))
        line = f"wavebed demo: {self._step} (about {left_s:.0f} s left)"
        if self._terminal:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        elif force or now - self._said >= _PLAIN_EVERY_S:
            self._said = now
            print(line, file=sys.stderr, flush=True)
