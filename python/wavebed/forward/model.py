"""Values of the forwarding test: ports, frames, counters, trials; and their JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import msgspec

from wavebed.errors import UserError
from wavebed.prepared import prepared
from wavebed.result.model import Verdict

if TYPE_CHECKING:
    from wavebed.config.data import Json

_Value = TypeVar("_Value")


class PlainValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value that does not change and that JSON can hold."""


def to_plain(value: PlainValue) -> dict[str, Json]:
    """Return a value as JSON can write it."""
    plain: dict[str, Json] = msgspec.to_builtins(value, str_keys=True)
    return plain


def from_plain(kind: type[_Value], plain: object) -> _Value:
    """Return the value that `to_plain` wrote; a field that is not there takes its default.

    Raises
    ------
    UserError
        If it is no such value: the place, and the rule.
    """
    try:
        return msgspec.convert(plain, prepared(kind), str_keys=True)
    except msgspec.ValidationError as error:
        rule, _, place = str(error).partition(" - at `$")
        raise UserError(f"{place.strip('.`') or 'the value'}: {rule[:1].lower()}{rule[1:]}") from None


class ValueRange(PlainValue, frozen=True):
    """A row of values: ``first``, the next one, ... ``count`` of them. ``first`` is an address or a port number."""

    first: str | int
    count: int


class FrameSpec(PlainValue, frozen=True):
    """The test frames of a trial; see docs/development/port-protocol.md.

    Parameters
    ----------
    sizes_bytes : tuple of int
        Sizes with FCS (4 bytes), without preamble and gap, repeated in this order.
    """

    sizes_bytes: tuple[int, ...]
    source_mac: str
    destination_mac: str
    sources: ValueRange
    destinations: ValueRange
    source_ports: ValueRange
    destination_ports: ValueRange
    flows: int
    vlan: int | None = None
    pppoe_session: int | None = None


class Binding(PlainValue, frozen=True):
    """One way to send or to receive, and whether it works here."""

    kind: str
    works: bool
    why: str


class PortInfo(PlainValue, frozen=True):
    """The interface of a port (request ``describe``)."""

    interface: str
    mac: str
    mtu: int
    up: bool
    carrier: bool
    carrier_changes: int
    speed_mbps: int | None
    driver: str | None
    addresses: tuple[str, ...]
    offloads: Mapping[str, bool]
    fixed: tuple[str, ...]
    machine: str
    cores: int
    xdp: bool


class InterfaceCounters(PlainValue, frozen=True):
    """Counters of an interface since it was made (request ``counters``)."""

    time_ns: int
    rx_packets: int
    rx_bytes: int
    rx_dropped: int
    rx_errors: int
    rx_missed: int
    tx_packets: int
    tx_bytes: int
    tx_dropped: int
    tx_errors: int
    carrier_changes: int
    up: bool
    driver: Mapping[str, int]


class Sent(PlainValue, frozen=True):
    """The outcome of a request ``send``; ``took_ns`` counts from the moment the first frame was due."""

    frames: int
    refused: int
    took_ns: int
    late_max_ns: int
    late_batches: int
    batches: int
    sender: str


class SampledFrame(PlainValue, frozen=True):
    """A frame as it crossed the receiving port; ``length`` without FCS."""

    time_ns: int
    length: int
    data: bytes


class ForwardLatency(PlainValue, frozen=True):
    """Delays from the sender's time stamp to the receiving port, both on one clock; seconds.

    Parameters
    ----------
    counts : sequence of (float, float, int)
        The histogram: from, below, how many.
    """

    count: int
    min_s: float
    max_s: float
    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float | None
    p999_s: float | None
    counts: tuple[tuple[float, float, int], ...]


class FrameCounters(PlainValue, frozen=True):
    """Frames that a receiving port counted (request ``frame_counters``); each is in exactly one of the first six."""

    unique: int
    duplicates: int
    stale: int
    other_trial: int
    damaged: int
    foreign: int
    reordered: int
    sizes: Mapping[int, int]
    first_ns: int | None
    last_ns: int | None
    latency: ForwardLatency | None
    receiver_lost: int
    sample: tuple[SampledFrame, ...] = ()


class Refusal(PlainValue, frozen=True):
    """The reason why a trial gives no number: a check that does not hold, and the remedy.

    It stands in the place of the number; checks that hold leave nothing, unlike `wavebed.result.model.Check`.

    Parameters
    ----------
    code : str
        A word for programs: ``tester_limit``, ``super_packets``, ``offload``, ``duplicates``, ``flood``, ``reboot``,
        ``peer``, ``port_down``, ``mtu``, ``unaccounted``, ``late``, ``no_frames``, ``unsteady``, ``interrupted``.
    reason : str
        One line: the evidence, with numbers.
    remedy : str
        The remedy, or nothing.
    """

    code: str
    reason: str
    remedy: str = ""


class ForwardTrial(PlainValue, frozen=True):
    """One trial: frames at `offered_pps` for `duration_s`.

    Parameters
    ----------
    offered_pps, duration_s : float
        As intended; ``None`` as rate means as fast as it goes.
    sent, received, lost : int
        Frames of this trial; ``sent = received + lost`` when `refusals` is empty.
    sent_pps, received_pps : float
        `sent` and `received` over the time that sending took.
    refusals : sequence of Refusal
        Empty: the trial counts.
    cpu : mapping
        The device's processor during it: ``busy_max``, ``busy_mean``, ``softirq_max`` (fractions, 0 to 1), when known.
    """

    purpose: str
    sizes_bytes: tuple[int, ...]
    offered_pps: float | None
    duration_s: float
    sent: int
    received: int
    lost: int
    sent_pps: float
    received_pps: float
    took_s: float
    tx: InterfaceCounters | None
    rx: InterfaceCounters | None
    """Counters' differences over the trial."""
    send: Sent | None
    counters: FrameCounters | None
    refusals: tuple[Refusal, ...] = ()
    cpu: Mapping[str, float] = msgspec.field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """``invalid`` if anything speaks against its numbers."""
        return "invalid" if self.refusals else "valid"

    @property
    def loss_ratio(self) -> float:
        """Fraction of the frames sent that did not arrive; 0 when none was sent."""
        return self.lost / self.sent if self.sent else 0.0


class Ceiling(PlainValue, frozen=True):
    """The highest rate of the tester alone, for one list of sizes (request ``ceiling``)."""

    sizes_bytes: tuple[int, ...]
    pps: float
    sender: str
    receiver: str


def blank_trial(purpose: str, sizes: tuple[int, ...], offered_pps: float | None, duration_s: float) -> ForwardTrial:
    """Return a trial in which nothing was sent."""
    return ForwardTrial(
        purpose=purpose,
        sizes_bytes=sizes,
        offered_pps=offered_pps,
        duration_s=duration_s,
        sent=0,
        received=0,
        lost=0,
        sent_pps=0.0,
        received_pps=0.0,
        took_s=0.0,
        tx=None,
        rx=None,
        send=None,
        counters=None,
    )
