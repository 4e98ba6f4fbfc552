"""Programs on the hosts of a laboratory: one sends packets of an unusual kind, the other counts what arrives.

``python -m tests.stress.packet_programs send KIND COUNT SEED`` prints what it sent as JSON; ``… sink`` counts until its
standard input ends.
"""

from __future__ import annotations

import errno
import json
import os
import random
import select
import socket
import struct
import sys
import time
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PORT = 7000
DEVICE = "wb0"
SOL_PACKET, PACKET_VNET_HDR = 263, 15
UDP_SEGMENT = 103
ETH_P_IP, ETH_P_IPV6 = 0x0800, 0x86DD
UNKNOWN = 0x1E
"""An option for experiments, which a host that does not know it leaves alone (RFC 4727)."""
IPV6_HOPOPTS, IPV6_DSTOPTS = 54, 59
NEEDS_CSUM = 1
GSO_TCPV4, GSO_UDP, GSO_TCPV6, GSO_UDP_L4, GSO_ECN = 1, 3, 4, 5, 0x80
PATIENCE_S = 20.0


def _pack(chance: random.Random, size: int) -> bytes:
    """Return a payload that carries its own checksum."""
    body = chance.randbytes(max(size - 4, 0))
    return struct.pack("!I", zlib.crc32(body)) + body


def _address(family: int) -> Any:
    return socket.getaddrinfo("server", PORT, family, socket.SOCK_DGRAM)[0][4]


def _own(family: int) -> str:
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(_address(family))
        return str(probe.getsockname()[0])


