"""The requirements of a check: quantities, statistics, bounds, and what is known before a trial."""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from wavebed.check.trials import Key, known_link_metrics
from wavebed.config.problems import Problem, described
from wavebed.config.suggest import quantity_meant
from wavebed.config.units import RATE_UNITS, SIZE_UNITS, TIME_UNITS, parse_rate, parse_size, parse_time
from wavebed.path.model import PathModel
from wavebed.result.devices import members_of, worst_of
from wavebed.result.transport import known_transport_metrics
from wavebed.run.devices import groups_known, own_name
from wavebed.spec.trial import NamespacesLab
from wavebed.store.records import PATH_WORKLOAD

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from wavebed.run.scenario import Plan
    from wavebed.workload.model import Metric

_FAMILIES = (TIME_UNITS, RATE_UNITS, SIZE_UNITS)
_KINDS = (("time", parse_time), ("rate", parse_rate), ("size", parse_size))
"""The kinds of these families, as `wavebed.config.suggest` calls them, and their readers."""
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
        otherwise = f"the metric is in {wanted or 'plain numbers'}"
        hint = otherwise
        if known is not None:
            kind, read = _KINDS[known[0]]
            hint = quantity_meant(f"{value:g} {unit}", kind, otherwise, read)
        raise Problem(f"{typed_text(value, unit)} is in another unit: {hint}")
    return value * given[1] / known[1]


def _known(unit: str) -> tuple[int, int] | None:
    """Return the kind of quantity and the size of its unit; ``None`` for others."""
    name = _PER_SECOND.sub("bit", unit.lower())
    name = {"byte": "b", "bytes": "b"}.get(name, name)
    return next(((place, units[name]) for place, units in enumerate(_FAMILIES) if name in units), None)


def typed_text(value: float, unit: str) -> str:
    """Write a value of a requirement as it was typed, with its unit."""
    return f"{value:g} {unit}".strip()


def statistic_of(requirement: Requirement, values: Sequence[float]) -> float:
    """Return the statistic of a requirement.

    A percentile lies between two ordered values by linear interpolation (definition 7 of Hyndman and Fan 1996), as in
    NumPy. Of ``every`` the value farthest from holding is returned, without a direction the first that does not hold.

    Parameters
    ----------
    values : sequence of float
        At least one; the value of a failed seed is `requirement.worst`, which stays the result wherever it takes part.
    """
    ordered = sorted(values)
    worst = requirement.worst
    match requirement.statistic:
        case "min":
            return ordered[0]
        case "max":
            return ordered[-1]
        case "mean":
            return worst if worst in ordered else math.fsum(ordered) / len(ordered)
        case "every":
            if requirement.comparison == "=":
                return next((value for value in values if value != requirement.value), values[0])
            return ordered[-1] if worst > 0 else ordered[0]
    assert requirement.percentile is not None, "the others are above"
    place = (len(ordered) - 1) * requirement.percentile / 100
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    endless = [each for each in (low, high) if math.isinf(each)]
    if endless:
        return worst if worst in endless else endless[0]
    return low + (place - math.floor(place)) * (high - low)


def holds(requirement: Requirement, values: Sequence[float], bound: float) -> bool:
    """Return whether a requirement holds for these values."""
    if requirement.comparison == "=":
        return all(value == bound for value in values)
    return requirement.holds(statistic_of(requirement, values), bound)


def fails_whatever(
    requirement: Requirement, values: Sequence[float], missing: int, bound: float, least: float = -math.inf
) -> bool:
    """Return whether a requirement fails whatever the values of the missing seeds are.

    Parameters
    ----------
    missing : int
        How many seeds have no value yet, or none that counts.
    least : float
        The smallest value that the metric can have.
    """
    if requirement.comparison == "=":
        return any(value != bound for value in values)
    best = max(-requirement.worst, least)
    every = [*values, *[best] * missing]
    return bool(every) and not requirement.holds(statistic_of(requirement, every), bound)


_MISTYPED = 0.85
"""Similarity of a mistyped name to a known one: ``wal time`` has 0.94."""


def check_known(requirements: Sequence[Requirement], plan: Plan) -> None:
    """Check that trials of a plan can have the metrics of the requirements, in units of the same kind.

    Raises
    ------
    Problem
        If a metric cannot exist, or has another unit.
    """
    known: dict[Key, Metric] = {}
    unsure: set[str] = set()
    owners: set[str] = set()
    for treatment in plan.treatments:
        for workload in treatment.workloads:
            known |= {(workload.name, metric.name): metric for metric in workload.known_metrics()}
            if workload.prints_metrics:
                unsure.add(workload.name)
        groups = groups_known(treatment.devices, treatment.workloads, treatment.background)
        known |= {(name, metric.name): metric for name, metrics in groups.items() for metric in metrics}
        printing = [each for each in treatment.workloads if each.prints_metrics and each.common.device is not None]
        unsure.update(f"{group}.{own_name(each)}" for each in printing for group in members_of(treatment.devices))
        owners.update(groups)
        path = treatment.path
        if isinstance(treatment.lab, NamespacesLab):
            known |= {
                (PATH_WORKLOAD, metric.name): metric for metric in (*known_transport_metrics(), *known_link_metrics())
            }
        if (
            not isinstance(treatment.lab, NamespacesLab)
            or not isinstance(path, PathModel)
            or path.second_radio is not None
        ):
            unsure.add(PATH_WORKLOAD)
    owners |= {PATH_WORKLOAD, *(each.name for treatment in plan.treatments for each in treatment.workloads)}
    sure = owners - unsure
    for requirement in requirements:
        _check(requirement, known, sure, unsure)


