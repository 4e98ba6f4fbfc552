"""The stages of a link, in the order in which packets meet them: queue and rate, delay, loss, and the smaller ones.

Bounds of single values stand here; `wavebed-core` has the same ones, and a test throws specifications at both. The
stages of a radio are in `wavebed.spec.radio`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, json

from wavebed.config.queue import (
    CODEL_INTERVAL_NS,
    CODEL_TARGET_NS,
    DUALPI2_COUPLING,
    DUALPI2_RANGE_NS,
    DUALPI2_RTT_MAX_NS,
    DUALPI2_TARGET_NS,
    DUALPI2_THRESHOLD_NS,
    FQ_CODEL_FLOWS,
    FQ_CODEL_QUANTUM_BYTES,
    LEAST_COUPLING,
    MOST_COUPLING,
)
from wavebed.config.units import MAX_RATE_BPS, MAX_TIME_NS, Limit

if TYPE_CHECKING:
    from wavebed.config.data import Json

__all__ = [
    "MOST_OVERHEAD_BYTES",
    "Bottleneck",
    "Codel",
    "Constant",
    "ConstantDelay",
    "Corrupt",
    "Delay",
    "DelaySource",
    "Distribution",
    "DropHead",
    "DropTail",
    "DualPi2",
    "Duplicate",
    "End",
    "FourState",
    "FqCodel",
    "GilbertElliott",
    "Independent",
    "Infinite",
    "Kind",
    "LinkStage",
    "Loss",
    "LossModel",
    "Opportunities",
    "OverheadBytes",
    "PacketRate",
    "Part",
    "PatternDelay",
    "PatternLoss",
    "PatternRate",
    "PositiveTimeNs",
    "Probability",
    "Queue",
    "Rate",
    "Reorder",
    "RuleError",
    "Sampled",
    "TimeNs",
    "TokenBucket",
    "plain",
]

RateBps: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_RATE_BPS)]
TimeNs: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_TIME_NS)]
PositiveTimeNs: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_TIME_NS)]
Probability: TypeAlias = Annotated[float, Meta(ge=0.0, le=1.0)]
MOST_OVERHEAD_BYTES = 1000
OverheadBytes: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_OVERHEAD_BYTES)]
End: TypeAlias = Literal["repeat", "hold", "stop"]
Unit: TypeAlias = Literal["packet", "superpacket"]


class RuleError(ValueError):
    """Values that do not fit each other."""


class Part(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a specification: immutable, and strict when it is read."""


def plain(part: Part) -> dict[str, Json]:
    """Return a part of a specification as its JSON has it: objects, arrays, texts and numbers."""
    known: dict[str, Json] = json.decode(json.encode(part))
    return known


class Kind(Part, frozen=True, tag_field="kind"):
    """One of several that may stand in a place; ``kind`` says which."""


class LinkStage(Part, frozen=True, tag_field="stage"):
    """A stage of a link; ``stage`` says which."""


class DropTail(Kind, frozen=True, tag="droptail"):
    """Drops arrivals."""

    limit: Limit


class DropHead(Kind, frozen=True, tag="drophead"):
    """Drops the packet that has waited longest."""

    limit: Limit


class Infinite(Kind, frozen=True, tag="infinite"):
    """Never drops."""


class Codel(Kind, frozen=True, tag="codel"):
    """RFC 8289."""

    limit: Limit
    target_ns: PositiveTimeNs = CODEL_TARGET_NS
    interval_ns: PositiveTimeNs = CODEL_INTERVAL_NS
    ecn: bool = False
    ce_threshold_ns: TimeNs | None = None

    def __post_init__(self) -> None:
        _check_codel(self)


class FqCodel(Kind, frozen=True, tag="fq_codel"):
    """RFC 8290."""

    limit: Limit
    target_ns: PositiveTimeNs = CODEL_TARGET_NS
    interval_ns: PositiveTimeNs = CODEL_INTERVAL_NS
    ecn: bool = True
    flows: Annotated[int, Meta(ge=1, le=65_536)] = FQ_CODEL_FLOWS
    quantum_bytes: Annotated[int, Meta(ge=1, le=2**32 - 1)] = FQ_CODEL_QUANTUM_BYTES
    ce_threshold_ns: TimeNs | None = None

    def __post_init__(self) -> None:
        _check_codel(self)


def _check_codel(queue: Codel | FqCodel) -> None:
    if queue.interval_ns < queue.target_ns:
        raise RuleError("interval_ns must be at least target_ns (RFC 8289, section 4.2)")
    if queue.ce_threshold_ns is not None and not queue.ecn:
        raise RuleError("ce_threshold_ns requires ecn")


class DualPi2(Kind, frozen=True, tag="dualpi2"):
    """RFC 9332. `predict_ns`: delays are predicted from the rate during this time; ``None``: measured."""

    limit: Limit
    target_ns: PositiveTimeNs = DUALPI2_TARGET_NS
    rtt_max_ns: PositiveTimeNs = DUALPI2_RTT_MAX_NS
    coupling: Annotated[float, Meta(ge=LEAST_COUPLING, le=MOST_COUPLING)] = DUALPI2_COUPLING
    threshold_ns: TimeNs = DUALPI2_THRESHOLD_NS
    range_ns: TimeNs = DUALPI2_RANGE_NS
    predict_ns: PositiveTimeNs | None = None


Queue: TypeAlias = DropTail | DropHead | Infinite | Codel | FqCodel | DualPi2


