"""The stages of a radio: layer 2 of NR and LTE (slots, HARQ, RLC, PDCP), and the MAC of 802.11ad.

Every part that may be ``None`` is off without a value. See ``docs/models``.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from wavebed.config.units import MAX_TIME_NS
from wavebed.spec.link import (
    Constant,
    FqCodel,
    LinkStage,
    OverheadBytes,
    Part,
    PatternRate,
    PositiveTimeNs,
    Probability,
    Queue,
    RuleError,
    TimeNs,
)

__all__ = [
    "Aggregation",
    "AirRate",
    "Configured",
    "Connection",
    "Drx",
    "GrantLosses",
    "Grants",
    "Harq",
    "Load",
    "Radio",
]
__all__ += ["Reordering", "RlcAm", "RlcUm", "Rrc", "Slots", "Split", "Wifi"]

AirRate: TypeAlias = Constant | PatternRate
"""Bits of transport blocks per second that are the user's, averaged over the duplex frame."""
_SYMBOLS = 14
"""Of a slot (TS 38.211, 4.3.2)."""
MOST_SLOTS = 1_000_000
MOST_PROCESSES = 32
MOST_TRANSMISSIONS = 64
MOST_DECIBELS = 100
MOST_RETRANSMISSIONS = 255
MOST_REQUESTS = 64
"""sr-TransMax (TS 38.331)."""
MOST_CARRIERS = 32
"""maxNrofServingCells (TS 38.331)."""
MOST_LOAD = 0.99
LEAST_BURST_NS = 100_000
MOST_THRESHOLD_BYTES = 10**12
MOST_FRAME_SLOTS = 160
"""20 ms at 120 kHz: the longest TDD period, of two patterns (TS 38.213 11.1)."""
MOST_AGGREGATE_BYTES = (1 << 22) - 1
MOST_AGGREGATE_FRAMES = 1024
REESTABLISH_NS = 100_000_000
"""Of specifications that were written before the key existed."""
Symbols: TypeAlias = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_SLOTS)]
PositiveCount: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_SLOTS)]


class Harq(Part, frozen=True):
    """Hybrid ARQ of one carrier; times in slots of that carrier.

    `limit` counts all transmissions of a block. `ack_loss`: a received block is sent again; `nack_loss`: one that was
    not received is left to RLC. `combining_gain_db` and `slope_per_db` count where there is no SINR.
    """

    processes: Annotated[int, Meta(ge=1, le=MOST_PROCESSES)]
    feedback_slots: Count
    schedule_slots: PositiveCount
    limit: Annotated[int, Meta(ge=1, le=MOST_TRANSMISSIONS)]
    combining_gain_db: Annotated[float, Meta(ge=0, le=MOST_DECIBELS)]
    slope_per_db: Annotated[float, Meta(ge=0, le=MOST_DECIBELS)]
    ack_loss: Probability = 0.0
    nack_loss: Probability = 0.0


class Slots(Part, frozen=True):
    """Slots of one carrier. `frame` is empty for FDD, else of the letters D, S, U; `special_symbols` are those of S.

    `code` is the channel code: ``ldpc`` in NR, ``turbo`` in LTE.
    """

    slot_ns: Annotated[int, Meta(ge=1000, le=10**9)]
    frame: Annotated[str, Meta(pattern="^[DSU]*$", max_length=MOST_FRAME_SLOTS)]
    special_symbols: tuple[Symbols, Symbols, Symbols]
    prepare_ns: TimeNs
    decode_ns: TimeNs
    harq: Harq | None
    code: Literal["ldpc", "turbo"] = "ldpc"

    def __post_init__(self) -> None:
        down, guard, up = self.special_symbols
        if "S" in self.frame and down + guard + up != _SYMBOLS:
            raise RuleError(f"special_symbols are {_SYMBOLS} together")
        for letter, direction, symbols in (("D", "downlink", down), ("U", "uplink", up)):
            if self.frame and letter not in self.frame and not ("S" in self.frame and symbols):
                raise RuleError(f"frame {self.frame!r} has no {direction}: add a slot {letter}")


class RlcAm(Part, frozen=True, tag_field="mode", tag="am"):
    """Acknowledged mode: a block that HARQ gave up is sent again, `retransmissions` times before the link fails."""

    reassembly_ns: TimeNs
    poll_ns: TimeNs
    status_ns: TimeNs
    retransmissions: Annotated[int, Meta(ge=0, le=MOST_RETRANSMISSIONS)]
    reestablish_ns: PositiveTimeNs = REESTABLISH_NS
    status_loss: Probability = 0.0
    sn_bits: Literal[12, 18] | None = None


class RlcUm(Part, frozen=True, tag_field="mode", tag="um"):
    """Unacknowledged mode: a block that HARQ gave up is lost."""


class Reordering(Part, frozen=True):
    """In-order delivery. `timer_ns` ``None``: wait until the gap is filled or given up (LTE RLC AM)."""

    timer_ns: TimeNs | None


class Configured(Part, frozen=True):
    """A configured grant: so many bytes every so many slots."""

    slots: PositiveCount
    bytes: PositiveCount


class GrantLosses(Part, frozen=True):
    """Loss of requests and reports, and what the UE does then (TS 38.321, 5.4.4 and 5.4.5)."""

    request: Probability
    report: Probability
    prohibit_ns: TimeNs
    most_requests: Annotated[int, Meta(ge=1, le=MOST_REQUESTS)]
    access_ns: TimeNs
    retry_ns: PositiveTimeNs


