"""Keys that people write, derived from the types of a specification: name, form, bounds, meaning.

A field ``target_ns`` with bounds from 1 is the key ``target``, a time above zero. So a parameter of the engine is
declared once, in Rust; `wavebed.spec.types` is written from there.
"""

from __future__ import annotations

import math
import types
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from msgspec import Meta, Struct, structs

from wavebed.config.problems import Problem, described
from wavebed.config.reader import Reader
from wavebed.config.units import Limit, format_limit, format_size, format_time, parse_limit
from wavebed.config.values import (
    PERCENTAGE_SCHEMA,
    boolean,
    number,
    percentage,
    quantity_schema,
    size_bytes,
    time_ns,
    word,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from wavebed.config.reader import Schema

_LIMIT_SCHEMA = quantity_schema(("p", "b", "kb", "mb", "gb", "kib", "mib", "gib", "ns", "us", "ms", "s"))


class Bounds(NamedTuple):
    """The bounds of a number, or of the length of a text; ``None``: none."""

    least: float | None
    most: float | None


def bounds(model: type[Struct], attribute: str) -> Bounds:
    """Return the bounds of a field of a specification."""
    found = _read(annotation_of(model, attribute))
    return Bounds(found.least, found.most)


def count_of(model: type[Struct], attribute: str) -> Reader[int]:
    """Return a reader of whole numbers within the bounds of a field."""
    least, most = bounds(model, attribute)
    return _count(least, most)


def derived(attribute: str, annotation: Any, *, off: str | None = "") -> tuple[str, Reader[Any], str] | None:
    """Return name, reader and meaning of the key of a field; ``None`` if people do not write such a value.

    Parameters
    ----------
    attribute : str
        Name of the field; it ends with its unit.
    annotation : type
        Its type, with bounds and description in a `msgspec.Meta`.
    off : str or None
        What the word ``off`` is read as where the value is optional; empty: as ``None``; ``None``: it is no value.
    """
    found = _read(annotation)
    reader = _reader(attribute, found.kind, found.least, found.most)
    if reader is None:
        return None
    name = "size" if attribute == "bytes" else attribute
    for unit in ("_ns", "_bytes", "_slots"):
        name = name.removesuffix(unit)
    if off is not None and found.is_optional:
        reader = _or_off(reader, off or None)
    return name.replace("_", "-"), reader, _meaning(found.said)


def _meaning(said: str) -> str:
    """Return a description as the meaning of a key: no sentence, but a name stays as it is."""
    first = said.partition(" ")[0]
    own = first[1:] != first[1:].lower() or first.startswith("t-")
    told = said.removesuffix(".")
    return told if own else told[:1].lower() + told[1:]


def annotation_of(model: type[Struct], attribute: str) -> Any:
    """Return the annotation of a field."""
    return next(field.type for field in structs.fields(model) if field.name == attribute)


class _Annotated(NamedTuple):
    """The type within annotations, without ``None``; its bounds and its description."""

    kind: Any
    is_optional: bool
    least: float | None
    most: float | None
    said: str


def _read(annotation: Any) -> _Annotated:
    least: float | None = None
    most: float | None = None
    said = ""
    is_optional = False
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *notes = get_args(annotation)
            for note in notes:
                if isinstance(note, Meta):
                    least = note.ge if least is None else least
                    most = next((each for each in (most, note.le, note.max_length) if each is not None), None)
                    said = said or note.description or ""
        elif get_origin(annotation) in (Union, types.UnionType) and type(None) in get_args(annotation):
            is_optional = True
            (annotation,) = [each for each in get_args(annotation) if each is not type(None)]
        else:
            return _Annotated(annotation, is_optional, least, most, said)


def _reader(attribute: str, kind: Any, least: float | None, most: float | None) -> Reader[Any] | None:
    if kind is bool:
        return boolean
    if kind is Limit:
        return limit
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        return word(*choices) if isinstance(choices[0], str) else _one_of(choices)
    if kind is float:
        if most is not None and most <= 1:
            return _fraction(least or 0.0, most)
        return _real(attribute, least or 0.0, most or math.inf)
    if kind is not int:
        return None
    if attribute.endswith("_ns"):
        return _bounded(time_ns, int(least or 0), most, format_time, "TIME", "is no time")
    if attribute.endswith("bytes"):
        return _bounded(size_bytes, int(least or 0), most, format_size, "SIZE", "is no size")
    return _count(least, most)


def _count(least: float | None, most: float | None) -> Reader[int]:
    return number(int(least or 0), int(most) if most is not None else 2**63 - 1)


def _bounded(
    read: Reader[int], least: int, most: float | None, write: Callable[[int], str], form: str, refused: str
) -> Reader[int]:
    def bounded(value: object) -> int:
        found = read(value)
        if most is not None and found > most:
            raise Problem(f"{described(value)} is out of range: write at most {write(int(most))}")
        if found >= least:
            return found
        if least == 1:
            raise Problem(f"{described(value)} {refused}: write more than 0")
        raise Problem(f"{described(value)} is out of range: write at least {write(least)}")

    return Reader(bounded, form, read.schema, read.raw)


def _fraction(least: float, most: float) -> Reader[float]:
    def fraction(value: object) -> float:
        found = percentage(value)
        if least <= found <= most:
            return found
        low = "more than 0%" if 0 < least <= 1e-6 else f"{least:.0%}"
        raise Problem(f"{described(value)} is out of range: write {low} and at most {most:.0%}")

    return Reader(fraction, "PERCENT", PERCENTAGE_SCHEMA, percentage.raw)


def _real(attribute: str, least: float, most: float) -> Reader[float]:
    def real(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise Problem(
                f"{described(value)} is out of range: write a number from {least:g} to {most:g} without quotes"
            )
        return float(value)

    form = "DECIBELS" if attribute.endswith("_db") else "NUMBER"
    return Reader(real, form, {"type": "number", "minimum": least, "maximum": most})


def _one_of(choices: tuple[int, ...]) -> Reader[int]:
    def one_of(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value not in choices:
            told = " or ".join(map(str, choices))
            raise Problem(f"{described(value)} is not a choice: write {told} without quotes")
        return value

    return Reader(one_of, "|".join(map(str, choices)), {"enum": list(choices)})


def _or_off(reader: Reader[Any], off: str | None) -> Reader[Any]:
    """Make a reader of an optional value, in which ``off`` has a meaning."""

    def read(value: object) -> Any:
        return off if value == "off" else reader(value)

    def schema() -> Schema:
        return {"anyOf": [{"const": "off"}, dict(reader.schema())]}

    return Reader(
        read, f"{reader.write}|off", schema, lambda value: "off" if value in (None, "off") else reader.raw(value)
    )


def _read_limit(value: object) -> Limit:
    if not isinstance(value, str):
        raise Problem(f"{described(value)} has no unit: write text such as 1000p, 1mb or 20ms")
    found = parse_limit(value)
    if not any((found.bytes, found.packets, found.time_ns)):
        raise Problem("an empty queue passes no packet: write at least 1p")
    return found


limit = Reader(_read_limit, "LIMIT", _LIMIT_SCHEMA, format_limit)
"""Reads the limit of a queue."""
