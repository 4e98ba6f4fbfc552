"""The tools: what they take, what they answer, and how they are carried out."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self, TypeAlias

import msgspec
from msgspec import Meta, Struct, field

from wavebed import shipped
from wavebed.errors import WavebedError
from wavebed.explain.model import Explanation
from wavebed.foreign import read_toml
from wavebed.mcp.processes import Child, ToolError
from wavebed.mcp.runs import RunAnswer, RunProgress, Runs
from wavebed.mcp.scenarios import ScenarioFacts, ScenarioFiles, ScenarioQuestion
from wavebed.prepared import prepared

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

    from wavebed.config.data import Json

_PLAIN = re.compile(r"[^A-Za-z0-9_.+-]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")
_TIME = "^[0-9.]+(s|ms)$"

Name: TypeAlias = Annotated[
    str,
    Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}$", description="a name in the server's folder"),
]
Changes: TypeAlias = Annotated[
    dict[str, Annotated[str, Meta(max_length=1000)]],
    Meta(description='changes by dotted key, as of --set: {"path.rate": "50mbit", "path.packet-log": "true"}'),
]


class ServerBounds(Struct, frozen=True):
    """The bounds of a server.

    Parameters
    ----------
    call_s : float
        Time of a call, except a call for a run.
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
        """Return the changes as ``--set`` takes them, with the change of the time."""
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


class ToolCall(NamedTuple):
    """A call: set `cancelled` to end it; `tell` takes its progress."""

    cancelled: threading.Event
    tell: Callable[[RunProgress], None]


Answer: TypeAlias = "msgspec.Struct | dict[str, Any]"


class _Tool(NamedTuple):
    """A tool: its description, and the types of its arguments and, if it has one, its answer."""

    description: str
    takes: type[msgspec.Struct]
    answers: type[msgspec.Struct] | None
    reads_only: bool = True


TOOLS = {
    "list": _Tool(
        "Names for the other tools: shipped scenarios and radio scenes, runs and scenario files in the folder.",
        ListArgs,
        ListAnswer,
    ),
    "resolve": _Tool(
        "Resolve one trial of a scenario: every key explicit, nothing is run. Use it to check a scenario.",
        ResolveArgs,
        None,
    ),
    "run": _Tool(
        "Run the workloads of a scenario over its emulated 5G/LTE path, one run at a time. Returns at once"
        " with the name of the run, or after wait_s; follow it by status. For explain by single packets, set"
        ' {"path.packet-log": "true"}.',
        RunArgs,
        RunAnswer,
        reads_only=False,
    ),
    "status": _Tool("State and progress of a run; its results once it has ended.", StatusArgs, RunAnswer),
    "cancel": _Tool("End the running run and remove its folder.", CancelArgs, RunAnswer, reads_only=False),
    "compare": _Tool("Compare two or more runs with the first: medians, intervals and verdicts.", CompareArgs, None),
    "explain": _Tool(
        "Why packets of a trial were late or lost: delays by cause (queue, outage, grant, HARQ, RLC, host, …), drops by"
        " reason, the worst moments, and the causes beside stalls of videos, freezes of calls and loads of pages.",
        ExplainArgs,
        Explanation,
    ),
}


