"""SIGINT and SIGTERM: the first one ends a command in order, the second one sets a time limit."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

__all__ = ["AGAIN_S", "end_on_signals"]

AGAIN_S = 1.0
"""After a second signal the process ends within this time, whatever hangs, and what it holds ends with it: every
laboratory, port and guard watches a socket or pipe of this process. Nothing is left 3 s after that signal."""


def end_on_signals() -> None:
    """Clear away at SIGTERM what was begun, as at Ctrl-C; end the process soon after a second signal of either kind."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    # The numbers of signals arrive here even while the main thread cannot run a handler.
    reading, writing = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reading,), name="signals", daemon=True).start()


def _watch(reading: int) -> None:
    asked: list[int] = []
    while len(asked) < 2:
        asked += [number for number in os.read(reading, 64) if number in (signal.SIGINT, signal.SIGTERM)]
    time.sleep(AGAIN_S)
    os._exit(128 + asked[-1])
