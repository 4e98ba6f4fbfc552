"""The outputs of ``wavebed scenes``."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

__all__ = ["ConditionOutput", "NamedOutput", "NamesOutput", "ProfileOutput"]


class FigureSpread(Struct, forbid_unknown_fields=True):
    """Median and percentiles over the seeds, in the unit of the key."""

    p50: float
    p5: float
    p95: float


class PublishedFigure(Struct, forbid_unknown_fields=True):
    """A published figure beside ours."""

    figure: str
    says: str
    source: str


class VariantOutput(Struct, forbid_unknown_fields=True):
    """A variant of a condition, with its figures over seeds."""

    name: str
    technology: str
    path: dict[str, str]
    note: str
    seeds: list[int]
    down_mean_bps: FigureSpread
    down_median_bps: FigureSpread
    down_p5_bps: FigureSpread
    down_p95_bps: FigureSpread
    up_median_bps: FigureSpread
    no_service_share: FigureSpread
    longest_gap_s: FigureSpread
    rtt_idle_ms: float
    illustrative: bool
    published: list[PublishedFigure]


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
    """A 5QI profile; the packet error rate is a percentage, as text."""

    kind: Literal["5qi"]
    name: str
    resource: str
    packet_delay_budget_ms: int
    packet_error_rate: str
    service: str
    source: str
    statement: str


class NamesOutput(Struct, forbid_unknown_fields=True):
    """Everything that has a name."""

    conditions: list[ConditionOutput]
    profiles: list[ProfileOutput]
    simulator: list[str]
    scenes: list[str]


class NamedOutput(Struct, forbid_unknown_fields=True):
    """A radio scene, or a scenario of the simulator of the QUIC interop runner; `hop` has the keys of a hop."""

    kind: str
    name: str
    title: str
    hop: dict[str, Any]
