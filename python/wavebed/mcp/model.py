"""The arguments and answers of the tools."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, field

__all__ = ["Bounds", "CancelArgs", "CompareArgs", "ExplainArgs", "ListAnswer", "ListArgs", "Listed", "Progress"]
__all__ += ["ResolveArgs", "RunAnswer", "RunArgs", "StatusArgs", "ToolError"]

_TIME = "^[0-9.]+(s|ms)$"

Name: TypeAlias = Annotated[
    str,
    Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}$", description="a name in the server's folder"),
]
Changes: TypeAlias = Annotated[
    dict[str, Annotated[str, Meta(max_length=1000)]],
    Meta(description='changes by dotted key, as of --set: {"path.rate": "50mbit", "path.packet-log": "true"}'),
]


class ToolError(Exception):
    """A tool cannot do what was asked: one line."""


class Bounds(Struct, frozen=True):
    """The bounds of a server.

    Parameters
    ----------
    call_s : float
        Time of a call, except that of a run.
    run_s : float
        Time of a run, as expected before and as measured.
    trials : int
        Trials of a run.
    allow_commands : bool
        Whether scenarios may name programs, real hosts and the network of this machine.
    """

    call_s: float = 60.0
    run_s: float = 600.0
    trials: int = 20
    allow_commands: bool = False


class _Scenario(Struct, kw_only=True, forbid_unknown_fields=True):
    scenario: (
        Annotated[
            str,
            Meta(
                description="name of a shipped scenario (see list), or of a .toml file in the server's folder",
                max_length=100,
            ),
        ]
        | None
    ) = None
    toml: Annotated[str, Meta(description="the text of a scenario, in place of a name", max_length=200_000)] | None = (
        None
    )
    set: Changes = field(default_factory=dict)
    workloads: Annotated[list[str], Meta(description="run these workloads only", max_length=20)] = field(
        default_factory=list
    )
    time: (
        Annotated[
            Literal["auto", "real", "virtual"],
            Meta(
                description="real: this machine's time; virtual: a guest's, which stands still while programs compute,"
                " so that runs are the same to the byte; auto: virtual where that is possible. Default: as the scenario"
                " says, else real"
            ),
        ]
        | None
    ) = None
    seed: Annotated[int, Meta(description="seed of the first trial", ge=0, le=2**63 - 1)] | None = None

    def changes(self) -> list[str]:
        """Return the changes as ``--set`` takes them, with that of the time."""
        asked = {} if self.time is None else {"lab.time": self.time}
        return [f"{key}={value}" for key, value in (self.set | asked).items()]


class ResolveArgs(_Scenario, kw_only=True, forbid_unknown_fields=True):
    """A trial of a scenario."""

    treatment: Annotated[str, Meta(description="default: the first one", max_length=100)] | None = None


class RunArgs(_Scenario, kw_only=True, forbid_unknown_fields=True):
    """A run of a scenario."""

    trials: Annotated[int, Meta(description="trials of each treatment", ge=1)] | None = None
    wait_s: Annotated[
        float,
        Meta(
            description="wait so long for the end, and return the results if it came; the run goes on. If this call is"
            " cancelled while it waits, so is the run",
            ge=0,
            le=3600,
        ),
    ] = 0.0


class StatusArgs(Struct, forbid_unknown_fields=True):
    """A run."""

    run: Name | None = None
    wait_s: Annotated[float, Meta(description="wait at most so long for its end", ge=0, le=3600)] = 0.0


class CancelArgs(Struct, forbid_unknown_fields=True):
    """The running run."""

    run: Name


class CompareArgs(Struct, forbid_unknown_fields=True):
    """Runs beside the first."""

    runs: Annotated[list[Name], Meta(min_length=2, max_length=10)]
    margins: Annotated[
        list[Annotated[str, Meta(max_length=200)]], Meta(description='primary metrics: "web.on load=5%"', max_length=20)
    ] = field(default_factory=list)


class ExplainArgs(Struct, forbid_unknown_fields=True, rename={"start": "from", "end": "to"}):
    """A part of a trial."""

    run: Name
    trial: Name | None = None
    start: Annotated[str, Meta(description="packets sent from then on: 2s", pattern=_TIME)] | None = None
    end: Annotated[str, Meta(description="and before: 3.5s", pattern=_TIME)] | None = None
    step: Annotated[str, Meta(description="length of a window: 100ms", pattern=_TIME)] | None = None
    worst: Annotated[int, Meta(description="number of worst moments of each direction", ge=0, le=50)] = 5


class ListArgs(Struct, forbid_unknown_fields=True):
    """Nothing."""


class Listed(Struct):
    """A shipped scenario or scene."""

    name: str
    title: str


class ListAnswer(Struct):
    """Names for the other tools."""

    scenarios: list[Listed]
    scenes: list[Listed]
    runs: list[str]
    files: list[str]


class Progress(Struct):
    """The progress of a run; `left_s` is an estimate."""

    trials: int
    stored: int
    verdicts: dict[str, int]
    left_s: float | None
    current: str | None


class RunAnswer(Struct):
    """A run.

    Parameters
    ----------
    state : str
        ``running``; ``ended``; ``failed``: see `reason`; ``stopped``: it took too long, finished trials are kept;
        ``cancelled``: its folder is removed; ``interrupted`` or ``killed``: a run of an earlier session.
    results : object
        Of a run that ended: medians by workload, metric and treatment (output/run).
    """

    run: str
    state: Literal["running", "ended", "failed", "stopped", "cancelled", "interrupted", "killed"]
    reason: str = ""
    progress: Progress | None = None
    results: dict[str, Any] | None = None
