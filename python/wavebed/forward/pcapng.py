"""Frames of a sample as a capture file that Wireshark and tshark read (pcapng, draft-ietf-opsawg-pcapng)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wavebed.forward.model import Sample

__all__ = ["capture"]

_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_BYTE_ORDER = 0x1A2B3C4D
_ETHERNET = 1
_UNKNOWN_LENGTH = -1
_END, _COMMENT, _APPLICATION, _NAME, _RESOLUTION, _FCS_LENGTH = 0, 1, 4, 2, 9, 13
_NANOSECONDS = 9
"""Resolution as a negative power of ten."""
_NO_LIMIT = 0


def capture(samples: Sequence[Sample], interface: str) -> bytes:
    """Return the capture of one interface.

    Parameters
    ----------
    samples : sequence of Sample
        Frames without FCS; of one whose `data` are shorter than its `length`, only the first bytes are in the file.
    interface : str
        Its name. Time stamps are those of its machine's monotonic clock: seconds since it started, about.
    """
    comment = "The FCS (4 bytes) is not captured. Time is the port's monotonic clock, not that of day."
    section = struct.pack("<IHHq", _BYTE_ORDER, 1, 0, _UNKNOWN_LENGTH) + _options([(_APPLICATION, b"wavebed forward")])
    described = struct.pack("<HHI", _ETHERNET, 0, _NO_LIMIT) + _options(
        [
            (_NAME, interface.encode()),
            (_RESOLUTION, bytes([_NANOSECONDS])),
            (_FCS_LENGTH, bytes([0])),
            (_COMMENT, comment.encode()),
        ]
    )
    blocks = [_block(_SECTION, section), _block(_INTERFACE, described)]
    blocks += [_block(_PACKET, _packet(sample)) for sample in samples]
    return b"".join(blocks)


def _packet(sample: Sample) -> bytes:
    high, low = divmod(sample.time_ns, 1 << 32)
    length = max(sample.length, len(sample.data))
    return struct.pack("<IIIII", 0, high, low, len(sample.data), length) + _padded(sample.data)


def _options(options: Iterable[tuple[int, bytes]]) -> bytes:
    written = b"".join(struct.pack("<HH", code, len(value)) + _padded(value) for code, value in options)
    return written + struct.pack("<HH", _END, 0)


def _block(kind: int, body: bytes) -> bytes:
    length = len(body) + 12
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


def _padded(data: bytes) -> bytes:
    """Fill up to a multiple of four bytes."""
    return data + bytes(-len(data) % 4)
