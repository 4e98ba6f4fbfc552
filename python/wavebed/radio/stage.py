"""Turn settings of a radio, a Wi-Fi link or the limit of a UE into the stages of one link (`wavebed.spec`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from wavebed.spec import link, radio

if TYPE_CHECKING:
    from wavebed.config.queue import Queue
    from wavebed.radio.model import RadioSettings, Rlc, UeLimit, WifiSettings

__all__ = ["queue_of", "radio_stage", "ue_limit_stage", "wifi_stage"]

_DEFAULTS = ("target_ns", "interval_ns", "ecn", "flows", "quantum_bytes")


def queue_of(queue: Queue) -> link.Queue:
    """Return a queue, which has a limit if its kind needs one, as the engine takes it."""
    if queue.kind == "infinite":
        return link.Infinite()
    limit = queue.limit
    assert limit is not None, "whoever resolves a path gives a limit"
    if queue.kind in ("droptail", "drophead"):
        return link.DropTail(limit) if queue.kind == "droptail" else link.DropHead(limit)
    given = {key: getattr(queue, key) for key in _DEFAULTS if getattr(queue, key) is not None}
    return link.Codel(limit, **given) if queue.kind == "codel" else link.FqCodel(limit, **given)


def radio_stage(settings: RadioSettings, direction: Literal["down", "up"], rate: radio.AirRate) -> radio.Radio:
    """Return the radio stage of one direction.

    Parameters
    ----------
    settings : RadioSettings
        The radio of the hop.
    direction : str
        ``down`` or ``up``.
    rate : Constant or PatternRate
        Its rate.
    """
    side = settings.down if direction == "down" else settings.up
    return radio.Radio(
        direction=direction,
        rate=rate,
        bler=settings.bler,
        slots=settings.slots,
        fallback=settings.fallback,
        queue=queue_of(side.queue),
        discard_ns=side.discard_ns,
        overhead_bytes=side.overhead_bytes,
        rlc=_rlc(side.rlc),
        reordering=side.reordering,
        grants=side.grants,
        connection=settings.connection,
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


def ue_limit_stage(settings: UeLimit, direction: Literal["down", "up"]) -> link.Bottleneck | None:
    """Return the UE's limit in one direction: a bottleneck in packets per second; ``None``: not limited."""
    limit = settings.down_packets_per_s if direction == "down" else settings.up_packets_per_s
    return None if limit is None else link.Bottleneck(link.PacketRate(limit), queue_of(settings.queue))


def _rlc(rlc: Rlc) -> radio.RlcAm | radio.RlcUm:
    if rlc.mode == "um":
        return radio.RlcUm()
    return radio.RlcAm(rlc.reassembly_ns, rlc.poll_ns, rlc.status_ns, rlc.retransmissions, rlc.reestablish_ns)
