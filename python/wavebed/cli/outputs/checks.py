"""The output of ``wavebed check``."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from wavebed.check.judge import Outcome
from wavebed.check.result import Timing

__all__ = ["CheckOutput"]


class SeedValue(Struct, forbid_unknown_fields=True):
    """The value of a seed, in the unit of its requirement; null of a failed seed.

    A value that does not decide is that of a trial whose machine was late, or in which no packet crossed the path.
    """

    seed: int
    value: float | None
    decides: bool


class RequirementOutput(Struct, forbid_unknown_fields=True):
    """A requirement and its decision; numbers are in `unit`, the interval is that of the statistic at `level`."""

    requirement: str
    treatment: str
    outcome: Outcome
    statistic: str | None
    comparison: str | None
    unit: str
    bound: float | None
    value: float | None
    low: float | None
    high: float | None
    level: float | None
    seeds: int
    seeds_for_interval: int | None
    values: list[SeedValue]
    reasons: list[str]


class CheckedTrial(Struct, forbid_unknown_fields=True):
    """A trial of a check; the decisions allow for `delayed_s` and `computed_s`.

    Parameters
    ----------
    delayed_s : float
        The most by which the engine delayed the application.
    computed_s : float or None
        How long the programs computed on the host, in virtual time; ``None``: in real time, or not counted.
    """

    folder: str
    treatment: str
    seed: int
    state: Literal["measured", "failed", "inconclusive"]
    delayed_s: float
    computed_s: float | None
    reasons: list[str]


class CheckOutput(Struct, forbid_unknown_fields=True):
    """The decisions of a check."""

    outcome: Outcome
    title: str
    seeds: list[int]
    stopped: str
    timing: Timing
    timing_text: str
    computing_text: str
    requirements: list[RequirementOutput]
    trials: list[CheckedTrial]
    folder: str
    report: str | None
