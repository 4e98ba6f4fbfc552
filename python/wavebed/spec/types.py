"""The types of a specification: hosts, hops, and the stages of both directions of each hop.

Written by ``python -m wavebed.cli.specification`` from the types of ``wavebed-core``, which have bounds, default and
meaning of each value. What ties values together is checked there too: see `wavebed.spec.network`.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, field

from wavebed.config.units import Limit
from wavebed.spec.part import SpecPart


class OffCoalesce(SpecPart, frozen=True, tag_field="kind", tag="off"):
    """None: every wire segment is written alone."""


class SlotCoalesce(SpecPart, frozen=True, tag_field="kind", tag="slot"):
    """Those that leave at the same instant, as from one radio slot."""


class TimeCoalesce(SpecPart, frozen=True, tag_field="kind", tag="time"):
    """Those within this time of the first."""

    time_ns: Annotated[int, Meta(ge=1, le=10_000_000, description="The window: at most a radio frame.")]


Coalesce: TypeAlias = OffCoalesce | SlotCoalesce | TimeCoalesce
"""Which segments are coalesced."""


class Host(SpecPart, frozen=True):
    """A host."""

    name: Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$", description="Its name.")]
    congestion_control: Annotated[
        str | None, Meta(description="TCP congestion control of its connections; null: the machine's default.")
    ] = None
    sysctls: Annotated[dict[str, str], Meta(description="Settings of its network namespace.")] = field(
        default_factory=dict
    )


HopKind: TypeAlias = Literal["wired", "radio"]
"""The kind of a hop."""


class ConstantRate(SpecPart, frozen=True, tag_field="kind", tag="constant"):
    """A constant rate."""

    rate_bps: Annotated[int, Meta(ge=1, le=1_000_000_000_000, description="Bits per second.")]


End: TypeAlias = Literal["repeat", "hold", "stop"]
"""Behaviour after the end of a pattern."""


class PatternRate(SpecPart, frozen=True, tag_field="kind", tag="pattern"):
    """The ``rate_bps`` of a ``steps`` pattern."""

    file: Annotated[str, Meta(description="The pattern.")]
    end: Annotated[End, Meta(description="Behaviour after its end.")] = "repeat"
    start_ns: Annotated[int, Meta(ge=0, le=1_000_000_000_000_000_000, description="Its position at time 0.")] = 0


class OpportunitiesRate(SpecPart, frozen=True, tag_field="kind", tag="opportunities"):
    """An ``opportunities`` pattern."""

    file: Annotated[str, Meta(description="The pattern.")]
    end: Annotated[End, Meta(description="Behaviour after its end.")] = "repeat"
    start_ns: Annotated[int, Meta(ge=0, le=1_000_000_000_000_000_000, description="Its position at time 0.")] = 0


class TokenBucketRate(SpecPart, frozen=True, tag_field="kind", tag="token_bucket"):
    """A rate with bursts."""

    rate_bps: Annotated[int, Meta(ge=1, le=1_000_000_000_000, description="Bits per second.")]
    burst_bytes: Annotated[int, Meta(ge=1, le=1_000_000_000, description="Depth of the bucket, which starts full.")]


class PacketsRate(SpecPart, frozen=True, tag_field="kind", tag="packets"):
    """A rate in packets, independent of their size."""

    packets_per_s: Annotated[int, Meta(ge=1, le=1_000_000_000, description="Packets per second.")]


class SampledRate(SpecPart, frozen=True, tag_field="kind", tag="sampled"):
    """netem: the rate at the time of arrival, constant or from a pattern."""

    rate_bps: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000_000_000)] | None, Meta(description="Bits per second.")
    ] = None
    file: Annotated[str | None, Meta(description="The pattern.")] = None
    end: Annotated[End | None, Meta(description="Behaviour after its end.")] = None
    start_ns: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000_000_000_000_000)] | None, Meta(description="Its position at time 0.")
    ] = None


Rate: TypeAlias = ConstantRate | PatternRate | OpportunitiesRate | TokenBucketRate | PacketsRate | SampledRate
"""A server."""


class DroptailQueue(SpecPart, frozen=True, tag_field="kind", tag="droptail"):
    """Drops arrivals."""

    limit: Annotated[Limit, Meta(description="Its limit.")]


class DropheadQueue(SpecPart, frozen=True, tag_field="kind", tag="drophead"):
    """Drops the oldest segments."""

    limit: Annotated[Limit, Meta(description="Its limit.")]


class InfiniteQueue(SpecPart, frozen=True, tag_field="kind", tag="infinite"):
    """Never drops."""


class CodelQueue(SpecPart, frozen=True, tag_field="kind", tag="codel"):
    """RFC 8289."""

    limit: Annotated[Limit, Meta(description="Its limit.")]
    target_ns: Annotated[int, Meta(ge=1, le=1_000_000_000_000_000_000, description="Acceptable sojourn time.")] = (
        5_000_000
    )
    interval_ns: Annotated[
        int, Meta(ge=1, le=1_000_000_000_000_000_000, description="Window in which it must be met.")
    ] = 100_000_000
    ecn: Annotated[bool, Meta(description="Mark packets with ECN instead of dropping them.")] = False
    ce_threshold_ns: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000_000_000_000_000)] | None,
        Meta(description="Sojourn time after which ECT(1) is marked at once; else ECT(1) is as ECT(0)."),
    ] = None


class FqCodelQueue(SpecPart, frozen=True, tag_field="kind", tag="fq_codel"):
    """RFC 8290."""

    limit: Annotated[Limit, Meta(description="The limit of all queues together.")]
    target_ns: Annotated[int, Meta(ge=1, le=1_000_000_000_000_000_000, description="Acceptable sojourn time.")] = (
        5_000_000
    )
    interval_ns: Annotated[
        int, Meta(ge=1, le=1_000_000_000_000_000_000, description="Window in which it must be met.")
    ] = 100_000_000
    ecn: Annotated[bool, Meta(description="Mark packets with ECN instead of dropping them.")] = True
    ce_threshold_ns: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000_000_000_000_000)] | None,
        Meta(description="Sojourn time after which ECT(1) is marked at once; else ECT(1) is as ECT(0)."),
    ] = None
    flows: Annotated[int, Meta(ge=1, le=65_536, description="Queues.")] = 1_024
    quantum_bytes: Annotated[int, Meta(ge=1, le=4_294_967_295, description="Bytes of each queue per round.")] = 1_514


class Dualpi2Queue(SpecPart, frozen=True, tag_field="kind", tag="dualpi2"):
    """RFC 9332."""

    limit: Annotated[Limit, Meta(description="The limit of both queues together.")]
    target_ns: Annotated[int, Meta(ge=1, le=1_000_000_000_000_000_000, description="Delay of the classic queue.")] = (
        15_000_000
    )
    rtt_max_ns: Annotated[int, Meta(ge=1, le=1_000_000_000_000_000_000, description="Longest usual round trip.")] = (
        100_000_000
    )
    coupling: Annotated[float, Meta(ge=0.5, le=16.0, description="Coupling factor k.")] = 2.0
    threshold_ns: Annotated[
        int, Meta(ge=0, le=1_000_000_000_000_000_000, description="Delay after which ECT(1) is marked.")
    ] = 800_000
    range_ns: Annotated[
        int, Meta(ge=0, le=1_000_000_000_000_000_000, description="From there to the delay at which all are marked.")
    ] = 400_000
    predict_ns: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000_000_000_000_000)] | None,
        Meta(description="Predict delays from the rate during this time, in place of measuring them."),
    ] = None


Queue: TypeAlias = DroptailQueue | DropheadQueue | InfiniteQueue | CodelQueue | FqCodelQueue | Dualpi2Queue
"""A queue."""


Unit: TypeAlias = Literal["packet", "superpacket"]
"""The unit of loss and of queue limits."""


Outage: TypeAlias = Literal["hold", "drop"]
"""Handling of packets while the rate is zero."""


class BottleneckStage(SpecPart, frozen=True, tag_field="stage", tag="bottleneck"):
    """A queue and a server."""

    rate: Annotated[Rate, Meta(description="The server.")]
    queue: Annotated[Queue, Meta(description="The queue.")]
    overhead_bytes: Annotated[
        int, Meta(ge=0, le=1_000, description="Bytes that each wire segment takes beyond its IP bytes.")
    ] = 0
    unit: Annotated[Unit, Meta(description="The unit of limits and of service.")] = "packet"
    outage: Annotated[Outage, Meta(description="Handling of packets at rate zero.")] = "hold"


class ConstantDelay(SpecPart, frozen=True, tag_field="kind", tag="constant"):
    """A constant delay."""

    delay_ns: Annotated[int, Meta(ge=0, le=1_000_000_000_000_000_000, description="The delay.")]


class PatternDelay(SpecPart, frozen=True, tag_field="kind", tag="pattern"):
    """The ``delay_s`` of a pattern."""

    file: Annotated[str, Meta(description="The pattern, `steps` or `packets`.")]
    end: Annotated[End, Meta(description="Behaviour after its end.")] = "repeat"
    start_ns: Annotated[
        int, Meta(ge=0, le=1_000_000_000_000_000_000, description="Its position at time 0, nanoseconds.")
    ] = 0


Shape: TypeAlias = Literal["uniform", "normal", "pareto", "paretonormal"]
"""The shape of a delay distribution."""


class DistributionDelay(SpecPart, frozen=True, tag_field="kind", tag="distribution"):
    """Drawn for each wire segment."""

    shape: Annotated[Shape, Meta(description="Its shape.")]
    mean_ns: Annotated[int, Meta(ge=0, le=1_000_000_000_000_000_000, description="The mean.")]
    spread_ns: Annotated[int, Meta(ge=0, le=1_000_000_000_000_000_000, description="One unit of the shape.")]
    correlation: Annotated[float, Meta(ge=0.0, le=1.0, description="Correlation between neighbours.")] = 0.0


Delay: TypeAlias = ConstantDelay | PatternDelay | DistributionDelay
"""Source of the delays."""


class DelayStage(SpecPart, frozen=True, tag_field="stage", tag="delay"):
    """A delay."""

    delay: Annotated[Delay, Meta(description="Source of the delays.")]
    reorder: Annotated[bool, Meta(description="Whether a segment may overtake one with a longer delay.")] = False
    limit_packets: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000_000_000)] | None,
        Meta(description="Segments in flight at most; those beyond them are dropped."),
    ] = None


class IndependentLoss(SpecPart, frozen=True, tag_field="kind", tag="independent"):
    """Independent losses."""

    probability: Annotated[float, Meta(ge=0.0, le=1.0, description="Probability of loss.")]


class GilbertElliottLoss(SpecPart, frozen=True, tag_field="kind", tag="gilbert_elliott"):
    """Two states."""

    p: Annotated[float, Meta(ge=0.0, le=1.0, description="From good to bad.")]
    r: Annotated[float, Meta(ge=0.0, le=1.0, description="From bad to good.")]
    good_loss: Annotated[float, Meta(ge=0.0, le=1.0, description="Probability of loss in the good state.")] = 0.0
    bad_loss: Annotated[float, Meta(ge=0.0, le=1.0, description="Probability of loss in the bad state.")] = 1.0


class FourStateLoss(SpecPart, frozen=True, tag_field="kind", tag="four_state"):
    """Four states, as netem's."""

    p13: Annotated[float, Meta(ge=0.0, le=1.0, description="From state 1 to 3.")]
    p31: Annotated[float, Meta(ge=0.0, le=1.0, description="From state 3 to 1.")]
    p23: Annotated[float, Meta(ge=0.0, le=1.0, description="From state 2 to 3.")]
    p32: Annotated[float, Meta(ge=0.0, le=1.0, description="From state 3 to 2.")]
    p14: Annotated[float, Meta(ge=0.0, le=1.0, description="From state 1 to 4.")]


