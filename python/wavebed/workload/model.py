"""What a workload is to a trial: it is read once, opened in every trial before time begins, run, and reported on.

A plug-in is one module with one class derived from `Workload` and one from `Session`; `wavebed.workload.KINDS` names
them. The life of a session in a trial:

1. `Workload.prepare`, once for the whole run: content that takes time to make, in the cache.
2. `Workload.open`, before the laboratory's time zero: servers listen, browsers are up. No packet is sent.
3. `Session.run`, at its moment, in a thread of its own: returns when the workload is over or was asked to stop.
4. `Session.stop`, from another thread, when its time is up.
5. `Session.report`, when the laboratory is gone: files are read, metrics computed.

A session waits by the clock of its laboratory alone (`TrialContext.clock`), so that it can be tested in virtual time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

from wavebed.config.data import Json
from wavebed.workload.keys import NoOptions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.lab.protocol import Clock, Host
    from wavebed.workload.keys import Common
    from wavebed.workload.tools import Program

__all__ = [
    "AnyWorkload",
    "Better",
    "Event",
    "Json",
    "Metric",
    "Outcome",
    "Schedule",
    "Series",
    "Session",
    "Span",
    "Status",
    "TrialContext",
    "Workload",
]

Better: TypeAlias = Literal["higher", "lower", "neither"]
Status: TypeAlias = Literal["ok", "partial", "failed"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of one trial.

    Parameters
    ----------
    name : str
        In the field's term, small letters: ``goodput``, ``speed index``, ``loaded latency increase p95``.
    value : float or None
        In `unit`; ``None`` where it was not measured, never 0 instead.
    unit : str
        ``Mbit/s``, ``ms``, ``s``, ``bytes``, ``%``; empty for a count or a score.
    better : str
        Which way is better for the user.
    definition : str
        Name and version of the formula, where several are in use: ``speed index: speedline 1.4.3``.
    """

    name: str
    value: float | None
    unit: str
    better: Better = "neither"
    definition: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """A quantity over time.

    Parameters
    ----------
    name, unit : str
        As those of `Metric`: ``rtt``, ``ms``.
    time_s : sequence of float
        Seconds since time zero, ascending.
    value : sequence of float or None
        As many; ``None`` where the sample is missing (a probe that was lost).

    Raises
    ------
    ValueError
        If it has not as many values as times, or one of them is no number: a plug-in's mistake ends its own session.
    """

    name: str
    unit: str
    time_s: Sequence[float]
    value: Sequence[float | None]

    def __post_init__(self) -> None:
        if len(self.time_s) != len(self.value):
            raise ValueError(f"series {self.name}: {len(self.time_s)} times, {len(self.value)} values")
        _only_numbers(f"series {self.name}", *self.time_s, *(value for value in self.value if value is not None))


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, or lasted: a stall, a request, a state of the radio.

    Parameters
    ----------
    name : str
        What kind of event: ``stall``, ``request``, ``switch``.
    time_s : float
        When it began, seconds since time zero.
    end_s : float or None
        When it ended, if it lasted.
    text : str
        What people read: an address, a representation's name.
    value : float or None
        A quantity that belongs to it (bytes of a request).

    Raises
    ------
    ValueError
        If a time or the value is no number.
    """

    name: str
    time_s: float
    end_s: float | None = None
    text: str = ""
    value: float | None = None

    def __post_init__(self) -> None:
        optional = [number for number in (self.end_s, self.value) if number is not None]
        _only_numbers(f"event {self.name}", self.time_s, *optional)


def _only_numbers(what: str, *values: object) -> None:
    wrong = next((value for value in values if not isinstance(value, Real)), None)
    if wrong is not None:
        raise ValueError(f"{what}: {wrong!r} is no number")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a workload gave in one trial.

    Parameters
    ----------
    status : str
        ``ok``; ``partial``: stopped at its limit as agreed, its figures hold; ``failed``: its figures do not.
    reason : str
        One line, where the status is not ``ok``.
    details : mapping
        What the panel of the report needs beside series and events; JSON.
    doubts : sequence of str
        One line for each thing that makes the figures suspect.
    """

    status: Status = "ok"
    reason: str = ""
    metrics: Sequence[Metric] = ()
    series: Sequence[Series] = ()
    events: Sequence[Event] = ()
    details: Mapping[str, Json] = field(default_factory=dict)
    doubts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """When a workload ran, seconds since time zero, and whether it puts load on the path (a ping does not)."""

    start_s: float
    end_s: float
    is_load: bool


