"""Read one value of a file or an option: text, number or table in; a number in its base unit, or a type, out.

Every function takes a value of TOML or of the command line, and raises `Problem` with the rule and the remedy. On the
command line a table is written as TOML writes it inline: ``--loss '{model = "gilbert-elliott", p = "1%", r = "9%"}'``.
"""

from __future__ import annotations

import math
import re
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from wavebed.config import units
from wavebed.config.problems import Problem, choose, described, unknown_key
from wavebed.config.reader import Reader, reader
from wavebed.errors import UserError
from wavebed.foreign import parse_toml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from wavebed.config.data import Json
    from wavebed.config.reader import Schema

Table: TypeAlias = "Mapping[str, object]"
_Value = TypeVar("_Value")


def table_of(text: object) -> object:
    """Return the table that an option's text writes inline, or the text itself."""
    if not isinstance(text, str) or not text.lstrip().startswith("{"):
        return text
    try:
        return parse_toml(f"value = {text}", "an inline table")["value"]
    except UserError as error:
        raise Problem(f"{text!r}: {error}") from None


def quantity(
    parse: Callable[[str], _Value], example: str, write: str, schema: Schema, raw: Callable[[_Value], Json]
) -> Reader[_Value]:
    """Make a parser of quantities accept any value, and refuse those that are no text."""

    def read(value: object) -> _Value:
        if not isinstance(value, str):
            raise Problem(f"{described(value)} has no unit: write text such as {example}")
        return parse(value)

    return Reader(read, write, schema, raw)


def quantity_schema(names: Iterable[str], *, signed: bool = False) -> Schema:
    """Return the JSON Schema of a number and one of these units, in small letters."""
    sign = "[+-]?" if signed else ""
    return {"type": "string", "pattern": rf"^\s*{sign}[0-9]+(\.[0-9]+)?({'|'.join(names)})\s*$"}


RATE_SCHEMA = quantity_schema(units.RATE_UNITS)
TIME_SCHEMA = quantity_schema(units.TIME_UNITS)
SIZE_SCHEMA = quantity_schema(units.SIZE_UNITS)
PERCENTAGE_SCHEMA = quantity_schema("%")

rate_bps = quantity(units.parse_rate, '"100mbit"', "RATE", RATE_SCHEMA, units.format_rate)
time_ns = quantity(units.parse_time, '"10ms"', "TIME", TIME_SCHEMA, units.format_time)
size_bytes = quantity(units.parse_size, '"64kb"', "SIZE", SIZE_SCHEMA, units.format_size)
percentage = quantity(units.parse_percentage, '"0.01%"', "PERCENT", PERCENTAGE_SCHEMA, units.format_percentage)


def seconds(least_s: float = 0.0, most_s: float = math.inf) -> Reader[float]:
    """Make a reader of times within bounds, in seconds."""

    def read(value: object) -> float:
        time_s = time_ns(value) / 1e9
        if least_s <= time_s <= most_s:
            return time_s
        if most_s < math.inf:
            raise Problem(f"{value!r} is out of range: write a time from {time_text(least_s)} to {time_text(most_s)}")
        raise Problem(f"{value!r} is too short: write at least {time_text(least_s)}")

    return Reader(read, "TIME", TIME_SCHEMA, time_text)


def time_text(time_s: float) -> str:
    """Write seconds as a time with its unit."""
    return units.format_time(round(time_s * 1e9))


end_wait = seconds(0, 600)
"""Reads a wait at the end of a laboratory: for the last data, or for servers after SIGTERM."""


def number(least: int, most: int) -> Reader[int]:
    """Make a reader of whole numbers within bounds."""

    def read(value: object) -> int:
        if isinstance(value, str) and re.fullmatch(r"[0-9]{1,20}", value, re.ASCII):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise Problem(f"{described(value)} is not a whole number: write one from {least} to {most}")
        if not least <= value <= most:
            raise Problem(f"{value} is out of range: write a whole number from {least} to {most}")
        return value

    return Reader(read, "N", {"type": "integer", "minimum": least, "maximum": most})


def word(*choices: str) -> Reader[str]:
    """Make a reader of one of a few words."""
    return Reader(lambda value: choose(value, choices), "|".join(choices), {"enum": list(choices)})


@reader("true|false", {"type": "boolean"})
def boolean(value: object) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise Problem(f"{described(value)} is neither true nor false: write true or false without quotes")
    return value


@reader("TEXT", {"type": "string", "minLength": 1})
def text(value: object) -> str:
    """Read text that is not empty and is on one line."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise Problem(f"{described(value)} is not text: write one line in quotes")
    return value


@reader("NAME", {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,31}$"})
def name(value: object) -> str:
    """Read the name of a hop or a laboratory."""
    if not isinstance(value, str) or not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,31}", value, re.ASCII):
        raise Problem(
            f"{described(value)} is not a name: write 1 to 32 small letters, digits, '-' or '_',"
            " the first a letter or a digit"
        )
    return value


@reader("FILE", {"type": "string", "minLength": 1}, str)
def file_path(value: object) -> FilePath:
    """Read the name of a file."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise Problem(f"{described(value)} is not a file: write its name in quotes")
    return FilePath(value)


def table(value: object, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> Table:
    """Return the table `value` after checking its keys."""
    if not isinstance(value, dict):
        raise Problem(f"{described(value)} is not a table: write {{{' = …, '.join(required)} = …}}")
    known = (*required, *optional)
    for key in value:
        if key not in known:
            raise unknown_key(str(key), known)
    for key in required:
        if key not in value:
            raise Problem(f"is missing: add it beside {', '.join(repr(other) for other in value) or 'nothing'}", key)
    return value
