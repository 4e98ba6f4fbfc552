"""The channel from a guest of virtual time to its host: lines in files of the guest's output folder.

A guest writes its lines at fixed virtual times, whether or not the host reads them. A write waits for nobody, so a host
that reads moves no packet.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import msgspec

from wavebed.stranger import Count, Line, StrangerError, decode

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["EVERY_S", "PROGRESS", "Step", "Told", "tell"]

EVERY_S = 0.5
"""Virtual time between two lines of progress."""
PROGRESS = "progress"
_MOST_NEW_BYTES = 1 << 20
"""Longest text that the host reads at once: a program in the guest may write too."""


class Step(msgspec.Struct, frozen=True):
    """What a block does in its guest.

    Parameters
    ----------
    number : int
        Of the trial in the plan.
    at_s, planned_s : float
        Virtual time since time zero, and the expected end of the last workload.
    shown : str
        The running workloads, throughput, queue and round-trip time.
    """

    number: Count
    treatment: Line
    seed: Count
    stage: Literal["set-up", "running", "analysing"]
    at_s: float = 0.0
    planned_s: float = 0.0
    shown: Line = ""


_STEP = msgspec.json.Decoder(Step)


def tell(file: Path, step: Step) -> None:
    """Append a step to a file of the guest. A full disk loses it."""
    with suppress(OSError):
        # Closed at once: the guest's kernel gives a file to the host when it is closed.
        stream = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(stream, msgspec.json.encode(step) + b"\n")
        finally:
            os.close(stream)


class Told:
    """The steps of a guest, as far as the host has read them.

    The host makes the file and keeps it open, so that the guest can put no other one in its place.

    Parameters
    ----------
    file : Path
        In the guest's output folder.
    """

    def __init__(self, file: Path) -> None:
        self._stream = file.open("xb+", buffering=0)
        self._rest = b""

    def last(self) -> Step | None:
        """Return the last step that is new, if there is one."""
        *lines, self._rest = (self._rest + self._stream.read(_MOST_NEW_BYTES)).split(b"\n")
        self._rest = self._rest[:_MOST_NEW_BYTES]
        for line in reversed(lines):
            with suppress(StrangerError):
                return decode(line, _STEP, "a step of a guest")
        return None

    def close(self) -> None:
        """Read no more."""
        self._stream.close()