class Tools:
    """The tools of a server.

    Parameters
    ----------
    folder : pathlib.Path
        Where runs are, and scenario files may be.
    bounds : ServerBounds
        The bounds.
    """

    def __init__(self, folder: Path, bounds: ServerBounds) -> None:
        self._folder = folder.resolve()
        self._bounds = bounds
        self._files = ScenarioFiles(self._folder)
        self._runs = Runs(self._folder, bounds.run_s)

    def close(self) -> None:
        """End what runs, and remove the scenario files of calls and runs."""
        self._runs.close()
        self._files.close()

    def call(self, name: str, arguments: object, call: ToolCall) -> Answer:
        """Carry out a call.

        Raises
        ------
        ToolError
            If it cannot be done.
        """
        try:
            given = msgspec.convert({} if arguments is None else arguments, prepared(TOOLS[name].takes))
        except msgspec.ValidationError as error:
            raise ToolError(f"arguments: {error}") from None
        try:
            answer: Answer = getattr(self, f"_{name}")(given, call)
        except WavebedError as error:
            raise ToolError(str(error)) from None
        return answer

    def _list(self, _given: ListArgs, _call: ToolCall) -> ListAnswer:
        files = sorted(file.stem for file in self._folder.glob("*.toml") if _NAME.fullmatch(file.stem))
        return ListAnswer(list(_titled("scenario", "")), list(_titled("scene", "scenes")), self._runs.names(), files)

    def _resolve(self, given: ResolveArgs, call: ToolCall) -> Answer:
        with _Named(self._folder, self._files, given) as scenario:
            self._check(scenario, given, None, call)
            arguments = [*scenario.arguments(given)]
            if given.treatment is not None:
                arguments.append(f"--treatment={given.treatment}")
            return self._command(["resolve", *arguments], call)

    def _run(self, given: RunArgs, call: ToolCall) -> RunAnswer:
        with _Named(self._folder, self._files, given) as scenario:
            facts = self._check(scenario, given, given.trials, call)
            self._check_bounds(facts)
            arguments = [*scenario.arguments(given)]
            if given.trials is not None:
                arguments.append(f"--trials={given.trials}")
            if call.cancelled.is_set():
                raise ToolError("the call was cancelled")
            name = self._runs.start(scenario.title, arguments, scenario.remove)
            scenario.keep()  # the run removes it
        answer = self._runs.answer(name, given.wait_s, call.cancelled, call.tell)
        if call.cancelled.is_set() and answer.state == "running":
            return self._runs.cancel(name)
        return answer

    def _status(self, given: StatusArgs, call: ToolCall) -> RunAnswer:
        return self._runs.answer(given.run, given.wait_s, call.cancelled, call.tell)

    def _cancel(self, given: CancelArgs, _call: ToolCall) -> RunAnswer:
        return self._runs.cancel(given.run)

    def _compare(self, given: CompareArgs, call: ToolCall) -> Answer:
        margins = [f"--margin={margin}" for margin in given.margins]
        return self._command(["compare", "--json", *margins, *map(self._run_folder, given.runs)], call)

    def _explain(self, given: ExplainArgs, call: ToolCall) -> Answer:
        options = {"--trial": given.trial, "--from": given.start, "--to": given.end, "--step": given.step}
        chosen = [f"{option}={value}" for option, value in options.items() if value is not None]
        folder = self._run_folder(given.run)
        return self._command(["explain", folder, "--json", f"--worst={given.worst}", *chosen], call)

    def _run_folder(self, name: str) -> str:
        folder = self._folder / name
        if folder.is_symlink() or not folder.is_dir():
            raise ToolError(f"there is no run {name}: it has {', '.join(self._runs.names()[:20]) or 'none yet'}")
        return str(folder)

    def _check(
        self, scenario: _Named, given: ResolveArgs | RunArgs, trials: int | None, call: ToolCall
    ) -> ScenarioFacts:
        """Return what a scenario would do.

        Raises
        ------
        ToolError
            If it is wrong, or does what this server does not allow.
        """
        asked = ScenarioQuestion(
            str(scenario.file), scenario.is_shipped, given.changes(), given.workloads, trials, given.seed
        )
        text = self._output("wavebed.mcp.scenarios", [msgspec.json.encode(asked).decode()], call)
        facts = msgspec.json.decode(text, type=prepared(ScenarioFacts))
        if facts.error:
            raise ToolError(facts.error.replace(str(scenario.file), scenario.title))
        if facts.refused and not self._bounds.allow_commands:
            raise ToolError(f"{'; '.join(facts.refused)}: this server was started without --allow-commands")
        return facts

    def _check_bounds(self, facts: ScenarioFacts) -> None:
        if facts.trials > self._bounds.trials:
            raise ToolError(f"{facts.trials} trials are more than {self._bounds.trials}: ask for fewer by trials")
        if facts.expected_s > self._bounds.run_s:
            raise ToolError(
                f"it would take about {facts.expected_s:.0f} s, more than {self._bounds.run_s:g} s: ask for fewer"
                " trials or shorter workloads"
            )

    def _command(self, arguments: Sequence[str], call: ToolCall) -> dict[str, Any]:
        """Return the JSON object that a command prints."""
        text = self._output("wavebed", arguments, call)
        try:
            found = msgspec.json.decode(text)
        except msgspec.DecodeError:
            raise ToolError("the answer is larger than 4 MiB: ask for a shorter part") from None
        if not isinstance(found, dict):
            raise ToolError("the answer is no JSON object")
        return found

    def _output(self, module: str, arguments: Sequence[str], call: ToolCall) -> str:
        child = Child(module, arguments, self._folder)
        ended = child.wait(self._bounds.call_s, lambda: not call.cancelled.is_set())
        child.stop()
        outcome = child.close()
        if call.cancelled.is_set():
            raise ToolError("the call was cancelled")
        if not ended:
            raise ToolError(f"it took more than {self._bounds.call_s:g} s")
        if not outcome.out or outcome.status not in {0, 1}:
            raise ToolError(outcome.reason)
        return outcome.out