Schedule: TypeAlias = Mapping[str, Span]
"""When each workload of the trial ran, by name."""


@dataclass(frozen=True, slots=True)
class TrialContext:
    """What a session gets in a trial.

    Parameters
    ----------
    server, client : Host
        The two ends of the workload: what is served is on `server`.
    folder : pathlib.Path
        Where its raw outputs go; it exists, and all in it is kept, compressed.
    clock : Clock
        The laboratory's time, which has not begun when the session is opened; all waits go by it.
    port : int
        The first of 20 TCP and UDP ports that no other workload uses.
    address : str
        Prefix of /24 addresses ``198.19.N.`` that no other workload uses, routed to the server; nobody has them yet.
    seed : int
        The trial's seed, for whatever the workload draws.
    limit_s : float
        Longest time that `Session.run` may take; `Session.stop` is called then.
    """

    server: Host
    client: Host
    folder: Path
    clock: Clock
    port: int
    address: str
    seed: int
    limit_s: float


class Session(ABC):
    """A workload in one trial."""

    @abstractmethod
    def run(self) -> None:
        """Do it; return when it is over, or soon after `stop`.

        Raises
        ------
        WavebedError
            If it failed; the line becomes the reason, and `report` is still asked.
        """

    @abstractmethod
    def stop(self) -> None:
        """Ask `run` to end soon (within 5 s, and the workload's `tail_s`). May be called at any time, even twice."""

    @abstractmethod
    def report(self, schedule: Schedule) -> Outcome:
        """Read the raw outputs and return what they say. The laboratory is gone by now."""


_Options = TypeVar("_Options", bound=Struct)


class Workload(ABC, Generic[_Options]):
    """A workload as a scenario describes it.

    Parameters
    ----------
    common : Common
        The keys that every workload has.
    options : Struct
        Its own keys.
    """

    kind: ClassVar[str]
    summary: ClassVar[str]
    options_type: ClassVar[type[Struct]] = NoOptions
    """The type of its options: a table of a scenario (`wavebed.config.table`)."""
    programs: ClassVar[Sequence[Program]] = ()
    """The programs that it runs on the hosts, or before a trial."""
    extra: ClassVar[str] = ""
    """The extra whose packages it needs (`wavebed.extras`)."""
    is_load: ClassVar[bool] = True
    """Whether it puts load on the path, as seen by those that measure latency under load."""

    def __init__(self, common: Common, options: _Options) -> None:
        self.common = common
        self.options = options

    @property
    def name(self) -> str:
        """Its name in the scenario."""
        return self.common.name

    def needed_programs(self) -> list[str]:
        """Return the names of those of `programs` that it needs with its values."""
        return [program.name for program in self.programs if program.is_needed(self.options)]

    @property
    def endless(self) -> bool:
        """Whether it goes on until all others have ended."""
        return False

    @property
    def tail_s(self) -> float:
        """How long it goes on after it was asked to stop, by design."""
        return 0.0

    @abstractmethod
    def expected_s(self) -> float:
        """Return about how long `Session.run` will take, for the estimate of the time left."""

    def prepare(self, cache: Path) -> None:
        """Make what takes long, once for the run, in `cache` (shared by all runs; write atomically).

        Raises
        ------
        WavebedError
            If it cannot be made: the run does not start.
        """

    @abstractmethod
    def open(self, context: TrialContext) -> Session:
        """Start servers and clients so that they wait; send nothing yet.

        Raises
        ------
        WavebedError
            If one does not start: the trial fails with this line.
        """


AnyWorkload: TypeAlias = Workload[Any]
"""A workload of any kind."""
