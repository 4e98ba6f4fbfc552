"""JSON data: its type, and readers of single keys."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


def table_in(value: Mapping[str, object], key: str) -> Mapping[str, Json]:
    """Return the table at a key of JSON data; empty if there is none."""
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def tables_in(value: Mapping[str, object], key: str) -> list[dict[str, Json]]:
    """Return the tables in the array at a key of JSON data; empty if there is none."""
    found = value.get(key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def number_in(value: Mapping[str, object], key: str) -> float | None:
    """Return the finite number at a key of JSON data; ``None`` if there is none."""
    found = value.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        return None
    return found


def texts_in(value: object) -> Iterator[str]:
    """Yield every text in JSON data, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts_in(each)
