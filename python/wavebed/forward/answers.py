"""Read the answers of a port strictly: every field of its type, none missing, none unknown."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.forward.latency import BUCKETS, latency_of
from wavebed.forward.model import Binding, Ceiling, FrameCounters, PortInfo, Sample
from wavebed.forward.plain import Value
from wavebed.prepared import prepared

__all__ = [
    "VERSION",
    "CeilingAnswer",
    "Description",
    "FrameCountersAnswer",
    "Mac",
    "Nothing",
    "On",
    "Probe",
    "ReceiverKind",
    "answer_of",
]

VERSION = 2

_Answer = TypeVar("_Answer")
_KINDS: dict[str, type[WavebedError]] = {"wrong": UserError, "cannot": MachineError, "failed": WavebedError}
_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Line(Value, frozen=True):
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


class Nothing(Value, frozen=True):
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


class On(Value, frozen=True):
    """The answer to ``offload``."""

    on: bool


class Mac(Value, frozen=True):
    """The answer to ``resolve``."""

    mac: str


class ReceiverKind(Value, frozen=True):
    """The answer to ``receive``."""

    receiver: str


class Probe(Value, frozen=True):
    """The answer to ``probe``: senders and receivers, best first."""

    senders: tuple[Binding, ...]
    receivers: tuple[Binding, ...]


class CeilingAnswer(Value, frozen=True):
    """The answer to ``ceiling``."""

    pps: Annotated[float, msgspec.Meta(ge=0)]
    sent: _Count
    received: _Count
    sender: str
    receiver: str

    def ceiling(self, sizes_bytes: tuple[int, ...]) -> Ceiling:
        """Return it with the sizes that were asked."""
        return Ceiling(sizes_bytes, self.pps, self.sender, self.receiver)


class _Sample(Value, frozen=True):
    time_ns: _Count
    length: _Count
    hex: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{2})*$")]


class FrameCountersAnswer(Value, frozen=True):
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
        sample = tuple(Sample(one.time_ns, one.length, bytes.fromhex(one.hex)) for one in self.sample)
        return FrameCounters(**same, latency=latency, sample=sample)


_COMPUTED = ("latency", "sample")
