"""Write the types of a specification in Python from the JSON Schema that `wavebed-core` emits from its own.

``python -m wavebed.cli.specification`` writes ``python/wavebed/spec/types.py``; a test compares both.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import wavebed
from wavebed._core import find_core
from wavebed.output import write_output

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FILE = Path(wavebed.__file__).parent / "spec" / "types.py"
_HEAD = '''"""The types of a specification: hosts, hops, and the stages of both directions of each hop.

Written by ``python -m wavebed.cli.specification`` from the types of ``wavebed-core``, which have bounds, default and
meaning of each value. What ties values together is checked there too: see `wavebed.spec.network`.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, field

from wavebed.config.units import Limit
from wavebed.spec.part import SpecPart

'''
_ELSEWHERE = {"Limit"}
"""Types that are also quantities as people write them."""
_NUMBERS = {"uint32": 2**32 - 1, "uint8": 255}
_WORDS = {"boolean": "bool", "string": "str", "integer": "int", "number": "float"}
_ROOT = "Network"

_Schema = dict[str, Any]


def types_of(schema: Mapping[str, Any]) -> str:
    """Return the module of the types that a JSON Schema describes."""
    types = _Types(schema["$defs"])
    for name in schema["$defs"]:
        types.define(name)
    types.add_class(_ROOT, dict(schema))
    return "\n\n\n".join([_HEAD.rstrip(), *types.defined.values()]) + "\n"


class _Types:
    """The types that have been written, those that others need first."""

    def __init__(self, known: Mapping[str, _Schema]) -> None:
        self.known = known
        self.defined: dict[str, str] = {}

    def define(self, name: str) -> None:
        """Write a named type, and those that it needs."""
        schema = self.known[name]
        if name in self.defined or name in _ELSEWHERE:
            return
        if "oneOf" not in schema and "enum" not in schema:
            if not _is_flat(schema, self.known):
                self.add_class(name, schema)
            return
        words = schema.get("enum") or [each["const"] for each in schema["oneOf"] if "const" in each]
        if words:
            self.defined[name] = f"{name}: TypeAlias = Literal[{', '.join(map(json.dumps, words))}]\n" + _doc(
                schema, ""
            )
            return
        variants = []
        for each in schema["oneOf"]:
            tag_field, tag = next(
                (key, value["const"]) for key, value in each["properties"].items() if "const" in value
            )
            whole = (
                self.known[each["$ref"].rpartition("/")[2]] | {"description": each["description"]}
                if "$ref" in each
                else each
            )
            title = "".join(map(str.capitalize, tag.split("_"))) + name
            self.add_class(title, whole, f', tag_field="{tag_field}", tag="{tag}"', tag_field)
            variants.append(title)
        self.defined[name] = f"{name}: TypeAlias = {' | '.join(variants)}\n" + _doc(schema, "")

    def add_class(self, name: str, schema: _Schema, tag: str = "", tag_field: str = "") -> None:
        """Write a class; its required fields stand first."""
        required = set(schema.get("required", ()))
        properties = {key: value for key, value in schema.get("properties", {}).items() if key != tag_field}
        renamed = {_attribute(key): key for key in properties if _attribute(key) != key}
        rename = f", rename={renamed!r}" if renamed else ""
        lines = [f"class {name}(SpecPart, frozen=True{tag}{rename}):", _doc(schema, "    ")]
        fields = [self._field(key, value, key in required) for key, value in properties.items() if key in required]
        fields += [self._field(key, value, False) for key, value in properties.items() if key not in required]
        self.defined[name] = "\n".join([*lines, "", *fields]).rstrip()

    def _field(self, key: str, schema: _Schema, required: bool) -> str:
        told = self._type(schema, _text(schema))
        default = ""
        if "default" in schema and schema["default"] is not None:
            value = schema["default"]
            default = f" = {_default(value)}"
        elif not required:
            default = " = ()" if schema.get("type") == "array" else " = None"
        return f"    {_attribute(key)}: {told}{default}"

    def _type(self, schema: _Schema, said: str = "") -> str:
        """Return the annotation of a value, with its bounds and what is said of it."""
        limits: list[str] = []
        kinds = schema.get("type")
        nullable = isinstance(kinds, list) and "null" in kinds
        if "anyOf" in schema:
            others = [each for each in schema["anyOf"] if each.get("type") != "null"]
            nullable = len(others) < len(schema["anyOf"])
            told = self._type(others[0])
        elif "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            self.define(name)
            told = name
        elif "enum" in schema:
            told = f"Literal[{', '.join(json.dumps(each) for each in schema['enum'] if each is not None)}]"
        else:
            told, limits = self._plain(schema, next(each for each in _listed(kinds or []) if each != "null"))
        if nullable:
            told = f"Annotated[{told}, Meta({', '.join(limits)})] | None" if limits else f"{told} | None"
            limits = []
        limits += [f"description={json.dumps(said, ensure_ascii=False)}"] if said else []
        return f"Annotated[{told}, Meta({', '.join(limits)})]" if limits else told

    def _plain(self, schema: _Schema, kind: str) -> tuple[str, list[str]]:
        if kind == "array":
            items = self._type(schema["items"])
            count = schema.get("maxItems") if schema.get("maxItems") == schema.get("minItems") else None
            told = f"tuple[{', '.join([items] * count)}]" if count else f"tuple[{items}, ...]"
            return told, [f"min_length={schema['minItems']}"] if schema.get("minItems") and not count else []
        if kind == "object":
            return f"dict[str, {self._type(schema['additionalProperties'])}]", []
        limits = []
        most = schema.get("maximum", _NUMBERS.get(schema.get("format", "")))
        for name, value in (("ge", schema.get("minimum")), ("le", most)):
            if value is not None:
                limits.append(f"{name}={float(value) if kind == 'number' else format(int(value), '_')}")
        if "pattern" in schema:
            limits.append(f"pattern={json.dumps(schema['pattern'])}")
        if "maxLength" in schema:
            limits.append(f"max_length={schema['maxLength']}")
        return _WORDS[kind], limits


def _is_flat(schema: _Schema, known: Mapping[str, _Schema]) -> bool:
    """Whether a type is only ever a variant of another one, which is written in its place."""
    name = next(key for key, value in known.items() if value is schema)
    used = json.dumps(known).count(f'"#/$defs/{name}"')
    variants = [
        each for other in known.values() for each in other.get("oneOf", ()) if each.get("$ref", "").endswith(f"/{name}")
    ]
    return bool(variants) and used == len(variants)


def _listed(kinds: str | list[str]) -> Iterator[str]:
    yield from [kinds] if isinstance(kinds, str) else kinds


def _attribute(key: str) -> str:
    return {"from": "start", "to": "end"}.get(key, key)


def _default(value: Any) -> str:
    if value == {}:
        return "field(default_factory=dict)"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:_}"
    return "()" if value == [] else repr(value) if not isinstance(value, str) else json.dumps(value)


def _text(schema: _Schema) -> str:
    return " ".join(str(schema.get("description", "")).split())


def _doc(schema: _Schema, indent: str) -> str:
    if not (text := _text(schema).replace("`", "``")):
        return ""
    lines = textwrap.wrap(f'{indent}"""{text}"""', 110, subsequent_indent=indent)
    return "\n".join(lines)


def formatted(text: str) -> str:
    """Return Python as the linter formats it."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(FILE), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Write the module."""
    schema = json.loads(subprocess.run([find_core(), "schema"], capture_output=True, check=True).stdout)
    write_output(str(FILE), formatted(types_of(schema)), "FILE")


if __name__ == "__main__":
    main()
