"""An endless queue under a memory limit: the packets stop at their limit, and the accounting is whole."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.stress.family import WAVEBED, engine_of
from tests.stress.figure import Figure, of_all

__all__ = ["SECONDS", "flooded", "measure"]

ADDRESS_SPACE_KIB = 700_000_000 // 1024
PACKET_MEMORY_BYTES = 400 << 20
ENGINE_BYTES = 24 << 20
"""What the engine has in memory beside packets: its program, threads and output."""
SECONDS = {20: 2.5, 200: 3.0, 1400: 5.0}
"""Bytes of the datagrams, and for how long those of 1 Gbit/s are sent: more than fits."""
FLOOD = """
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
address = (socket.gethostbyname("{to}"), 5000)
burst = max(1, min(40, 60000 // {size}))
s.setsockopt(socket.IPPROTO_UDP, 103, {size})
end, due = time.monotonic() + {seconds}, time.monotonic()
while due < end:
    s.sendto(bytes({size} * burst), address)
    due += burst * ({size} + 28) * 8 / 1e9
    time.sleep(max(0.0, due - time.monotonic()))
"""


def flooded(size: int, *options: str) -> tuple[dict[str, Any], int]:
    """Send datagrams at 1 Gbit/s into an endless queue, in a laboratory whose processes may have 700 MB each.

    Returns
    -------
    (dict, int)
        The summary, empty if there is none, and the most memory that the engine had, bytes.
    """
    with tempfile.TemporaryDirectory() as folder:
        summary = Path(folder, "summary.json")
        flood = FLOOD.format(to="server", size=size, seconds=SECONDS[size])
        limited = ["bash", "-c", f'ulimit -v {ADDRESS_SPACE_KIB}; exec "$@"', "bash"]
        argv = [*limited, *WAVEBED, "shell", "--rate", "1mbit", "--queue", "infinite", "--summary", summary, *options]
        process = subprocess.Popen(
            [*argv, "--", "python3", "-c", flood],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        engine, most_bytes = engine_of(process.pid), 0
        while process.poll() is None:
            most_bytes = max(most_bytes, _most_bytes(engine))
            time.sleep(0.1)
        return json.loads(summary.read_text()) if summary.exists() else {}, most_bytes


def _most_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return max((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), default=0)


def measure() -> list[Figure]:
    """Flood with datagrams of several sizes, with the limit that the laboratory chooses and with one that is given."""
    given = ("--packet-memory", f"{PACKET_MEMORY_BYTES >> 20}mib")
    cases, most = [], []
    for size in SECONDS:
        for options in ((), given):
            summary, engine_bytes = flooded(size, *options)
            name = f"{size} B {' '.join(options)}"
            links = summary.get("links", [])
            whole = bool(links) and all(link["unaccounted_segments"] == 0 for link in links)
            beyond = sum(link["dropped_segments"]["packet_memory"] for link in links)
            said = any("packet memory limit" in doubt for doubt in summary.get("doubts", []))
            cases.append((f"{name}: accounted {whole}, {beyond} dropped, said {said}", whole and beyond > 0 and said))
            limit = summary.get("packet_memory_bytes", 0)
            most.append((f"{name}: {engine_bytes} B of {limit} B", 0 < engine_bytes <= limit + ENGINE_BYTES))
    return [
        of_all("endless queues at 1 Gbit/s under `ulimit -v` of 700 MB with an accounting", cases, what="laboratories"),
        of_all("engines that kept to the packet memory, to 24 MiB", most, what="laboratories"),
    ]
