"""Changes of a scenario by key: ``--set path.radio.rate=50mbit`` and the tables ``set`` of treatments.

A key is a dotted path through the document: ``path.rate``, ``run.trials``, ``path.hop.NAME.queue`` (a hop by
its name), ``workload.NAME.size`` (a workload by its name); parts with dots are quoted, as in TOML.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from wavebed.config.problems import Problem, described
from wavebed.errors import UserError
from wavebed.foreign import parse_toml

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["changed", "key_parts", "parse_change"]

_NAMED = ("hop", "workload")
_ROOTS = ("lab", "path", "run", "workload")


def parse_change(text: str) -> tuple[str, object]:
    """Return key and value of ``KEY=VALUE``; the value is read as TOML where it is TOML, else it is text.

    Raises
    ------
    Problem
        If there is no ``=``.
    """
    parts = _outside_quotes(text)
    if parts is None:
        raise Problem(f"{described(text)} is not KEY=VALUE: write for example path.rate=50mbit")
    key, value = parts
    key_parts(key)
    try:
        return key, parse_toml(f"value = {value}", key)["value"]
    except UserError:
        return key, value


def _outside_quotes(text: str) -> tuple[str, str] | None:
    quoted = ""
    for place, letter in enumerate(text):
        if quoted:
            quoted = "" if letter == quoted else quoted
        elif letter in "\"'":
            quoted = letter
        elif letter == "=" and place:
            return text[:place].strip(), text[place + 1 :].strip()
    return None


@functools.cache
def key_parts(key: str) -> tuple[str, ...]:
    """Return the parts of a dotted key.

    Raises
    ------
    Problem
        If it is not one, or does not begin with ``lab``, ``path``, ``run`` or ``workload``.
    """
    try:
        table: object = parse_toml(f"{key} = 0", key)
    except UserError:
        raise Problem("is not a key: write its parts with dots between them, such as path.rate", key) from None
    parts = []
    while isinstance(table, dict):
        if len(table) != 1:
            raise Problem("is not a key: write its parts with dots between them, such as path.rate", key)
        ((part, table),) = table.items()
        parts.append(part)
    if table != 0:  # it has a value of its own
        raise Problem("is not a key: write its parts with dots between them, such as path.rate", key)
    if parts[0] not in _ROOTS or len(parts) < 2:
        raise Problem(f"begins with no table: begin with {', '.join(f'{root}.' for root in _ROOTS)}", key)
    return tuple(parts)


def changed(document: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """Return a copy of a scenario's document in which the values at these keys are others.

    Raises
    ------
    Problem
        If a key leads nowhere.
    """
    result = {key: _copied(value) for key, value in document.items()}
    for key, value in changes.items():
        _set(result, key, value)
    return result


def _copied(value: object) -> object:
    """Return a copy of the tables and arrays of a document; a third of the time of `copy.deepcopy`."""
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


def _set(document: dict[str, object], key: str, value: object) -> None:
    *above, last = key_parts(key)
    place: object = document
    named = ""
    for part in above:
        if named:
            place = _by_name(place, named, part, key)
            named = ""
        elif isinstance(place, dict) and part in _NAMED and isinstance(place.get(part), list):
            place, named = place[part], part
        elif isinstance(place, dict):
            place = place.setdefault(part, {})
        else:
            raise Problem(f"{part!r} is below a value that is no table", key)
    if named or not isinstance(place, dict):
        raise Problem("leads to no value: name a key in the table", key)
    place[last] = value


def _by_name(tables: object, what: str, name: str, key: str) -> object:
    assert isinstance(tables, list), "looked at by the caller"
    names = [
        str(table.get("name", table.get("kind", ""))) if isinstance(table, dict) else described(table)
        for table in tables
    ]
    if name not in names:
        raise Problem(f"there is no {what} {name!r}: write one of {', '.join(names)}", key)
    return tables[names.index(name)]
