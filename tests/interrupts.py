"""Signals from the keyboard and the terminal: what a shell starts in the background, or nohup, ignores them."""

from __future__ import annotations

import signal

__all__ = ["heed_interrupts"]


def heed_interrupts() -> None:
    """Set SIGINT, SIGQUIT and SIGHUP to what they are in the foreground, here and in every program that is started."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