class Grants(Part, frozen=True):
    """How the uplink is scheduled."""

    request_slots: PositiveCount
    schedule_slots: Count
    prepare_slots: PositiveCount
    first_bytes: PositiveCount
    configured: Configured | None = None
    losses: GrantLosses | None = None


class Drx(Part, frozen=True):
    """Connected-mode sleep (TS 38.321, 5.7)."""

    inactivity_ns: TimeNs
    short_cycle_ns: PositiveTimeNs | None
    short_cycles: Annotated[int, Meta(ge=0)]
    long_cycle_ns: PositiveTimeNs
    on_ns: TimeNs

    def __post_init__(self) -> None:
        if self.on_ns > self.long_cycle_ns:
            raise RuleError("on_ns is at most long_cycle_ns")


class Rrc(Part, frozen=True):
    """Release to idle or inactive, and promotion."""

    inactivity_ns: TimeNs
    promotion_ns: TimeNs
    paging_ns: TimeNs


class Connection(Part, frozen=True):
    """Sleep states; the two directions of a hop share them."""

    drx: Drx | None
    rrc: Rrc | None


class Load(Part, frozen=True):
    """Other users: Poisson bursts that need this mean fraction of the slots, each so long a time with all slots."""

    mean: Annotated[float, Meta(gt=0, le=MOST_LOAD)]
    burst_ns: Annotated[int, Meta(ge=LEAST_BURST_NS, le=MAX_TIME_NS)]


class Split(Part, frozen=True):
    """A split bearer: the carrier and the fallback carrier are legs of one PDCP entity.

    A leg takes data while less waits in it than its rate carries in `target_ns`; both carry new data while at least
    `threshold_bytes` wait, ``None``: only one does. `rlc` and `grants` are those of the leg on the fallback carrier.
    """

    target_ns: PositiveTimeNs
    threshold_bytes: Annotated[int, Meta(ge=0, le=MOST_THRESHOLD_BYTES)] | None
    rlc: RlcAm | RlcUm
    grants: Grants | None


class Aggregation(Part, frozen=True):
    """Component carriers of equal rate: all but the first are activated by a command when data waits."""

    carriers: Annotated[int, Meta(ge=2, le=MOST_CARRIERS)]
    activation_ns: TimeNs
    deactivation_ns: PositiveTimeNs


class Radio(LinkStage, frozen=True, tag="radio"):
    """Radio layer 2 of one direction. `bler` ``None``: the pattern's SINR or its column `bler`, or 0 without both."""

    direction: Literal["down", "up"]
    rate: AirRate
    bler: Probability | None
    slots: Slots
    fallback: Slots | None
    queue: Queue
    discard_ns: PositiveTimeNs | None
    overhead_bytes: OverheadBytes
    rlc: RlcAm | RlcUm
    reordering: Reordering | None
    grants: Grants | None
    connection: Connection | None
    handover: Literal["forward", "lose"]
    load: Load | None = None
    split: Split | None = None
    aggregation: Aggregation | None = None

    def __post_init__(self) -> None:
        if self.split is not None and self.fallback is None:
            raise RuleError("split needs a second carrier: add fallback")
        if self.split is not None and not isinstance(self.rate, PatternRate):
            raise RuleError("split needs a rate of kind pattern, with the column fallback_rate_bps")
        if self.aggregation is not None and (self.direction == "up" or self.grants is not None):
            raise RuleError("aggregation is for a downlink without grants")
        if self.discard_ns is not None and isinstance(self.queue, FqCodel):
            raise RuleError("discard_ns needs a queue with a single order, which fq_codel has not")


class Wifi(LinkStage, frozen=True, tag="wifi"):
    """The MAC of 802.11ad: A-MPDU, block acknowledgement, retries. `overhead_ns` is per aggregate."""

    rate: AirRate
    bler: Probability | None
    queue: Queue
    aggregate_bytes: Annotated[int, Meta(ge=1, le=MOST_AGGREGATE_BYTES)]
    aggregate_frames: Annotated[int, Meta(ge=1, le=MOST_AGGREGATE_FRAMES)]
    overhead_ns: Annotated[int, Meta(ge=0, le=10**9)]
    retries: Annotated[int, Meta(ge=0, le=MOST_RETRANSMISSIONS)]
    overhead_bytes: OverheadBytes

    def check(self, mtu: int) -> None:
        """Check the rules that depend on the largest packet.

        Raises
        ------
        RuleError
            If an aggregate holds no frame, or its overhead leaves no time for bytes at a constant rate.
        """
        frame_bytes = mtu + self.overhead_bytes
        if self.aggregate_bytes < frame_bytes:
            raise RuleError(f"aggregate_bytes is at least the MTU with overhead_bytes, {frame_bytes}")
        full_bytes = min(max(self.aggregate_bytes // frame_bytes, 1), self.aggregate_frames) * frame_bytes
        if isinstance(self.rate, Constant) and self.overhead_ns:
            most_bps = full_bytes * 8_000_000_000 // self.overhead_ns
            if self.rate.rate_bps >= most_bps:
                raise RuleError(f"full aggregates with overhead_ns carry less than {most_bps} bits per second")
