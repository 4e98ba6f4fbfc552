"""Tables of a file as types: each field of a `msgspec.Struct` is a key, and says all that there is to say of it.

>>> class Walk(Struct, frozen=True):
...     speed_m_s: Annotated[float, Key(speed, "how fast")] = 1.5

is a table with the key ``speed``. Reading, defaults, options, reference pages and the JSON Schema come from the fields.
msgspec holds the values; it does not read them, since its messages know neither the remedy nor the nearest key.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import NODEFAULT, Struct, structs

from wavebed.config.derived import annotation_of, derived
from wavebed.config.problems import Problem, at, described, unknown_key
from wavebed.config.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from wavebed.config.data import Json
    from wavebed.config.reader import Schema

_Table = TypeVar("_Table", bound=Struct)
_UNIT = re.compile(r"_(?:s|ns|m|m_s|db|dbm|deg|hz|bps|bytes|slots)$")
_HEADER = re.compile(r"\[+[a-z.-]+\]+")


class Key(Struct, frozen=True):
    """The description of a key, at the field of its table.

    Parameters
    ----------
    reader : Reader
        How its value is written.
    meaning : str
        Its effect, and the source of its default.
    name : str
        The key; by default the name of the field without its unit, with ``-`` for ``_``.
    absent : str
        The default, for people, where the default value does not show it.
    write : str
        The form of its value, for people, where the reader is too general.
    needs : str
        The key that it requires: ``rate``, ``trace``, ``pattern``, ``loss`` or none.
    """

    reader: Reader[Any]
    meaning: str
    name: str = ""
    absent: str = ""
    write: str = ""
    needs: str = ""


class Field(Struct, frozen=True):
    """A key of a table.

    Parameters
    ----------
    name : str
        The key in a file.
    attribute : str
        The field of the table.
    key : Key
        Its description.
    required : bool
        Whether it must be given.
    default : object
        The value without it.
    """

    name: str
    attribute: str
    key: Key
    required: bool
    default: object

    @property
    def write(self) -> str:
        """The form of its value, for people."""
        return self.key.write or self.key.reader.write

    @property
    def default_text(self) -> str:
        """The default, as Markdown."""
        if self.required:
            return "required"
        if self.key.absent:
            return self.key.absent
        if self.default is None:
            return "none"
        return f"`{self.key.reader.text(self.default)}`" if self.default not in ((), []) else "empty"


def spec_key(model: type[Struct], attribute: str, *, off: str | None = "") -> Key:
    """Return the key of one field of a specification, for a table with further keys; `off` as `derived` has it."""
    found = derived(attribute, annotation_of(model, attribute), off=off)
    assert found is not None, "people write this value"
    return Key(found[1], found[2], name=found[0])


@functools.cache
def fields(model: type[Struct]) -> dict[str, Field]:
    """Return the keys of a table, in the order of its fields.

    A field of a specification has no `Key`: `wavebed.config.derived` makes one from its type.
    """
    found = {}
    for field in structs.fields(model):
        key = next((part for part in getattr(field.type, "__metadata__", ()) if isinstance(part, Key)), None)
        if key is None:
            own = derived(field.name, field.type)
            if own is None:
                continue
            key = Key(own[1], own[2], name=own[0])
        name = key.name or _UNIT.sub("", field.name).replace("_", "-")
        required = field.default is NODEFAULT and field.default_factory is NODEFAULT
        default = field.default_factory() if field.default_factory is not NODEFAULT else field.default
        found[name] = Field(name, field.name, key, required, None if required else default)
    return found


def read_table(model: type[_Table], given: object, form: str, *, also: Iterable[str] = ()) -> _Table:
    """Read a table.

    Parameters
    ----------
    model : type
        Its type.
    given : object
        The value in TOML.
    form : str
        How the table is written, for the message if it is none.
    also : iterable of str
        Keys that stand in the same table and were taken out, for the message if a key is unknown.

    Raises
    ------
    Problem
        If a key is unknown, missing or wrong.
    """
    if not isinstance(given, dict):
        raise Problem(f"{described(given)} is not a table: write {form}")
    keys = fields(model)
    for name in given:
        if name not in keys:
            raise unknown_key(name, (*keys, *also))
    for field in keys.values():
        if field.required and field.name not in given:
            rule = f"add {field.write}" if _HEADER.fullmatch(field.write) else f"write {field.name} = {field.write}"
            raise Problem(f"is missing: {rule}", field.name)
    return of_values(model, {name: at(name, keys[name].key.reader, value) for name, value in given.items()})


def read_changes(given: object, form: str, *models: type[Struct], also: Iterable[str] = ()) -> dict[str, Any]:
    """Read those keys of tables that `given` has, by field, which a preset or a default does not give.

    `also` is as for `read_table`.

    Raises
    ------
    Problem
        If a key is unknown or wrong.
    """
    if not isinstance(given, dict):
        raise Problem(f"{described(given)} is not a table: write {form}")
    keys = {name: field for model in models for name, field in fields(model).items()}
    for name in given:
        if name not in keys:
            raise unknown_key(name, (*keys, *also))
    return {keys[name].attribute: at(name, keys[name].key.reader, value) for name, value in given.items()}


def read_present(model: type[_Table], given: Mapping[str, object], place: Callable[[str], str]) -> _Table:
    """Read those keys of a table that are in `given`, among others; `place` names a key in messages.

    Raises
    ------
    Problem
        If one of them is wrong.
    """
    return of_values(
        model,
        {
            name: at(place(name), field.key.reader, given[name])
            for name, field in fields(model).items()
            if name in given
        },
    )


def of_values(model: type[_Table], values: Mapping[str, Any]) -> _Table:
    """Return the table of values that were read, by key."""
    keys = fields(model)
    return model(**{keys[name].attribute: value for name, value in values.items()})


def raw_values(options: Struct) -> dict[str, Json]:
    """Return the values of a table as TOML gives them, by key; ``None`` for a key without a value."""
    found: dict[str, Json] = {}
    for name, field in fields(type(options)).items():
        value = getattr(options, field.attribute)
        found[name] = None if value is None else field.key.reader.raw(value)
    return found


def table(model: type[_Table], form: str, write: str = "{ … }") -> Reader[_Table]:
    """Make a reader of a table, whose form is for the message if it is none."""
    return Reader(
        lambda given: read_table(model, given, form),
        write,
        lambda: table_schema(model),
    )


def markdown_table(*models: type[Struct], defaults: bool = True) -> str:
    """Return a table of the keys of these types, for a reference page."""
    lines = ["| key | write | default | meaning |", "|---|---|---|---|"]
    if not defaults:
        lines = ["| key | write | meaning |", "|---|---|---|"]
    for field in (each for model in models for each in fields(model).values()):
        write = field.write.replace("|", "\\|")
        default = f" {field.default_text} |" if defaults else ""
        lines.append(f"| `{field.name}` | `{write}` |{default} {field.key.meaning} |")
    return "".join(f"{line}\n" for line in lines)


def table_schema(*models: type[Struct], changes: bool = False) -> Schema:
    """Return the JSON Schema of a table that has the keys of these types; with `changes` it needs none of them."""
    keys = [field for each in models for field in fields(each).values()]
    return {
        "type": "object",
        "properties": properties_of(keys, defaults=not changes),
        "required": [field.name for field in keys if field.required and not changes],
        "additionalProperties": False,
    }


def properties_of(keys: Iterable[Field], *, defaults: bool = True) -> dict[str, Json]:
    """Return the JSON Schema of each key; its description has the default, or not."""
    return {field.name: _field_schema(field, defaults) for field in keys}


def array_schema(model: type[Struct]) -> Schema:
    """Return the JSON Schema of an array of tables."""
    return {"type": "array", "items": dict(table_schema(model))}


def _field_schema(field: Field, defaults: bool) -> dict[str, Json]:
    text = field.default_text.replace("`", "")
    said = field.key.meaning.replace("`", "")
    schema = dict(field.key.reader.schema())
    return schema | {
        "description": said if field.required or text == "none" or not defaults else f"{said} (default: {text})"
    }
