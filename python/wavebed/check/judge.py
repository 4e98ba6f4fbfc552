"""Decide requirements from the trials of a check."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from wavebed.check.requirement import fails_whatever, holds, in_unit, statistic_of
from wavebed.config.units import TIME_UNITS
from wavebed.page.text import figure
from wavebed.stats.verdict import needed, percentile

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from wavebed.check.requirement import Requirement
    from wavebed.check.trials import JudgedTrial
    from wavebed.workload.model import Metric

Outcome: TypeAlias = Literal["pass", "fail", "inconclusive"]

COMPLETES = "every trial completes"
"""The requirement that is always there: no workload fails with any seed."""
_MOST_REASONS = 3
_BETTER = {"lower": ("<", "<="), "higher": (">", ">=")}
"""The comparisons that a better value satisfies sooner, by the better direction of the metric."""


@dataclass(frozen=True, slots=True)
class PercentileBounds:
    """Bounds of a percentile over all seeds; the seeds of a check are a sample.

    Parameters
    ----------
    low, high : float or None
        The bounds, at `level`; ``None``: none on this side.
    needed : int
        Number of seeds that the bounds need; with fewer there are none.
    """

    low: float | None
    high: float | None
    level: float | None
    needed: int


@dataclass(frozen=True, slots=True)
class Decision:
    """A requirement and what became of it.

    Parameters
    ----------
    text : str
        The requirement.
    value, unit : float or None and str
        The statistic, infinite if failed seeds make it so; ``None`` without values.
    bound : float or None
        In `unit`; ``None`` of the requirement that every trial completes.
    values : mapping
        The value of each seed that has one; infinite of a failed one.
    open_seeds : set of int
        The seeds whose value decides nothing: the machine was late, or no packet crossed the path.
    seeds : int
        How many were asked for.
    reasons : sequence of str
        One line each, unless it passed.
    """

    text: str
    treatment: str
    outcome: Outcome
    seeds: int
    requirement: Requirement | None = None
    value: float | None = None
    unit: str = ""
    bound: float | None = None
    spread: PercentileBounds | None = None
    values: Mapping[int, float] = field(default_factory=dict)
    reasons: Sequence[str] = ()
    open_seeds: frozenset[int] = frozenset()

    @property
    def measured_text(self) -> str:
        """The statistic, its unit and its interval, as text."""
        if self.value is None:
            return ""
        if not math.isfinite(self.value):
            return "failed"
        told = value_text(self.value, self.unit)
        if self.spread is not None and self.spread.level is not None:
            low = "" if self.spread.low is None else f"{figure(self.spread.low)} ≤ "
            high = "" if self.spread.high is None else f" ≤ {figure(self.spread.high)}"
            told += f" ({self.spread.level:.0%}: {low}{self.statistic}{high})"
        return told

    @property
    def statistic(self) -> str:
        """The statistic; empty of the requirement that every trial completes."""
        return "" if self.requirement is None else self.requirement.statistic


def value_text(value: float, unit: str) -> str:
    """Write a measured value: three digits."""
    return f"{figure(value)} {unit}".strip()


def check_names(requirements: Sequence[Requirement], trials: Sequence[JudgedTrial]) -> None:
    """Check that measured trials have the metrics of the requirements, in units of the same kind.

    Raises
    ------
    Problem
        If one of them is in no measured trial.
    """
    measured = [trial for trial in trials if trial.state == "measured"]
    for requirement in requirements:
        metrics = {key: metric for trial in reversed(measured) for key, metric in trial.metrics.items()}
        if measured:
            requirement.bound(metrics[requirement.key(metrics)].unit)


def decide(requirements: Sequence[Requirement], trials: Sequence[JudgedTrial], seeds: int) -> list[Decision]:
    """Return the decision of every requirement, for every treatment; that trials complete is the first.

    A requirement passes if all seeds were measured or failed, and it holds with the failed ones at the worst value. It
    fails if it does not hold whatever the seeds that say nothing would have given. Else it is inconclusive.

    A trial whose engine was late decides what it would decide at both ends of what the delay may have hidden: of a time
    all of it, of a rate or a count its part of itself, of a percentage its part of the trial's time. As a delay may add
    an event, a count or a percentage of such a trial helps to pass and never to fail.

    A slow machine makes a fixed amount of work take longer. So a time of a slow trial below its bound, or a goodput
    above it, helps to pass and never to fail.

    In virtual time computing takes no time. So a trial decides what it would decide had the computing of its programs
    taken the host's time: a time longer by all of it, a rate lower by its part, a percentage or a count worse by its
    part, or off either way if no way is worse. Of the path, only rates are lower. A count that must be equal is taken
    as it is.

    Parameters
    ----------
    trials : sequence of JudgedTrial
        Those that have ended, whose metrics `check_names` has checked.
    seeds : int
        How many there are of each treatment in the end.
    """
    found = []
    for treatment in dict.fromkeys(trial.treatment for trial in trials):
        own = [trial for trial in trials if trial.treatment == treatment]
        found.append(_completes(own, treatment, seeds))
        found += [_decided(requirement, own, treatment, seeds) for requirement in requirements]
    return found


def total(decisions: Sequence[Decision]) -> Outcome:
    """Return the outcome of all: a failure decides, then what is inconclusive."""
    outcomes = {decision.outcome for decision in decisions}
    if "fail" in outcomes:
        return "fail"
    return "pass" if outcomes == {"pass"} else "inconclusive"


def _completes(trials: Sequence[JudgedTrial], treatment: str, seeds: int) -> Decision:
    failed = _reasons(trials, "failed")
    if failed:
        return Decision(COMPLETES, treatment, "fail", seeds, reasons=failed)
    over = [f"seed {each.seed}: {line}" for each in trials for line in each.over_limit]
    open_ = _reasons([each for each in trials if not each.completed], "inconclusive") + _shortened(over)
    open_ += _unfinished(trials, seeds)
    return Decision(COMPLETES, treatment, "inconclusive" if open_ else "pass", seeds, reasons=open_)


def _decided(requirement: Requirement, trials: Sequence[JudgedTrial], treatment: str, seeds: int) -> Decision:
    found = _values(requirement, trials)
    undecided = [each for each in trials if each.seed not in found.slowed]
    open_ = [*_reasons(undecided, "inconclusive"), *found.open, *_unfinished(trials, seeds)]
    given = list(found.values.values())
    bound = requirement.value if found.bound is None else found.bound
    outcome: Outcome = "inconclusive"
    reasons: list[str] = open_
    if given and all(
        fails_whatever(requirement, each, seeds - len(each), bound, found.least)
        for each in found.possible(without=found.counted)
    ):
        outcome, reasons = "fail", _failures(requirement, trials, found.values, bound, found.unit)
    elif (given or found.slowed) and not open_:
        slowed = list(found.slowed.values())
        held = [holds(requirement, [*each, *slowed], bound) for each in found.possible()]
        slow = _reasons([each for each in trials if each.seed in found.slowed], "inconclusive")
        outcome, reasons = ("pass", []) if all(held) else ("inconclusive", [*found.slack_reasons(), *slow])
    every = {**found.values, **found.slowed, **found.shown}
    value = statistic_of(requirement, list(every.values())) if every else None
    spread = _spread(requirement, given) if len(every) == len(given) else None
    return Decision(
        requirement.text,
        treatment,
        outcome,
        seeds,
        requirement,
        value,
        found.unit,
        found.bound,
        spread,
        every,
        reasons,
        frozenset(found.slowed.keys() | found.shown.keys()),
    )


@dataclass(slots=True)
class _Values:
    """The values of a metric by seed, and by how much each may be wrong.

    `slowed` has the values of a slow machine, which a machine in time would not make worse. `shown` has the values
    that decide nothing. `slack` has by how much a value may be lower or higher. `computed_s` has the seeds whose
    slack is due to computing in virtual time.
    """

    values: dict[int, float] = field(default_factory=dict)
    slowed: dict[int, float] = field(default_factory=dict)
    shown: dict[int, float] = field(default_factory=dict)
    slack: dict[int, tuple[float, float]] = field(default_factory=dict)
    computed_s: dict[int, float] = field(default_factory=dict)
    unit: str = ""
    bound: float | None = None
    open: list[str] = field(default_factory=list)

    @property
    def least(self) -> float:
        """The smallest value that a seed may have: 0 of percentages, times and rates, unless one is negative."""
        has_zero = self.unit == "%" or not _counts_events(self.unit)
        return 0.0 if has_zero and min(self.values.values(), default=0.0) >= 0 else -math.inf

    @property
    def counted(self) -> Collection[int]:
        """The seeds whose value may include events that a late engine added."""
        return self.slack.keys() - self.computed_s.keys() if _counts_events(self.unit) else ()

    def possible(self, without: Collection[int] = ()) -> list[list[float]]:
        """Return the values as measured, and all at either end of their ranges; leave out the seeds in `without`."""
        values = {seed: value for seed, value in self.values.items() if seed not in without}
        found = [list(values.values())]
        if self.slack:
            none = (0.0, 0.0)
            found.append([value - self.slack.get(seed, none)[0] for seed, value in values.items()])
            found.append([value + self.slack.get(seed, none)[1] for seed, value in values.items()])
        return found

    def slack_reasons(self) -> list[str]:
        """Return why values of trials whose engine was late, or whose programs computed, decide nothing."""
        told = []
        for seed, slack in self.slack.items():
            if seed in self.computed_s:
                could = value_text(self.values[seed] + (slack[1] or -slack[0]), self.unit)
                told.append(
                    f"seed {seed}: {value_text(self.values[seed], self.unit)} may be {could}: its programs computed for"
                    f" {self.computed_s[seed]:.2f} s, which virtual time leaves out: decide with --processor host or"
                    " --real-time"
                )
                continue
            if seed in self.counted:
                why = f"which may have caused some of {value_text(self.values[seed], self.unit)}"
            else:
                why = f"worth up to {value_text(slack[1], self.unit)}: the bound is nearer"
            told.append(f"seed {seed}: the engine was late, {why}")
        return _shortened(told)


def _values(requirement: Requirement, trials: Sequence[JudgedTrial]) -> _Values:
    found = _Values()
    for trial in trials:
        if trial.state == "failed":
            found.values[trial.seed] = requirement.worst
            continue
        key = requirement.key(trial.metrics) if _has(requirement, trial) else None
        metric = None if key is None else trial.metrics[key]
        if key is None or metric is None or metric.value is None:
            if trial.state == "measured":
                found.open.append(f"seed {trial.seed}: not measured")
            continue
        found.unit, found.bound = metric.unit, requirement.bound(metric.unit)
        if trial.state == "measured":
            found.values[trial.seed] = metric.value
            if trial.delayed_s:
                found.slack[trial.seed] = _slack(metric.value, metric.unit, trial)
            elif (computed_s := trial.computed_s.get(key[0], 0.0)) > 0:
                slack = _computed_slack(requirement, key[0], metric, trial)
                if slack != (0.0, 0.0):
                    found.slack[trial.seed], found.computed_s[trial.seed] = slack, computed_s
        elif key in trial.slowed and requirement.comparison in _BETTER.get(metric.better, ()):
            found.slowed[trial.seed] = metric.value
        else:
            found.shown[trial.seed] = metric.value
    return found


def _counts_events(unit: str) -> bool:
    """Return whether a unit is neither a unit of time nor a unit of rate."""
    return unit not in TIME_UNITS and not unit.endswith("bit/s")


def _slack(value: float, unit: str, trial: JudgedTrial) -> tuple[float, float]:
    """Return by how much a value may be lower or higher, since the engine was late."""
    if unit in TIME_UNITS:
        slack = in_unit(trial.delayed_s, "s", unit)
    else:
        part = trial.delayed_s / (trial.lasted_s - trial.delayed_s)
        slack = 100 * part if unit == "%" else part * abs(value)
    return slack, slack


def _computed_slack(requirement: Requirement, workload: str, metric: Metric, trial: JudgedTrial) -> tuple[float, float]:
    """Return by how much a value may be lower or higher, since computing takes no time in virtual time."""
    assert metric.value is not None, "checked by the caller"
    value, unit, computed_s = metric.value, metric.unit, trial.computed_s[workload]
    part = computed_s / (trial.walls_s.get(workload, 0.0) + computed_s)
    if unit.endswith("bit/s"):
        return part * abs(value), 0.0
    if workload in trial.of_path or (requirement.comparison == "=" and _counts_events(unit)):
        return 0.0, 0.0
    if unit in TIME_UNITS:
        return 0.0, in_unit(computed_s, "s", unit)
    slack = 100 * part if unit == "%" else part * abs(value)
    return (0.0 if metric.better == "lower" else slack), (0.0 if metric.better == "higher" else slack)


def _has(requirement: Requirement, trial: JudgedTrial) -> bool:
    return bool(requirement.keys(trial.metrics))


def _failures(
    requirement: Requirement, trials: Sequence[JudgedTrial], values: Mapping[int, float], bound: float, unit: str
) -> list[str]:
    """Return the seeds that are on the wrong side of the bound."""
    failed = _reasons(trials, "failed")
    told = [
        f"seed {seed}: {value_text(value, unit)}"
        for seed, value in values.items()
        if math.isfinite(value) and not requirement.holds(value, bound)
    ]
    return _shortened([*failed, *told])


def _reasons(trials: Sequence[JudgedTrial], state: str) -> list[str]:
    return _shortened([f"seed {each.seed}: {each.reasons[0]}" for each in trials if each.state == state])


def _shortened(lines: list[str]) -> list[str]:
    left = len(lines) - _MOST_REASONS
    return lines if left <= 0 else [*lines[:_MOST_REASONS], f"and {left} more"]


def _unfinished(trials: Sequence[JudgedTrial], seeds: int) -> list[str]:
    left = seeds - len(trials)
    return [f"{left} of {seeds} seeds did not run"] if left else []


def _spread(requirement: Requirement, values: Sequence[float]) -> PercentileBounds | None:
    """Return the bounds of a percentile; none of other statistics, and none with failed seeds."""
    if requirement.percentile is None or not values or not all(map(math.isfinite, values)):
        return None
    probability = requirement.percentile / 100
    found = percentile(values, probability, sides="both")
    return PercentileBounds(found.low, found.high, found.level, needed(probability, sides="both"))
