"""The clock of laboratories that run in real time on this machine."""

from __future__ import annotations

import select
import threading
import time
from typing import TYPE_CHECKING

from wavebed.lab.protocol import Clock

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MachineClock"]


class MachineClock(Clock):
    """A laboratory's time on this machine's clocks."""

    def __init__(self) -> None:
        self._zero_ns: int | None = None
        self._unix_minus_monotonic_ns = 0

    def begin(self, zero_ns: int) -> None:
        """Set time zero, nanoseconds of CLOCK_MONOTONIC."""
        self._zero_ns = zero_ns
        self._unix_minus_monotonic_ns = time.time_ns() - time.monotonic_ns()

    def now_s(self) -> float:
        """Return the seconds since time zero."""
        return self.of_monotonic_ns(time.monotonic_ns())

    def monotonic_s(self) -> float:
        """Return the seconds of CLOCK_MONOTONIC."""
        return time.monotonic()

    def of_monotonic_ns(self, at_ns: int) -> float:
        """Return the seconds since time zero of a moment of CLOCK_MONOTONIC."""
        assert self._zero_ns is not None, "the laboratory's time has begun"
        return (at_ns - self._zero_ns) / 1e9

    def to_monotonic_ns(self, at_s: float) -> int:
        """Return the moment of CLOCK_MONOTONIC of a time since time zero."""
        assert self._zero_ns is not None, "the laboratory's time has begun"
        return self._zero_ns + round(at_s * 1e9)

    @property
    def unix_minus_monotonic_ns(self) -> int:
        """The system's clock minus CLOCK_MONOTONIC at time zero, nanoseconds."""
        return self._unix_minus_monotonic_ns

    def of_unix_s(self, at_s: float) -> float:
        """Return the seconds since time zero of a moment of the system's clock."""
        return self.of_monotonic_ns(round(at_s * 1e9) - self._unix_minus_monotonic_ns)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def wait(self, event: threading.Event, limit_s: float | None = None) -> bool:
        """Wait for an event, `limit_s` seconds at most, and return whether it is set."""
        return event.wait(limit_s)

    def wait_readable(self, descriptor: int, limit_s: float) -> bool:
        """Wait until a descriptor can be read, `limit_s` seconds at most, and return whether it can."""
        return bool(select.select([descriptor], [], [], limit_s)[0])

    def start(self, work: Callable[[], None], name: str) -> threading.Event:
        """Run `work` in a daemon thread; return the event of its end."""
        ended = threading.Event()

        def do() -> None:
            try:
                work()
            finally:
                ended.set()

        threading.Thread(target=do, name=name, daemon=True).start()
        return ended
