"""Packets that the path does not deliver have a drop reason, and only what is foreign to the path spoils a trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from programs import python
from tests.on_time import LATE

from wavebed.path.api import Path
from wavebed.run.checks import engine_checks

if TYPE_CHECKING:
    from wavebed.path.lab import Laboratory


_FLOOD = """
import socket
address = socket.getaddrinfo("client", {port}, socket.AF_INET, socket.SOCK_DGRAM)[0][4]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_UDP, 103, {size})
for _ in range({count}):
    s.sendto(bytes({size} * 40), address)
"""

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


def ended(lab: Laboratory) -> dict[str, Any]:
    assert lab.summary is not None
    assert all(link["unaccounted_segments"] == 0 for link in cast("list[dict[str, Any]]", lab.summary["links"]))
    return cast("dict[str, Any]", lab.summary)


def broken(summary: dict[str, Any], severity: str) -> list[str]:
    return [check.code for check in engine_checks(summary) if not check.holds and check.severity == severity]


def test_an_endless_queue_ends_at_the_packet_memory_and_the_laboratory_says_so() -> None:
    limit = 24 << 20
    with Path.of(rate="1mbit", queue="infinite", packet_memory="24mib").up() as lab:
        for size in (1400, 20):
            lab.server.run(python(_FLOOD, size=size, count=800), check=True, capture_output=True)
        shown = lab.show()
        assert limit * 0.75 < cast("int", shown["pool_bytes"]) <= limit
    summary = ended(lab)
    down = summary["links"][0]
    assert summary["packet_memory_bytes"] == limit
    assert down["dropped_segments"]["packet_memory"] > 10_000
    assert down["dropped_segments"]["packet_memory"] + down["queued_segments"] > 60_000
    assert any("packet memory limit of 24 MiB" in line for line in summary["doubts"])
    assert "packet-memory" in broken(summary, "suspect")
    assert "unaccounted" not in broken(summary, "invalid")


def test_what_a_program_sends_that_is_no_ip_is_malformed_and_the_trial_stays_valid() -> None:
    with Path.of(delay="1ms").up() as lab:
        lab.client.run(python(_NO_PACKETS), check=True, capture_output=True)
        lab.client.run(["ping", "-c", "1", "-W", "30", "server"], check=True, capture_output=True)
    summary = ended(lab)
    up = summary["links"][1]
    assert up["dropped_segments"]["malformed"] == 10
    assert summary["departures"][1]["refused_segments"] == 0
    assert not [line for line in summary["doubts"] if "refused" in line or "headers" in line]
    assert set(broken(summary, "invalid")) <= LATE
