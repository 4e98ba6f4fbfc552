"""How late the machine is: it is looked at beside tests that judge times, and a late machine makes them inconclusive.

A small process of its own asks to be woken every two milliseconds and notes how much later it is. The processors of a
shared machine stand still at times for tens of milliseconds; no test can tell that from a slow program.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self, cast

__all__ = ["BORNE", "Lateness", "Watch"]

_PROBE = """
import sys, time
from select import select
late = []
then = time.monotonic_ns()
while True:
    asked, _, _ = select([sys.stdin], [], [], 0.002)
    now = time.monotonic_ns()
    by, then = (now - then) / 1e6 - 2, now
    if not asked or by > 0:  # asked while it stood still
        late.append(by)
    if not asked:
        continue
    if not sys.stdin.readline():
        break
    late.sort()
    p99, worst = (late[min(len(late) - 1, int(len(late) * 0.99))], late[-1]) if late else (0, 0)
    late, then = [], time.monotonic_ns()
    print(p99, worst, flush=True)
"""


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late the machine was over a while.

    Parameters
    ----------
    p99_ms, worst_ms : float
        How much later than asked for a process was woken, milliseconds.
    stolen : float
        Fraction of the processors' time that the hypervisor gave to others.
    """

    p99_ms: float
    worst_ms: float
    stolen: float

    def reason(self, most: Lateness) -> str:
        """Return why the machine was late, or nothing if no figure is above that of `most`."""
        if self.p99_ms <= most.p99_ms and self.worst_ms <= most.worst_ms and self.stolen <= most.stolen:
            return ""
        return (
            f"the machine was late: processes woke {self.p99_ms:.1f} ms late at p99, {self.worst_ms:.0f} ms at worst; "
            f"{self.stolen:.1%} of its processors' time was stolen"
        )


BORNE = Lateness(p99_ms=2.0, worst_ms=20.0, stolen=0.02)
"""Limits of a test of `tests/measure`. A quiet machine of two processors of its own wakes within 0.2 ms."""


class Watch:
    """A process that looks at the machine. `begin` and `end` enclose what is judged."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", _PROBE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._before = (0, 0)

    def begin(self) -> Self:
        """Forget what was."""
        self._ask()
        self._before = _processor_ticks()
        return self

    def end(self) -> Lateness:
        """Return how late the machine was since `begin` or the last `end`."""
        p99_ms, worst_ms = (float(word) for word in self._ask().split())
        ticks = _processor_ticks()
        total, stolen = (now - before for now, before in zip(ticks, self._before, strict=True))
        self._before = ticks
        return Lateness(p99_ms, worst_ms, stolen / total if total else 0.0)

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=60)

    def _ask(self) -> str:
        stdin, stdout = cast("IO[str]", self._process.stdin), cast("IO[str]", self._process.stdout)
        stdin.write("\n")
        stdin.flush()
        return stdout.readline()


def _processor_ticks() -> tuple[int, int]:
    """Return the processors' time of all kinds, and what the hypervisor gave to others (proc_stat(5)), in ticks."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(ticks), ticks[7]