class PatternLoss(SpecPart, frozen=True, tag_field="kind", tag="pattern"):
    """The ``loss`` of a pattern."""

    file: Annotated[str, Meta(description="The pattern, `steps` or `packets`.")]
    end: Annotated[End, Meta(description="Behaviour after its end.")] = "repeat"
    start_ns: Annotated[
        int, Meta(ge=0, le=1_000_000_000_000_000_000, description="Its position at time 0, nanoseconds.")
    ] = 0


Loss: TypeAlias = IndependentLoss | GilbertElliottLoss | FourStateLoss | PatternLoss
"""Source of the losses."""


class LossStage(SpecPart, frozen=True, tag_field="stage", tag="loss"):
    """Losses."""

    model: Annotated[Loss, Meta(description="Source of the losses.")]
    unit: Annotated[Unit, Meta(description="The unit of loss.")] = "packet"


class DuplicateStage(SpecPart, frozen=True, tag_field="stage", tag="duplicate"):
    """Copies of wire segments."""

    probability: Annotated[float, Meta(ge=0.0, le=1.0, description="Probability that a wire segment is copied.")]


class ReorderStage(SpecPart, frozen=True, tag_field="stage", tag="reorder"):
    """Wire segments that are delayed and overtaken."""

    probability: Annotated[float, Meta(ge=0.0, le=1.0, description="Probability that a wire segment is delayed.")]
    delay_ns: Annotated[int, Meta(ge=0, le=1_000_000_000_000_000_000, description="Its additional delay.")]


