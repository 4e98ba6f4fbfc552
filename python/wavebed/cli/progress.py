"""Progress of a long command on standard error."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

from wavebed.terminal import REFRESH_EVERY_S, Status

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Progress"]


class Progress(Status):
    """Shows the progress and the remaining time.

    Parameters
    ----------
    command : str
        The start of each line.
    patience_s : float
        Nothing is said in the first so many seconds.
    """

    def __init__(self, command: str, patience_s: float = 0.0) -> None:
        super().__init__(command)
        self._speak_s = time.monotonic() + patience_s
        self._end_s = time.monotonic()
        self._step = "starting"
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
        self.clear()

    def step(self, text: str, left_s: float) -> None:
        """Say that a new step begins, and that it and all that follow are expected to take `left_s` seconds."""
        self.go_on(text, left_s)
        self._tell(force=True)

    def go_on(self, text: str, left_s: float) -> None:
        """Take note of one of many small steps; it is said when it is time for a word."""
        self._step = text
        self._end_s = time.monotonic() + left_s

    def _refresh(self) -> None:
        while not self._end.wait(REFRESH_EVERY_S):
            self._tell(force=False)

    def _tell(self, *, force: bool) -> None:
        now = time.monotonic()
        if now >= self._speak_s and (force or self.is_due()):
            left_s = max(0.0, self._end_s - now)
            self.say(f"{self._step} (about {left_s:.0f} s left)", left_s)
