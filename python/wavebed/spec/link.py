"""The stages of a link, in the order in which packets meet them: queue and rate, delay, loss, and the smaller ones.

Bounds of single values stand here; `wavebed-core` has the same ones, and a test throws specifications at both. The
stages of a radio are in `wavebed.spec.radio`.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

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
    "Duplicate",
    "End",
    "FourState",
    "FqCodel",
    "GilbertElliott",
    "Independent",
    "Infinite",
    "Limit",
    "Loss",
    "LossModel",
    "Opportunities",
    "OverheadBytes",
    "PacketRate",
    "PatternDelay",
    "PatternLoss",
    "PatternRate",
    "Probability",
    "Queue",
    "Rate",
    "Reorder",
    "Sampled",
    "TimeNs",
    "TokenBucket",
]

RateBps: TypeAlias = Annotated[int, Meta(ge=1, le=10**12)]
TimeNs: TypeAlias = Annotated[int, Meta(ge=0, le=10**18)]
PositiveTimeNs: TypeAlias = Annotated[int, Meta(ge=1, le=10**18)]
Probability: TypeAlias = Annotated[float, Meta(ge=0.0, le=1.0)]
MOST_OVERHEAD_BYTES = 1000
OverheadBytes: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_OVERHEAD_BYTES)]
End: TypeAlias = Literal["repeat", "hold", "stop"]
Unit: TypeAlias = Literal["packet", "superpacket"]


class Limit(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How much a queue may hold; exactly one of the three is set.

    Parameters
    ----------
    bytes, packets, time_ns : int or None
        IP bytes of wire segments, number of them, or nanoseconds of queueing.

    Raises
    ------
    ValueError
        If none or several of them are set.
    """

    bytes: Annotated[int, Meta(ge=1)] | None = None
    packets: Annotated[int, Meta(ge=1)] | None = None
    time_ns: PositiveTimeNs | None = None

    def __post_init__(self) -> None:
        if sum(value is not None for value in (self.bytes, self.packets, self.time_ns)) != 1:
            raise ValueError("a limit is in bytes, packets or time_ns: write one of them")


class DropTail(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="droptail"):
    """Drops arrivals."""

    limit: Limit


class DropHead(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="drophead"):
    """Drops what has waited longest."""

    limit: Limit


class Infinite(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="infinite"):
    """Never drops."""


class Codel(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="codel"):
    """RFC 8289."""

    limit: Limit
    target_ns: PositiveTimeNs = 5_000_000
    interval_ns: PositiveTimeNs = 100_000_000
    ecn: bool = False

    def __post_init__(self) -> None:
        _check_interval(self.target_ns, self.interval_ns)


class FqCodel(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="fq_codel"):
    """RFC 8290."""

    limit: Limit
    target_ns: PositiveTimeNs = 5_000_000
    interval_ns: PositiveTimeNs = 100_000_000
    ecn: bool = True
    flows: Annotated[int, Meta(ge=1, le=65_536)] = 1024
    quantum_bytes: Annotated[int, Meta(ge=1, le=2**32 - 1)] = 1514

    def __post_init__(self) -> None:
        _check_interval(self.target_ns, self.interval_ns)


def _check_interval(target_ns: int, interval_ns: int) -> None:
    if interval_ns < target_ns:
        raise ValueError("interval_ns must be at least target_ns (RFC 8289, section 4.2)")


Queue: TypeAlias = DropTail | DropHead | Infinite | Codel | FqCodel


class Constant(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="constant"):
    """Always the same rate."""

    rate_bps: RateBps


class PatternRate(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="pattern"):
    """The ``rate_bps`` of a pattern of steps."""

    file: str
    end: End = "repeat"
    start_ns: TimeNs = 0


class Opportunities(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="opportunities"):
    """A pattern of delivery opportunities."""

    file: str
    end: Literal["repeat", "stop"] = "repeat"
    start_ns: TimeNs = 0


class TokenBucket(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="token_bucket"):
    """A rate with bursts; the bucket starts full."""

    rate_bps: RateBps
    burst_bytes: Annotated[int, Meta(ge=1, le=10**9)]


class PacketRate(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="packets"):
    """So many packets per second, whatever their size."""

    packets_per_s: Annotated[int, Meta(ge=1, le=10**9)]


