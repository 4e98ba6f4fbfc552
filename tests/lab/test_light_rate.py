"""A laboratory whose trace has a light rate serves the first packets after an idle time at it, and no others."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from wavebed.result.packets import packet_tables

if TYPE_CHECKING:
    from pathlib import Path

LIGHT_BYTES = 15_000
IDLE_NS = 150_000_000
TRACE = (
    f"# wavebed pattern 1\n# kind = steps\n# duration_s = 60\n# light_bytes = {LIGHT_BYTES}\n# light_idle_s = 0.15\n"
    "time_s,rate_bps,light_rate_bps\n0,12000000,6000000\n"
)
BURSTS = """
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_UDP, 103, 1472)  # UDP_SEGMENT
address = socket.getaddrinfo("server", 5000, socket.AF_INET)[0][4]
for pause_s in (0.4, 0.06, 0.4):
    time.sleep(pause_s)
    s.sendto(bytes(1472 * 20), address)
time.sleep(1)
"""


def service(packets: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """When each packet is served, and how many of its bytes at the light rate: 4000 and 2000 ns for 3 bytes."""
    left, free_ns = 0, -IDLE_NS
    served = []
    for entered_ns, size in packets:
        if entered_ns - free_ns >= IDLE_NS:
            left = LIGHT_BYTES
        light = min(left, size)
        left -= light
        free_ns = max(free_ns, entered_ns) + (light * 4000 + (size - light) * 2000) // 3
        served.append((free_ns, light))
    return served


def test_bursts_after_an_idle_time_begin_at_the_light_rate(tmp_path: Path) -> None:
    (tmp_path / "light.csv").write_text(TRACE)
    options = ["--trace", "light.csv", "--packet-log", "--log", "log"]
    argv = [sys.executable, "-m", "wavebed", "shell", *options, "--", sys.executable, "-c", BURSTS]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    table = packet_tables(tmp_path / "log")["packets"].to_pandas()
    up = table[table["link"] == "radio.up"].sort_values(["entered_ns", "packet", "first"])
    assert len(up) >= 60
    assert (up["bytes"] % 3 == 0).all()
    expected = service(list(zip(up["entered_ns"].tolist(), up["bytes"].tolist(), strict=True)))
    assert up["delivered_ns"].tolist() == [at_ns for at_ns, _ in expected]
    # The first and the last burst came after long pauses; the machine may have been late with the one between them.
    light = [size for _, size in expected]
    assert (light[:20], light[-20:]) == ([1500] * 10 + [0] * 10, [1500] * 10 + [0] * 10)
