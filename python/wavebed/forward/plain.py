"""Dataclasses to and from plain dictionaries, lists, numbers and texts, as JSON has them."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from wavebed.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["Plain", "from_plain", "to_plain"]

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"

_Value = TypeVar("_Value")


def to_plain(value: object) -> Plain:
    """Return a value as JSON can write it.

    Raises
    ------
    TypeError
        If JSON has no such value: bytes, or a number that is not finite.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError(f"{value} is no number of JSON")
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(one) for key, one in value.items()}
    if isinstance(value, frozenset):
        return [to_plain(one) for one in sorted(value)]
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [to_plain(one) for one in value]
    raise TypeError(f"{type(value).__name__} has no plain form")


def from_plain(kind: type[_Value], plain: Plain, at: str = "") -> _Value:
    """Return the dataclass that `to_plain` wrote; a field that is not there takes its default.

    Raises
    ------
    UserError
        If it is not what such a value looks like: where, and what was expected.
    """
    if not isinstance(plain, dict):
        raise UserError(f"{at or 'the value'}: expected an object ({kind.__name__})")
    hints = _hints(cast("Hashable", kind))
    unknown = sorted(set(plain) - set(hints))
    if unknown:
        raise UserError(f"{_below(at, unknown[0])}: unknown key")
    given = {key: _read(hint, plain[key], _below(at, key)) for key, hint in hints.items() if key in plain}
    try:
        return kind(**given)
    except TypeError as error:
        missing = str(error).partition("missing ")[2] or str(error)
        raise UserError(f"{at or 'the value'}: {kind.__name__} is missing {missing}") from None


@cache
def _hints(kind: Hashable) -> dict[str, object]:
    assert isinstance(kind, type)
    assert is_dataclass(kind)
    known: dict[str, object] = {"Mapping": Mapping, "Sequence": Sequence}
    hints = get_type_hints(kind, localns=known)
    return {field.name: hints[field.name] for field in fields(kind)}


def _below(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key


def _read(hint: object, plain: Plain, at: str) -> object:
    """Read one value of the type `hint`."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is object:
        return plain
    if origin in (Union, types.UnionType):
        return _read_union(inner, plain, at)
    if origin is Literal:
        return _checked(plain in inner, plain, at, " or ".join(map(repr, inner)))
    if isinstance(hint, type) and is_dataclass(hint):
        return from_plain(hint, plain, at)
    if origin is Mapping or origin is dict:
        key, value = inner
        _checked(isinstance(plain, dict), plain, at, "an object")
        items = cast("dict[str, Plain]", plain).items()
        return {(int(name) if key is int else name): _read(value, one, _below(at, name)) for name, one in items}
    if origin in (tuple, Sequence, frozenset, list):
        return _read_list(origin, inner, plain, at)
    return _read_simple(hint, plain, at)


def _read_union(inner: tuple[object, ...], plain: Plain, at: str) -> object:
    if plain is None and type(None) in inner:
        return None
    kinds = [one for one in inner if one is not type(None)]
    if len(kinds) == 1:
        return _read(kinds[0], plain, at)
    for kind in kinds:
        if isinstance(kind, type) and isinstance(plain, kind):
            return plain
    return _checked(False, plain, at, "another kind of value")


def _read_list(origin: object, inner: tuple[object, ...], plain: Plain, at: str) -> object:
    _checked(isinstance(plain, list), plain, at, "an array")
    given = cast("list[Plain]", plain)
    if origin is tuple and inner[-1] is not Ellipsis:
        _checked(len(given) == len(inner), plain, at, f"an array of {len(inner)}")
        return tuple(_read(kind, one, f"{at}[{i}]") for i, (kind, one) in enumerate(zip(inner, given, strict=True)))
    ones = (_read(inner[0], one, f"{at}[{i}]") for i, one in enumerate(given))
    return frozenset(ones) if origin is frozenset else tuple(ones)


def _read_simple(hint: object, plain: Plain, at: str) -> object:
    if hint is float:
        number = isinstance(plain, int | float) and not isinstance(plain, bool)
        _checked(number, plain, at, "a number")
        return float(cast("float", plain))
    if hint is int:
        return _checked(isinstance(plain, int) and not isinstance(plain, bool), plain, at, "a whole number")
    if hint is bool:
        return _checked(isinstance(plain, bool), plain, at, "true or false")
    if hint is str:
        return _checked(isinstance(plain, str), plain, at, "a text")
    raise TypeError(f"no plain form of {hint}")


def _checked(right: bool, plain: Plain, at: str, expected: str) -> Plain:
    if not right:
        raise UserError(f"{at or 'the value'}: expected {expected}, found {type(plain).__name__}")
    return plain