def _check(
    requirement: Requirement, known: Mapping[Key, Metric], sure: Collection[str], unsure: Collection[str]
) -> None:
    """Check one requirement.

    Parameters
    ----------
    sure, unsure : set of str
        The workloads whose metrics are all known, and the workloads that may have others.
    """
    name = requirement.name
    owners = {*sure, *unsure}
    workload = max((each for each in owners if name.startswith(f"{each}.")), key=len, default=name.partition(".")[0])
    if requirement.keys(known):
        requirement.bound(known[requirement.key(known)].unit)
        return
    if workload in unsure:
        return
    is_mistyped = difflib.get_close_matches(name, [metric for _, metric in known], 1, _MISTYPED)
    if workload in sure or not unsure or is_mistyped:
        try:
            requirement.key(known)
        except Problem as problem:
            printing = sorted(set(unsure) - {PATH_WORKLOAD})
            said = f" If the program of {printing[0]!r} prints it, write {printing[0]}.{name}" if printing else ""
            raise Problem(f"{problem.rule}{said}", problem.key) from None


Comparison: TypeAlias = Literal["<", "<=", ">", ">=", "="]
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

    def keys(self, metrics: Mapping[Key, Metric]) -> list[Key]:
        """Return workload and name of the metrics that its name means: by its whole name, else of any workload.

        The name of a group's workload means its worst device: ``phone.call.loss`` is ``phone.call.worst loss``.
        """
        whole = [key for key in metrics if ".".join(key) == self.name]
        if whole:
            return whole
        worst = [key for key in metrics if worst_of(".".join(key)) == self.name]
        return worst or [key for key in metrics if key[1] == self.name]

    def key(self, metrics: Mapping[Key, Metric]) -> Key:
        """Return workload and name of its metric.

        Parameters
        ----------
        metrics : mapping
            The metrics of a trial.

        Raises
        ------
        Problem
            If there is no such metric, or several workloads have it.
        """
        keys = self.keys(metrics)
        if len(keys) == 1:
            return keys[0]
        if keys:
            of_groups = [found for key in metrics if (found := worst_of(".".join(key))).endswith(f".{self.name}")]
            named = of_groups or [".".join(key) for key in keys]
            raise Problem(f"several workloads have it: write one of {', '.join(named)}", self.name)
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
        raise Problem(f"{described(text)} is not a requirement: {_meant(text, _FORM)}")
    statistic, comparison = match["statistic"], cast("Comparison", match["comparison"])
    if _STATISTIC.fullmatch(statistic) is None:
        otherwise = f"write {_STATISTICS} before the {comparison}"
        raise Problem(f"{described(text)}: {statistic!r} is no statistic: {_meant(text, otherwise)}")
    if comparison == "=" and statistic != EVERY:
        raise Problem(f"{described(text)}: only every value can be equal to one: write {EVERY} =")
    name = " ".join(match["name"].split())
    return Requirement(text.strip(), name, statistic, comparison, float(match["value"]), match["unit"] or "")


_WORDS = {
    "median": "p50",
    "avg": "mean",
    "average": "mean",
    "minimum": "min",
    "maximum": "max",
    "all": "every",
    "p100": "max",
    "p0": "min",
}
_COMPARISONS = {
    "<=": (("at most", "le"), ("=<", "≤")),
    ">=": (("at least", "ge"), ("=>", "≥")),
    "<": (("less than", "less", "below", "under", "lt"), ()),
    ">": (("greater than", "more than", "greater", "more", "above", "over", "gt"), ()),
}
"""Words and symbols that are written for a comparison."""
_LOOSE = re.compile(r"(?P<name>\S.*?)(?:\s+(?P<statistic>[^\s<>=]+))?\s*(?P<rest>(?:<=|>=|<|>|=)\s*[+-]?[0-9].*)")


def _meant(text: str, otherwise: str) -> str:
    """Return the requirement that a text probably means, with a statistic and a comparison that are known."""
    loose = " ".join(text.split())
    for sign, (words, symbols) in _COMPARISONS.items():
        for symbol in symbols:
            loose = loose.replace(symbol, sign)
        for word in words:
            loose = loose if re.search("[<>=]", loose) else loose.replace(f" {word} ", f" {sign} ")
    match = _LOOSE.fullmatch(loose)
    if match is None:
        return otherwise
    statistic = (match["statistic"] or "").lower()
    number = statistic.strip("p%")
    known = _WORDS.get(statistic, f"p{number}" if number.isdecimal() else statistic)
    name = _as_metric(match["name"])
    if _STATISTIC.fullmatch(known) is None:
        name, known = f"{name} {match['statistic'] or ''}".strip(), "p90"
    written = f"{name} {known} {match['rest']}"
    return f"did you mean {written!r}?" if _TEXT.fullmatch(written) and written != text else otherwise


def _as_metric(name: str) -> str:
    """Return a name as metrics have it: ``workload."phone.call".loss``, a key of a file, is ``phone.call.loss``."""
    return name.removeprefix("workload.").replace('"', "")


def _hint(name: str, metrics: Mapping[Key, Metric]) -> str:
    """Name the metrics that are nearest."""
    known = {worst_of(".".join(key)) or ".".join(key): key for key in metrics}
    name = _as_metric(name)
    near = [name] if name in known else difflib.get_close_matches(name, known, _NEAR, 0.5)
    if not near:
        inner = name.rpartition(".")[2]
        near = [each for each, key in known.items() if inner in key[1] or key[1] in inner][:_NEAR]
    if near:
        return f"did you mean {' or '.join(repr(each) for each in near)}?"
    return f"it has {', '.join(list(known)[: 2 * _NEAR])}{', …' if len(known) > 2 * _NEAR else ''}" if known else "none"
