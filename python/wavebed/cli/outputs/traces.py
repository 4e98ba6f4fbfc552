"""The output of ``wavebed trace info``."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

__all__ = ["Light", "Outages", "TraceInfo", "TraceInfoList"]


class Outages(Struct, forbid_unknown_fields=True):
    """The times with this rate or less."""

    threshold_bps: int
    count: int
    total_s: float
    longest_s: float


class Light(Struct, forbid_unknown_fields=True):
    """The rate that the first bytes get after an idle time."""

    mean_bps: float | None
    percentiles_bps: dict[str, float]
    bytes: int | None
    idle_s: float


class TraceInfo(Struct, forbid_unknown_fields=True):
    """A trace. Keys of columns that it does not have are absent; shares are fractions, 0 to 1."""

    file: str
    kind: Literal["steps", "opportunities", "packets"]
    rows: int
    packets: int | UnsetType = UNSET
    duration_s: float | UnsetType = UNSET
    mean_bps: float | UnsetType | None = UNSET
    percentiles_bps: dict[str, float] | UnsetType = UNSET
    peak_bps: float | UnsetType | None = UNSET
    window_s: float | UnsetType = UNSET
    outages: Outages | UnsetType = UNSET
    light: Light | UnsetType = UNSET
    mean_delay_s: float | UnsetType = UNSET
    percentiles_delay_s: dict[str, float] | UnsetType = UNSET
    mean_loss_share: float | UnsetType | None = UNSET
    percentiles_loss_share: dict[str, float] | UnsetType = UNSET
    mean_bler_share: float | UnsetType | None = UNSET
    percentiles_bler_share: dict[str, float] | UnsetType = UNSET
    mean_sinr_db: float | UnsetType = UNSET
    percentiles_sinr_db: dict[str, float] | UnsetType = UNSET
    mean_need_db: float | UnsetType = UNSET
    percentiles_need_db: dict[str, float] | UnsetType = UNSET
    states_share: dict[str, float] | UnsetType = UNSET


class TraceInfoList(Struct, forbid_unknown_fields=True):
    """Several traces."""

    traces: list[TraceInfo]