def _patiently(send: Callable[[], object]) -> bool:
    """Send when there is room; return whether the kernel took it."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            send()
        except OSError as error:
            if error.errno not in (errno.ENOBUFS, errno.EAGAIN):
                return False
            time.sleep(0.001)
        else:
            return True
    return False


def _udp(family: int) -> socket.socket:
    sender = socket.socket(family, socket.SOCK_DGRAM)
    sender.connect(_address(family))
    return sender


def options(chance: random.Random) -> tuple[int, bool]:
    """Send a datagram with IP options: padding, record route, time stamps."""
    length = 4 * chance.randint(1, 10)
    kinds = [bytes([1]) * length]
    if length >= 8:
        kinds += [bytes([7, length - 1, 4]) + bytes(length - 3), bytes([68, length, 5, 0]) + bytes(length - 4)]
    with _udp(socket.AF_INET) as sender:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, chance.choice(kinds))
        data = _pack(chance, chance.randint(4, 1400))
        return 1, _patiently(lambda: sender.send(data))


def fragments(chance: random.Random) -> tuple[int, bool]:
    """Send a datagram that takes many fragments."""
    family, room = chance.choice([(socket.AF_INET, 1480), (socket.AF_INET6, 1448)])
    size = chance.randint(2000, 60000)
    with _udp(family) as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        if family == socket.AF_INET:
            sender.setsockopt(socket.IPPROTO_IP, 10, 0)  # IP_MTU_DISCOVER: fragments are allowed
        data = _pack(chance, size)
        return -(-(size + 8) // room), _patiently(lambda: sender.send(data))


def extensions(chance: random.Random) -> tuple[int, bool]:
    """Send a datagram with IPv6 extension headers that mean nothing."""
    with _udp(socket.AF_INET6) as sender:
        for option in chance.sample([IPV6_HOPOPTS, IPV6_DSTOPTS], chance.randint(1, 2)):
            units = chance.randint(0, 20)
            rest = units * 8 + 6
            sender.setsockopt(socket.IPPROTO_IPV6, option, bytes([0, units, UNKNOWN, rest - 2]) + bytes(rest - 2))
        data = _pack(chance, chance.randint(4, 1000))
        return 1, _patiently(lambda: sender.send(data))


def icmp(chance: random.Random) -> tuple[int, bool]:
    """Send an ICMP message: an echo request, or of a type that means nothing."""
    family = chance.choice([socket.AF_INET, socket.AF_INET6])
    protocol = socket.IPPROTO_ICMP if family == socket.AF_INET else socket.IPPROTO_ICMPV6
    echo = 8 if family == socket.AF_INET else 128
    body = struct.pack("!BBHHH", chance.choice([echo, 200, 255]), 0, 0, 1, 1) + chance.randbytes(
        chance.randint(0, 1400)
    )
    total = sum(struct.unpack(f"!{len(body + b'x') // 2}H", body + bytes(len(body) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    data = body[:2] + struct.pack("!H", ~total & 0xFFFF) + body[4:]
    with socket.socket(family, socket.SOCK_RAW, protocol) as sender:
        return 1, _patiently(lambda: sender.sendto(data, (*_address(family)[:1], 0)))


def segments(chance: random.Random) -> tuple[int, bool]:
    """Send datagrams by UDP-GSO, of an odd size, the last one shorter."""
    size = chance.randrange(5, 1400, 2)
    count = chance.randint(2, min(60, 60000 // size))
    short = chance.randint(4, size)
    data = b"".join(_pack(chance, size) for _ in range(count - 1)) + _pack(chance, short)
    with _udp(chance.choice([socket.AF_INET, socket.AF_INET6])) as sender:
        sender.setsockopt(socket.SOL_UDP, UDP_SEGMENT, size)
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        return count, _patiently(lambda: sender.send(data))


def _header(chance: random.Random, version: int, protocol: int, length: int) -> bytes:
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    source, target = (socket.inet_pton(family, each) for each in (_own(family), _address(family)[0]))
    if version == 6:
        return struct.pack("!IHBB", 6 << 28, length, protocol, 64) + source + target
    head = (
        struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, chance.randrange(1 << 16), 0, 64, protocol, 0) + source + target
    )
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    return head[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + head[12:]


def _raw(version: int, data: bytes, vnet: bytes = b"") -> bool:
    protocol = ETH_P_IP if version == 4 else ETH_P_IPV6
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        if vnet:
            sender.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        return _patiently(lambda: sender.sendto(vnet + data, (DEVICE, protocol)))


def supers(chance: random.Random) -> tuple[int, bool]:
    """Send a super-packet with a header of our own: sizes, kinds and offsets as no stack would choose them."""
    version = chance.choice([4, 6])
    tcp = chance.random() < 0.6
    size = chance.choice([chance.randint(1, 30), chance.randint(30, 1400), chance.randint(1400, 9000)])
    length = min(size * chance.randint(1, 64 if tcp else 100) + chance.randint(0, size), 64000)
    if tcp:
        words = chance.randint(5, 15)
        flags = chance.choice([0x10, 0x18, 0x11, 0x98, 0x50, 0x30])
        first = struct.pack("!HHIIBBHHH", 4000, PORT, chance.randrange(1 << 32), 0, words << 4, flags, 500, 0, 0)
        first += bytes([1]) * (4 * words - 20)
        kind = (GSO_TCPV4 if version == 4 else GSO_TCPV6) | chance.choice([0, 0, GSO_ECN])
    else:
        first = struct.pack("!HHHH", 4000, PORT, min(8 + length, 65535), 0)
        kind = chance.choice([GSO_UDP_L4, GSO_UDP_L4, GSO_UDP])
    payload = first + chance.randbytes(length)
    head = _header(chance, version, socket.IPPROTO_TCP if tcp else socket.IPPROTO_UDP, len(payload))
    told = len(head) + chance.choice([len(first), len(first), 0, 8, 60])
    vnet = struct.pack("=BBHHHH", NEEDS_CSUM, kind, told, size, len(head), 16 if tcp else 6)
    return 1, _raw(version, head + payload, vnet)


def malformed(chance: random.Random) -> tuple[int, bool]:
    """Send what is no packet: cut, garbled, or of lengths that are not so."""
    version = chance.choice([4, 6])
    whole = _header(chance, version, chance.choice([6, 17, 1, 58, 44, 0, 255]), 100) + chance.randbytes(100)
    way = chance.randrange(5)
    if way == 0:
        data = whole[: chance.randint(1, len(whole) - 1)]
    elif way == 1:
        data = chance.randbytes(chance.randint(1, 1500))
    elif way == 2:  # lengths that are not so
        at = 2 if version == 4 else 4
        data = whole[:at] + chance.randbytes(2) + whole[at + 2 :]
    elif way == 3:  # a header length that is not so, or another version
        data = bytes([chance.randrange(256)]) + whole[1:]
    else:
        spoiled = bytearray(whole)
        for _ in range(chance.randint(1, 8)):
            spoiled[chance.randrange(len(spoiled))] = chance.randrange(256)
        data = bytes(spoiled)
    return 1, _raw(version, data)


KINDS = {each.__name__: each for each in (options, fragments, extensions, icmp, segments, supers, malformed)}


def send(kind: str, count: int, seed: int) -> None:
    """Send until `count` wire segments were taken, and say what was sent."""
    chance = random.Random(f"{kind} {seed}")
    taken = packets = refused = 0
    end = time.monotonic() + PATIENCE_S
    while taken < count and time.monotonic() < end:
        size, went = KINDS[kind](chance)
        taken += size * went
        packets += went
        refused += not went
    print(json.dumps({"taken": taken, "packets": packets, "refused": refused}))


def sink() -> None:
    """Count datagrams, and those that are not whole, until standard input ends and nothing more comes."""
    receiver = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    receiver.setsockopt(socket.SOL_SOCKET, 33, 1 << 28)  # SO_RCVBUFFORCE
    receiver.bind(("::", PORT))
    got = damaged = 0
    ended = False
    while True:
        ready, _, _ = select.select([receiver, *([] if ended else [0])], [], [], 0.3 if ended else None)
        if receiver in ready:
            data = receiver.recv(1 << 16)
            got += 1
            damaged += len(data) < 4 or zlib.crc32(data[4:]) != struct.unpack("!I", data[:4])[0]
        elif 0 in ready:
            ended = not os.read(0, 1)
        elif ended:
            break
    print(json.dumps({"got": got, "damaged": damaged}))


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        sink()
