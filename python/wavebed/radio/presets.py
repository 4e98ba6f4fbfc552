"""Settings of the radio and Wi-Fi stages of both directions, of parts that `wavebed.spec.types` has."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from wavebed.config.units import Limit
from wavebed.output import write_output
from wavebed.spec import types as spec
from wavebed.spec.network import WrittenQueue
from wavebed.spec.part import plain
from wavebed.spec.types import AmRlc, ConstantRate, Drx, GrantLosses, Grants, Harq, Reordering, Rrc, Slots

if TYPE_CHECKING:
    from wavebed.config.data import Json
    from wavebed.spec.types import Aggregation, Connection, Load


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


_MS: Final = 1_000_000
_MIB: Final = 1 << 20
SPECIAL_SYMBOLS: Final = (10, 2, 2)
"""TS 38.101-4 Table A.1.3-2, FR2.120-1."""

UE_QUEUE: Final = WrittenQueue("droptail", Limit(packets=100))
"""Packets that wait in the UE: an assumption, shallow against every radio buffer here."""

SLEEP: Final[dict[Technology, tuple[Drx, Rrc]]] = {
    # Derived from the public probe of a 5G NSA mmWave network (Narayanan et al., SIGCOMM 2021): RTT after an idle gap
    # rises from 53 ms to a saw-tooth of 65 to 140 ms that falls by 20 ms for every 100 ms of idle time (a long cycle
    # of 80 ms); from 10.2 s on to one that falls by 100 ms for every 100 ms and starts again every 1.28 s (paging),
    # never below 0.3 s (promotion and the RTT).
    "nr": (
        Drx(inactivity_ns=100 * _MS, short_cycle_ns=None, short_cycles=0, long_cycle_ns=80 * _MS, on_ns=10 * _MS),
        Rrc(inactivity_ns=10_200 * _MS, promotion_ns=270 * _MS, paging_ns=1280 * _MS),
    ),
    # Huang et al., "A Close Examination of Performance and Power Characteristics of 4G LTE Networks", MobiSys 2012,
    # Table 3: measured on one operator's network.
    "lte": (
        Drx(inactivity_ns=100 * _MS, short_cycle_ns=20 * _MS, short_cycles=1, long_cycle_ns=40 * _MS, on_ns=1 * _MS),
        Rrc(inactivity_ns=11_576 * _MS, promotion_ns=260 * _MS, paging_ns=1280 * _MS),
    ),
}
"""The values of ``drx = "on"`` and ``rrc = "on"``."""

GRANT_LOSSES: Final = GrantLosses(
    request=0.01,  # TS 38.104 8.3: a base station misses at most 1 % of what PUCCH carries
    report=0.01,  # assumption, as for requests: the error rate that link adaptation leaves after a retransmission
    prohibit_ns=0,  # TS 38.331 SchedulingRequestConfig: 0 without the field
    most_requests=64,  # the largest of TS 38.331
    access_ns=20 * _MS,  # assumption: four steps, each some slots, and a wait for the occasion
    retry_ns=80 * _MS,  # OAI: sf80
)
"""The values of ``losses = "on"`` of grants."""

SPLIT_REORDERING_NS: Final = 500 * _MS
"""t-Reordering of a split bearer, a value of TS 38.331: changes of the NR cell took up to 404 ms, and the
median one lost nothing (docs/validation/handovers.md)."""
SPLIT_TARGET_NS: Final = 10 * _MS
"""What may wait in a leg of a split bearer: an assumption. TS 38.425 leaves the desired buffer size to the nodes; it is
more than an LTE grant takes (8 ms), so that both legs are full."""


def _harq(feedback_slots: int, schedule_slots: int, processes: int) -> Harq:
    return Harq(
        processes=processes,
        feedback_slots=feedback_slots,
        schedule_slots=schedule_slots,
        limit=4,  # one for each redundancy version: TS 38.212 5.4.2.1, TS 36.212 5.1.4.1.2
        combining_gain_db=3.0,  # the energy of two equal transmissions (Chase combining)
        # The slope of the curves that make error rates here (docs/models/link-adaptation.md): a decoder by the normal
        # approximation of Polyanskiy, Poor and Verdu (2010), and 0.5 dB of what the SINR of a slot does not say. A
        # flatter one would combine less than the curve along which the rate fell, and fail where no decoder does.
        slope_per_db=3.8,
    )


def _rlc(grants: Grants, slot_ns: int, retransmissions: int) -> Rlc:
    """Return RLC AM with t-Reassembly (LTE: t-Reordering) and t-PollRetransmit as the standards give them by default.

    TS 38.331 9.2.1 and TS 36.331 9.2.1.1 have no other defaults than these, of the signalling bearers; t-StatusProhibit
    is 0 there, so that a report takes only its own way: a grant, the slot that is granted, and its length.
    """
    status_ns = (grants.schedule_slots + grants.prepare_slots + 1) * slot_ns
    am = AmRlc(
        reassembly_ns=35 * _MS,
        poll_ns=45 * _MS,
        status_ns=status_ns,
        retransmissions=retransmissions,
        reestablish_ns=100 * _MS,  # assumption, as `reestablish` of a scene: T301 is 100 ms to 2 s (TS 38.331)
    )
    return Rlc("am", am)


def _direction(
    buffer_bytes: int, overhead_bytes: int, rlc: Rlc, reordering: Reordering, grants: Grants | None
) -> DirectionSettings:
    return DirectionSettings(
        queue=WrittenQueue("droptail", Limit(bytes=buffer_bytes)),
        discard_ns=None,  # discardTimer infinity: OAI; with RLC AM a deep buffer is what phones show under load
        overhead_bytes=overhead_bytes,
        rlc=rlc,
        reordering=reordering,
        grants=grants,
        handover="forward",  # TS 38.300 9.2.3.2, TS 36.300 10.1.2.3: data of AM bearers is forwarded
    )


def _nr(numerology: int) -> RadioSettings:
    slot_ns = _MS >> numerology
    grants = Grants(
        request_slots=10,  # assumption: sl10 of TS 38.331 SchedulingRequestResourceConfig
        schedule_slots=2,  # 5G-LENA
        prepare_slots=(2, 2, 2, 3)[
            numerology
        ],  # N2 = 10, 12, 23, 36 symbols: TS 38.214 Table 6.4-1; at least 5G-LENA's
        first_bytes=512,  # the grant of srsRAN after a scheduling request
    )
    # SDAP 1 (TS 37.324), PDCP 3 and RLC AM 3 (18-bit numbers, TS 38.323 6.2.2.3, TS 38.322 6.2.2.4), MAC 3 (TS 38.321).
    overhead_bytes = 10
    rlc = _rlc(grants, slot_ns, retransmissions=8)  # TS 38.331 9.2.1
    reordering = Reordering(100 * _MS)  # OAI; more than t-Reassembly and a retransmission of RLC take
    return RadioSettings(
        preset=preset_name("nr", numerology),
        slots=Slots(
            slot_ns=slot_ns,
            # FDD is usual at 15 kHz; DDDSU is FR2.120-1 of TS 38.101-4 Table A.1.3-2.
            frame="" if numerology == 0 else "DDDSU",
            special_symbols=SPECIAL_SYMBOLS,
            prepare_ns=2 * slot_ns,  # 5G-LENA
            decode_ns=100_000,  # 5G-LENA
            harq=_harq(feedback_slots=2, schedule_slots=2, processes=16),  # 5G-LENA; TS 38.214 5.1: at most 16
        ),
        fallback=None,
        down=_direction(20 * _MIB, overhead_bytes, rlc, reordering, None),  # kau-e5g
        up=_direction(20 * _MIB, overhead_bytes, rlc, reordering, grants),  # kau-e5g
        connection=None,
    )


def _lte() -> RadioSettings:
    grants = Grants(
        request_slots=10,  # TR 36.881 5.2: a scheduling request every 10 ms
        schedule_slots=4,  # TS 36.213 8: four subframes from what is received to what answers it
        prepare_slots=4,  # TS 36.213 8.0: PUSCH in subframe n + 4
        first_bytes=512,  # as for NR
    )
    # PDCP 2 (12-bit numbers, TS 36.323 6.2.4), a length field of 12 bits in the RLC header (TS 36.322 6.2.2.5).
    overhead_bytes = 4
    rlc = _rlc(grants, _MS, retransmissions=4)  # TS 36.331 9.2.1.1
    reordering = Reordering(None)  # TS 36.322 5.1.3.2.3: RLC AM waits until the gap is filled
    return RadioSettings(
        preset="lte",
        slots=Slots(
            slot_ns=_MS,
            frame="",
            special_symbols=SPECIAL_SYMBOLS,
            prepare_ns=2 * _MS,  # ns-3 LENA
            decode_ns=1_500_000,  # assumption: half of the 3 ms that TS 36.213 10.1 leaves until the acknowledgement
            harq=_harq(feedback_slots=4, schedule_slots=4, processes=8),  # TS 36.213 7: 8 processes, 8 ms in all
            code="turbo",  # TS 36.212 5.1.3.2
        ),
        fallback=None,
        down=_direction(_MIB, overhead_bytes, rlc, reordering, None),  # ns-3 LENA
        up=_direction(_MIB, overhead_bytes, rlc, reordering, grants),  # ns-3 LENA
        connection=None,
    )


_WIFI = WifiSettings(
    preset="802.11ad",
    queue=WrittenQueue("droptail", Limit(packets=1000)),  # Linux: the default length of an interface's queue
    aggregate_bytes=262_143,  # IEEE 802.11-2020 9.4.2.127: largest A-MPDU of a DMG station, 2^18 - 1
    aggregate_frames=64,  # IEEE 802.11-2020 9.3.1.8: bitmap of a block acknowledgement
    # Two preambles and headers, the block acknowledgement, two SIFS, and a third of a contention: see
    # wavebed.channel.adaptation.wifi_overhead_ns(3), rounded.
    overhead_ns=30_000,
    retries=7,  # IEEE 802.11-2020 Annex C, dot11ShortRetryLimit
    overhead_bytes=42,  # QoS header 26, FCS 4, LLC and SNAP 8, delimiter of the A-MPDU 4
)


def preset_name(technology: Technology, numerology: int | None = None) -> str:
    """Return the name of the preset: ``nr-120khz``, ``lte``, ``802.11ad``."""
    return f"nr-{15 << (numerology or 0)}khz" if technology == "nr" else technology


def preset_of(slots: Slots) -> RadioSettings:
    """Return the preset whose carrier has slots of this length and this channel code."""
    presets = [each for each in PRESETS.values() if isinstance(each, RadioSettings)]
    own = (slots.slot_ns, slots.code)
    return next(each for each in presets if (each.slots.slot_ns, each.slots.code) == own)


def technology_of(preset: str) -> Technology:
    """Return the technology of a preset."""
    if preset.startswith("nr-"):
        return "nr"
    return "lte" if preset == "lte" else "802.11ad"


_ALL: Final[tuple[MacSettings, ...]] = (*(_nr(numerology) for numerology in range(4)), _lte(), _WIFI)
PRESETS: Final = {settings.preset: settings for settings in _ALL}
"""The presets by name."""


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
        rlc=_rlc_of(side.rlc),
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
    return spec.Split(target_ns=SPLIT_TARGET_NS, threshold_bytes=threshold_bytes, rlc=_rlc_of(rlc), grants=grants)


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


def _rlc_of(rlc: Rlc) -> spec.Rlc:
    return rlc.am if rlc.mode == "am" else spec.UmRlc()


def _buffer(queue: WrittenQueue) -> spec.Queue:
    """Return the buffer of a radio, in which a dual queue predicts delays."""
    return queue.build(predict_ns=PREDICT_NS) if queue.has("predict_ns") else queue.build()


def preset_stages() -> str:
    """Return the JSON of all presets: by name and direction a stage without the key ``rate``."""
    stages = {name: {"down": _stage(preset, "down"), "up": _stage(preset, "up")} for name, preset in PRESETS.items()}
    return json.dumps(stages, indent=1) + "\n"


def _stage(preset: MacSettings, direction: Literal["down", "up"]) -> dict[str, Json]:
    rate = ConstantRate(1)
    stage = radio_stage(preset, direction, rate) if isinstance(preset, RadioSettings) else wifi_stage(preset, rate)
    return {key: value for key, value in plain(stage).items() if key != "rate"}


if __name__ == "__main__":
    write_output(sys.argv[1], preset_stages(), "FILE")
