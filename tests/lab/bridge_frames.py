"""Frames of every kind, as bytes, and raw ports to send and receive them with their VLAN tags."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from typing import NamedTuple

from wavebed.forward.sandbox import within

__all__ = ["Sent", "collect", "frames_of_every_kind", "ip4", "raw_port", "udp4"]

ALL = 3
SOL_PACKET, AUXDATA, MEMBERSHIP, PROMISCUOUS = 263, 8, 1, 1
VLAN_VALID, TPID_VALID = 1 << 4, 1 << 6
NEAR, FAR = bytes.fromhex("020000000a01"), bytes.fromhex("020000000a02")
EVERYONE = b"\xff" * 6
LOOK_S, WITHIN_S = 0.5, 10.0


class Sent(NamedTuple):
    """A frame, its name, and whether it belongs through the links."""

    name: str
    frame: bytes
    linked: bool


def checksum(data: bytes) -> int:
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def ip4(
    number: int, upper: bytes, to: str = "10.77.0.2", fragment: int = 0, source: str = "10.77.0.1", ttl: int = 64
) -> bytes:
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(upper), 7, fragment, ttl, number, 0)
    head += socket.inet_aton(source) + socket.inet_aton(to)
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + upper


def udp4(payload: bytes, ports: tuple[int, int] = (40000, 40001), to: str = "10.77.0.2") -> bytes:
    return ip4(17, struct.pack("!HHHH", *ports, 8 + len(payload), 0) + payload, to)


def ip6(number: int, upper: bytes, to: str = "fd77::2", hops: int = 64) -> bytes:
    head = struct.pack("!IHBB", 6 << 28, len(upper), number, hops)
    return head + socket.inet_pton(socket.AF_INET6, "fd77::1") + socket.inet_pton(socket.AF_INET6, to) + upper


def udp6(payload: bytes, ports: tuple[int, int], to: str = "fd77::2") -> bytes:
    return ip6(17, struct.pack("!HHHH", *ports, 8 + len(payload), 0xBEEF) + payload, to)


def quic_initial(length: int) -> bytes:
    """Return an Initial packet of QUIC version 1 (RFC 9000, 17.2.2), its protected part made up."""
    head = b"\xc3\0\0\0\1\x08" + bytes(range(8)) + b"\0\0"
    rest = length - len(head) - 2
    return head + struct.pack("!H", 0x4000 | rest) + bytes(number * 7 % 256 for number in range(rest))


def ethernet(kind: int, content: bytes, to: bytes = FAR, tags: tuple[tuple[int, int], ...] = ()) -> bytes:
    inside = b"".join(struct.pack("!HH", *tag) for tag in tags)
    return to + NEAR + inside + struct.pack("!H", kind) + content


def frames_of_every_kind() -> list[Sent]:
    """Return frames of every kind, each different from all others."""
    four, six = 0x0800, 0x86DD
    group4, group6 = bytes.fromhex("01005e010101"), bytes.fromhex("333300000001")
    arp = struct.pack("!HHBBH", 1, four, 6, 4, 1) + NEAR + bytes([10, 77, 0, 1]) + bytes(6) + bytes([10, 77, 0, 99])
    customer, provider = ((0x8100, 0x6005),), ((0x88A8, 7), (0x8100, 9))
    padded = udp4(b"short") + bytes(range(1, 14))
    local = {
        "ARP request": ethernet(0x0806, arp, EVERYONE),
        "ARP answer": ethernet(0x0806, arp[:7] + b"\2" + arp[8:]),
        "ARP in a VLAN": ethernet(0x0806, arp, EVERYONE, customer),
        "LLDP": ethernet(0x88CC, b"\2\7\4" + NEAR + b"\0\0", bytes.fromhex("0180c200000e")),
        "spanning tree": ethernet(38, b"\x42\x42\3" + bytes(range(35)), bytes.fromhex("0180c2000000")),
        "802.1X": ethernet(0x888E, b"\2\1\0\0"),
        "PTP": ethernet(0x88F7, bytes(range(44)), bytes.fromhex("011b19000000")),
        "an experimental EtherType": ethernet(0x88B5, b"anything at all"),
        "IGMP": ethernet(four, ip4(2, bytes.fromhex("1600e8faef010101"), "224.0.0.22", ttl=1), group4),
        "DHCP": ethernet(four, ip4(17, struct.pack("!HHHH", 68, 67, 250, 0) + bytes(242)), EVERYONE),
        "router advertisement": ethernet(six, ip6(58, b"\x86\0\0\0" + bytes(12), "ff02::1", 255), group6),
        "neighbour solicitation": ethernet(six, ip6(58, b"\x87\0\0\0" + bytes(20), hops=255), group6),
        "MLD": ethernet(six, ip6(0, b"\x3a\0\5\2\0\0\0\0\x8f\0\0\0" + bytes(4), "ff02::16", 1), group6),
        "DHCPv6": ethernet(six, udp6(b"\1abc", (546, 547), "ff02::1:2"), group6),
        "three VLAN tags": ethernet(four, udp4(b"deep"), tags=(*provider, (0x8100, 3))),
    }
    linked = {
        "UDP": ethernet(four, udp4(b"hello")),
        "UDP to an unknown station": ethernet(four, udp4(b"unknown"), bytes.fromhex("02dead00beef")),
        "a padded frame": ethernet(four, padded),
        "IPv4 broadcast": ethernet(four, udp4(b"all", to="255.255.255.255"), EVERYONE),
        "IPv4 multicast": ethernet(four, udp4(b"some", to="239.1.1.1"), group4),
        "SCTP": ethernet(four, ip4(132, struct.pack("!HHII", 1, 2, 3, 0x1234) + bytes(16))),
        "IPsec ESP": ethernet(four, ip4(50, bytes(range(200)))),
        "GRE": ethernet(four, ip4(47, b"\0\0\x08\0" + udp4(b"inside"))),
        "an unknown protocol of IP": ethernet(four, ip4(253, b"what")),
        "a first fragment": ethernet(four, ip4(17, struct.pack("!HHHH", 1, 2, 3008, 0) + bytes(1472), fragment=0x2000)),
        "a later fragment": ethernet(four, ip4(17, bytes(1480), fragment=185)),
        "IPv4 in a VLAN": ethernet(four, udp4(b"tagged"), tags=customer),
        "IPv4 with priority only": ethernet(four, udp4(b"priority"), tags=((0x8100, 0xE000),)),
        "IPv4 in two VLANs": ethernet(four, udp4(b"twice"), tags=provider),
        "QUIC over IPv6": ethernet(six, udp6(quic_initial(1200), (50000, 443))),
        "IPv6 in a VLAN": ethernet(six, udp6(b"six", (1, 2)), tags=customer),
        "IPv6 multicast": ethernet(six, udp6(b"many", (1, 2), "ff0e::77"), group6),
        "MTU 9000": ethernet(four, udp4(bytes(range(256)) * 35 + bytes(12))),
        "MTU 9000 in a VLAN": ethernet(four, udp4(bytes(range(255)) * 35 + bytes(47)), tags=customer),
        "a bad checksum": ethernet(four, ip4(6, bytes(16) + b"\xba\xad" + bytes(2))),
    }
    return [Sent(name, frame, False) for name, frame in local.items()] + [
        Sent(name, frame, True) for name, frame in linked.items()
    ]


def raw_port(namespace: str, interface: str = "eth0") -> socket.socket:
    """Return a socket that gets every frame of an interface with its tag."""
    with within(namespace):
        port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
    port.bind((interface, ALL))
    port.setsockopt(SOL_PACKET, AUXDATA, 1)
    membership = struct.pack("iHH8s", port_index(namespace, interface), PROMISCUOUS, 0, b"")
    port.setsockopt(SOL_PACKET, MEMBERSHIP, membership)
    port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    return port


def port_index(namespace: str, interface: str) -> int:
    with within(namespace):
        return socket.if_nametoindex(interface)


def collect(port: socket.socket, wanted: int) -> list[bytes]:
    """Return the frames that come to a port: `wanted` of them and what else comes soon after, or what comes in time."""
    found: list[bytes] = []
    end = time.monotonic() + WITHIN_S
    with contextlib.suppress(TimeoutError):
        while (left := end - time.monotonic()) > 0:
            port.settimeout(left)
            frame, beside, _, address = port.recvmsg(65536, 256)
            if address[2] == socket.PACKET_OUTGOING or frame[6:12] != NEAR:
                continue
            found.append(with_tag(frame, beside))
            if len(found) >= wanted:
                end = min(end, time.monotonic() + LOOK_S)
    return found


def with_tag(frame: bytes, beside: list[tuple[int, int, bytes]]) -> bytes:
    for level, kind, data in beside:
        if (level, kind) == (SOL_PACKET, AUXDATA):
            status, _, _, _, _, content, tag = struct.unpack("=IIIHHHH", data[:20])
            if status & VLAN_VALID:
                tag = tag if status & TPID_VALID else 0x8100
                return frame[:12] + struct.pack("!HH", tag, content) + frame[12:]
    return frame
