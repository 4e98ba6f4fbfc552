"""The outputs of ``wavebed compare``."""

from __future__ import annotations

from msgspec import Struct

from wavebed.workload.model import Better

__all__ = ["BaselineOutput", "CompareOutput"]


class FindingOutput(Struct, forbid_unknown_fields=True):
    """A verdict and its reasons. Of `difference` (in the metric's unit) and `ratio` one has values."""

    role: str | None
    margin: str | None
    verdict: str | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    level: float | None
    p: float | None
    p_adjusted: float | None
    cliffs_delta: float | None
    constant: bool | None
    same_by_seed: bool | None
    reason: str | None


class ComparedCell(FindingOutput, forbid_unknown_fields=True):
    """The median of a metric in a column, in its unit, and the verdict beside the base."""

    count: int
    median: float | None
    low: float | None
    high: float | None


class ComparedColumn(Struct, forbid_unknown_fields=True):
    """A treatment of a run; `base` is the column that it is compared with."""

    name: str
    run: str
    treatment: str
    base: str | None


class ComparedMetric(Struct, forbid_unknown_fields=True):
    """A metric, by column."""

    workload: str
    name: str
    unit: str
    better: Better
    columns: dict[str, ComparedCell]


class CompareOutput(Struct, forbid_unknown_fields=True):
    """Folders beside the first one."""

    runs: list[str]
    columns: list[ComparedColumn]
    metrics: list[ComparedMetric]
    notes: list[str]


class BaselineFolder(Struct, forbid_unknown_fields=True):
    """One of two folders."""

    folder: str
    trials: int
    trials_counted: int
    seeds: str
    ended: bool
    facts: dict[str, str]


class BaselineAnswer(FindingOutput, forbid_unknown_fields=True):
    """A primary metric beside the baseline; medians are in `unit`."""

    workload: str
    metric: str
    unit: str
    better: Better
    treatment: str
    baseline_treatment: str
    baseline_count: int
    baseline_median: float | None
    new_count: int
    new_median: float | None
    regression: str
    method: str
    formula: int
    libraries: dict[str, str]


class BaselineOutput(Struct, forbid_unknown_fields=True):
    """A folder beside its baseline."""

    passed: bool
    undecided_fails: bool
    comparisons: int
    regressions: int
    without_values: int
    not_excluded: int
    baseline: BaselineFolder
    new: BaselineFolder
    answers: list[BaselineAnswer]
    notes: list[str]
