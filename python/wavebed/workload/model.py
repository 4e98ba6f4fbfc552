"""The keys of a ``[[workload]]`` table that workloads of all kinds have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from wavebed.config import values
from wavebed.config.data import Json
from wavebed.config.problems import Problem, at, described
from wavebed.config.reader import reader
from wavebed.config.table import Key, fields, raw_values, read_table
from wavebed.lab.protocol import PORTS_EACH

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wavebed.lab.protocol import Clock, Host, Undelivered
    from wavebed.lab.tools import End, Program


_OF_DEVICE = r"[a-z0-9][a-z0-9_-]{0,31}"


@reader("NAME", {"type": "string", "pattern": rf"^({_OF_DEVICE}\.)?{_OF_DEVICE}$"})
def _name_of_other(value: object) -> str:
    """Read the name of another workload, perhaps with its device: ``call``, ``phone-3.call``."""
    device, dot, own = value.rpartition(".") if isinstance(value, str) else ("", "", "")
    if dot:
        values.name(device)
    values.name(own if dot else value)
    return str(value)


class Common(Struct, frozen=True, kw_only=True):
    """Keys of every workload: start, limit and hosts."""

    kind: Annotated[str, Key(values.text, "what it is; the kinds have sections of their own below", write="NAME")]
    name: Annotated[str, Key(values.name, "its name, by which results go", absent="that of its kind")] = ""
    start_s: Annotated[
        float, Key(values.seconds(), "when it starts: after time zero of the pattern, or after the end of `after`")
    ] = 0.0
    after: Annotated[
        str | None,
        Key(
            _name_of_other,
            "the workload that must have ended before it starts; in a cell of the same device, or `DEVICE.NAME`",
        ),
    ] = None
    limit_s: Annotated[float, Key(values.seconds(), "longest time that it may run")] = 60.0
    skip: Annotated[
        bool,
        Key(values.boolean, "true: left out; for workloads that only some treatments or levels of a factor run"),
    ] = False
    server: Annotated[Literal["server", "edge"], Key(values.word("server", "edge"), "the host that serves")] = "server"
    client: Annotated[Literal["client", "edge"], Key(values.word("client", "edge"), "the host at the other end")] = (
        "client"
    )
    device: Annotated[
        str | None,
        Key(
            values.name,
            "in a cell: the device that is the client, or the name of several; each has a workload of its own, which is"
            " named `DEVICE.NAME`",
            absent="the first device",
        ),
    ] = None

    @property
    def client_host(self) -> str:
        """The name of the host at the client's end."""
        return self.device or self.client


class NoOptions(Struct, frozen=True):
    """The options of a kind that has none."""


def read_common(table: Mapping[str, object]) -> Common:
    """Return the common keys of a ``[[workload]]`` table; the others are left alone.

    Raises
    ------
    Problem
        If one is missing or wrong.
    """
    common = read_table(Common, {name: table[name] for name in fields(Common) if name in table}, "[[workload]]")
    if common.server == common.client:
        raise Problem(f"{described(common.client)} is at both ends: write two hosts", "client")
    return common if common.name else replace(common, name=at("name", values.name, common.kind))


