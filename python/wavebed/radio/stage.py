"""Turn settings of a radio, a Wi-Fi link or a device into the stages of one link (`wavebed.spec`)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

from wavebed.spec import link, radio

if TYPE_CHECKING:
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

__all__ = ["device_stage", "queue_of", "radio_stage", "wifi_stage"]

_DEFAULTS = ("target_ns", "interval_ns", "ecn", "flows", "quantum_bytes")


def queue_of(queue: Queue) -> link.Queue:
    """Return a queue, which has a limit if its kind needs one, as the engine takes it."""
    if queue.kind == "infinite":
        return link.Infinite()
    assert queue.limit is not None, "whoever resolves a path gives a limit"
    limit = link.Limit(*queue.limit)
    if queue.kind in ("droptail", "drophead"):
        return link.DropTail(limit) if queue.kind == "droptail" else link.DropHead(limit)
    given = {key: getattr(queue, key) for key in _DEFAULTS if getattr(queue, key) is not None}
    return link.Codel(limit, **given) if queue.kind == "codel" else link.FqCodel(limit, **given)


def radio_stage(settings: RadioSettings, direction: Literal["down", "up"], rate: radio.AirRate) -> radio.Radio:
    """Return the radio stage of one direction.

    Parameters
    ----------
    settings : RadioSettings
        The radio of the segment.
    direction : str
        ``down`` or ``up``.
    rate : Constant or PatternRate
        What drives it.
    """
    side = settings.down if direction == "down" else settings.up
    return radio.Radio(
        direction=direction,
        rate=rate,
        bler=settings.bler,
        slots=_slots(settings.slots),
        fallback=None if settings.fallback is None else _slots(settings.fallback),
        queue=queue_of(side.queue),
        discard_ns=side.discard_ns,
        overhead_bytes=side.overhead_bytes,
        rlc=_rlc(side.rlc),
        reordering=None if side.reordering is None else radio.Reordering(side.reordering.timer_ns),
        grants=None if side.grants is None else _grants(side.grants),
        connection=None if settings.connection is None else _connection(settings.connection),
        handover=side.handover,
    )


def wifi_stage(settings: WifiSettings, rate: radio.AirRate) -> radio.Wifi:
    """Return the 802.11ad stage of one direction."""
    return radio.Wifi(
        rate=rate,
        bler=settings.bler,
        queue=queue_of(settings.queue),
        aggregate_bytes=settings.aggregate_bytes,
        aggregate_frames=settings.aggregate_frames,
        overhead_ns=settings.overhead_ns,
        retries=settings.retries,
        overhead_bytes=settings.overhead_bytes,
    )


def device_stage(settings: DeviceSettings, direction: Literal["down", "up"]) -> link.Bottleneck | None:
    """Return the device's own stage of one direction: a bottleneck in packets per second; ``None``: not limited."""
    limit = settings.down_packets_per_s if direction == "down" else settings.up_packets_per_s
    return None if limit is None else link.Bottleneck(link.PacketRate(limit), queue_of(settings.queue))


def _slots(slots: SlotSettings) -> radio.Slots:
    return radio.Slots(
        slot_ns=slots.slot_ns,
        frame=slots.frame,
        special_symbols=slots.special_symbols,
        prepare_ns=slots.prepare_ns,
        decode_ns=slots.decode_ns,
        harq=None if slots.harq is None else radio.Harq(**asdict(slots.harq)),
    )


def _rlc(rlc: Rlc) -> radio.RlcAm | radio.RlcUm:
    if rlc.mode == "um":
        return radio.RlcUm()
    return radio.RlcAm(rlc.reassembly_ns, rlc.poll_ns, rlc.status_ns, rlc.retransmissions)


def _grants(grants: Grants) -> radio.Grants:
    configured = None
    if grants.configured_slots is not None and grants.configured_bytes is not None:
        configured = radio.Configured(grants.configured_slots, grants.configured_bytes)
    return radio.Grants(
        request_slots=grants.request_slots,
        schedule_slots=grants.schedule_slots,
        prepare_slots=grants.prepare_slots,
        first_bytes=grants.first_bytes,
        configured=configured,
    )


def _connection(connection: Connection) -> radio.Connection:
    return radio.Connection(
        drx=None if connection.drx is None else radio.Drx(**asdict(connection.drx)),
        rrc=None if connection.rrc is None else radio.Rrc(**asdict(connection.rrc)),
    )
