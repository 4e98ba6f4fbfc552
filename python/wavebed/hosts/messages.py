"""What an agent may send: the types of its answers and events (docs/development/agent-protocol.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, cast

import msgspec

from wavebed.prepared import prepared
from wavebed.stranger import Count, Line, Name, decode

if TYPE_CHECKING:
    from wavebed.config.data import Json

__all__ = ["Closed", "Event", "Exit", "File", "Header", "Message", "Output", "Piece", "answer_of", "message_of"]

Header = dict[str, "Json"]
Stream = Literal["stdout", "stderr"]
_Address = Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Fa-f:][0-9A-Fa-f:.]{1,63}$")]
"""Programs get it on their command lines."""
_MOST_WORDS = 1000


class Output(msgspec.Struct, frozen=True, tag_field="event", tag="output"):
    """Output of a program."""

    pid: Count
    stream: Stream


class Closed(msgspec.Struct, frozen=True, tag_field="event", tag="closed"):
    """The end of an output stream."""

    pid: Count
    stream: Stream


class Exit(msgspec.Struct, frozen=True, tag_field="event", tag="exit"):
    """The end of a program: its status, negative for a signal."""

    pid: Count
    status: Annotated[int, msgspec.Meta(ge=-255, le=255)]


class File(msgspec.Struct, frozen=True, tag_field="event", tag="file"):
    """A file of a folder that was asked for."""

    tag: Count
    name: Name
    bytes: Count


class Piece(msgspec.Struct, frozen=True, tag_field="event", tag="piece"):
    """A part of a file."""

    tag: Count
    name: Name
    offset: Count


Event = Output | Closed | Exit | File | Piece


class Message(msgspec.Struct, frozen=True):
    """What every header may have: an event is no answer."""

    id: Count | None = None
    event: Line | None = None
    error: Line | None = None


class _Hello(TypedDict):
    version: Count
    is_root: bool
    system: Line
    kernel: Line
    name: Line
    architecture: Line
    processors: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    congestion_controls: Annotated[list[Line], msgspec.Meta(max_length=_MOST_WORDS)]
    reached_from: _Address | None
    congestion_control: Line


class _Clock(TypedDict):
    unix_ns: tuple[Count, Count]
    monotonic_ns: tuple[Count, Count]


class _Run(TypedDict):
    pid: Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]


class _Ports(TypedDict):
    ports: list[tuple[Literal["tcp", "udp"], Annotated[int, msgspec.Meta(ge=0, le=65535)]]]


class _Flows(TypedDict):
    count: Count
    max_rtt_us: Count | None


class _Towards(TypedDict):
    interface: Line
    address: _Address
    rx_bytes: Count
    tx_bytes: Count
    rx_packets: Count
    tx_packets: Count
    rx_dropped: Count
    tx_dropped: Count


class _Done(TypedDict):
    pass


_MESSAGE = msgspec.json.Decoder(prepared(Message))
_EVENT = msgspec.json.Decoder(prepared(Event))
_DONE: msgspec.json.Decoder[Any] = msgspec.json.Decoder(prepared(_Done))
_ANSWERS: dict[str, msgspec.json.Decoder[Any]] = {
    "hello": msgspec.json.Decoder(prepared(_Hello)),
    "clock": msgspec.json.Decoder(prepared(_Clock)),
    "run": msgspec.json.Decoder(prepared(_Run)),
    "ports": msgspec.json.Decoder(prepared(_Ports)),
    "flows": msgspec.json.Decoder(prepared(_Flows)),
    "towards": msgspec.json.Decoder(prepared(_Towards)),
}
"""By the word ``do`` of the request; answers to other requests have nothing that is used."""


def message_of(text: bytes) -> Event | Message:
    """Return an event, or what is common to all answers.

    Raises
    ------
    StrangerError
        If it is neither.
    """
    message = decode(text, _MESSAGE, "the header of a frame")
    return message if message.event is None else decode(text, _EVENT, "the header of a frame")


def answer_of(do: object, text: bytes) -> Header:
    """Return the answer to a request.

    Raises
    ------
    StrangerError
        If it has another type.
    """
    return cast("Header", decode(text, _ANSWERS.get(str(do), _DONE), f"the answer to {do}"))
