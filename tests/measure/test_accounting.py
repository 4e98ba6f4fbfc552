"""Packets that the path does not deliver have a drop reason, and only what is foreign to the path spoils a trial."""

from __future__ import annotations

from tests.lab.programs import python
from tests.lab.test_accounting import broken, ended

from wavebed.path.api import Path

_NO_PACKETS = """
import socket, struct
device = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)
ip4 = bytes.fromhex("4500001c00004000401100000a0000010a000002") + bytes(8)
for first in (0x15, 0x05, 0x95, 0xf5):
    for protocol in (0x0800, 0x86dd):
        device.sendto(bytes([first]) + ip4[1:], ("wb0", protocol))
device.sendto(ip4[:7], ("wb0", 0x0800))
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
raw.sendto(b"\\x75" + ip4[1:], ("server", 0))
"""


def test_what_a_program_sends_that_is_no_ip_is_malformed_and_the_trial_stays_valid() -> None:
    with Path.of(delay="1ms").up() as lab:
        lab.client.run(python(_NO_PACKETS), check=True, capture_output=True)
        lab.client.run(["ping", "-c", "1", "-W", "30", "server"], check=True, capture_output=True)
    summary = ended(lab)
    up = summary["links"][1]
    assert up["dropped_segments"]["malformed"] == 10
    assert summary["departures"][1]["refused_segments"] == 0
    assert not [line for line in summary["doubts"] if "refused" in line or "headers" in line]
    assert broken(summary, "invalid") == []
