"""The outputs of ``wavebed fit``."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = ["FitOutput", "ReplayOutput"]


class Thresholds(Struct, forbid_unknown_fields=True):
    """Rates that separate the classes of a network; null where it has none."""

    none: float | None
    low: float | None
    high: float | None


class FitDistance(Struct, forbid_unknown_fields=True):
    """A Kolmogorov-Smirnov distance, 0 to 1."""

    key: str
    name: str
    fitted: float | None
    held_out: float | None
    floor: float | None
    target: float | None
    met: bool | None


class FitBand(Struct, forbid_unknown_fields=True):
    """Percentiles over walks, in the trait's unit."""

    p10: float | None
    p50: float | None
    p90: float | None


class FitTrait(Struct, forbid_unknown_fields=True):
    """A property of single walks."""

    name: str
    unit: str
    drawn: FitBand
    fitted: FitBand
    held_out: FitBand
    met: bool


class FitApplication(Struct, forbid_unknown_fields=True):
    """A figure of a replayed application, in `unit`; deviations are fractions, `ks` are distances, 0 to 1."""

    key: str
    name: str
    unit: str
    drawn: float | None
    fitted: float | None
    held_out: float | None
    deviation_share: float | None
    ks: float | None
    floor_deviation_share: float | None
    floor_ks: float | None
    met: bool | None


class FitScores(Struct, forbid_unknown_fields=True):
    """Errors of a prediction of seconds; the correlation is that of means over a minute."""

    mae_mbps: float
    crps_gain_share: float
    minute_correlation: float | None


class FitPrediction(Struct, forbid_unknown_fields=True):
    """A prediction of seconds, and what it uses."""

    key: str
    name: str
    uses: str
    fitted: FitScores | None
    held_out: FitScores | None


class FittedValueOutput(Struct, forbid_unknown_fields=True):
    """A value with its 90 % interval, each a text with its unit."""

    key: str
    value: str
    low: str
    high: str


class FitOutput(Struct, forbid_unknown_fields=True):
    """The judgement of what was learned."""

    method: str
    rule: str
    network: str
    thresholds_mbps: Thresholds
    fitted_walks: list[str]
    held_out_walks: list[str]
    fitted_s: int
    drawn_walks: int
    verdict: str
    distances: list[FitDistance]
    traits: list[FitTrait]
    applications: list[FitApplication]
    predictions: list[FitPrediction]
    values: list[FittedValueOutput]


class ReplayRate(Struct, forbid_unknown_fields=True):
    """Percentiles over time."""

    p10: float
    p50: float
    p90: float


class ReplayDelay(ReplayRate, forbid_unknown_fields=True):
    """Percentiles over time, and the least value."""

    least: float


class ReplayOutput(Struct, forbid_unknown_fields=True):
    """Two recordings, combined."""

    method: Literal["replay"]
    duration_s: float
    heavy: str
    light: str
    rate_mbps: ReplayRate
    delay_ms: ReplayDelay
