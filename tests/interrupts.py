"""Signals from the keyboard: a shell starts what runs in the background with them ignored."""

from __future__ import annotations

import signal

__all__ = ["heed_interrupts"]


def heed_interrupts() -> None:
    """Set SIGINT and SIGQUIT to what they are in the foreground, here and in every program that is started."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
