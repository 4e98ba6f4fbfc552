"""The outputs of ``wavebed scenes``."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = ["ConditionOutput", "NameOutput", "ProfileOutput", "ScenesOutput"]


class SpreadOutput(Struct, forbid_unknown_fields=True):
    """A figure over seeds: the median and the percentiles 5 and 95."""

    p50: float
    p5: float
    p95: float


class PublishedOutput(Struct, forbid_unknown_fields=True):
    """A published or measured figure, in words, and its source."""

    figure: str
    says: str
    source: str


class VariantOutput(Struct, forbid_unknown_fields=True):
    """A condition on one technology; rates are of whole seconds, and each figure is a spread over the seeds."""

    name: str
    technology: Literal["mmwave", "mid-band", "lte"]
    path: dict[str, str]
    note: str
    seeds: list[int]
    down_mean_bps: SpreadOutput
    down_median_bps: SpreadOutput
    down_p5_bps: SpreadOutput
    down_p95_bps: SpreadOutput
    up_median_bps: SpreadOutput
    no_service_share: SpreadOutput
    longest_gap_s: SpreadOutput
    rtt_idle_ms: float
    illustrative: bool
    published: list[PublishedOutput]


class ConditionOutput(Struct, forbid_unknown_fields=True):
    """A named condition."""

    kind: Literal["condition"]
    name: str
    title: str
    line: str
    happens: str
    shows: str
    variants: list[VariantOutput]


class ProfileOutput(Struct, forbid_unknown_fields=True):
    """A 5QI profile: a budget, not a measured network."""

    kind: Literal["5qi"]
    name: str
    resource: str
    packet_delay_budget_ms: int
    packet_error_rate: str
    service: str
    source: str
    statement: str


class NameOutput(Struct, forbid_unknown_fields=True):
    """A scenario of the QUIC network simulator, or a radio scene: the keys that it puts on a hop."""

    kind: Literal["quic", "scene"]
    name: str
    title: str
    hop: dict[str, object]


class ScenesOutput(Struct, forbid_unknown_fields=True):
    """Everything that has a name."""

    conditions: list[ConditionOutput]
    profiles: list[ProfileOutput]
    simulator: list[str]
    scenes: list[str]
