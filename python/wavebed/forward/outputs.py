"""What ``--json`` prints of forwarding tests."""

from __future__ import annotations

from msgspec import Struct

from wavebed.forward.findings import DeviceResult
from wavebed.result.model import Verdict

__all__ = ["DeviceOutput", "ForwardCompareOutput", "ForwardOutput", "ForwardResult", "ForwardValue", "ToldApart"]


class ForwardResult(DeviceResult, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The findings about a device, with the version of their record."""

    version: int


class ForwardOutput(Struct, forbid_unknown_fields=True):
    """A forwarding test; `report` is null if it could not be written."""

    verdict: Verdict
    folder: str
    report: str | None
    result: ForwardResult


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
