"""Remedies for radio links on the hosts of a path, each a plug-in of one module (see `wavebed.remedy.model`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from msgspec import Struct

from wavebed.config.plugins import class_of
from wavebed.config.problems import Problem, at, described
from wavebed.config.reader import Reader
from wavebed.config.table import raw_values, read_table, table_schema
from wavebed.config.values import table_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.config.data import Json
    from wavebed.config.reader import Schema
    from wavebed.remedy.model import AnyRemedy

__all__ = ["KINDS", "REMEDIES", "ChosenRemedy", "kind_of", "remedy_of"]

KINDS = {
    "syn": "wavebed.remedy.edge:Syn",
    "splitter": "wavebed.remedy.edge:Splitter",
    "tunnel": "wavebed.remedy.edge:Tunnel",
    "haproxy": "wavebed.remedy.third_party:Haproxy",
    "hysteria": "wavebed.remedy.third_party:Hysteria",
    "mptcp": "wavebed.remedy.third_party:Mptcp",
}
"""The class of each kind of remedy; imported when it is needed."""

MOST = 8


class ChosenRemedy(Struct, frozen=True):
    """A remedy of a scenario: its kind, and the keys of its kind, none left out."""

    kind: str
    options: dict[str, Json]


_FORM = '{ kind = "syn" }'


def kind_of(name: object) -> type[AnyRemedy]:
    """Return the class of a kind of remedy.

    Raises
    ------
    Problem
        If there is no such kind.
    """
    return cast("type[AnyRemedy]", class_of(name, KINDS))


def remedy_of(kind: str, options: Mapping[str, Json]) -> AnyRemedy:
    """Return the remedy of this kind with these options, which a specification has.

    Raises
    ------
    Problem
        If one is wrong.
    """
    found = at("kind", kind_of, kind)
    given = {key: value for key, value in options.items() if value is not None}
    return found(at("options", lambda table: read_table(found.options_type, table, "options"), given))


def _read(value: object) -> tuple[ChosenRemedy, ...]:
    value = table_of(value)
    if value == "off":
        return ()
    if not isinstance(value, list):
        return (_one(value),)
    if not 1 <= len(value) <= MOST:
        raise Problem(f"there are {len(value)}: write 1 to {MOST}")
    chosen: list[ChosenRemedy] = []
    for number, table in enumerate(value, 1):
        one = at(f"[{number}]", _one, table)
        if any(one.kind == other.kind for other in chosen):
            raise Problem(f"{one.kind!r} is there twice: leave one out", f"[{number}].kind")
        chosen.append(one)
    return tuple(chosen)


def _one(table: object) -> ChosenRemedy:
    table = table_of(table)
    if not isinstance(table, dict):
        raise Problem(f"{described(table)} is not a table: write {_FORM}, or off")
    if "kind" not in table:
        raise Problem(f"is missing: write one of {', '.join(KINDS)}", "kind")
    kind = at("kind", kind_of, table["kind"])
    own = {name: value for name, value in table.items() if name != "kind"}
    options = read_table(kind.options_type, own, _FORM, also=("kind",))
    return ChosenRemedy(kind.kind, raw_values(options))


def _raw(chosen: tuple[ChosenRemedy, ...]) -> Json:
    if not chosen:
        return "off"
    return [
        {"kind": one.kind, **{key: value for key, value in one.options.items() if value is not None}} for one in chosen
    ]


def _schema() -> Schema:
    tables: list[Json] = [_schema_of(kind) for kind in KINDS]
    one: Json = {"anyOf": tables}
    return {"anyOf": [{"const": "off"}, *tables, {"type": "array", "items": one, "minItems": 1, "maxItems": MOST}]}


def _schema_of(name: str) -> Json:
    kind = kind_of(name)
    schema = dict(table_schema(kind.options_type))
    properties = schema["properties"]
    required = schema["required"]
    assert isinstance(properties, dict), "an object has properties"
    assert isinstance(required, list), "a list of names"
    own: Json = {"const": name, "description": kind.summary}
    return schema | {"properties": {"kind": own, **properties}, "required": ["kind", *required]}


REMEDIES = Reader(_read, "{kind = NAME, …}|[{…}, …]|off", _schema, _raw)
"""Reads one remedy, several or none."""