class _Named:
    """The scenario of a call: a shipped one, a file of the folder, or a text, for which it makes a file."""

    def __init__(self, folder: Path, files: ScenarioFiles, given: ResolveArgs | RunArgs) -> None:
        if (given.scenario is None) == (given.toml is None):
            raise ToolError("name a scenario or give its toml: one of them")
        self._files = files
        self._keeps = False
        self.is_shipped = False
        if given.toml is not None:
            self.title = "scenario"
            self.file = files.make(given.toml)
            return
        name = (given.scenario or "").removesuffix(".toml")
        if not _NAME.fullmatch(name):
            raise ToolError(f"{name!r} is no name: write one of list, without slashes")
        self.title = _PLAIN.sub("-", name)
        self.file = folder / f"{name}.toml"
        if not self.file.is_file():
            self.is_shipped = True
            self.file = shipped.find(name, "scenario") if name in shipped.names() else Path()
            if not self.file.is_absolute():  # another file of that name in the working directory
                raise ToolError(f"there is no scenario {name!r}: list has their names")

    def arguments(self, given: ResolveArgs | RunArgs) -> Iterator[str]:
        """Yield what the command line takes."""
        yield str(self.file)
        yield from (f"--set={each}" for each in given.changes())
        yield from (f"--workload={name}" for name in given.workloads)
        if given.seed is not None:
            yield f"--seed={given.seed}"

    def keep(self) -> None:
        """Keep the file that was made beyond this context: `remove` removes it."""
        self._keeps = True

    def remove(self) -> None:
        """Remove the file that was made, if one was."""
        self._files.remove(self.file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._keeps:
            self.remove()


def _titled(what: str, folder: str) -> Iterator[Listed]:
    """Yield the shipped files with their titles."""
    for name in shipped.names(folder):
        title = ""
        with suppress(WavebedError):
            title = str(read_toml(shipped.find(name, what, folder), "name another").get("title", ""))
        yield Listed(name, title)


def object_schema(kind: type[msgspec.Struct]) -> dict[str, Json]:
    """Return the JSON Schema of a type with its own keys at the top, as the protocol wants it."""
    schema = msgspec.json.schema(kind)
    definitions = schema.get("$defs", {})
    reference = schema.pop("$ref", "").rpartition("/")[2]
    return {**definitions.get(reference, {}), **schema}
