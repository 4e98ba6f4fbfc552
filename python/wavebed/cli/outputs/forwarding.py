"""The outputs of forwarding tests."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from wavebed.cli.outputs.comparisons import ForwardCompareOutput
from wavebed.forward.findings import DeviceResult
from wavebed.result.model import Verdict

__all__ = ["ForwardOutput", "ForwardResult", "PublishedCpu", "PublishedRates", "PublishedTables", "SmallPacketsOutput"]


class ForwardResult(DeviceResult, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The findings about a device, with the version of their record."""

    version: int


class ForwardOutput(Struct, forbid_unknown_fields=True):
    """A forwarding test; `report` is null if it could not be written."""

    verdict: Verdict
    folder: str
    report: str | None
    result: ForwardResult


class PublishedCpu(Struct, forbid_unknown_fields=True):
    """A row of the first published table."""

    test: str
    rate: str
    cpu_share: float


class PublishedRates(Struct, forbid_unknown_fields=True):
    """A row of the second published table."""

    device: str
    processor: str
    throughput_mbps: float
    throughput_rank: int
    small_mpps: float
    small_rank: int


class PublishedTables(Struct, forbid_unknown_fields=True):
    """The published tables."""

    source: str
    table_1: list[PublishedCpu]
    table_2: list[PublishedRates]


class SmallPacketsOutput(Struct, forbid_unknown_fields=True):
    """The study of small packets, repeated; `iperf3` is what that program said of each device."""

    measured: ForwardCompareOutput
    blocks: list[list[str]]
    iperf3: dict[str, Any]
    published: PublishedTables
    seed: int
    folder: str
    report: str
