"""``wavebed schema``: the JSON Schema of a file format, for editors and other programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from wavebed.cli.outputs import OUTPUTS, PREFIX, output_schema
from wavebed.config.problems import at, choose

if TYPE_CHECKING:
    import argparse

    from wavebed.config.reader import Schema

NAMES = {
    "trial": "the specification that wavebed resolve writes",
    "scenario": "a scenario file",
    "campaign": "a campaign file",
    "scene": "a scene file",
    "low-orbit": "a scene file of a low-orbit access, such as Starlink",
    "condition": "the file of a named condition",
    "technology": "what the variants of one technology share, for conditions",
    "timeline": "a timeline file",
    "site": "the file that describes a web site",
}
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_LIST = ", ".join(f"{name} ({meaning})" for name, meaning in NAMES.items())
_DESCRIPTION = (
    f"Print the JSON Schema of a file format: {_LIST}. An editor that knows TOML takes the schema of a file from its"
    " first line: #:schema FILE. Or that of what a command prints with --json: output/NAME. `list` names all."
)
_LIST_ALL = "list"


def register_schema(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed schema`` to the program's parser."""
    parser = subparsers.add_parser("schema", help="print the JSON Schema of a file format", description=_DESCRIPTION)
    names = f"one of {', '.join(NAMES)}, output/NAME, list (default: trial)"
    parser.add_argument("name", metavar="NAME", nargs="?", default="trial", help=names)


def run_schema(args: argparse.Namespace) -> int:
    """Print the schema."""
    if args.name == _LIST_ALL:
        print("\n".join(f"{name}: {meaning}" for name, meaning in _all().items()))
        return 0
    at("NAME", lambda name: choose(name, (*_all(), _LIST_ALL)), args.name)
    print(schema_text(args.name), end="")
    return 0


def _all() -> dict[str, str]:
    """Return the meaning of every schema, by its name."""
    return NAMES | {f"{PREFIX}{name}": f"wavebed {each.commands}: {each.meaning}" for name, each in OUTPUTS.items()}


def schema_text(name: str) -> str:
    """Return the schema of a format or an output as it is printed; the schemas of files ship beside the scenarios."""
    head = {"$schema": _DRAFT, "title": f"wavebed: {_all()[name].removeprefix('wavebed ')}"}
    return json.dumps(head | dict(_schema(name)), indent=2, ensure_ascii=False) + "\n"


def _schema(name: str) -> Schema:
    if name.startswith(PREFIX):
        return output_schema(name.removeprefix(PREFIX))
    if name == "scenario":
        from wavebed.run.scenario import scenario_schema

        return scenario_schema()
    from wavebed.config.table import table_schema

    if name == "campaign":
        from wavebed.campaign.read import FileTable

        return table_schema(FileTable)
    if name == "scene":
        from wavebed.scene.tables import SceneTable

        return table_schema(SceneTable)
    if name == "low-orbit":
        from wavebed.channel.low_orbit import LowOrbitFile

        return table_schema(LowOrbitFile)
    if name == "condition":
        from wavebed.conditions.condition import condition_schema

        return condition_schema()
    if name == "technology":
        from wavebed.conditions.condition import part_of_scene

        return part_of_scene()
    if name == "timeline":
        from wavebed.path.timeline import timeline_schema

        return timeline_schema()
    if name == "site":
        from wavebed.workload.site.spec import SiteTable

        return table_schema(SiteTable)
    import msgspec

    from wavebed.spec.trial import TrialSpec

    return msgspec.json.schema(TrialSpec)
