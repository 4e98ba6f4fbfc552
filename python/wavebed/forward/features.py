"""The features of a network interface, as ``ethtool -k`` lists them, by the same system call."""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from typing import TYPE_CHECKING

from wavebed.errors import WavebedError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["is_segmentation", "read_features", "set_features"]

# Numbers of linux/ethtool.h and linux/sockios.h.
SIOCETHTOOL = 0x8946
GET_STRINGS = 0x1B
GET_SET_INFO = 0x37
GET_FEATURES = 0x3A
SET_FEATURES = 0x3B
FEATURE_NAMES = 4
NAME_BYTES = 32
BLOCK_BITS = 32


def is_segmentation(feature: str) -> bool:
    """Return whether a feature lets super-packets leave the stack, to be cut by the interface or not at all."""
    return feature.startswith("tx-") and (feature.endswith("-segmentation") or feature == "tx-gso-list")


def read_features(interface: str) -> dict[str, bool]:
    """Return the features of an interface of the caller's network namespace, and whether they are on.

    Raises
    ------
    WavebedError
        If the kernel does not tell.
    """
    names = _names(interface)
    blocks = _blocks(len(names))
    answer = _ask(interface, struct.pack("=II", GET_FEATURES, blocks) + bytes(16 * blocks))
    active = [struct.unpack_from("=IIII", answer, 8 + 16 * block)[2] for block in range(blocks)]
    return {name: _bit(active, index) for index, name in enumerate(names) if name}


def set_features(interface: str, wanted: Mapping[str, bool]) -> dict[str, bool]:
    """Switch features of an interface of the caller's network namespace. Return all of them afterwards.

    Names that the kernel does not know are left out: each kernel has its own.

    Raises
    ------
    WavebedError
        If the kernel refuses.
    """
    names = _names(interface)
    blocks = _blocks(len(names))
    valid, requested = [0] * blocks, [0] * blocks
    for index, name in enumerate(names):
        if name in wanted:
            block, mask = index // BLOCK_BITS, 1 << index % BLOCK_BITS
            valid[block] |= mask
            requested[block] |= mask if wanted[name] else 0
    pairs = b"".join(struct.pack("=II", *pair) for pair in zip(valid, requested, strict=True))
    _ask(interface, struct.pack("=II", SET_FEATURES, blocks) + pairs)
    return read_features(interface)


def _blocks(count: int) -> int:
    return -(-count // BLOCK_BITS)


def _bit(words: list[int], index: int) -> bool:
    return bool(words[index // BLOCK_BITS] >> index % BLOCK_BITS & 1)


def _names(interface: str) -> list[str]:
    info = _ask(interface, struct.pack("=IIQI", GET_SET_INFO, 0, 1 << FEATURE_NAMES, 0))
    (count,) = struct.unpack_from("=I", info, 16)
    answer = _ask(interface, struct.pack("=III", GET_STRINGS, FEATURE_NAMES, count) + bytes(NAME_BYTES * count))
    return [
        answer[12 + NAME_BYTES * index : 12 + NAME_BYTES * (index + 1)].split(b"\0")[0].decode()
        for index in range(count)
    ]


def _ask(interface: str, request: bytes) -> bytes:
    data = array.array("B", request)
    address, _ = data.buffer_info()
    call = struct.pack("16sP16x", interface.encode(), address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        try:
            fcntl.ioctl(asker, SIOCETHTOOL, call)
        except OSError as error:
            raise WavebedError(f"{interface}: its features: {error.strerror}") from None
    return data.tobytes()