FRAME_BYTES, SEGMENT_BYTES = 1514, 1448
"""A full packet on Ethernet, and what it carries of a TCP connection."""

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
        In `unit`; ``None`` if it was not measured, never 0 instead.
    unit : str
        ``Mbit/s``, ``ms``, ``s``, ``bytes``, ``%``; empty for a count or a score.
    better : str
        Whether a higher or a lower value is better for the user.
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
        As in `Metric`: ``rtt``, ``ms``.
    time_s : sequence of float
        Seconds since time zero, ascending.
    value : sequence of float or None
        One for each time; ``None`` for a missing sample (a lost probe).

    Raises
    ------
    ValueError
        If the numbers of times and values differ, or one of them is not a number.
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
    """A moment or a period of a trial: a stall, a request, a state of the radio.

    Parameters
    ----------
    name : str
        Its kind: ``stall``, ``request``, ``switch``.
    time_s, end_s : float
        Start and end, seconds since time zero; `end_s` is ``None`` for a moment.
    text : str
        Label for the reader: an address, a representation's name.
    value : float or None
        A quantity of the event (bytes of a request).

    Raises
    ------
    ValueError
        If a time or the value is not a number.
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
        raise ValueError(f"{what}: {wrong!r} is not a number")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a workload in one trial.

    Parameters
    ----------
    status : str
        ``ok``; ``partial``: stopped at its limit, its figures are usable; ``failed``: its figures are not.
    reason : str
        One line if the status is not ``ok``.
    details : mapping
        JSON for the workload's panel of the report, beside series and events.
    doubts : sequence of str
        One line for each reason to treat the figures as suspect.
    """

    status: Status = "ok"
    reason: str = ""
    metrics: Sequence[Metric] = ()
    series: Sequence[Series] = ()
    events: Sequence[Event] = ()
    details: Mapping[str, Json] = field(default_factory=dict)
    doubts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Start and end of a workload, seconds since time zero, and whether it puts load on the path (a ping does not)."""

    start_s: float
    end_s: float
    is_load: bool


Schedule: TypeAlias = Mapping[str, TimeSpan]
"""The span of each workload of the trial, by name."""


@dataclass(frozen=True, slots=True)
class TrialContext:
    """Hosts, folder, clock and limits of a session in one trial.

    Parameters
    ----------
    server, client : Host
        The two ends of the workload: `server` serves.
    folder : pathlib.Path
        Existing folder for its raw outputs; every file in it is kept, compressed.
    clock : Clock
        The laboratory's time, which has not begun when the session is opened. All waits use it.
    port : int
        The first of `Workload.port_count` TCP and UDP ports that no other workload uses.
    address : str
        Prefix of /24 addresses ``198.19.N.`` that no other workload uses, routed to the server, not yet assigned; not
        if the server has an `only_address`.
    seed : int
        The trial's seed.
    limit_s : float
        Longest time that `Session.run` may take; `Session.stop` is called then.
    undelivered : callable
        Returns the data on the way; ``None`` if nobody knows, or if other workloads are sending.
    """

    server: Host
    client: Host
    folder: Path
    clock: Clock
    port: int
    address: str
    seed: int
    limit_s: float
    undelivered: Callable[[], Undelivered | None] = lambda: None


class Session(ABC):
    """A workload in one trial."""

    @abstractmethod
    def run(self) -> None:
        """Run the workload; return when it has ended, or soon after `stop`.

        Raises
        ------
        WavebedError
            If it failed; the message becomes the reason, and `report` is still called.
        """

    @abstractmethod
    def stop(self) -> None:
        """Ask `run` to end within 5 s plus the workload's `tail_s`. May be called at any time, even twice."""

    @abstractmethod
    def report(self, schedule: Schedule) -> Outcome:
        """Return the results from the raw outputs, after the end of the laboratory."""


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
    """Whether it puts load on the path, for workloads that measure latency under load."""

    def __init__(self, common: Common, options: _Options) -> None:
        self.common = common
        self.options = options

    @property
    def name(self) -> str:
        """Its name in the scenario."""
        return self.common.name

    def needed_programs(self, end: End | None = None) -> list[str]:
        """Return the names of the `programs` that its options need: at one end, or at any."""
        return [program.name for program in self.programs if program.is_needed(self.options, end)]

    @property
    def endless(self) -> bool:
        """Whether it runs until all others have ended."""
        return False

    @property
    def tail_s(self) -> float:
        """Seconds for which it continues after it was asked to stop, by design."""
        return 0.0

    @property
    def emulated_only(self) -> str:
        """What it needs that real hosts do not have, and what to write instead; empty: real hosts can run it."""
        return ""

    @property
    def port_count(self) -> int:
        """How many ports it needs at most; known when it has been prepared."""
        return PORTS_EACH

    @abstractmethod
    def expected_s(self) -> float:
        """Return the expected duration of `Session.run`, seconds, for the estimate of the time left."""

    def expected_bytes(self, rate_bps: float, others_s: float) -> float:
        """Return what an interface carries for it, both ways, for the estimate of a data volume.

        Parameters
        ----------
        rate_bps : float
            Rate of the access, bits of IP packets per second.
        others_s : float
            How long it runs if it is endless, seconds.
        """
        del rate_bps, others_s
        return 0.0

    def known_metrics(self) -> list[Metric]:
        """Return the metrics that its trials have, as far as they are known before; without values."""
        return []

    @property
    def prints_metrics(self) -> bool:
        """Whether a program of the user names further metrics."""
        return False

    def kept_options(self, folder: Path) -> dict[str, Json]:
        """Return the options for a specification in `folder`; files that they name are copied there.

        Raises
        ------
        OSError
            If one cannot be written.
        """
        del folder
        return raw_values(self.options)

    @staticmethod
    def found_options(options: Mapping[str, Json], folder: Path) -> Mapping[str, Json]:
        """Return the options of a specification in `folder`, with the names of the files that are kept there."""
        del folder
        return options

    def prepare(self, cache: Path) -> None:
        """Make slow content once for the run in `cache` (shared by all runs; write atomically).

        Raises
        ------
        WavebedError
            If it cannot be made: the run does not start.
        """

    @abstractmethod
    def open(self, context: TrialContext) -> Session:
        """Start waiting servers and clients; send no packet yet.

        Raises
        ------
        WavebedError
            If one does not start: the trial fails with this line.
        """


AnyWorkload: TypeAlias = Workload[Any]
"""A workload of any kind."""
