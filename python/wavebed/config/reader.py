"""A reader: how one kind of value is written, for the program, for people and for editors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wavebed.config.data import Json

Schema: TypeAlias = "Mapping[str, Json]"
_Value = TypeVar("_Value")


def _itself(value: Any) -> Json:
    raw: Json = value
    return raw


class Reader(Generic[_Value]):
    """Reads a value as TOML or an option gives it, and knows how it is written.

    Parameters
    ----------
    read : callable
        Returns the value, or raises `wavebed.config.problems.Problem` with the rule and the remedy.
    write : str
        The form of the value, for people: ``TIME``, ``live|sampled``.
    schema : mapping or callable
        Its JSON Schema (draft 2020-12), or a function that returns it.
    raw : callable
        Gives the value back as TOML gives it, so that `read` reads the same one; by default the value itself.
    """

    __slots__ = ("_schema", "raw", "read", "write")

    def __init__(
        self,
        read: Callable[[object], _Value],
        write: str,
        schema: Schema | Callable[[], Schema],
        raw: Callable[[_Value], Json] = _itself,
    ) -> None:
        self.read = read
        self.write = write
        self.raw = raw
        self._schema = schema

    def __call__(self, value: object) -> _Value:
        """Return the value that `value` describes."""
        return self.read(value)

    def text(self, value: _Value) -> str:
        """Return the value as people read it."""
        raw = self.raw(value)
        if isinstance(raw, str):
            return raw
        return f"{raw:g}" if isinstance(raw, float) else json.dumps(raw)

    def schema(self) -> Schema:
        """Return the JSON Schema of the value."""
        return self._schema() if callable(self._schema) else self._schema


class _Decorator(Protocol):
    def __call__(self, read: Callable[[object], _Value]) -> Reader[_Value]: ...


def reader(
    write: str,
    schema: Schema | Callable[[], Schema],
    raw: Callable[[Any], Json] = _itself,
) -> _Decorator:
    """Make a function that reads a value into a `Reader`."""

    def decorate(read: Callable[[object], _Value]) -> Reader[_Value]:
        return Reader(read, write, schema, raw)

    return decorate


def unread(write: str, schema: Schema | Callable[[], Schema]) -> Reader[object]:
    """Pass a value on to a reader that knows the rest of the file, or names each of its tables in messages."""
    return Reader(_itself, write, schema)
