"""Frames between this machine and an agent: a JSON header, and bytes beside it (docs/development/agent-protocol.md)."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

from wavebed.stranger import StrangerError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

    from wavebed.config.data import Json

__all__ = ["MOST_PAYLOAD_BYTES", "encode_frame", "read_frame"]

MOST_HEADER_BYTES = 1 << 20
MOST_PAYLOAD_BYTES = 1 << 20
_LENGTHS = struct.Struct("<II")


def encode_frame(header: Mapping[str, Json], payload: bytes = b"") -> bytes:
    """Return a frame as bytes."""
    text = json.dumps(header).encode()
    assert len(text) <= MOST_HEADER_BYTES, "command lines are short"
    assert len(payload) <= MOST_PAYLOAD_BYTES, "files are sent in pieces"
    return _LENGTHS.pack(len(text), len(payload)) + text + payload


def read_frame(stream: BinaryIO) -> tuple[bytes, bytes] | None:
    """Return the next header and its payload; ``None`` at the end of the stream.

    Raises
    ------
    StrangerError
        If something else comes, such as the greeting of a login shell, or the stream ends within a frame.
    """
    head = stream.read(_LENGTHS.size)
    if not head:
        return None
    if len(head) < _LENGTHS.size:
        raise StrangerError(f"{head!r} came in place of a frame")
    header_bytes, payload_bytes = _LENGTHS.unpack(head)
    if header_bytes > MOST_HEADER_BYTES or payload_bytes > MOST_PAYLOAD_BYTES:
        raise StrangerError(f"{head!r} came in place of a frame: does a start file of the shell print something?")
    text, payload = stream.read(header_bytes), stream.read(payload_bytes)
    if len(text) < header_bytes or len(payload) < payload_bytes:
        raise StrangerError("the stream ended within a frame")
    return text, payload
