"""The instances that poll an interface (NAPI), asked of the netlink family ``netdev`` (Linux 6.8)."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from wavebed.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["napi_instances"]

# Numbers of linux/netlink.h, linux/genetlink.h and linux/netdev.h.
NETLINK_GENERIC = 16
REQUEST, DUMP = 0x1, 0x300
ERROR, DONE = 2, 3
CONTROL, GET_FAMILY = 16, 3
FAMILY_ID, FAMILY_NAME = 1, 2
NAPI_GET = 11
NAPI_INTERFACE, NAPI_NUMBER = 1, 2
HEADER = struct.Struct("=IHHII")
ANSWER_BYTES = 65536
ANSWER_WITHIN_S = 5.0


def napi_instances(interface: str) -> list[int]:
    """Return the NAPI instances that poll an interface of the caller's network namespace; unique on the machine.

    Empty if nothing does: a veth interface is polled only with GRO, an XDP program, or threaded NAPI.

    Raises
    ------
    MachineError
        If the kernel does not tell.
    """
    index = socket.if_nametoindex(interface)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC) as asker:
            asker.settimeout(ANSWER_WITHIN_S)
            family = _family(asker)
            attribute = _attribute(NAPI_INTERFACE, struct.pack("=I", index))
            return [
                struct.unpack("=I", attributes[NAPI_NUMBER])[0]
                for attributes in _ask(asker, family, NAPI_GET, REQUEST | DUMP, attribute)
                if NAPI_NUMBER in attributes
            ]
    except OSError as error:
        raise MachineError(f"{interface}: its NAPI instances: {error.strerror or error}") from None


def _family(asker: socket.socket) -> int:
    name = _attribute(FAMILY_NAME, b"netdev\0")
    for attributes in _ask(asker, CONTROL, GET_FAMILY, REQUEST, name):
        number: int = struct.unpack("=H", attributes[FAMILY_ID])[0]
        return number
    raise MachineError("this kernel does not list NAPI instances (Linux 6.8 does)")


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _ask(asker: socket.socket, family: int, command: int, flags: int, attributes: bytes) -> Iterator[dict[int, bytes]]:
    payload = struct.pack("=BBH", command, 1, 0) + attributes
    asker.sendto(HEADER.pack(HEADER.size + len(payload), family, flags, 1, 0) + payload, (0, 0))
    while True:
        answer = asker.recv(ANSWER_BYTES)
        place = 0
        while place < len(answer):
            length, kind, _, _, _ = HEADER.unpack_from(answer, place)
            body = answer[place + HEADER.size : place + length]
            place += -(-length // 4) * 4
            if kind == ERROR:
                number = -struct.unpack_from("=i", body)[0]
                if number:
                    raise OSError(number, f"error {number}")
                return
            if kind == DONE:
                return
            yield _attributes(body[4:])
        if not flags & DUMP:
            return


def _attributes(body: bytes) -> dict[int, bytes]:
    found = {}
    place = 0
    while place + 4 <= len(body):
        length, kind = struct.unpack_from("=HH", body, place)
        if length < 4:
            break
        found[kind & 0x3FFF] = body[place + 4 : place + length]
        place += -(-length // 4) * 4
    return found
