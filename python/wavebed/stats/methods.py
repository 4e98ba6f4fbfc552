"""Names of the methods, the versions of their formulas, and the libraries that computed them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version

__all__ = ["FORMULAS", "Method", "method"]

FORMULAS = {
    "signed-ranks": 1,
    "anytime-signed-ranks": 1,
    "anytime-signs": 1,
    "planned-signed-ranks": 1,
    "mann-whitney": 1,
    "cliffs-delta": 1,
    "bootstrap-medians": 1,
    "order-statistics": 1,
    "holm": 1,
    "noncentral-t-sizing": 1,
    "mann-kendall": 1,
    "fisher-exact": 1,
    "chi-square": 2,
    "worst-case": 1,
}
"""The version of each formula; it rises when a change can change a result.

Formulas: docs/models/campaign-statistics.md.
"""

_LIBRARIES = ("numpy", "scipy")


@dataclass(frozen=True, slots=True)
class Method:
    """The origin of a result.

    Parameters
    ----------
    name : str
        A key of `FORMULAS`.
    formula : int
        Version of the formula.
    libraries : tuple of (str, str)
        Name and version of each library that the statistics use; those that are not installed are left out.
    """

    name: str
    formula: int
    libraries: tuple[tuple[str, str], ...]


@cache
def method(name: str) -> Method:
    """Return the method of this name, a key of `FORMULAS`."""
    return Method(name, FORMULAS[name], _libraries())


@cache
def _libraries() -> tuple[tuple[str, str], ...]:
    found = []
    for name in _LIBRARIES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return tuple(found)
