"""Turn settings into the stages of one link in the laboratory file (``docs/development/laboratory-file.md``)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from wavebed.path.laboratory import Json
    from wavebed.path.model import Queue
    from wavebed.radio.model import (
        Connection,
        DeviceSettings,
        Grants,
        RadioSettings,
        Rlc,
        SlotSettings,
        WifiSettings,
    )

__all__ = ["device_stage", "queue_json", "radio_stage", "wifi_stage"]


def queue_json(queue: Queue) -> dict[str, Json]:
    """Return a queue as the laboratory file has it."""
    resolved: dict[str, Json] = {"kind": queue.kind}
    if queue.limit is not None:
        resolved["limit"] = dict(queue.limit.as_json())
    for key in ("target_ns", "interval_ns", "ecn", "flows", "quantum_bytes"):
        value: Json = getattr(queue, key)
        if value is not None:
            resolved[key] = value
    return resolved


def radio_stage(settings: RadioSettings, direction: Literal["down", "up"], rate: Json) -> dict[str, Json]:
    """Return the radio stage of one direction.

    Parameters
    ----------
    settings : RadioSettings
        The radio of the segment.
    direction : str
        ``down`` or ``up``.
    rate : dict
        RATE of the laboratory file, ``constant`` or ``pattern``.
    """
    side = settings.down if direction == "down" else settings.up
    return {
        "stage": "radio",
        "direction": direction,
        "rate": rate,
        "bler": settings.bler,
        "slots": _slots(settings.slots),
        "fallback": None if settings.fallback is None else _slots(settings.fallback),
        "queue": queue_json(side.queue),
        "discard_ns": side.discard_ns,
        "overhead_bytes": side.overhead_bytes,
        "rlc": _rlc(side.rlc),
        "reordering": None if side.reordering is None else {"timer_ns": side.reordering.timer_ns},
        "grants": None if side.grants is None else _grants(side.grants),
        "connection": None if settings.connection is None else _connection(settings.connection),
        "handover": side.handover,
    }


def wifi_stage(settings: WifiSettings, rate: Json) -> dict[str, Json]:
    """Return the 802.11ad stage of one direction; `rate` is RATE of the laboratory file."""
    return {
        "stage": "wifi",
        "rate": rate,
        "bler": settings.bler,
        "queue": queue_json(settings.queue),
        "aggregate_bytes": settings.aggregate_bytes,
        "aggregate_frames": settings.aggregate_frames,
        "overhead_ns": settings.overhead_ns,
        "retries": settings.retries,
        "overhead_bytes": settings.overhead_bytes,
    }


def device_stage(settings: DeviceSettings, direction: Literal["down", "up"]) -> dict[str, Json] | None:
    """Return the device's own stage of one direction: a bottleneck in packets per second; ``None``: not limited."""
    limit = settings.down_packets_per_s if direction == "down" else settings.up_packets_per_s
    if limit is None:
        return None
    return {
        "stage": "bottleneck",
        "rate": {"kind": "packets", "packets_per_s": limit},
        "queue": queue_json(settings.queue),
        "overhead_bytes": 0,
        "unit": "packet",
        "outage": "hold",
    }


def _slots(slots: SlotSettings) -> dict[str, Json]:
    return {
        "slot_ns": slots.slot_ns,
        "frame": slots.frame,
        "special_symbols": list(slots.special_symbols),
        "prepare_ns": slots.prepare_ns,
        "decode_ns": slots.decode_ns,
        "harq": None if slots.harq is None else asdict(slots.harq),
    }


def _rlc(rlc: Rlc) -> dict[str, Json]:
    return asdict(rlc) if rlc.mode == "am" else {"mode": "um"}


def _grants(grants: Grants) -> dict[str, Json]:
    configured: Json = None
    if grants.configured_slots is not None and grants.configured_bytes is not None:
        configured = {"slots": grants.configured_slots, "bytes": grants.configured_bytes}
    return {
        "request_slots": grants.request_slots,
        "schedule_slots": grants.schedule_slots,
        "prepare_slots": grants.prepare_slots,
        "first_bytes": grants.first_bytes,
        "configured": configured,
    }


def _connection(connection: Connection) -> dict[str, Json]:
    return {
        "drx": None if connection.drx is None else asdict(connection.drx),
        "rrc": None if connection.rrc is None else asdict(connection.rrc),
    }