class CorruptStage(SpecPart, frozen=True, tag_field="stage", tag="corrupt"):
    """Bit errors."""

    probability: Annotated[
        float, Meta(ge=0.0, le=1.0, description="Probability that a wire segment gets a flipped bit.")
    ]


Direction: TypeAlias = Literal["down", "up"]
"""The direction of a link."""


Code: TypeAlias = Literal["ldpc", "turbo"]
"""The channel code of a carrier."""


class Harq(SpecPart, frozen=True):
    """Hybrid ARQ of one carrier; times in slots of that carrier."""

    processes: Annotated[int, Meta(ge=1, le=32, description="Blocks in flight.")]
    feedback_slots: Annotated[int, Meta(ge=0, le=1_000_000, description="Slots from a block to its feedback.")]
    schedule_slots: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Slots from the feedback to the next transmission.")
    ]
    limit: Annotated[int, Meta(ge=1, le=64, description="Transmissions of a block, the first included.")]
    combining_gain_db: Annotated[
        float, Meta(ge=0.0, le=100.0, description="Gain of doubled energy, where the trace has no SINR.")
    ]
    slope_per_db: Annotated[
        float,
        Meta(ge=0.0, le=100.0, description="Logit slope of the error rate per decibel, where the trace has no SINR."),
    ]
    ack_loss: Annotated[
        float, Meta(ge=0.0, le=1.0, description="Lost acknowledgements: a received block is sent again.")
    ] = 0.0
    nack_loss: Annotated[
        float,
        Meta(
            ge=0.0, le=1.0, description="Negative acknowledgements taken for positive ones: the block is left to RLC."
        ),
    ] = 0.0


