"""Turn settings of a radio, a Wi-Fi link or the limit of a UE into the stages of one link (`wavebed.spec`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec.structs import replace

from wavebed.radio.presets import SPLIT_TARGET_NS, preset_of
from wavebed.spec import types as spec

if TYPE_CHECKING:
    from wavebed.radio.model import RadioSettings, Rlc, UeLimit, WifiSettings
    from wavebed.spec.queue import WrittenQueue

__all__ = ["AirRate", "radio_stage", "ue_limit_stage", "wifi_stage"]

AirRate: TypeAlias = spec.ConstantRate | spec.PatternRate
"""Rates that a radio takes."""
PREDICT_NS = 12_500_000
"""An assumption: at least the frames of every preset, and less than the round trip of a sender."""


def radio_stage(settings: RadioSettings, direction: Literal["down", "up"], rate: AirRate) -> spec.RadioStage:
    """Return the radio stage of one direction.

    Parameters
    ----------
    settings : RadioSettings
        The radio of the hop.
    direction : str
        ``down`` or ``up``.
    rate : ConstantRate or PatternRate
        Its rate.
    """
    side = settings.down if direction == "down" else settings.up
    return spec.RadioStage(
        direction=direction,
        rate=rate,
        bler=settings.bler,
        slots=settings.slots,
        fallback=settings.fallback,
        queue=_buffer(side.queue),
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


def _split(settings: RadioSettings, direction: Literal["down", "up"]) -> spec.Split | None:
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
    return spec.Split(target_ns=SPLIT_TARGET_NS, threshold_bytes=threshold_bytes, rlc=_rlc(rlc), grants=grants)


def wifi_stage(settings: WifiSettings, rate: AirRate) -> spec.WifiStage:
    """Return the 802.11ad stage of one direction."""
    return spec.WifiStage(
        rate=rate,
        bler=settings.bler,
        queue=settings.queue.build(),
        aggregate_bytes=settings.aggregate_bytes,
        aggregate_frames=settings.aggregate_frames,
        overhead_ns=settings.overhead_ns,
        retries=settings.retries,
        overhead_bytes=settings.overhead_bytes,
    )


def ue_limit_stage(settings: UeLimit, direction: Literal["down", "up"]) -> spec.BottleneckStage | None:
    """Return the UE's limit in one direction: a bottleneck in packets per second; ``None``: not limited."""
    limit = settings.down_packets_per_s if direction == "down" else settings.up_packets_per_s
    return None if limit is None else spec.BottleneckStage(spec.PacketsRate(limit), settings.queue.build())


def _rlc(rlc: Rlc) -> spec.Rlc:
    return rlc.am if rlc.mode == "am" else spec.UmRlc()


def _buffer(queue: WrittenQueue) -> spec.Queue:
    """Return the buffer of a radio, in which a dual queue predicts delays."""
    return queue.build(predict_ns=PREDICT_NS) if queue.has("predict_ns") else queue.build()
