"""The output of ``wavebed channel``."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import UNSET, Struct, UnsetType

__all__ = ["ChannelOutput", "ChannelState", "ChannelSummary", "Spread"]


class Spread(Struct, forbid_unknown_fields=True):
    """Percentiles over the seeds, in the unit of the key."""

    p5: float
    p50: float
    p95: float


Figure: TypeAlias = float | Spread | None
"""A number, of several seeds with different values their percentiles; null without a value."""


class ChannelState(Struct, forbid_unknown_fields=True):
    """A state of the geometry; figures are absent where states differ between seeds."""

    state: str
    start_s: float
    end_s: float
    mean_sinr_db: Figure | UnsetType = UNSET
    mean_rate_bps: Figure | UnsetType = UNSET
    mean_up_rate_bps: Figure | UnsetType = UNSET
    mean_bler_share: Figure | UnsetType = UNSET


class ChannelSummary(Struct, forbid_unknown_fields=True):
    """The whole walk. A learned map has `map` and `source`, a scene the others."""

    seeds: list[int]
    duration_s: float
    mean_rate_bps: Figure
    percentiles_rate_bps: dict[str, Figure]
    scene: str | UnsetType = UNSET
    mode: str | UnsetType = UNSET
    map: str | UnsetType = UNSET
    source: str | UnsetType = UNSET
    mean_sinr_db: Figure | UnsetType = UNSET
    mean_up_rate_bps: Figure | UnsetType = UNSET
    mean_bler_share: Figure | UnsetType = UNSET
    percentiles_up_rate_bps: dict[str, Figure] | UnsetType = UNSET
    radio_states_share: dict[str, Figure] | UnsetType = UNSET
    states_decided_by: str | UnsetType = UNSET
    states_differ_by_seed: bool | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET


class ChannelOutput(Struct, forbid_unknown_fields=True):
    """A scene or a learned map; a map has no states."""

    states: list[ChannelState]
    summary: ChannelSummary