class Slots(SpecPart, frozen=True):
    """Slots of one carrier."""

    slot_ns: Annotated[int, Meta(ge=1_000, le=1_000_000_000, description="Length of a slot.")]
    frame: Annotated[
        str,
        Meta(
            pattern="^[DSU]*$",
            max_length=160,
            description="Slots of the TDD period, of the letters D, S and U; empty for FDD.",
        ),
    ]
    special_symbols: Annotated[
        tuple[
            Annotated[int, Meta(ge=0, le=4_294_967_295)],
            Annotated[int, Meta(ge=0, le=4_294_967_295)],
            Annotated[int, Meta(ge=0, le=4_294_967_295)],
        ],
        Meta(description="Downlink, guard and uplink symbols of an `S` slot."),
    ]
    prepare_ns: Annotated[
        int, Meta(ge=0, le=1_000_000_000_000_000_000, description="Time before its slot by which data must be there.")
    ]
    decode_ns: Annotated[
        int, Meta(ge=0, le=1_000_000_000_000_000_000, description="Time after its slot until a block is decoded.")
    ]
    code: Annotated[Code, Meta(description="The channel code: ldpc in NR, turbo in LTE.")] = "ldpc"
    harq: Annotated[Harq | None, Meta(description="Hybrid ARQ.")] = None


class AmRlc(SpecPart, frozen=True, tag_field="mode", tag="am"):
    """Acknowledged mode: a block that HARQ gave up on is sent again."""

    reassembly_ns: Annotated[
        int, Meta(ge=0, le=1_000_000_000_000_000_000, description="t-Reassembly; in LTE t-Reordering.")
    ]
    poll_ns: Annotated[int, Meta(ge=1, le=1_000_000_000_000_000_000, description="t-PollRetransmit.")]
    status_ns: Annotated[int, Meta(ge=0, le=1_000_000_000_000_000_000, description="t-StatusProhibit.")]
    retransmissions: Annotated[
        int, Meta(ge=1, le=255, description="maxRetxThreshold: retransmissions before the radio link fails.")
    ]
    reestablish_ns: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000_000_000_000_000,
            description="From that failure until the link is re-established; nothing is sent meanwhile.",
        ),
    ] = 100_000_000
    status_loss: Annotated[float, Meta(ge=0.0, le=1.0, description="Lost status reports: each costs a poll.")] = 0.0
    sn_bits: Annotated[
        Literal[12, 18] | None,
        Meta(description="Bits of the sequence number: `AM_Window_Size` is half of its range (TS 38.322, clause 7.2)."),
    ] = None


class UmRlc(SpecPart, frozen=True, tag_field="mode", tag="um"):
    """Unacknowledged mode: a block that HARQ gave up on is lost."""


Rlc: TypeAlias = AmRlc | UmRlc
"""What becomes of a block that HARQ gave up on."""


class Reordering(SpecPart, frozen=True):
    """In-order delivery."""

    timer_ns: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000_000_000_000_000)] | None,
        Meta(description="How long a gap is waited for; null: until it is filled or given up (LTE RLC AM)."),
    ] = None


class Configured(SpecPart, frozen=True):
    """A configured grant, which needs no request."""

    slots: Annotated[int, Meta(ge=1, le=1_000_000, description="Its period in slots.")]
    bytes: Annotated[int, Meta(ge=1, le=1_000_000, description="Bytes of each.")]


