"""The outputs of runs and their reports."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from wavebed.result.model import Verdict

__all__ = ["IdentityOutput", "JudgedMetric", "JudgedOutput", "Median", "MetricMedians", "ReportOutput", "RunOutput"]


class Median(Struct, forbid_unknown_fields=True):
    """The median over the counted trials of a treatment, in the metric's unit, with its interval at `level`."""

    median: float | None
    low: float | None
    high: float | None
    level: float | None
    count: int


class MetricMedians(Struct, forbid_unknown_fields=True):
    """A metric, and its medians by treatment."""

    workload: str
    name: str
    unit: str
    treatments: dict[str, Median]


class IdentityOutput(Struct, forbid_unknown_fields=True):
    """A repetition in virtual time beside its `first` run: the first difference, and the inputs that differ."""

    first: str
    identical: bool
    compared: list[str]
    difference: str | None
    inputs: list[str]


class RunOutput(Struct, forbid_unknown_fields=True):
    """The results of a run; `report` is null if it could not be written, `identity` is of `rerun` in virtual time."""

    folder: str
    trials: int
    verdicts: dict[Verdict, int]
    metrics: list[MetricMedians]
    report: str | None
    identity: IdentityOutput | None = None


class ReportOutput(Struct, forbid_unknown_fields=True):
    """The file of a report."""

    report: str


class JudgedMetric(Struct, forbid_unknown_fields=True):
    """A metric of live and of replayed trials; medians are in `unit`, `estimate`, `low` and `high` on `scale`."""

    workload: str
    metric: str
    unit: str
    over: str
    live_median: float | None
    replayed_median: float | None
    trials: list[int]
    scale: Literal["difference", "ratio"]
    estimate: float | None
    low: float | None
    high: float | None
    level: float | None
    margin: float | None
    verdict: str


class JudgedOutput(Struct, forbid_unknown_fields=True):
    """The judgement of a recording; `margin` is a fraction."""

    margin: float
    metrics: list[JudgedMetric]
