"""Runs inside a cell: sends a frame of its own making through a device on a bench, and prints what came out."""

from __future__ import annotations

import ipaddress
import json
import socket
import struct
import sys
import time

from wavebed.forward.bench import Bench, BenchPort
from wavebed.forward.device import read_device
from wavebed.forward.namespaces import within

SOURCE_PORT, DESTINATION_PORT = 49152, 49153
TYPES = {4: 0x0800, 6: 0x86DD}
ALL = 3
LOOK_S = 0.6


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def mac_bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def make_frame(version: int, macs: tuple[str, str], addresses: tuple[str, str], payload: bytes, ttl: int = 64) -> bytes:
    source, destination = (ipaddress.ip_address(address).packed for address in addresses)
    length = 8 + len(payload)
    udp = struct.pack("!HHHH", SOURCE_PORT, DESTINATION_PORT, length, 0) + payload
    pseudo = source + destination + struct.pack("!HH", 17, length) + udp + bytes(len(udp) % 2)
    udp = udp[:6] + struct.pack("!H", checksum(pseudo)) + udp[8:]
    if version == 4:
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 0, 0, ttl, 17, 0) + source + destination
        head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    else:
        head = struct.pack("!IHBB", 6 << 28, length, 17, ttl) + source + destination
    return b"".join(mac_bytes(mac) for mac in macs) + struct.pack("!H", TYPES[version]) + head + udp


def parse_frame(frame: bytes) -> dict[str, object]:
    version = frame[14] >> 4
    ip = frame[14:]
    size = 20 if version == 4 else 40
    addresses = (ip[12:16], ip[16:20]) if version == 4 else (ip[8:24], ip[24:40])
    pseudo = b"".join(addresses) + struct.pack("!HH", 17, len(ip[size:])) + ip[size:]
    return {
        "to": frame[:6].hex(":"),
        "source": str(ipaddress.ip_address(addresses[0])),
        "destination": str(ipaddress.ip_address(addresses[1])),
        "ttl": ip[8] if version == 4 else ip[7],
        "sound": (version == 6 or checksum(ip[:20]) == 0) and checksum(pseudo + bytes(len(pseudo) % 2)) == 0,
        "payload": ip[size + 8 :].decode(),
    }


def raw(port: BenchPort) -> socket.socket:
    with within(port.namespace):
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
    raw.bind((port.interface, ALL))
    return raw


def collect(receiver: socket.socket, look_s: float = LOOK_S) -> list[dict[str, object]]:
    found = []
    end = time.monotonic() + look_s
    while (left := end - time.monotonic()) > 0:
        receiver.settimeout(left)
        try:
            frame, address = receiver.recvfrom(2048)
        except TimeoutError:
            break
        is_udp = frame[12:14] in (b"\x08\0", b"\x86\xdd") and (frame[23] if frame[12] == 8 else frame[20]) == 17
        if address[2] != socket.PACKET_OUTGOING and is_udp:
            found.append(parse_frame(frame))
    return found


def main(text: str, version: int) -> None:
    device = read_device(text)
    with Bench() as bench:
        device.set_up(bench)
        layout = device.layout(version)
        source, destination = str(layout.sources.first), str(layout.destinations.first)
        macs = (bench.mac(bench.rx if layout.next_hop is None else bench.device_in), bench.mac(bench.tx))
        if layout.next_hop is not None:
            # There is no port of the tester here that would answer for its hosts.
            bench.batch([f"neigh replace {destination} lladdr {bench.mac(bench.rx)} dev out0"], "dut")
        with raw(bench.tx) as sender, raw(bench.rx) as receiver:
            for name, ttl in (("hello", 64), ("last hop", 1), ("again", 64)):
                sender.send(make_frame(version, macs, (source, destination), name.encode(), ttl))
            frames = collect(receiver)
        answer = {
            "frames": frames,
            "doubts": bench.doubts,
            "rx_mac": bench.mac(bench.rx),
            "source": source,
            "destination": destination,
            "hops": device.hops(),
            "overruns": [bench.receiver_overruns(), bench.device_overruns()],
        }
        device.tear_down()
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