class GrantLosses(SpecPart, frozen=True):
    """Loss of requests and reports, and what the UE does then (TS 38.321, clauses 5.4.4 and 5.4.5)."""

    request: Annotated[float, Meta(ge=0.0, le=1.0, description="Lost scheduling requests.")]
    report: Annotated[float, Meta(ge=0.0, le=1.0, description="Lost buffer status reports.")]
    prohibit_ns: Annotated[int, Meta(ge=0, le=1_000_000_000_000_000_000, description="sr-ProhibitTimer.")]
    most_requests: Annotated[
        int, Meta(ge=1, le=64, description="sr-TransMax: requests before random access (TS 38.331).")
    ]
    access_ns: Annotated[int, Meta(ge=0, le=1_000_000_000_000_000_000, description="Time of random access.")]
    retry_ns: Annotated[
        int,
        Meta(ge=1, le=1_000_000_000_000_000_000, description="retxBSR-Timer: from a lost report to the next request."),
    ]


class Grants(SpecPart, frozen=True):
    """How the uplink is granted."""

    request_slots: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Period of the opportunities to ask for a grant.")
    ]
    schedule_slots: Annotated[int, Meta(ge=0, le=1_000_000, description="From the request to the grant.")]
    prepare_slots: Annotated[int, Meta(ge=1, le=1_000_000, description="From the grant to the transmission.")]
    first_bytes: Annotated[int, Meta(ge=1, le=1_000_000, description="Size of the grant that answers a request.")]
    configured: Annotated[Configured | None, Meta(description="A configured grant.")] = None
    losses: Annotated[GrantLosses | None, Meta(description="Lost requests and reports.")] = None


class Drx(SpecPart, frozen=True):
    """Connected-mode sleep (TS 38.321, clause 5.7)."""

    inactivity_ns: Annotated[int, Meta(ge=0, le=1_000_000_000_000_000_000, description="Idle time before it sleeps.")]
    short_cycles: Annotated[int, Meta(ge=0, le=16, description="How many short cycles come first (TS 38.331).")]
    long_cycle_ns: Annotated[
        int, Meta(ge=1, le=1_000_000_000_000_000_000, description="Long cycle, a multiple of the short one.")
    ]
    on_ns: Annotated[int, Meta(ge=1, le=1_000_000_000_000_000_000, description="On-duration in each cycle.")]
    short_cycle_ns: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000_000_000_000_000)] | None, Meta(description="Short cycle.")
    ] = None


class Rrc(SpecPart, frozen=True):
    """Release to idle or inactive, and promotion."""

    inactivity_ns: Annotated[int, Meta(ge=1, le=1_000_000_000_000_000_000, description="Idle time before the release.")]
    promotion_ns: Annotated[
        int, Meta(ge=0, le=1_000_000_000_000_000_000, description="Time of the promotion to connected mode.")
    ]
    paging_ns: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000_000_000_000_000,
            description="Paging cycle: longest wait of a downlink packet for its paging.",
        ),
    ]


class Connection(SpecPart, frozen=True):
    """Sleep states; the two directions of a hop share them."""

    drx: Annotated[Drx | None, Meta(description="Connected-mode sleep.")] = None
    rrc: Annotated[Rrc | None, Meta(description="Release after idle time, and promotion.")] = None


Handover: TypeAlias = Literal["forward", "lose"]
"""Handling of the buffer in a handover, and when the radio link fails."""


class Load(SpecPart, frozen=True):
    """Bursts of other users."""

    mean: Annotated[float, Meta(ge=1e-06, le=0.99, description="Mean fraction of the slots that other users need.")]
    burst_ns: Annotated[
        int, Meta(ge=100_000, le=1_000_000_000_000_000_000, description="Mean time that a burst takes with all slots.")
    ] = 5_000_000


class Split(SpecPart, frozen=True):
    """A split bearer: how it gives data to its legs, and the leg on the fallback carrier."""

    target_ns: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000_000_000_000_000,
            description="A leg takes data while less waits in it than its rate carries in this time.",
        ),
    ]
    rlc: Annotated[Rlc, Meta(description="RLC of the leg on the fallback carrier.")]
    threshold_bytes: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000_000_000)] | None,
        Meta(description="Waiting bytes from which on both carriers have new data; null: only one has."),
    ] = None
    grants: Annotated[Grants | None, Meta(description="Grants of that leg.")] = None


class Aggregation(SpecPart, frozen=True):
    """Component carriers of equal rate: all but the first are activated by a command when data waits."""

    carriers: Annotated[
        int,
        Meta(
            ge=2,
            le=32,
            description="Component carriers of equal rate, the primary one included (maxNrofServingCells, TS 38.331).",
        ),
    ]
    activation_ns: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000_000_000_000_000,
            description="From the command to the first slot of the secondary carriers.",
        ),
    ] = 24_000_000
    deactivation_ns: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000_000_000_000_000,
            description="sCellDeactivationTimer: time without a block on a secondary carrier.",
        ),
    ] = 80_000_000


