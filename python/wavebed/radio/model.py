"""Settings of the radio and Wi-Fi stages of both directions, of parts that `wavebed.spec.types` has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from wavebed.spec.queue import WrittenQueue
    from wavebed.spec.types import Aggregation, AmRlc, Connection, Grants, Load, Reordering, Slots

__all__ = [
    "Bearer",
    "DirectionSettings",
    "MacSettings",
    "RadioSettings",
    "Rlc",
    "Technology",
    "UeLimit",
    "WifiSettings",
]


Bearer: TypeAlias = Literal["switched", "split"]


class Rlc(Struct, frozen=True):
    """RLC mode, and what acknowledged mode has."""

    mode: Literal["am", "um"]
    am: AmRlc


class DirectionSettings(Struct, frozen=True):
    """The radio stage of one direction. ``None`` is off."""

    queue: WrittenQueue
    discard_ns: int | None
    overhead_bytes: int
    rlc: Rlc
    reordering: Reordering | None
    grants: Grants | None
    handover: Literal["forward", "lose"]
    load: Load | None = None


class RadioSettings(Struct, frozen=True):
    """The radio stage of both directions of a hop (NR, LTE).

    `bearer` says how traffic uses the fallback carrier: instead of the carrier while that has failed, or beside it.
    `up_threshold_bytes`: waiting bytes from which on the uplink of a split bearer uses both; ``None``: infinity.
    """

    preset: str
    slots: Slots
    fallback: Slots | None
    down: DirectionSettings
    up: DirectionSettings
    connection: Connection | None
    bler: float | None = None
    bearer: Bearer = "switched"
    up_threshold_bytes: int | None = None
    aggregation: Aggregation | None = None
    """Of the downlink."""


class WifiSettings(Struct, frozen=True):
    """The 802.11ad stage of both directions: A-MPDU, block acknowledgement, retries."""

    preset: str
    queue: WrittenQueue
    aggregate_bytes: int
    aggregate_frames: int
    overhead_ns: int
    retries: int
    overhead_bytes: int
    bler: float | None = None


class UeLimit(Struct, frozen=True):
    """Packet-rate limit of the UE, behind a shallow queue. ``None``: not limited."""

    down_packets_per_s: int | None
    up_packets_per_s: int | None
    queue: WrittenQueue


Technology: TypeAlias = Literal["nr", "lte", "802.11ad"]
MacSettings: TypeAlias = RadioSettings | WifiSettings