class Constant(Kind, frozen=True, tag="constant"):
    """Always the same rate."""

    rate_bps: RateBps


class PatternRate(Kind, frozen=True, tag="pattern"):
    """The ``rate_bps`` of a pattern of steps."""

    file: str
    end: End = "repeat"
    start_ns: TimeNs = 0


class Opportunities(Kind, frozen=True, tag="opportunities"):
    """A pattern of delivery opportunities."""

    file: str
    end: Literal["repeat", "stop"] = "repeat"
    start_ns: TimeNs = 0


class TokenBucket(Kind, frozen=True, tag="token_bucket"):
    """A rate with bursts; the bucket starts full."""

    rate_bps: RateBps
    burst_bytes: Annotated[int, Meta(ge=1, le=10**9)]


class PacketRate(Kind, frozen=True, tag="packets"):
    """So many packets per second, whatever their size."""

    packets_per_s: Annotated[int, Meta(ge=1, le=10**9)]


class Sampled(Kind, frozen=True, omit_defaults=True, tag="sampled"):
    """The rate at the moment of arrival, never revised, as netem has it: constant, or from a pattern of steps."""

    rate_bps: RateBps | None = None
    file: str | None = None
    end: End | None = None
    start_ns: TimeNs | None = None

    def __post_init__(self) -> None:
        if (self.rate_bps is None) == (self.file is None):
            raise RuleError("a sampled rate is constant or of a pattern: write rate_bps or file")
        if self.file is None and (self.end, self.start_ns) != (None, None):
            raise RuleError("a constant rate has neither end nor start_ns: remove them")


Rate: TypeAlias = Constant | PatternRate | Opportunities | TokenBucket | PacketRate | Sampled


class ConstantDelay(Kind, frozen=True, tag="constant"):
    """The same delay for every packet."""

    delay_ns: TimeNs


class PatternDelay(Kind, frozen=True, tag="pattern"):
    """The ``delay_s`` of a pattern."""

    file: str
    end: End = "repeat"
    start_ns: TimeNs = 0


class Distribution(Kind, frozen=True, tag="distribution"):
    """A random delay for every packet, never below zero."""

    shape: Literal["uniform", "normal", "pareto", "paretonormal"]
    mean_ns: TimeNs
    spread_ns: TimeNs
    correlation: Probability = 0.0


DelaySource: TypeAlias = ConstantDelay | PatternDelay | Distribution


class Independent(Kind, frozen=True, tag="independent"):
    """Every packet is lost with the same probability."""

    probability: Probability


class GilbertElliott(Kind, frozen=True, tag="gilbert_elliott"):
    """Two states; `p` leads from good to bad, `r` back, at each packet."""

    p: Probability
    r: Probability
    good_loss: Probability = 0.0
    bad_loss: Probability = 1.0


class FourState(Kind, frozen=True, tag="four_state"):
    """The four-state Markov model of Salsano et al., as in netem."""

    p13: Probability
    p31: Probability
    p23: Probability
    p32: Probability
    p14: Probability

    def __post_init__(self) -> None:
        for one, other, state in (("p13", "p14", 1), ("p31", "p32", 3)):
            if getattr(self, one) + getattr(self, other) > 1:
                raise RuleError(f"{one} + {other} is at most 1, since both lead out of state {state}")


class PatternLoss(Kind, frozen=True, tag="pattern"):
    """The ``loss`` of a pattern."""

    file: str
    end: End = "repeat"
    start_ns: TimeNs = 0


LossModel: TypeAlias = Independent | GilbertElliott | FourState | PatternLoss


class Bottleneck(LinkStage, frozen=True, tag="bottleneck"):
    """A queue and its server."""

    rate: Rate
    queue: Queue
    overhead_bytes: OverheadBytes = 0
    unit: Unit = "packet"
    outage: Literal["hold", "drop"] = "hold"

    def __post_init__(self) -> None:
        limit = getattr(self.queue, "limit", None)
        sampled_queue = isinstance(self.queue, DropTail | Infinite)
        if isinstance(self.rate, Sampled) and not sampled_queue:
            raise RuleError("a sampled rate fixes departures on arrival: its queue is droptail or infinite")
        if isinstance(self.rate, Opportunities | PacketRate) and self.outage == "drop":
            raise RuleError("opportunities and a rate in packets are never zero: outage must be hold")
        if isinstance(self.rate, PacketRate) and limit is not None and limit.time_ns is not None:
            raise RuleError("a rate in packets has no bytes per second: the limit is in packets or bytes")


class Delay(LinkStage, frozen=True, tag="delay"):
    """A delay; with `reorder` a packet may overtake one with a longer delay. `limit_packets`: as many at once."""

    delay: DelaySource
    reorder: bool = False
    limit_packets: Annotated[int, Meta(ge=1, le=10**12)] | None = None


class Loss(LinkStage, frozen=True, tag="loss"):
    """Losses of packets, or of GSO packets of an offloading host."""

    model: LossModel
    unit: Unit = "packet"


class Duplicate(LinkStage, frozen=True, tag="duplicate"):
    """Copies of packets."""

    probability: Probability


class Reorder(LinkStage, frozen=True, tag="reorder"):
    """Packets that are held back and overtaken."""

    probability: Probability
    delay_ns: TimeNs


class Corrupt(LinkStage, frozen=True, tag="corrupt"):
    """Packets in which one bit is flipped."""

    probability: Probability