class UplinkPower(SpecPart, frozen=True):
    """Open-loop power control of an uplink: fewer resource blocks have more power each."""

    symbols_per_s: Annotated[
        float,
        Meta(
            ge=1.0,
            le=1000000000000.0,
            description="Bits per second of one layer on the whole band per bit of a symbol.",
        ),
    ]
    most_need_db: Annotated[float, Meta(ge=-400.0, le=400.0, description="SINR that the fastest MCS needs, dB.")]
    evm: Annotated[float, Meta(ge=0.0, le=1.0, description="Error vector magnitude of the device.")]
    loss_db: Annotated[float, Meta(ge=-400.0, le=400.0, description="What the receiver loses, dB.")]
    limit_db: Annotated[
        float,
        Meta(
            ge=-400.0,
            le=400.0,
            description="Most power of a block over its power on the whole band, dB, at a SINR of 0 dB there.",
        ),
    ]
    alpha: Annotated[
        float,
        Meta(
            ge=0.0,
            le=1.0,
            description="Compensated part of the path loss: so much lower is the limit for each decibel of SINR.",
        ),
    ]


class RadioStage(SpecPart, frozen=True, tag_field="stage", tag="radio"):
    """An NR or LTE link."""

    direction: Annotated[Direction, Meta(description="Direction of the link.")]
    rate: Annotated[
        Rate,
        Meta(description="Bits of transport blocks per second that are the user's, averaged over the duplex frame."),
    ]
    slots: Annotated[Slots, Meta(description="Slots of the carrier.")]
    queue: Annotated[Queue, Meta(description="The buffer of this user.")]
    rlc: Annotated[Rlc, Meta(description="Acknowledged or unacknowledged mode.")]
    bler: Annotated[
        Annotated[float, Meta(ge=0.0, le=1.0)] | None, Meta(description="Block errors, instead of those of the trace.")
    ] = None
    fallback: Annotated[Slots | None, Meta(description="Slots of the carrier to which the link falls back.")] = None
    discard_ns: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000_000_000_000_000)] | None,
        Meta(description="A packet that has waited for this time is dropped (PDCP discardTimer)."),
    ] = None
    overhead_bytes: Annotated[int, Meta(ge=0, le=1_000, description="Header bytes of each packet.")] = 0
    reordering: Annotated[Reordering | None, Meta(description="In-order delivery.")] = None
    grants: Annotated[Grants | None, Meta(description="How the uplink is granted, in slots.")] = None
    connection: Annotated[
        Connection | None, Meta(description="Sleep, and release to idle; the same in both directions of a hop.")
    ] = None
    handover: Annotated[
        Handover, Meta(description="Whether a handover or a failure of the link forwards the buffer or loses it.")
    ] = "forward"
    load: Annotated[Load | None, Meta(description="Bursts of other users, which take slots by proportional fair.")] = (
        None
    )
    split: Annotated[
        Split | None, Meta(description="The carrier and the fallback carrier are legs of one PDCP entity.")
    ] = None
    aggregation: Annotated[
        Aggregation | None, Meta(description="Component carriers of the downlink, which are activated when data waits.")
    ] = None
    power: Annotated[
        UplinkPower | None,
        Meta(description="Power control of an uplink; null: each part of a slot has the SINR of the whole."),
    ] = None


class WifiStage(SpecPart, frozen=True, tag_field="stage", tag="wifi"):
    """The MAC of 802.11ad."""

    rate: Annotated[Rate, Meta(description="Throughput of full aggregates: constant, or the `rate_bps` of a pattern.")]
    queue: Annotated[Queue, Meta(description="The buffer of this user.")]
    aggregate_bytes: Annotated[int, Meta(ge=1, le=4_194_303, description="Most bytes of an aggregate.")]
    aggregate_frames: Annotated[int, Meta(ge=1, le=1_024, description="Most packets of an aggregate.")]
    overhead_ns: Annotated[int, Meta(ge=0, le=1_000_000_000, description="Airtime of an aggregate beside its bytes.")]
    retries: Annotated[int, Meta(ge=0, le=255, description="Retransmissions of a packet at most.")]
    bler: Annotated[
        Annotated[float, Meta(ge=0.0, le=1.0)] | None, Meta(description="Frame errors, instead of those of the trace.")
    ] = None
    overhead_bytes: Annotated[
        int, Meta(ge=0, le=1_000, description="Bytes of a frame beyond the IP bytes of its packet.")
    ] = 40


Stage: TypeAlias = (
    BottleneckStage | DelayStage | LossStage | DuplicateStage | ReorderStage | CorruptStage | RadioStage | WifiStage
)
"""One stage of a link."""


class Hop(SpecPart, frozen=True):
    """One part of a leg."""

    name: Annotated[
        str,
        Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$", description="Its name; its links are NAME.down and NAME.up."),
    ]
    kind: Annotated[HopKind, Meta(description="Its kind, for reports; the stages define its behaviour.")]
    down: Annotated[
        tuple[Stage, ...], Meta(description="Stages towards the client, in the order in which packets meet them.")
    ]
    up: Annotated[tuple[Stage, ...], Meta(description="Stages towards the server.")]


