"""The boxes of ISO/IEC 14496-12 for repeating and filling a media segment."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Segment", "find", "fragments", "initialization", "top_level"]

HEADER_BYTES = 8


def _boxes(data: bytes, start: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    while start < end:
        size, kind = struct.unpack_from(">I4s", data, start)
        if size < HEADER_BYTES or start + size > end:
            raise ValueError(f"box at byte {start} has size {size}")
        yield kind, start, start + size
        start += size


def top_level(data: bytes) -> list[tuple[str, int]]:
    """Return kind and size of the boxes of a file."""
    return [(kind.decode("latin-1"), end - start) for kind, start, end in _boxes(data, 0, len(data))]


def find(data: bytes, *path: bytes) -> tuple[int, int]:
    """Return where the content of the first box at `path` starts and ends.

    Raises
    ------
    ValueError
        If there is no such box.
    """
    start, end = 0, len(data)
    for wanted in path:
        for kind, box_start, box_end in _boxes(data, start, end):
            if kind == wanted:
                start, end = box_start + HEADER_BYTES, box_end
                break
        else:
            raise ValueError(f"no box {wanted.decode()}")
    return start, end


def initialization(data: bytes) -> bytes:
    """Return the initialization segment of a fragmented file: everything before its first fragment."""
    for kind, start, _ in _boxes(data, 0, len(data)):
        if kind == b"moof":
            return data[:start]
    raise ValueError("no box moof")


def fragments(data: bytes) -> list[bytes]:
    """Return the fragments of a file: ``moof`` and ``mdat`` together."""
    found: list[bytes] = []
    for kind, start, end in _boxes(data, 0, len(data)):
        if kind == b"moof":
            found.append(data[start:end])
        elif kind == b"mdat":
            found[-1] += data[start:end]
    return found


class Segment:
    """A fragment that can be repeated at any time, followed by a box ``free`` that fills it up.

    Parameters
    ----------
    fragment : bytes
        A ``moof`` with one track, whose ``tfdt`` has 64 bits, and its ``mdat``.
    """

    def __init__(self, fragment: bytes) -> None:
        self._bytes = bytearray(fragment)
        self._sequence_at = find(fragment, b"moof", b"mfhd")[0] + 4
        time_at = find(fragment, b"moof", b"traf", b"tfdt")[0]
        if fragment[time_at] != 1:
            raise ValueError("tfdt has 32 bits")
        self._time_at = time_at + 4
        run_at = find(fragment, b"moof", b"traf", b"trun")[0]
        self.samples = int(struct.unpack_from(">I", fragment, run_at + 4)[0])

    @property
    def least_bytes(self) -> int:
        """The smallest size that it can be filled up to."""
        return len(self._bytes) + HEADER_BYTES

    def at(self, number: int, decode_time: int, size: int) -> bytes:
        """Return its first bytes; zeros after them, to `size`, are the content of the box that fills it up.

        Parameters
        ----------
        number : int
            Its number, from 1.
        decode_time : int
            In units of the track's time scale.
        size : int
            Of the whole segment.
        """
        struct.pack_into(">I", self._bytes, self._sequence_at, number)
        struct.pack_into(">Q", self._bytes, self._time_at, decode_time)
        return bytes(self._bytes) + struct.pack(">I4s", size - len(self._bytes), b"free")
