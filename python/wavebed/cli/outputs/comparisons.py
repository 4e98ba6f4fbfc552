"""The outputs of ``wavebed compare``."""

from __future__ import annotations

from msgspec import Struct

from wavebed.workload.model import Better

__all__ = ["BaselineOutput", "CompareOutput", "DeviceOutput", "ForwardCompareOutput", "ForwardValue", "ToldApart"]


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


class ForwardValue(Struct, forbid_unknown_fields=True):
    """A measure of a device; `cpu_busy_max` is a fraction, 0 to 1."""

    pps: float | None
    low_pps: float | None
    high_pps: float | None
    l1_mbps: float | None
    payload_mbps: float | None
    cpu_busy_max: float | None
    why_none: str | None
    rank_by_estimate: int | None
    rank_best: int | None
    rank_worst: int | None


class DeviceOutput(Struct, forbid_unknown_fields=True):
    """A device; ranks gained are from the throughput test to the small-packet test."""

    device: str
    kind: str
    ranks_gained: int | None
    ranks_gained_clear: bool | None
    throughput: ForwardValue
    overload: ForwardValue
    loss_free: ForwardValue


class ToldApart(Struct, forbid_unknown_fields=True):
    """Pairs of devices."""

    pairs_told_apart: int
    pairs: int


class ForwardCompareOutput(Struct, forbid_unknown_fields=True):
    """Devices of forwarding tests."""

    small_frame_bytes: list[int]
    large_frame_bytes: list[int]
    devices: list[DeviceOutput]
    told_apart: dict[str, ToldApart]
    notes: list[str]
