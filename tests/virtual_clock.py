"""A clock that jumps: when all threads of a laboratory wait, it is the moment for which the first of them waits."""

from __future__ import annotations

import select
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wavebed.lab.protocol import Clock

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["VirtualClock"]

_START_NS = 1_000_000_000_000
"""Some moment of CLOCK_MONOTONIC, and of the system's clock, which is the same here."""


@dataclass(eq=False, slots=True)
class _Waiting:
    """A thread that waits until it `is_ready`, or until `end_ns`, and then for its `turn`."""

    is_ready: Callable[[], bool]
    end_ns: int | None
    turn: threading.Event = field(default_factory=threading.Event)
    is_stuck: bool = False


class VirtualClock(Clock):
    """A clock without a wait in real time.

    One thread runs at a time: the one that made the clock, and those of `start`. Each runs until it waits; then the
    one that has waited longest for something that has happened goes on, and if nothing has, time jumps. So the same
    program takes the same course each time. None of them may wait for another but by the clock.
    """

    def __init__(self) -> None:
        self._now_ns = _START_NS
        self._zero_ns: int | None = None
        self._waiting: list[_Waiting] = []

    def begin(self) -> int:
        """Let time zero be now, and return it, nanoseconds."""
        self._zero_ns = self._now_ns
        return self._zero_ns

    def now_s(self) -> float:
        """Return the seconds since time zero."""
        return self.of_monotonic_ns(self._now_ns)

    def monotonic_s(self) -> float:
        """Return the seconds since some moment before."""
        return self._now_ns / 1e9

    def of_monotonic_ns(self, at_ns: int) -> float:
        """Return the seconds since time zero of a moment."""
        assert self._zero_ns is not None, "the laboratory's time has begun"
        return (at_ns - self._zero_ns) / 1e9

    def of_unix_s(self, at_s: float) -> float:
        """Return the seconds since time zero of a moment of the system's clock."""
        return self.of_monotonic_ns(round(at_s * 1e9))

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self.wait_until(lambda: False, seconds)

    def wait(self, event: threading.Event, limit_s: float | None = None) -> bool:
        """Wait for an event, `limit_s` seconds at most, and return whether it is set."""
        return self.wait_until(event.is_set, limit_s)

    def wait_readable(self, descriptor: int, limit_s: float) -> bool:
        """Wait until a descriptor can be read, `limit_s` seconds at most, and return whether it can."""
        return self.wait_until(lambda: bool(select.select([descriptor], [], [], 0)[0]), limit_s)

    def start(self, work: Callable[[], None], name: str) -> threading.Event:
        """Do `work` in a thread, which does not keep this process alive; return the event of its end."""
        ended = threading.Event()
        me = _Waiting(lambda: True, None)

        def do() -> None:
            me.turn.wait()
            try:
                work()
            finally:
                ended.set()
                self._wake_next()

        self._waiting.append(me)
        threading.Thread(target=do, name=name, daemon=True).start()
        return ended

    def at(self, at_s: float, action: Callable[[], None]) -> None:
        """Do something at a moment, seconds since time zero."""

        def do() -> None:
            self.sleep(at_s - self.now_s())
            action()

        self.start(do, f"at {at_s:g} s")

    def wait_until(self, is_ready: Callable[[], bool], limit_s: float | None = None) -> bool:
        """Wait until something is so, `limit_s` seconds at most, and return whether it is.

        Raises
        ------
        RuntimeError
            If all wait, none of them has a limit, and nothing can happen any more.
        """
        if is_ready():
            return True
        me = _Waiting(is_ready, None if limit_s is None else self._now_ns + round(max(0.0, limit_s) * 1e9))
        self._waiting.append(me)
        self._wake_next()
        me.turn.wait()
        if me.is_stuck:
            raise RuntimeError("every thread of the laboratory waits for ever")
        return is_ready()

    def _wake_next(self) -> None:
        """Let the next thread go on, which may be the one that asks."""
        if not self._waiting:
            return
        next_one = next((each for each in self._waiting if each.is_ready()), None)
        if next_one is None:
            limited = [each for each in self._waiting if each.end_ns is not None]
            next_one = min(limited, key=_end_ns, default=self._waiting[0])
            next_one.is_stuck = not limited
            self._now_ns = max(self._now_ns, next_one.end_ns or 0)
        self._waiting.remove(next_one)
        next_one.turn.set()


def _end_ns(waiting: _Waiting) -> int:
    assert waiting.end_ns is not None, "looked at by the caller"
    return waiting.end_ns
