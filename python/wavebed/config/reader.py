"""A reader: how one kind of value is written, for the program, for people and for editors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wavebed.config.data import Json

__all__ = ["Reader", "Schema", "reader"]

Schema: TypeAlias = "Mapping[str, Json]"
_Value = TypeVar("_Value")


class Reader(Generic[_Value]):
    """Reads a value as TOML or an option gives it, and knows how it is written.

    Parameters
    ----------
    read : callable
        Returns the value, or raises `wavebed.config.problems.Problem` with the rule and the remedy.
    write : str
        What to write, for people: ``TIME``, ``live|sampled``.
    schema : mapping or callable
        Its JSON Schema (draft 2020-12), or what returns it.
    show : callable
        Writes a value so that `read` reads the same one back.
    """

    __slots__ = ("_schema", "read", "show", "write")

    def __init__(
        self,
        read: Callable[[object], _Value],
        write: str,
        schema: Schema | Callable[[], Schema],
        show: Callable[[_Value], str] = str,
    ) -> None:
        self.read = read
        self.write = write
        self.show = show
        self._schema = schema

    def __call__(self, value: object) -> _Value:
        """Return what `value` says."""
        return self.read(value)

    def schema(self) -> Schema:
        """Return the JSON Schema of what can be written."""
        return self._schema() if callable(self._schema) else self._schema


class _Decorator(Protocol):
    def __call__(self, read: Callable[[object], _Value]) -> Reader[_Value]: ...


def reader(write: str, schema: Schema | Callable[[], Schema], show: Callable[[Any], str] = str) -> _Decorator:
    """Make a function that reads a value into a `Reader`."""

    def decorate(read: Callable[[object], _Value]) -> Reader[_Value]:
        return Reader(read, write, schema, show)

    return decorate
