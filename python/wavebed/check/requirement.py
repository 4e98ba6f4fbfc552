"""Requirements as they are typed: ``web.speed index p90 < 2500 ms``."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from wavebed.check.quantity import in_unit, typed_text
from wavebed.config.problems import Problem, described

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.workload.model import Metric

__all__ = ["Comparison", "Key", "Requirement", "parse_requirement"]

Comparison: TypeAlias = Literal["<", "<=", ">", ">=", "="]
Key: TypeAlias = tuple[str, str]
"""Workload and name of a metric."""

EVERY = "every"
_FORM = "write WORKLOAD.METRIC STATISTIC < VALUE UNIT, as in 'web.speed index p90 < 2500 ms'"
_STATISTICS = "p50, p90, p95 or another percentile, mean, min, max or every"
_TEXT = re.compile(
    r"\s*(?P<name>\S.*?)\s+(?P<statistic>[^\s<>=]+)\s*(?P<comparison><=|>=|<|>|=)"
    r"\s*(?P<value>[+-]?[0-9]{1,30}(?:\.[0-9]{1,30})?)\s*(?P<unit>[^\s0-9<>=][^\s<>=]*)?\s*"
)
_STATISTIC = re.compile(r"p[1-9][0-9]?|mean|min|max|every")
_NEAR = 3


@dataclass(frozen=True, slots=True)
class Requirement:
    """A bound on a statistic of a metric over seeds.

    Parameters
    ----------
    text : str
        As typed.
    name : str
        ``WORKLOAD.METRIC``, or the metric alone where only one workload has it.
    statistic : str
        ``p1`` to ``p99``, ``mean``, ``min``, ``max`` or ``every`` (each value by itself).
    value, unit : float and str
        The bound, as typed.
    """

    text: str
    name: str
    statistic: str
    comparison: Comparison
    value: float
    unit: str

    @property
    def percentile(self) -> int | None:
        """The percentile that its statistic is, if it is one."""
        return int(self.statistic[1:]) if self.statistic[1:].isdecimal() else None

    @property
    def worst(self) -> float:
        """The value that is farthest from holding."""
        return float("inf") if self.comparison in ("<", "<=") else float("-inf")

    @property
    def bound_text(self) -> str:
        """The comparison and the bound: ``< 2500 ms``."""
        return f"{self.comparison} {typed_text(self.value, self.unit)}"

    def key(self, metrics: Mapping[Key, Metric]) -> Key:
        """Return workload and name of its metric.

        Parameters
        ----------
        metrics : mapping
            Those of a trial.

        Raises
        ------
        Problem
            If there is no such metric, or several workloads have it.
        """
        keys = [key for key in metrics if self.name in (".".join(key), key[1])]
        whole = [key for key in keys if ".".join(key) == self.name]
        if len(whole or keys) == 1:
            return (whole or keys)[0]
        if keys:
            raise Problem(
                f"several workloads have it: write one of {', '.join('.'.join(key) for key in keys)}", self.name
            )
        raise Problem(f"no metric of the results: {_hint(self.name, metrics)}", self.name)

    def bound(self, unit: str) -> float:
        """Return its bound in the unit of its metric.

        Raises
        ------
        Problem
            If its unit is missing or another.
        """
        try:
            return in_unit(self.value, self.unit, unit)
        except Problem as problem:
            raise problem.below(self.name) from None

    def holds(self, value: float, bound: float) -> bool:
        """Return whether a value is on the right side of the bound."""
        match self.comparison:
            case "<":
                return value < bound
            case "<=":
                return value <= bound
            case ">":
                return value > bound
            case ">=":
                return value >= bound
            case "=":
                return value == bound


def parse_requirement(text: str) -> Requirement:
    """Read a requirement.

    Raises
    ------
    Problem
        If it is none.
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise Problem(f"{described(text)} is not a requirement: {_FORM}")
    statistic, comparison = match["statistic"], cast("Comparison", match["comparison"])
    if _STATISTIC.fullmatch(statistic) is None:
        raise Problem(f"{described(text)}: {statistic!r} is no statistic: write {_STATISTICS} before the {comparison}")
    if comparison == "=" and statistic != EVERY:
        raise Problem(f"{described(text)}: only every value can be equal to one: write {EVERY} =")
    name = " ".join(match["name"].split())
    return Requirement(text.strip(), name, statistic, comparison, float(match["value"]), match["unit"] or "")


def _hint(name: str, metrics: Mapping[Key, Metric]) -> str:
    """Name the metrics that are nearest."""
    known = {".".join(key): key for key in metrics}
    near = difflib.get_close_matches(name, known, _NEAR, 0.5)
    if not near:
        inner = name.rpartition(".")[2]
        near = [each for each, key in known.items() if inner in key[1] or key[1] in inner][:_NEAR]
    if near:
        return f"did you mean {' or '.join(repr(each) for each in near)}?"
    return f"it has {', '.join(list(known)[: 2 * _NEAR])}{', …' if len(known) > 2 * _NEAR else ''}" if known else "none"