class Leg(SpecPart, frozen=True, rename={"start": "from", "end": "to"}):
    """The hops between two hosts; down leads from the first to the second."""

    start: Annotated[str, Meta(description="The host towards the server.")]
    end: Annotated[str, Meta(description="The host towards the client.")]
    hops: Annotated[
        tuple[Hop, ...], Meta(description="Hops, the one nearest to the server first; none only before a cell.")
    ]


Policy: TypeAlias = Literal["proportional_fair", "round_robin", "maximum_rate", "priority"]
"""Which device is served first."""


class CellSlice(SpecPart, frozen=True):
    """A slice of a cell."""

    name: Annotated[str, Meta(description="Its name.")]
    share: Annotated[float, Meta(ge=0.0, le=1.0, description="Its part of the slots.")]


class CellScheduler(SpecPart, frozen=True):
    """Who gets the slots of one direction of a cell."""

    policy: Annotated[Policy, Meta(description="Which device is served first.")]
    units: Annotated[
        int,
        Meta(
            ge=1,
            le=275,
            description="Parts of a slot, each for one device: resource block groups (TS 38.214 5.1.2.2.1).",
        ),
    ]
    average_slots: Annotated[
        float,
        Meta(ge=1.0, le=1000000.0, description="Slots over which proportional fair averages what a device was given."),
    ] = 99.0
    devices_per_slot: Annotated[
        Annotated[int, Meta(ge=1, le=275)] | None,
        Meta(description="Devices that one slot serves at most, by control channel or beams; null: one for each part."),
    ] = None
    control_units: Annotated[
        int, Meta(ge=0, le=275, description="Parts of a slot that the control information of each served device takes.")
    ] = 0
    slices: Annotated[
        tuple[CellSlice, ...],
        Meta(description="Slices, with their least shares of each slot (`rRMPolicyMinRatio`, TS 28.541)."),
    ] = ()


class CellService(SpecPart, frozen=True):
    """What a device is entitled to in one direction."""

    level: Annotated[
        int,
        Meta(
            ge=1,
            le=127,
            description="Priority level, the lowest first. 90: of 5QI 9, the default bearer (TS 23.501, 5.7.4).",
        ),
    ] = 90
    guaranteed_bps: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000_000_000)] | None,
        Meta(description="Guaranteed bit rate (GFBR), bits per second; null: none."),
    ] = None
    slice: Annotated[str | None, Meta(description="The slice; null: none.")] = None


class CellDevice(SpecPart, frozen=True):
    """A device of a cell."""

    host: Annotated[str, Meta(description="Its host.")]
    down: Annotated[
        tuple[Stage, ...],
        Meta(description="Stages towards the device, in the order in which packets meet them; exactly one is a radio."),
    ]
    up: Annotated[tuple[Stage, ...], Meta(description="Stages towards the base station; exactly one is a radio.")]
    down_service: Annotated[
        CellService | None,
        Meta(description="What it is entitled to in the downlink; null: what the default bearer is."),
    ] = None
    up_service: Annotated[
        CellService | None, Meta(description="What it is entitled to in the uplink; null: what the default bearer is.")
    ] = None


class FullBufferBackgroundTraffic(SpecPart, frozen=True, tag_field="kind", tag="full_buffer"):
    """Always more data."""


class OnOffBackgroundTraffic(SpecPart, frozen=True, tag_field="kind", tag="on_off"):
    """Packets at a constant rate in random periods. Periods and pauses are exponentially distributed."""

    rate_bps: Annotated[int, Meta(ge=1_000, le=1_000_000_000_000, description="Bits per second while on.")]
    on_ns: Annotated[int, Meta(ge=100_000, le=1_000_000_000_000_000_000, description="Mean time on.")]
    off_ns: Annotated[int, Meta(ge=1, le=1_000_000_000_000_000_000, description="Mean time off.")]


class FilesBackgroundTraffic(SpecPart, frozen=True, tag_field="kind", tag="files"):
    """Poisson arrivals of files, which queue at one user (FTP model 3, TR 36.889, annex A)."""

    per_s: Annotated[float, Meta(ge=1e-06, le=1000000.0, description="Files per second.")]
    bytes: Annotated[int, Meta(ge=1, le=1_000_000_000_000, description="Bytes of each.")]


class UserPerFileBackgroundTraffic(SpecPart, frozen=True, tag_field="kind", tag="user_per_file"):
    """Poisson arrivals of users, who leave when they have their file (FTP model 1, TR 36.814)."""

    per_s: Annotated[float, Meta(ge=1e-06, le=1000000.0, description="Users per second.")]
    bytes: Annotated[int, Meta(ge=1, le=1_000_000_000_000, description="Bytes of the file of each.")]


