"""The levels of a factor as numbers, where all of them are quantities with one unit, or bare numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from wavebed.config.units import (
    RATE_UNITS,
    SIZE_UNITS,
    TIME_UNITS,
    parse_percentage,
    parse_rate,
    parse_size,
    parse_time,
)
from wavebed.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_KINDS: tuple[tuple[Callable[[str], float], Mapping[str, float], Mapping[str, str]], ...] = (
    (parse_time, TIME_UNITS, {}),
    (parse_rate, RATE_UNITS, {"kbit": "kbit/s", "mbit": "Mbit/s", "gbit": "Gbit/s", "bit": "bit/s"}),
    (parse_size, SIZE_UNITS, {"b": "B", "kb": "kB", "mb": "MB", "gb": "GB", "kib": "KiB", "mib": "MiB", "gib": "GiB"}),
)
_LOGARITHMIC = 20
"""Ratio of the largest to the smallest level from which an axis is logarithmic."""


class Axis(NamedTuple):
    """The levels as numbers.

    Parameters
    ----------
    values : sequence of float
        In `unit`, in the order of the levels.
    """

    values: Sequence[float]
    unit: str
    logarithmic: bool


def numeric(levels: Sequence[str]) -> Axis | None:
    """Return the levels as numbers; ``None`` if one is none, or two are equal.

    Parameters
    ----------
    levels : sequence of str
        Labels such as ``5ms``, ``20mbit``, ``64kb``, ``1000p``, ``5%`` or ``3``.
    """
    for read, units, names in _KINDS:
        found = _read(levels, read)
        if found is not None:
            unit = _unit(min((level for level, value in zip(levels, found, strict=True) if value), key=read))
            return _axis([value / units[unit] for value in found], names.get(unit, unit))
    found = _read([level.removesuffix("p") for level in levels], float)
    if found is not None:
        return _axis(found, "packets" if all(level.endswith("p") for level in levels) else "")
    found = _read(levels, lambda level: 100 * parse_percentage(level))
    return None if found is None else _axis(found, "%")


def _unit(level: str) -> str:
    return level.strip().lstrip("0123456789.").lower()


def _read(levels: Sequence[str], read: Callable[[str], float]) -> list[float] | None:
    try:
        found = [float(read(level)) for level in levels]
    except (UserError, ValueError):
        return None
    return found if all(map(math.isfinite, found)) and len(set(found)) == len(found) and any(found) else None


def _axis(values: Sequence[float], unit: str) -> Axis:
    low, high = min(values), max(values)
    return Axis(values, unit, low > 0 and high / low >= _LOGARITHMIC)