class Sampled(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind", tag="sampled"):
    """The rate at the moment of arrival, never revised, as netem has it: constant, or from a pattern of steps."""

    rate_bps: RateBps | None = None
    file: str | None = None
    end: End | None = None
    start_ns: TimeNs | None = None

    def __post_init__(self) -> None:
        if (self.rate_bps is None) == (self.file is None):
            raise ValueError("a sampled rate is constant or of a pattern: write rate_bps or file")
        if self.file is None and (self.end, self.start_ns) != (None, None):
            raise ValueError("a constant rate has neither end nor start_ns: remove them")


Rate: TypeAlias = Constant | PatternRate | Opportunities | TokenBucket | PacketRate | Sampled


class ConstantDelay(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="constant"):
    """The same delay for every packet."""

    delay_ns: TimeNs


class PatternDelay(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="pattern"):
    """The ``delay_s`` of a pattern."""

    file: str
    end: End = "repeat"
    start_ns: TimeNs = 0


class Distribution(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="distribution"):
    """A random delay for every packet, never below zero."""

    shape: Literal["uniform", "normal", "pareto", "paretonormal"]
    mean_ns: TimeNs
    spread_ns: TimeNs
    correlation: Probability = 0.0


DelaySource: TypeAlias = ConstantDelay | PatternDelay | Distribution


class Independent(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="independent"):
    """Every packet is lost with the same probability."""

    probability: Probability


class GilbertElliott(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="gilbert_elliott"):
    """Two states; `p` leads from good to bad, `r` back, at each packet."""

    p: Probability
    r: Probability
    good_loss: Probability = 0.0
    bad_loss: Probability = 1.0


class FourState(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="four_state"):
    """The four-state Markov model of Salsano et al., as in netem."""

    p13: Probability
    p31: Probability
    p23: Probability
    p32: Probability
    p14: Probability

    def __post_init__(self) -> None:
        for one, other, state in (("p13", "p14", 1), ("p31", "p32", 3)):
            if getattr(self, one) + getattr(self, other) > 1:
                raise ValueError(f"{one} + {other} is at most 1, since both lead out of state {state}")


class PatternLoss(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="pattern"):
    """The ``loss`` of a pattern."""

    file: str
    end: End = "repeat"
    start_ns: TimeNs = 0


LossModel: TypeAlias = Independent | GilbertElliott | FourState | PatternLoss


class Bottleneck(Struct, frozen=True, forbid_unknown_fields=True, tag_field="stage", tag="bottleneck"):
    """A queue and what serves it."""

    rate: Rate
    queue: Queue
    overhead_bytes: OverheadBytes = 0
    unit: Unit = "packet"
    outage: Literal["hold", "drop"] = "hold"

    def __post_init__(self) -> None:
        limit = getattr(self.queue, "limit", None)
        sampled_queue = isinstance(self.queue, DropTail | Infinite)
        if isinstance(self.rate, Sampled) and not sampled_queue:
            raise ValueError("a sampled rate fixes departures on arrival: its queue is droptail or infinite")
        if isinstance(self.rate, Opportunities | PacketRate) and self.outage == "drop":
            raise ValueError("opportunities and a rate in packets are never zero: outage must be hold")
        if isinstance(self.rate, PacketRate) and limit is not None and limit.time_ns is not None:
            raise ValueError("a rate in packets has no bytes per second: the limit is in packets or bytes")


class Delay(Struct, frozen=True, forbid_unknown_fields=True, tag_field="stage", tag="delay"):
    """A delay; with `reorder` a packet may overtake one with a longer delay."""

    delay: DelaySource
    reorder: bool = False


class Loss(Struct, frozen=True, forbid_unknown_fields=True, tag_field="stage", tag="loss"):
    """Losses of packets, or of what an offloading host hands over at once."""

    model: LossModel
    unit: Unit = "packet"


class Duplicate(Struct, frozen=True, forbid_unknown_fields=True, tag_field="stage", tag="duplicate"):
    """Copies of packets."""

    probability: Probability


class Reorder(Struct, frozen=True, forbid_unknown_fields=True, tag_field="stage", tag="reorder"):
    """Packets that are held back and overtaken."""

    probability: Probability
    delay_ns: TimeNs


class Corrupt(Struct, frozen=True, forbid_unknown_fields=True, tag_field="stage", tag="corrupt"):
    """Packets in which one bit is flipped."""

    probability: Probability
