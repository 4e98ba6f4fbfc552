"""A remedy with a program on each of two hosts, and the traffic between them routed through both."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING

from wavebed.errors import WavebedError
from wavebed.lab.tools import find
from wavebed.remedy.model import RunningRemedy
from wavebed.remedy.program import said_on

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wavebed.remedy.detour import Detour
    from wavebed.remedy.program import RunningProgram

__all__ = ["TwoEnded", "file_of", "wait_for_device"]


class TwoEnded(RunningRemedy):
    """Programs on two hosts, and detours into their devices.

    Parameters
    ----------
    verdict : callable
        Called at the end with the programs, which still run; returns one line if they did not work.
    """

    def __init__(self, verdict: Callable[[Sequence[RunningProgram]], str] = lambda _: "") -> None:
        self.programs: list[RunningProgram] = []
        self._verdict = verdict
        self._detours: list[Detour] = []

    def guarded(self) -> ExitStack:
        """Return a context that takes back what was begun, unless its callbacks are taken out."""
        undo = ExitStack()
        undo.callback(self._take_back)
        return undo

    def divert(self, detour: Detour, device: str) -> None:
        """Route traffic into a device that exists.

        Raises
        ------
        WavebedError
            If a rule or a route is refused.
        """
        self._detours.append(detour)
        detour.begin(device)

    def stop(self) -> str:
        """Put the routes back and end the programs."""
        said = [self._verdict(self.programs), *self._take_back()]
        return "; ".join(dict.fromkeys(line for line in said if line))

    def _take_back(self) -> list[str]:
        steps: list[Callable[[], str | None]] = [detour.end for detour in self._detours]
        steps += [program.stop for program in self.programs]
        said = []
        for step in steps:
            try:
                said.append(step() or "")
            except WavebedError as error:
                said.append(str(error))
        return said


def file_of(log: Path, host: str, ending: str) -> Path:
    """Return the file of this ending for one of the two hosts, beside the log of the remedy."""
    return log.with_name(f"{log.stem}.{host}{ending}")


def wait_for_device(program: RunningProgram, device: str) -> None:
    """Wait until a program has made its device, and it is up.

    Raises
    ------
    WavebedError
        If the program ends, or does not make it in time.
    """

    def is_there() -> bool:
        shown = json.loads(said_on(program.host, [find("ip"), "-json", "link", "show", "up"]) or "[]")
        return any(link.get("ifname") == device for link in shown)

    program.wait_until(is_there)
