"""Runs inside a sandbox: sends frames of its own making through an emulated device, and prints what came out."""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import json
import socket
import struct
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.forward.devices import read_device
from wavebed.forward.port import Port
from wavebed.forward.sandbox import within
from wavebed.forward.setup import EmulatedSetup, SetupPort

sys.path.append(str(Path(__file__).parents[1]))  # a program: the helper modules of tests/lab are not beside it
from bridge_frames import checksum

if TYPE_CHECKING:
    from wavebed.forward.devices import EmulatedDut

SOURCE_PORT, DESTINATION_PORT = 49152, 49153
TYPES = {4: 0x0800, 6: 0x86DD}
ALL = 3
EVERYONE = b"\xff" * 6
LAST, WITHIN_S, LOOK_S = b"again", 30.0, 0.6
"""The last frame that is sent comes within so long, however busy the machine is; then what else comes is looked for."""


FLOOD = 101
"""So many frames that nobody asked for are waited for."""


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


def raw(port: SetupPort) -> socket.socket:
    with within(port.namespace):
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
    raw.bind((port.interface, ALL))
    return raw


def collect(receiver: socket.socket, broadcasts: int) -> list[dict[str, object]]:
    """Return what comes until the last frame and so many broadcasts are there, and what else comes soon after."""
    found: list[dict[str, object]] = []
    is_last_there = False
    end = time.monotonic() + WITHIN_S
    while (left := end - time.monotonic()) > 0:
        receiver.settimeout(left)
        try:
            frame, address = receiver.recvfrom(2048)
        except TimeoutError:
            break
        is_udp = frame[12:14] in (b"\x08\0", b"\x86\xdd") and (frame[23] if frame[12] == 8 else frame[20]) == 17
        if address[2] != socket.PACKET_OUTGOING and is_udp:
            found.append(parse_frame(frame))
            broadcasts -= frame[:6] == EVERYONE
            is_last_there |= frame.endswith(LAST)
            if is_last_there and broadcasts <= 0:
                end = min(end, time.monotonic() + LOOK_S)
    return found


def cross(setup: EmulatedSetup, text: str, version: int) -> dict[str, object]:
    """Send three frames, the second with the last hop in its TTL."""
    device = read_device(text)
    device.set_up(setup)
    macs, addresses = know_each_other(setup, device, version)
    with raw(setup.tx) as sender, raw(setup.rx) as receiver:
        for payload, ttl in ((b"hello", 64), (b"last hop", 1), (LAST, 64)):
            sender.send(make_frame(version, macs, addresses, payload, ttl))
        frames = collect(receiver, FLOOD if device.name == "flooding" else 0)
    answer = {
        "frames": frames,
        "rx_mac": setup.mac(setup.rx),
        "addresses": addresses,
        "hops": 0 if device.name == "bridge" else 1,
        "receiver_overruns": setup.receiver_overruns(),
    }
    device.tear_down()
    return answer


def press(setup: EmulatedSetup, text: str, seconds: float, pause_s: float) -> dict[str, object]:
    """Send 16 frames at a time with a pause between, and count at the receiving interface.

    It goes on for `seconds`, and until it sent four times what the device lets through.
    """
    device = read_device(text)
    device.set_up(setup)
    macs, addresses = know_each_other(setup, device, 4)
    frame = make_frame(4, macs, addresses, b"press")
    with raw(setup.tx) as sender:
        before = received(setup)
        start = time.monotonic()
        sent = 0
        # A busy machine may send few frames in that time.
        rate, burst = device.values["rate"], device.values["burst"]
        while (took := time.monotonic() - start) < seconds or sent < 4 * (burst + rate * took):
            for _ in range(16):
                # A frame that finds the device's ring full is lost there.
                with contextlib.suppress(OSError):
                    sender.send(frame)
            sent += 16
            time.sleep(pause_s)
        time.sleep(0.1)
    # The device may still forward, so its time is that until here.
    came = received(setup) - before
    return {"sent": sent, "received": came, "took_s": took, "until_s": time.monotonic() - start}


def links(setup: EmulatedSetup, text: str) -> dict[str, object]:
    """Watch the sending port's link while a device starts again and again."""
    device = read_device(text)
    device.set_up(setup)
    states: list[bool] = []
    end = time.monotonic() + WITHIN_S
    while time.monotonic() < end and not {(True, False), (False, True)} <= {*itertools.pairwise(states)}:
        states.append("LOWER_UP" in json.loads(setup.run("tx", "ip", "-j", "link", "show", "dev", "tx0"))[0]["flags"])
    device.tear_down()
    up = "LOWER_UP" in json.loads(setup.run("tx", "ip", "-j", "link", "show", "dev", "tx0"))[0]["flags"]
    return {"states": states, "up_afterwards": up}


def features(setup: EmulatedSetup) -> dict[str, object]:
    found = {}
    for port in setup.ports:
        with Port.local(port.interface, netns=port.namespace) as own:
            found[port.interface] = {name: on for name, on in own.describe().offloads.items() if on}
    return {"features": found, "cores": [setup.tester_core, setup.device_core], "doubts": setup.doubts}


def received(setup: EmulatedSetup) -> int:
    shown = json.loads(setup.run("rx", "ip", "-j", "-s", "link", "show", "dev", "rx0"))
    return int(shown[0]["stats64"]["rx"]["packets"])


def know_each_other(setup: EmulatedSetup, device: EmulatedDut, version: int) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return MAC and IP addresses of a test frame. No port of the tester is here that would answer for its hosts."""
    layout = device.layout(version)
    addresses = (str(layout.sources.first), str(layout.destinations.first))
    if layout.next_hop is None:
        return (setup.mac(setup.rx), setup.mac(setup.tx)), addresses
    setup.batch([f"neigh replace {addresses[1]} lladdr {setup.mac(setup.rx)} dev out0"], "dut")
    return (setup.mac(setup.device_in), setup.mac(setup.tx)), addresses


def main() -> None:
    work, *arguments = sys.argv[1:]
    with EmulatedSetup(keep_offloads="keep" in arguments) as setup:
        if work == "cross":
            answer = cross(setup, arguments[0], int(arguments[1]))
        elif work == "press":
            answer = press(setup, arguments[0], float(arguments[1]), float(arguments[2]))
        elif work == "links":
            answer = links(setup, arguments[0])
        else:
            answer = features(setup)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
