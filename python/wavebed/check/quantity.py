"""Values with units in requirements, in the unit of their metric."""

from __future__ import annotations

import re

from wavebed.config.problems import Problem
from wavebed.config.units import RATE_UNITS, SIZE_UNITS, TIME_UNITS

__all__ = ["in_unit", "typed_text"]

_FAMILIES = (TIME_UNITS, RATE_UNITS, SIZE_UNITS)
_PER_SECOND = re.compile(r"bit/s$")


def in_unit(value: float, unit: str, wanted: str) -> float:
    """Return a value in the unit of a metric.

    Parameters
    ----------
    unit : str
        As typed: ``ms``, ``Mbit/s`` or ``mbit``, ``kB``, ``%``; empty for a bare number.
    wanted : str
        Of the metric, as in the results.

    Raises
    ------
    Problem
        If the unit is missing, or of something else.
    """
    if unit == wanted:
        return value
    if not unit:
        raise Problem(f"{value:g} has no unit: write it in {wanted}, as in {value:g} {wanted}")
    given, known = _known(unit), _known(wanted)
    if given is None or known is None or given[0] != known[0]:
        raise Problem(f"{typed_text(value, unit)} is in another unit: the metric is in {wanted or 'plain numbers'}")
    return value * given[1] / known[1]


def _known(unit: str) -> tuple[int, int] | None:
    """Return the kind of quantity and the size of its unit; ``None`` for others."""
    name = _PER_SECOND.sub("bit", unit.lower())
    name = {"byte": "b", "bytes": "b"}.get(name, name)
    return next(((place, units[name]) for place, units in enumerate(_FAMILIES) if name in units), None)


def typed_text(value: float, unit: str) -> str:
    """Write a value of a requirement as it was typed, with its unit."""
    return f"{value:g} {unit}".strip()
