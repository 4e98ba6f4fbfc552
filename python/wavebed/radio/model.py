"""Settings of the radio and Wi-Fi stages, as the laboratory file has them (``docs/development/laboratory-file.md``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from wavebed.path.model import Queue

__all__ = [
    "Connection",
    "DeviceSettings",
    "DirectionSettings",
    "Drx",
    "Grants",
    "Harq",
    "RadioSettings",
    "Reordering",
    "Rlc",
    "Rrc",
    "SlotSettings",
    "WifiSettings",
]


@dataclass(frozen=True, slots=True)
class Harq:
    """Hybrid ARQ of one carrier; times in slots of that carrier."""

    processes: int
    feedback_slots: int
    schedule_slots: int
    limit: int
    combining_gain_db: float
    slope_per_db: float


@dataclass(frozen=True, slots=True)
class SlotSettings:
    """Slots of one carrier. `frame` is empty for FDD; `harq` is ``None`` when off."""

    slot_ns: int
    frame: str
    special_symbols: tuple[int, int, int]
    prepare_ns: int
    decode_ns: int
    harq: Harq | None


@dataclass(frozen=True, slots=True)
class Rlc:
    """RLC mode; the times matter to ``am`` only."""

    mode: Literal["am", "um"]
    reassembly_ns: int = 0
    poll_ns: int = 0
    status_ns: int = 0
    retransmissions: int = 0


@dataclass(frozen=True, slots=True)
class Reordering:
    """In-order delivery. `timer_ns` ``None``: wait until the gap is filled or given up (LTE RLC AM)."""

    timer_ns: int | None


@dataclass(frozen=True, slots=True)
class Grants:
    """How the uplink is scheduled. `configured_bytes` with `configured_slots` is a configured grant."""

    request_slots: int
    schedule_slots: int
    prepare_slots: int
    first_bytes: int
    configured_slots: int | None = None
    configured_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Drx:
    """Connected-mode sleep (TS 38.321 5.7)."""

    inactivity_ns: int
    short_cycle_ns: int | None
    short_cycles: int
    long_cycle_ns: int
    on_ns: int


@dataclass(frozen=True, slots=True)
class Rrc:
    """Release to idle or inactive, and the way back."""

    inactivity_ns: int
    promotion_ns: int
    paging_ns: int


@dataclass(frozen=True, slots=True)
class Connection:
    """Sleep states, shared by the two directions of a segment. ``None`` is off."""

    drx: Drx | None
    rrc: Rrc | None


@dataclass(frozen=True, slots=True)
class DirectionSettings:
    """The radio stage of one direction. ``None`` is off."""

    queue: Queue
    discard_ns: int | None
    overhead_bytes: int
    rlc: Rlc
    reordering: Reordering | None
    grants: Grants | None
    handover: Literal["forward", "lose"]


@dataclass(frozen=True, slots=True)
class RadioSettings:
    """The radio stage of both directions of a segment (NR, LTE)."""

    preset: str
    slots: SlotSettings
    fallback: SlotSettings | None
    down: DirectionSettings
    up: DirectionSettings
    connection: Connection | None
    bler: float | None = None


@dataclass(frozen=True, slots=True)
class WifiSettings:
    """The 802.11ad stage of both directions: A-MPDU, block acknowledgement, retries."""

    preset: str
    queue: Queue
    aggregate_bytes: int
    aggregate_frames: int
    overhead_ns: int
    retries: int
    overhead_bytes: int
    bler: float | None = None


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """The device's own stage: so many packets per second, behind a shallow queue. ``None``: not limited."""

    down_packets_per_s: int | None
    up_packets_per_s: int | None
    queue: Queue


MacSettings: TypeAlias = RadioSettings | WifiSettings
