"""Drift: whether values rise or fall with the order of the blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from wavebed.extras import require
from wavebed.stats.family import holm
from wavebed.stats.methods import method

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.stats.methods import Method

__all__ = ["Drift", "DriftCode", "drift", "drifts"]

DriftCode: TypeAlias = Literal["rising", "falling", "none", "constant", "too-few"]
FEWEST = 5
"""With fewer values even a strict order has a two-sided p value above 0.05: 2 / 4!."""


@dataclass(frozen=True, slots=True)
class Drift:
    """A trend over the order of the blocks.

    Parameters
    ----------
    code : str
        ``rising`` or ``falling`` if `adjusted` is at most the error; ``none``, ``constant`` or ``too-few`` otherwise.
    tau : float or None
        Kendall's rank correlation with the order, from -1 to 1.
    slope : float or None
        Median change from one block to the next, in the unit of the values (Theil and Sen).
    p, adjusted : float or None
        Two-sided p value, and the same adjusted by Holm over all tested samples.
    count : int
        Number of values.
    method : Method
        Origin of the result.
    """

    code: DriftCode
    tau: float | None
    slope: float | None
    p: float | None
    adjusted: float | None
    count: int
    method: Method


def drift(values: Sequence[float], level: float = 0.95) -> Drift:
    """Return the Mann-Kendall test of values in the order of their blocks."""
    return drifts({"": values}, level)[""]


def drifts(samples: Mapping[str, Sequence[float]], level: float = 0.95) -> dict[str, Drift]:
    """Return the Mann-Kendall tests of several samples, such as treatments, adjusted by Holm.

    Raises
    ------
    MissingPackageError
        If SciPy is not installed.
    """
    tested = {name: _tested(values) for name, values in samples.items()}
    names = [name for name, each in tested.items() if each.p is not None]
    adjusted = holm([p for name in names if (p := tested[name].p) is not None])
    for name, p in zip(names, adjusted, strict=True):
        found = tested[name]
        code: DriftCode = "none"
        if p <= 1 - level:
            code = "rising" if (found.tau or 0.0) > 0 else "falling"
        tested[name] = replace(found, code=code, adjusted=p)
    return tested


def _tested(values: Sequence[float]) -> Drift:
    require("report", "A drift test", ("scipy",))
    from scipy.stats import kendalltau, theilslopes

    origin, count = method("mann-kendall"), len(values)
    if count < FEWEST:
        return Drift("too-few", None, None, None, None, count, origin)
    if min(values) == max(values):
        return Drift("constant", None, 0.0, None, None, count, origin)
    found = kendalltau(range(count), values)
    slope = float(theilslopes(values, range(count)).slope)
    return Drift("none", float(found.statistic), slope, float(found.pvalue), None, count, origin)
