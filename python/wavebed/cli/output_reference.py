"""Write the reference page of the JSON outputs from their types: ``python -m wavebed.cli.output_reference FILE``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

from wavebed.cli.outputs import OUTPUTS, output_schema
from wavebed.output import write_output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wavebed.config.data import Json

__all__ = ["outputs_page"]

_HEAD = """# What commands print with `--json`

This page is made from the types of the program: `python -m wavebed.cli.output_reference docs/reference/outputs.md`.

`--json` prints one JSON object on standard output; progress and messages go to standard error. `wavebed schema
output/NAME` prints its JSON Schema (draft 2020-12), `wavebed schema list` all names. A number has its unit in its key,
or is in the unit that a key `unit` beside it names; a share is a fraction from 0 to 1. Null: not measured, or not
known. The tests check all that commands print against these schemas. New keys may be added; those that are here keep
their names and meanings.

`wavebed resolve` prints [a specification](results.md#specjson) (`wavebed schema trial`), `wavebed schema` a schema. The
files of a folder of results are described [on their own page](results.md).
"""


def outputs_page() -> str:
    """Return the page: the keys of each output, by its types."""
    return "\n".join([_HEAD, *(_output(name) for name in OUTPUTS)])


def _output(name: str) -> str:
    output, schema = OUTPUTS[name], output_schema(name)
    definitions = cast("dict[str, dict[str, Json]]", schema.get("$defs", {}))
    parts = [f"## {name}\n\n`wavebed {output.commands}`: {output.meaning}.\n"]
    root = _name(schema)
    for each in [root, *(other for other in definitions if other != root)]:
        part = definitions[each]
        if "properties" not in part:
            continue
        head = "" if each == root else f"**{each}.** "
        parts.append(f"{head}{_first_line(part)}\n\n| key | type |\n|---|---|\n{''.join(_rows(part))}")
    return "\n".join(parts)


def _first_line(part: dict[str, Json]) -> str:
    return str(part.get("description", "")).partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def _rows(part: dict[str, Json]) -> Iterator[str]:
    required = cast("list[str]", part.get("required", []))
    for key, value in cast("dict[str, dict[str, Json]]", part["properties"]).items():
        absent = "" if key in required else ", may be absent"
        told = str(value.get("description", ""))
        yield f"| `{key}` | {_type(value)}{absent}{f': {told}' if told else ''} |\n"


def _name(value: dict[str, Json]) -> str:
    return str(value.get("$ref", "")).rpartition("/")[2]


def _type(value: dict[str, Json]) -> str:
    """Return the type of a key in a word or two."""
    if "$ref" in value:
        return _name(value)
    if "anyOf" in value:
        return " or ".join(_type(each) for each in cast("list[dict[str, Json]]", value["anyOf"]))
    if "enum" in value:
        return ", ".join(f"`{each}`" for each in cast("list[Json]", value["enum"]))
    kind = value.get("type")
    if kind == "array":
        items = value.get("items")
        return f"list of {_type(items)}" if isinstance(items, dict) else "list"
    if kind == "object":
        inner = value.get("additionalProperties")
        return f"object of {_type(inner)}" if isinstance(inner, dict) else "object"
    return "anything" if kind is None else str(kind)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_output(sys.argv[1], outputs_page(), "FILE")
    else:
        print(outputs_page(), end="")
