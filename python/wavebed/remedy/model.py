"""The interface between remedies and trials.

A plug-in is one module with one class derived from `Remedy`; `wavebed.remedy.KINDS` names it. In a trial a remedy is
started on its host before the workloads are opened, and stopped after the last one has ended. Until the workloads
start, the laboratory's time stands still: hosts take settings, but no packet crosses a link.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Lab

__all__ = ["EDGE", "HOSTS", "AnyRemedy", "Chosen", "Remedy", "RunningRemedy"]

HOSTS = ("server", "edge", "client")
"""The hosts of a path, in order."""
EDGE = "wavebed-edge"

_Options = TypeVar("_Options", bound=Struct)


class Chosen(Struct, frozen=True):
    """A remedy of a scenario: its kind, and the keys of its kind, none left out."""

    kind: str
    options: dict[str, Json]


class RunningRemedy(ABC):
    """A remedy on a host."""

    @abstractmethod
    def stop(self) -> str:
        """End it; return one line if it had ended before or failed, else an empty text.

        Raises
        ------
        LaboratoryGoneError, LaboratoryHungError
            If the laboratory has ended, or did not answer.
        """


class Remedy(ABC, Generic[_Options]):
    """A remedy as a scenario describes it.

    Parameters
    ----------
    options : Struct
        Its keys.
    """

    kind: ClassVar[str]
    summary: ClassVar[str]
    options_type: ClassVar[type[Struct]]
    """The type of its options: a table of a scenario (`wavebed.config.table`)."""
    hosts: ClassVar[Sequence[str]] = HOSTS
    """The hosts that can have it."""
    programs: ClassVar[Sequence[str]] = (EDGE,)
    """The programs that it runs: `EDGE`, or keys of `wavebed.lab.tools.PACKAGES`."""

    def __init__(self, options: _Options) -> None:
        self.options = options

    @property
    def peer(self) -> str | None:
        """The host of its other end; ``None``: it is on one host alone."""
        return None

    @abstractmethod
    def start(self, lab: Lab, host: str, log: Path) -> RunningRemedy:
        """Start it on a host; return when it works.

        Parameters
        ----------
        lab : Lab
            The laboratory, whose time stands still.
        host : str
            Name of the host.
        log : pathlib.Path
            The file of its output, which is kept. Further files of its own have names that begin with its name.

        Raises
        ------
        WavebedError
            If it does not start: the trial is invalid with this line.
        """


AnyRemedy: TypeAlias = Remedy[Any]
"""A remedy of any kind."""
