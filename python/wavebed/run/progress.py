"""Progress on standard error: a line that is refreshed on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, TextIO, cast

from wavebed.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Lab
    from wavebed.run.play import Act

__all__ = ["Estimate", "Live", "duration_text", "show_text"]

PLAIN_EVERY_S = 15.0
REFRESH_EVERY_S = 0.5
OVERHEAD_S = 1.0
BROWSER_S = 4.0


def duration_text(seconds: float) -> str:
    """Return a duration as people say it: ``8 s``, ``3 min``, ``2 h 10 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


class Estimate:
    """How long the rest of a run will take: as described at first, as measured later."""

    def __init__(self, expected_s: Sequence[float]) -> None:
        self._expected_s = list(expected_s)
        self._measured_s: list[float] = []

    def done(self, wall_s: float) -> None:
        """Take note of how long the next trial took."""
        self._measured_s.append(wall_s)

    def left_s(self, into_trial_s: float) -> float:
        """Return the time left, seconds, `into_trial_s` seconds after the start of a trial."""
        finished = len(self._measured_s)
        expected = sum(self._expected_s[:finished])
        scale = sum(self._measured_s) / expected if expected else 1.0
        rest = sum(self._expected_s[finished:]) * scale
        return max(rest - into_trial_s, 0.0)


class Live:
    """The line about the trial that runs.

    Parameters
    ----------
    stream : file, optional
        Where it goes; standard error by default.
    """

    def __init__(self, command: str, stream: TextIO | None = None) -> None:
        self._command = command
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._said = float("-inf")
        self._before: tuple[int, dict[str, int]] | None = None
        self._lock = threading.Lock()

    def new_trial(self) -> None:
        """Forget the counters of the trial before."""
        self._before = None
        if not self._terminal:
            self._said = time.monotonic()

    def look(self, head: str, left_s: float, lab: Lab, acts: Sequence[Act]) -> None:
        """Say how far the trial is, if it is time to."""
        every = REFRESH_EVERY_S if self._terminal else PLAIN_EVERY_S
        if time.monotonic() - self._said < every:
            return
        running = ", ".join(act.workload.name for act in acts if act.started.is_set() and not act.over.is_set())
        shown, self._before = show_text(lab.show(), self._before)
        self.say(f"{head}, about {duration_text(left_s)} left: {running or 'waiting'}{shown}")

    def say(self, text: str) -> None:
        """Say a line; on a terminal the next one replaces it."""
        with self._lock:
            self._said = time.monotonic()
            line = f"{self._command}: {printable(text)}"
            if self._terminal:
                print(f"\r\x1b[K{line}", end="", file=self._stream, flush=True)
            else:
                print(line, file=self._stream, flush=True)

    def note(self, text: str) -> None:
        """Say a line that stays."""
        with self._lock:
            head = "\r\x1b[K" if self._terminal else ""
            print(f"{head}{self._command}: {printable(text)}", file=self._stream, flush=True)

    def clear(self) -> None:
        """Take the line away."""
        if self._terminal:
            print("\r\x1b[K", end="", file=self._stream, flush=True)


def show_text(
    show: dict[str, Json], before: tuple[int, dict[str, int]] | None
) -> tuple[str, tuple[int, dict[str, int]] | None]:
    """Return throughput, queue and round trip as text, and the counters for the next time.

    Parameters
    ----------
    show : dict
        What `Lab.show` returned.
    before : tuple or None
        The counters of the last time.
    """
    now_ns = show.get("now_ns")
    if not isinstance(now_ns, int):
        return "", None
    links = cast("list[dict[str, Json]]", show["links"])
    delivered = {cast("str", link["name"]): cast("int", link["delivered_bytes"]) for link in links}
    parts = []
    if before is not None and now_ns > before[0]:
        for direction, sign in (("down", "↓"), ("up", "↑")):
            names = [name for name in delivered if name.endswith(f".{direction}")]
            last = names[-1] if direction == "down" else names[0]
            rate_bps = (delivered[last] - before[1].get(last, 0)) * 8e9 / (now_ns - before[0])
            parts.append(f"{sign} {rate_bps / 1e6:.1f} Mbit/s")
    queued = max((cast("int", link["queued_bytes"]) for link in links), default=0)
    parts.append(f"queue {queued / 1e3:.0f} kB")
    flows = show.get("flows")
    if isinstance(flows, dict) and isinstance(flows.get("max_rtt_us"), int | float):
        parts.append(f"RTT {cast('float', flows['max_rtt_us']) / 1e3:.0f} ms")
    return "  " + "  ".join(parts), (now_ns, delivered)
