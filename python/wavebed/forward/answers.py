"""Read the answers of a port strictly: every field of its type, none missing, none unknown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec

from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.forward.model import Binding, Ceiling, ForwardLatency, FrameCounters, PlainValue, PortInfo, SampledFrame
from wavebed.prepared import prepared

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VERSION = 2

_Answer = TypeVar("_Answer")
_KINDS: dict[str, type[WavebedError]] = {"wrong": UserError, "cannot": MachineError, "failed": WavebedError}
_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Line(PlainValue, frozen=True):
    """An answer, or an error."""

    ok: msgspec.Raw = msgspec.Raw(b"")
    error: str | None = None
    kind: str = ""


def answer_of(line: str, what: str, kind: type[_Answer]) -> _Answer:
    """Return the answer in `line`, or raise its error.

    Parameters
    ----------
    line : str
        One JSON object.
    what : str
        The request, for messages.
    kind : type
        Its answer.

    Raises
    ------
    UserError
        If the request was wrong.
    MachineError
        If the machine of the port cannot do it.
    WavebedError
        If it went wrong, or the line is no answer.
    """
    try:
        told = msgspec.json.decode(line, type=prepared(_Line))
        if told.error is None:
            return msgspec.json.decode(told.ok, type=prepared(kind))
    except (msgspec.MsgspecError, RecursionError) as error:
        rule = f"{str(error)[:160]}: its version may differ from this one's"
        raise WavebedError(f"the port's answer to {what!r} is not as documented: {rule}") from None
    raise _KINDS.get(told.kind, WavebedError)(told.error)


class Nothing(PlainValue, frozen=True):
    """The answer of a request that only does something."""


class Description(PortInfo, frozen=True):
    """The answer to ``describe``."""

    version: int
    index: int

    def info(self) -> PortInfo:
        """Return the port's description.

        Raises
        ------
        MachineError
            If the port is of another version.
        """
        if self.version != VERSION:
            raise MachineError(
                f"the port speaks version {self.version} and this program version {VERSION}: install the same wavebed"
            )
        return msgspec.convert(self, prepared(PortInfo), from_attributes=True)


class On(PlainValue, frozen=True):
    """The answer to ``offload``."""

    on: bool


class Mac(PlainValue, frozen=True):
    """The answer to ``resolve``."""

    mac: str


class ReceiverKind(PlainValue, frozen=True):
    """The answer to ``receive``."""

    receiver: str


class Probe(PlainValue, frozen=True):
    """The answer to ``probe``: senders and receivers, best first."""

    senders: tuple[Binding, ...]
    receivers: tuple[Binding, ...]


class CeilingAnswer(PlainValue, frozen=True):
    """The answer to ``ceiling``."""

    pps: Annotated[float, msgspec.Meta(ge=0)]
    sent: _Count
    received: _Count
    sender: str
    receiver: str

    def ceiling(self, sizes_bytes: tuple[int, ...]) -> Ceiling:
        """Return it with the sizes that were asked."""
        return Ceiling(sizes_bytes, self.pps, self.sender, self.receiver)


class _Sample(PlainValue, frozen=True):
    time_ns: _Count
    length: _Count
    hex: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{2})*$")]


class FrameCountersAnswer(PlainValue, frozen=True):
    """The answer to ``frame_counters``; delays are counted by bucket."""

    unique: _Count
    duplicates: _Count
    stale: _Count
    other_trial: _Count
    damaged: _Count
    foreign: _Count
    reordered: _Count
    sizes: dict[int, _Count]
    first_ns: _Count | None
    last_ns: _Count | None
    latency: dict[Annotated[int, msgspec.Meta(ge=0, lt=BUCKETS)], _Count]
    latency_min_ns: _Count | None
    latency_max_ns: _Count | None
    receiver_lost: _Count
    sample: tuple[_Sample, ...]

    def frame_counters(self) -> FrameCounters:
        """Return the counters, with the percentiles of the delay."""
        latency = None
        if self.latency_min_ns is not None and self.latency_max_ns is not None:
            latency = latency_of(self.latency, self.latency_min_ns, self.latency_max_ns)
        same = {name: getattr(self, name) for name in FrameCounters.__struct_fields__ if name not in _COMPUTED}
        sample = tuple(SampledFrame(one.time_ns, one.length, bytes.fromhex(one.hex)) for one in self.sample)
        return FrameCounters(**same, latency=latency, sample=sample)


_COMPUTED = ("latency", "sample")


HALF = 64
TOP_BIT = 36
BUCKETS = (TOP_BIT - 6) * HALF + HALF
NS = 1_000_000_000

P99_FROM = 100
"""A percentile needs at least one value above it: 99 % from 100 values on, 99.9 % from 1000 on."""
P999_FROM = 1000


def bucket_bounds_ns(index: int) -> tuple[int, int]:
    """Return the least value of a bucket and the least of the next one.

    Raises
    ------
    ValueError
        If there is no such bucket.
    """
    if not 0 <= index < BUCKETS:
        raise ValueError(f"bucket {index}: there are {BUCKETS}")
    if index < 2 * HALF:
        return index, index + 1
    shift = index // HALF - 1
    least = (index - shift * HALF) << shift
    return least, least + (1 << shift)


def _value_ns(index: int, least_ns: int, most_ns: int) -> float:
    """Return the value that stands for a bucket: its middle, within the extremes."""
    start, end = bucket_bounds_ns(index)
    return min(max((start + end - 1) / 2, least_ns), most_ns)


def percentile_ns(buckets: Sequence[tuple[int, int]], fraction: float, least_ns: int, most_ns: int) -> float:
    """Return the value that `fraction` of all values do not exceed (nearest rank), within the width of its bucket.

    Parameters
    ----------
    buckets : sequence of (int, int)
        Bucket and how many, in rising order, not empty.
    fraction : float
        Above 0, at most 1.
    least_ns, most_ns : int
        The extremes that were seen.
    """
    total = sum(count for _, count in buckets)
    rank = max(1, math.ceil(fraction * total - 1e-9))
    seen = 0
    for index, count in buckets:
        seen += count
        if seen >= rank:
            return _value_ns(index, least_ns, most_ns)
    raise ValueError("no values")


def latency_of(counts: Mapping[int, int], least_ns: int, most_ns: int) -> ForwardLatency | None:
    """Return the delays that a port counted, or nothing if it counted none.

    Parameters
    ----------
    counts : mapping of int to int
        How many by bucket.
    least_ns, most_ns : int
        The extremes, exact.
    """
    buckets = sorted((index, count) for index, count in counts.items() if count)
    total = sum(count for _, count in buckets)
    if not total:
        return None
    mean_ns = sum(_value_ns(index, least_ns, most_ns) * count for index, count in buckets) / total

    def percentile_s(fraction: float, at_least: int = 1) -> float | None:
        return percentile_ns(buckets, fraction, least_ns, most_ns) / NS if total >= at_least else None

    p50_s, p90_s = percentile_s(0.5), percentile_s(0.9)
    assert p50_s is not None
    assert p90_s is not None
    return ForwardLatency(
        count=total,
        min_s=least_ns / NS,
        max_s=most_ns / NS,
        mean_s=mean_ns / NS,
        p50_s=p50_s,
        p90_s=p90_s,
        p99_s=percentile_s(0.99, P99_FROM),
        p999_s=percentile_s(0.999, P999_FROM),
        counts=tuple(_row(index, count, most_ns) for index, count in buckets),
    )


def _row(index: int, count: int, most_ns: int) -> tuple[float, float, int]:
    start, end = bucket_bounds_ns(index)
    if index == BUCKETS - 1:  # everything above is in it
        end = max(end, most_ns + 1)
    return start / NS, end / NS, count
