"""``wavebed scenarios``: the shipped scenarios with the question that each answers, and what else has a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from wavebed import shipped
from wavebed.config.problems import one_of
from wavebed.errors import UserError
from wavebed.foreign import read_json, read_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from wavebed.cli.outputs_of_runs import NamedOutput, ScenarioOutput, ScenariosOutput

QUESTIONS = "questions.json"
_PATH = "A path: "
"""What the line of a scenario without workloads begins with."""
_DESCRIPTION = "List the shipped scenarios with the question that each answers, or explain one."
_EPILOG = (
    "wavebed run NAME runs a scenario, and wavebed shell --scenario NAME takes its path alone. The other names of the"
    " list are taken where a file is."
)
_FOLDERS = {"campaign": "campaigns", "timeline": "timelines", "trace": shipped.TRACES}
_TAKEN_BY = {
    "campaign": "wavebed campaign run NAME",
    "timeline": "wavebed shell --timeline NAME",
    "trace": "wavebed shell --trace NAME",
}


def register_scenarios(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed scenarios`` to the program's parser."""
    parser = subparsers.add_parser("scenarios", help=_DESCRIPTION, description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("name", metavar="NAME", nargs="?", help="the scenario to explain")
    parser.add_argument("--toml", action="store_true", help="print its file, as a beginning of your own")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run_scenarios(args: argparse.Namespace) -> int:
    """List or explain.

    Raises
    ------
    UserError
        If there is no such scenario.
    """
    from wavebed.cli.outputs import print_json

    if args.name is None:
        if args.toml:
            raise UserError("--toml: requires NAME: write the name of a scenario")
        found = _list()
        if args.json:
            print_json("scenarios", found)
        else:
            print(_list_text(found))
        return 0
    if args.name not in shipped.names():
        raise UserError(f"{args.name}: is no shipped scenario: {_near(args.name)}")
    file = shipped.find(args.name, "scenario")
    if args.toml:
        print(read_text(file, "install wavebed again"), end="")
        return 0
    scenario = _explained(args.name)
    if args.json:
        print_json("scenarios-name", scenario)
    else:
        print(_text(scenario))
    return 0


def _near(name: str) -> str:
    """Return what was probably meant; another kind of name says which command takes it."""
    for kind, folder in _FOLDERS.items():
        if name in shipped.names(folder):
            return f"it is a {kind}: write {_TAKEN_BY[kind].replace('NAME', name)}"
    from wavebed.conditions import names

    if name in names():
        return f"it is a network condition: write wavebed scenes {name}"
    return one_of(name, shipped.names())


def _questions() -> Mapping[str, str]:
    return cast("Mapping[str, str]", read_json(shipped.folder() / QUESTIONS, "install wavebed again"))


def _list() -> ScenariosOutput:
    from wavebed.cli.outputs_of_runs import NamedOutput, ScenariosOutput

    questions = _questions()
    named = [NamedOutput(name, questions[name]) for name in shipped.names()]
    campaigns, timelines, traces = (list(shipped.names(folder)) for folder in _FOLDERS.values())
    return ScenariosOutput(named, campaigns, timelines, traces)


def _list_text(found: ScenariosOutput) -> str:
    width = max(len(each.name) for each in found.scenarios)
    lines = ["wavebed run NAME answers:"]
    lines += [_line(each, width) for each in found.scenarios if not each.question.startswith(_PATH)]
    lines += ["", "wavebed shell --scenario NAME -- CMD puts CMD behind:"]
    lines += [_line(each, width) for each in found.scenarios if each.question.startswith(_PATH)]
    for kind, names in zip(_TAKEN_BY, (found.campaigns, found.timelines, found.traces), strict=True):
        lines += ["", f"{_TAKEN_BY[kind]}:", *_filled(names)]
    return "\n".join([*lines, "", "wavebed scenes lists the network conditions for --scene NAME."])


def _line(scenario: NamedOutput, width: int) -> str:
    return f"  {scenario.name:{width}}  {scenario.question.removeprefix(_PATH)}"


def _filled(names: list[str]) -> list[str]:
    import textwrap

    return textwrap.wrap(
        "  ".join(names),
        78,
        initial_indent="  ",
        subsequent_indent="  ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def _explained(name: str) -> ScenarioOutput:
    from wavebed.cli.outputs_of_runs import ScenarioOutput
    from wavebed.path.scenario import read_document

    document = read_document(shipped.find(name, "scenario"))
    run = cast("Mapping[str, int]", document.get("run", {}))
    return ScenarioOutput(
        name=name,
        question=_questions()[name],
        title=str(document.get("title", "")),
        source=str(document.get("source", "")),
        workloads=_names(document, "workload"),
        treatments=_names(document, "treatment"),
        trials=run.get("trials"),
    )


def _names(document: Mapping[str, object], table: str) -> list[str]:
    tables = cast("list[Mapping[str, object]]", document.get(table, []))
    return [str(each.get("name", each.get("kind", ""))) for each in tables]


def _text(scenario: ScenarioOutput) -> str:
    rows = {
        "title": scenario.title,
        "source": scenario.source,
        "workloads": ", ".join(scenario.workloads),
        "treatments": ", ".join(scenario.treatments),
        "trials": "" if scenario.trials is None else f"{scenario.trials} of each treatment",
    }
    lines = [f"{scenario.name}: {scenario.question}", ""]
    lines += [f"{key:10}  {value}" for key, value in rows.items() if value]
    command = f"run {scenario.name}" if scenario.workloads else f"shell --scenario {scenario.name} -- ping -c 3 server"
    return "\n".join([*lines, "", f"wavebed {command}", f"wavebed scenarios {scenario.name} --toml > own.toml"])