class FileAfterFileBackgroundTraffic(SpecPart, frozen=True, tag_field="kind", tag="file_after_file"):
    """A file, an exponentially distributed pause, the next file (FTP model 2, TR 36.814)."""

    bytes: Annotated[int, Meta(ge=1, le=1_000_000_000_000, description="Bytes of each.")]
    pause_ns: Annotated[
        int,
        Meta(ge=1, le=1_000_000_000_000_000_000, description="Mean pause between the end of a file and the next one."),
    ]


class VideoBackgroundTraffic(SpecPart, frozen=True, tag_field="kind", tag="video"):
    """A video: a segment is fetched in each period, or later if the one before is late."""

    rate_bps: Annotated[int, Meta(ge=1, le=1_000_000_000_000, description="Bits per second of the video.")]
    segment_ns: Annotated[int, Meta(ge=1, le=1_000_000_000_000_000_000, description="Length of a segment.")]
    buffer_ns: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000_000_000_000_000,
            description="How far the player runs ahead. A segment that is later stops the video.",
        ),
    ] = 30_000_000_000


BackgroundTraffic: TypeAlias = (
    FullBufferBackgroundTraffic
    | OnOffBackgroundTraffic
    | FilesBackgroundTraffic
    | UserPerFileBackgroundTraffic
    | FileAfterFileBackgroundTraffic
    | VideoBackgroundTraffic
)
"""The demand of a modelled user."""


class BackgroundUser(SpecPart, frozen=True):
    """A modelled user of a cell, which has demand but no packets."""

    name: Annotated[str, Meta(description="Its name.")]
    rate: Annotated[Rate, Meta(description="The rate that it would have with all slots.")]
    traffic: Annotated[BackgroundTraffic, Meta(description="Its demand.")]
    service: Annotated[
        CellService | None, Meta(description="What it is entitled to; null: what the default bearer is.")
    ] = None


class RadioCell(SpecPart, frozen=True):
    """The radio cell that devices share: a hop after the last leg."""

    name: Annotated[
        str,
        Meta(
            pattern="^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$",
            description="Its name; the links of a device are NAME.DEVICE.down and NAME.DEVICE.up.",
        ),
    ]
    down: Annotated[CellScheduler, Meta(description="Who gets the slots towards the devices.")]
    up: Annotated[CellScheduler, Meta(description="Who gets the slots towards the base station.")]
    devices: Annotated[
        tuple[CellDevice, ...], Meta(min_length=1, description="The devices: the last hosts, in the same order.")
    ]
    down_background: Annotated[tuple[BackgroundUser, ...], Meta(description="Modelled users of the downlink.")] = ()
    up_background: Annotated[tuple[BackgroundUser, ...], Meta(description="Modelled users of the uplink.")] = ()


Way: TypeAlias = Literal["path", "beside"]
"""Which way the laboratory's questions for names take with NAT."""


class Network(SpecPart, frozen=True):
    """The network of a trial: hosts in a row, and the hops between them."""

    mtu: Annotated[int, Meta(ge=1_280, le=65_535, description="Bytes of the largest IP packet.")]
    nat: Annotated[bool, Meta(description="Whether the server is this machine and its network.")]
    coalesce: Annotated[
        Coalesce, Meta(description="Which wire segments are coalesced into GSO packets where they leave.")
    ]
    hosts: Annotated[tuple[Host, ...], Meta(description="Hosts, the server first, the client last.")]
    legs: Annotated[
        tuple[Leg, ...],
        Meta(
            description="Legs between neighbours; one more may connect the last two, for a second radio of the client."
        ),
    ]
    packet_memory_bytes: Annotated[
        Annotated[int, Meta(ge=16_777_216)] | None,
        Meta(description="Memory that packets in flight may take; null for a quarter of what the engine may have."),
    ] = None
    cell: Annotated[
        RadioCell | None,
        Meta(description="The cell behind the last leg, whose devices are the last hosts; null: one client."),
    ] = None
    packet_log: Annotated[
        bool, Meta(description="Whether the times of every packet and of every radio block are recorded.")
    ] = False
    outside_sockets: Annotated[
        bool,
        Meta(description="Whether programs reach sockets of the machine's programs by their names in the file system."),
    ] = False
    names: Annotated[
        Way, Meta(description="With nat, which way questions go to a resolver that only this machine reaches.")
    ] = "path"
    rebind_at_ns: Annotated[
        tuple[Annotated[int, Meta(ge=0)], ...],
        Meta(description="When the client's flows get other source ports at the server, after time zero, rising."),
    ] = ()
