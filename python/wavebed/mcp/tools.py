"""The tools: what they take, what they answer, and how they are carried out."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import msgspec

from wavebed import shipped
from wavebed.errors import WavebedError
from wavebed.explain.model import Explanation
from wavebed.foreign import read_toml
from wavebed.mcp.facts import Asked, Facts
from wavebed.mcp.model import (
    Bounds,
    CancelArgs,
    CompareArgs,
    ExplainArgs,
    ListAnswer,
    ListArgs,
    Listed,
    Progress,
    ResolveArgs,
    RunAnswer,
    RunArgs,
    StatusArgs,
    ToolError,
)
from wavebed.mcp.processes import Child
from wavebed.mcp.runs import Runs
from wavebed.mcp.scenarios import ScenarioFiles
from wavebed.prepared import prepared

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

    from wavebed.config.data import Json

__all__ = ["TOOLS", "Call", "Tool", "Tools", "object_schema"]

_PLAIN = re.compile(r"[^A-Za-z0-9_.+-]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")


class Call(NamedTuple):
    """A call: set `cancelled` to end it; `tell` takes its progress."""

    cancelled: threading.Event
    tell: Callable[[Progress], None]


Answer: TypeAlias = "msgspec.Struct | dict[str, Any]"


class Tool(NamedTuple):
    """A tool: its description, and the types of its arguments and, if it has one, its answer."""

    description: str
    takes: type[msgspec.Struct]
    answers: type[msgspec.Struct] | None
    reads_only: bool = True


TOOLS = {
    "list": Tool(
        "Names for the other tools: shipped scenarios and radio scenes, runs and scenario files in the folder.",
        ListArgs,
        ListAnswer,
    ),
    "resolve": Tool(
        "Resolve one trial of a scenario: every key explicit, nothing is run. Use it to check a scenario.",
        ResolveArgs,
        None,
    ),
    "run": Tool(
        "Run the workloads of a scenario over its emulated 5G/LTE path, one run at a time. Returns at once"
        " with the name of the run, or after wait_s; follow it by status. For explain by single packets, set"
        ' {"path.packet-log": "true"}.',
        RunArgs,
        RunAnswer,
        reads_only=False,
    ),
    "status": Tool("State and progress of a run; its results once it has ended.", StatusArgs, RunAnswer),
    "cancel": Tool("End the running run and remove its folder.", CancelArgs, RunAnswer, reads_only=False),
    "compare": Tool("Compare two or more runs with the first: medians, intervals and verdicts.", CompareArgs, None),
    "explain": Tool(
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
    bounds : Bounds
        The bounds.
    """

    def __init__(self, folder: Path, bounds: Bounds) -> None:
        self._folder = folder.resolve()
        self._bounds = bounds
        self._files = ScenarioFiles(self._folder)
        self._runs = Runs(self._folder, bounds.run_s)

    def close(self) -> None:
        """End what runs, and remove the scenario files of calls and runs."""
        self._runs.close()
        self._files.close()

    def call(self, name: str, arguments: object, call: Call) -> Answer:
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

    def _list(self, _given: ListArgs, _call: Call) -> ListAnswer:
        files = sorted(file.stem for file in self._folder.glob("*.toml") if _NAME.fullmatch(file.stem))
        return ListAnswer(list(_titled("scenario", "")), list(_titled("scene", "scenes")), self._runs.names(), files)

    def _resolve(self, given: ResolveArgs, call: Call) -> Answer:
        with _Named(self._folder, self._files, given) as scenario:
            self._check(scenario, given, None, call)
            arguments = [*scenario.arguments(given)]
            if given.treatment is not None:
                arguments.append(f"--treatment={given.treatment}")
            return self._command(["resolve", *arguments], call)

    def _run(self, given: RunArgs, call: Call) -> RunAnswer:
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

    def _status(self, given: StatusArgs, call: Call) -> RunAnswer:
        return self._runs.answer(given.run, given.wait_s, call.cancelled, call.tell)

    def _cancel(self, given: CancelArgs, _call: Call) -> RunAnswer:
        return self._runs.cancel(given.run)

    def _compare(self, given: CompareArgs, call: Call) -> Answer:
        margins = [f"--margin={margin}" for margin in given.margins]
        return self._command(["compare", "--json", *margins, *map(self._run_folder, given.runs)], call)

    def _explain(self, given: ExplainArgs, call: Call) -> Answer:
        options = {"--trial": given.trial, "--from": given.start, "--to": given.end, "--step": given.step}
        chosen = [f"{option}={value}" for option, value in options.items() if value is not None]
        folder = self._run_folder(given.run)
        return self._command(["explain", folder, "--json", f"--worst={given.worst}", *chosen], call)

    def _run_folder(self, name: str) -> str:
        folder = self._folder / name
        if folder.is_symlink() or not folder.is_dir():
            raise ToolError(f"there is no run {name}: it has {', '.join(self._runs.names()[:20]) or 'none yet'}")
        return str(folder)

    def _check(self, scenario: _Named, given: ResolveArgs | RunArgs, trials: int | None, call: Call) -> Facts:
        """Return what a scenario would do.

        Raises
        ------
        ToolError
            If it is wrong, or does what this server does not allow.
        """
        asked = Asked(str(scenario.file), scenario.is_shipped, given.changes(), given.workloads, trials, given.seed)
        text = self._output("wavebed.mcp.facts", [msgspec.json.encode(asked).decode()], call)
        facts = msgspec.json.decode(text, type=prepared(Facts))
        if facts.error:
            raise ToolError(facts.error.replace(str(scenario.file), scenario.title))
        if facts.refused and not self._bounds.allow_commands:
            raise ToolError(f"{'; '.join(facts.refused)}: this server was started without --allow-commands")
        return facts

    def _check_bounds(self, facts: Facts) -> None:
        if facts.trials > self._bounds.trials:
            raise ToolError(f"{facts.trials} trials are more than {self._bounds.trials}: ask for fewer by trials")
        if facts.expected_s > self._bounds.run_s:
            raise ToolError(
                f"it would take about {facts.expected_s:.0f} s, more than {self._bounds.run_s:g} s: ask for fewer"
                " trials or shorter workloads"
            )

    def _command(self, arguments: Sequence[str], call: Call) -> dict[str, Any]:
        """Return the JSON object that a command prints."""
        text = self._output("wavebed", arguments, call)
        try:
            found = msgspec.json.decode(text)
        except msgspec.DecodeError:
            raise ToolError("the answer is larger than 4 MiB: ask for a shorter part") from None
        if not isinstance(found, dict):
            raise ToolError("the answer is no JSON object")
        return found

    def _output(self, module: str, arguments: Sequence[str], call: Call) -> str:
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
