"""Turn settings of a radio, a Wi-Fi link or the limit of a UE into the stages of one link (`wavebed.spec`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from wavebed.radio.presets import SPLIT_TARGET_NS, preset_of
from wavebed.spec import link, radio

if TYPE_CHECKING:
    from wavebed.config.queue import Queue
    from wavebed.radio.model import RadioSettings, Rlc, UeLimit, WifiSettings

__all__ = ["queue_of", "radio_stage", "ue_limit_stage", "wifi_stage"]

_KEYS = {
    "codel": ("target_ns", "interval_ns", "ecn", "ce_threshold_ns"),
    "fq_codel": ("target_ns", "interval_ns", "ecn", "flows", "quantum_bytes", "ce_threshold_ns"),
    "dualpi2": ("target_ns", "rtt_max_ns", "coupling", "threshold_ns", "range_ns"),
}
PREDICT_NS = 12_500_000
"""An assumption: at least the frames of every preset, and less than the round trip of a sender."""


def queue_of(queue: Queue, *, predict_ns: int = 0) -> link.Queue:
    """Return a queue, which has a limit if its kind needs one, as the engine takes it.

    Parameters
    ----------
    queue : Queue
        The queue.
    predict_ns : int
        The window of a dual queue that was given none; 0: delays are measured.
    """
    if queue.kind == "infinite":
        return link.Infinite()
    limit = queue.limit
    assert limit is not None, "whoever resolves a path gives a limit"
    if queue.kind in ("droptail", "drophead"):
        return link.DropTail(limit) if queue.kind == "droptail" else link.DropHead(limit)
    given = {key: getattr(queue, key) for key in _KEYS[queue.kind] if getattr(queue, key) is not None}
    if queue.kind == "dualpi2":
        window_ns = predict_ns if queue.predict_ns is None else queue.predict_ns
        return link.DualPi2(limit, **given, predict_ns=window_ns or None)
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
        queue=queue_of(side.queue, predict_ns=PREDICT_NS),
        discard_ns=side.discard_ns,
        overhead_bytes=side.overhead_bytes,
        rlc=_rlc(side.rlc),
        reordering=side.reordering,
        grants=side.grants,
        connection=settings.connection,
        handover=side.handover,
        load=side.load,
        split=_split(settings, direction),
        aggregation=settings.aggregation if direction == "down" else None,
    )


def _split(settings: RadioSettings, direction: Literal["down", "up"]) -> radio.Split | None:
    """Return the split bearer: the leg on the fallback carrier has RLC and grants of its own preset."""
    if settings.bearer == "switched" or settings.fallback is None:
        return None
    down = direction == "down"
    side = settings.down if down else settings.up
    other = preset_of(settings.fallback)
    rlc = replace((other.down if down else other.up).rlc, mode=side.rlc.mode)
    grants = None if side.grants is None else other.up.grants
    # A base station is free to use both legs; TS 38.323 has a threshold for the UE.
    threshold_bytes = 0 if down else settings.up_threshold_bytes
    return radio.Split(SPLIT_TARGET_NS, threshold_bytes, _rlc(rlc), grants)


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
    return radio.RlcAm(
        reassembly_ns=rlc.reassembly_ns,
        poll_ns=rlc.poll_ns,
        status_ns=rlc.status_ns,
        retransmissions=rlc.retransmissions,
        reestablish_ns=rlc.reestablish_ns,
        status_loss=rlc.status_loss,
        sn_bits=rlc.sn_bits,
    )
