"""Small programs that run on the hosts of a laboratory, as command lines."""

from __future__ import annotations

import csv
import sys
import time
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from wavebed.path.lab import Laboratory

PORT = 5000
LIMIT_S = 60.0
"""For what a quiet machine does in a fraction of a second."""

_ECHO = """
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
s.bind(("::", {port}))
print("ready", flush=True)
while True:
    data, peer = s.recvfrom(2000)
    s.sendto(data, peer)
"""

_RTT = """
import socket, time
address = socket.getaddrinfo("{host}", {port}, socket.{family}, socket.SOCK_DGRAM)[0]
s = socket.socket(address[0], socket.SOCK_DGRAM)
s.settimeout(30)
for i in range({count}):
    start = time.perf_counter()
    s.sendto(bytes({size}), address[4])
    s.recv(2000)
    print((time.perf_counter() - start) * 1000)
"""

_SEND = """
import socket
s = socket.create_server(("::", {port}), family=socket.AF_INET6, dualstack_ipv6=True)
connection, _ = s.accept()
print(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\\0").decode(), flush=True)
block = bytes(1 << 16)
left = {size}
while left:
    left -= connection.send(block[:left])
connection.shutdown(socket.SHUT_WR)
connection.recv(1)
"""

_RECEIVE = """
import hashlib, socket, time
s = socket.create_connection(("server", {port}))
total, first = 0, None
while chunk := s.recv(1 << 16):
    first = first or time.perf_counter()
    total += len(chunk)
print(total, time.perf_counter() - first)
print(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\\0").decode())
"""

_NUMBERED = """
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range({count}):
    s.sendto(str(i).encode(), ("server", {port}))
    time.sleep(0.0002)
"""

_COLLECT = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", {port}))
s.settimeout(60)
got = []
while (data := s.recv(100)) != b"end":
    got.append(data.decode())
print(" ".join(got))
"""

_END = """
import socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"end", ("127.0.0.1", {port}))
"""

_FLOOD = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
address = socket.getaddrinfo("{to}", {port}, socket.AF_INET, socket.SOCK_DGRAM)[0][4]
for _ in range({count}):
    s.sendto(bytes({size}), address)
"""

_HOLDING_ECHO = """
import random, socket, struct, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", {port}))
rng = random.Random(1)
while True:
    data, peer = s.recvfrom(2000)
    start = time.perf_counter_ns()
    time.sleep(rng.uniform(0.001, 0.006))
    s.sendto(struct.pack("q", time.perf_counter_ns() - start), peer)
"""

_HOLDING_RTT = """
import random, socket, struct, time
address = socket.getaddrinfo("server", {port}, socket.AF_INET, socket.SOCK_DGRAM)[0][4]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(30)
rng = random.Random(2)
for i in range({count}):
    time.sleep(rng.uniform(0.001, 0.006))
    start = time.perf_counter_ns()
    s.sendto(bytes(8), address)
    held = struct.unpack("q", s.recv(100))[0]
    print(time.perf_counter_ns() - start - held)
"""

_PACED = """
import socket, time
address = socket.getaddrinfo("client", {port}, socket.AF_INET, socket.SOCK_DGRAM)[0][4]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_UDP, 103, {size})  # UDP_SEGMENT
start, sent = time.monotonic(), 0
while (now := time.monotonic() - start) < {seconds}:
    while sent + {batch} <= now * {per_second}:
        s.sendto(bytes({size} * {batch}), address)
        sent += {batch}
    time.sleep(0.001)
"""

_SINK = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", {port}))
s.settimeout({quiet_s})
count = 0
try:
    while s.recv(2000):
        count += 1
except TimeoutError:
    print(count)
"""


def python(program: str, **values: object) -> list[str]:
    """Return the command line of a program with its values filled in."""
    return [sys.executable, "-c", program.format(port=PORT, **values)]


def rtts_ms(lab: Laboratory, count: int = 20, *, host: str = "server", family: str = "AF_INET") -> list[float]:
    """Return round-trip times of small datagrams, by the client's own clock."""
    where = {"server": lab.server, "client": lab.client}.get(host) or lab.edge
    echo = where.start(python(_ECHO), stdout=-1)
    wait_for_datagrams(lab, host)
    try:
        done = lab.client.run(
            python(_RTT, host=host, family=family, count=count, size=56),
            capture_output=True,
            check=True,
            timeout=LIMIT_S,
        )
    finally:
        echo.kill()
        echo.wait(LIMIT_S)
    return [float(line) for line in done.stdout.split()]


def least_rtt_ms(lab: Laboratory, **options: object) -> float:
    """Return the least of `rtts_ms`: what the path itself takes, when the machine is busy with something else too."""
    return min(rtts_ms(lab, **options))  # type: ignore[arg-type]


def rtts_until_below_ms(lab: Laboratory, below_ms: float) -> list[float]:
    """Return round-trip times up to the first one below a bound: a busy machine only needs more of them."""
    found: list[float] = []
    end = time.monotonic() + LIMIT_S
    while not found or min(found) >= below_ms:
        assert time.monotonic() < end, f"no round trip below {below_ms} ms, the least one {min(found)} ms"
        found += rtts_ms(lab, count=10)
    return found


def flood(lab: Laboratory, count: int, size: int, to: str = "client") -> None:
    """Send datagrams to a host of two as fast as its peer can, whether it receives them or not."""
    sender = lab.server if to == "client" else lab.client
    sender.run(python(_FLOOD, count=count, size=size, to=to), check=True, timeout=LIMIT_S)


def wait_until_empty(lab: Laboratory, link: int = 0) -> None:
    """Wait until a link holds no packet any more."""
    end = time.monotonic() + LIMIT_S
    while cast("list[dict[str, int]]", lab.show()["links"])[link]["queued_segments"]:
        assert time.monotonic() < end, f"packets are queued after {LIMIT_S:g} s"
        time.sleep(0.01)


def series(folder: Path, link: str = "radio.down") -> list[dict[str, int]]:
    """Return the rows of a link's series, which are in the time of the model."""
    with (folder / f"{link}.csv").open() as file:
        return [{name: int(value or 0) for name, value in row.items() if name} for row in csv.DictReader(file)]


def delivered_bytes(folder: Path, from_ms: int, to_ms: int, link: str = "radio.down") -> list[int]:
    """Return the bytes that a link delivered in each millisecond of a range."""
    found = [0] * (to_ms - from_ms)
    for row in series(folder, link):
        if from_ms <= row["time_ms"] < to_ms:
            found[row["time_ms"] - from_ms] += row["delivered_bytes"]
    return found


def most_bytes(delivered: list[int], window_ms: int) -> int:
    """Return the most bytes that were delivered in a window of so many milliseconds."""
    return max(sum(delivered[first : first + window_ms]) for first in range(max(1, len(delivered) - window_ms + 1)))


def wait_for_datagrams(lab: Laboratory, host: str) -> None:
    """Wait until something on the host has bound the port."""
    where = {"server": lab.server, "client": lab.client}.get(host) or lab.edge
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        tables = where.run(["cat", "/proc/net/udp", "/proc/net/udp6"], capture_output=True).stdout
        if f":{PORT:04X} " in tables:
            return
        time.sleep(0.01)
    raise TimeoutError("the echo did not start")


def transfer(lab: Laboratory, size: int, timeout: float = LIMIT_S) -> tuple[float, str, str]:
    """Send `size` bytes over TCP to the client; return Mbit/s and the congestion controls of server and client."""
    server = lab.server.start(python(_SEND, size=size), stdout=-1)
    lab.server.wait_for_port(PORT, LIMIT_S)
    done: subprocess.CompletedProcess[str] = lab.client.run(
        python(_RECEIVE), capture_output=True, check=True, timeout=timeout
    )
    total, seconds, client_control = done.stdout.split()
    assert int(total) == size
    server.wait(LIMIT_S)
    return size * 8 / float(seconds) / 1e6, (server.output()[0] or "").strip(), client_control


def arrivals(lab: Laboratory, count: int) -> list[int]:
    """Send numbered datagrams from the client and return those that reach the server, in order of arrival."""
    sink = lab.server.start(python(_COLLECT), stdout=-1)
    wait_for_datagrams(lab, "server")
    before = _uplink(lab)["offered_segments"]
    lab.client.run(python(_NUMBERED, count=count), check=True, timeout=LIMIT_S)
    _wait_until_crossed(lab, before + count)
    lab.server.run(python(_END), check=True, timeout=LIMIT_S)
    assert sink.wait(LIMIT_S) == 0
    return [int(number) for number in (sink.output()[0] or "").split()]


def _uplink(lab: Laboratory) -> dict[str, int]:
    """Return the counters of the link from the client."""
    return cast("list[dict[str, int]]", lab.show()["links"])[1]


def _wait_until_crossed(lab: Laboratory, segments: int) -> None:
    """Wait until the link from the client was offered so many segments, and holds none of them any more."""
    end = time.monotonic() + LIMIT_S
    while (up := _uplink(lab))["offered_segments"] < segments or up["queued_segments"]:
        assert time.monotonic() < end, f"{up} after {LIMIT_S:g} s"
        time.sleep(0.01)


def held_rtts_ns(lab: Laboratory, count: int) -> list[int]:
    """Return round trips without the time that the server held them.

    Each side waits for a random time. So a packet comes in each phase of a radio's frame with the same probability.
    """
    echo = lab.server.start(python(_HOLDING_ECHO))
    wait_for_datagrams(lab, "server")
    try:
        done = lab.client.run(python(_HOLDING_RTT, count=count), capture_output=True, check=True, timeout=LIMIT_S)
    finally:
        echo.kill()
        echo.wait(LIMIT_S)
    return [int(line) for line in done.stdout.split()]


def paced(lab: Laboratory, per_second: int, size: int, seconds: float, batch: int = 1) -> int:
    """Send datagrams to the client at a constant rate, `batch` in one GSO packet; return how many came."""
    sink = lab.client.start(python(_SINK, quiet_s=2), stdout=-1)
    wait_for_datagrams(lab, "client")
    lab.server.run(
        python(_PACED, per_second=per_second, size=size, seconds=seconds, batch=batch), check=True, timeout=LIMIT_S
    )
    sink.wait(LIMIT_S)
    return int(sink.output()[0] or "")


def fetched_by_two(lab: Laboratory, seconds: int) -> dict[str, int]:
    """Carry two connections of iperf3 to the client; return what `show` has of connections meanwhile."""
    server = lab.server.start(["iperf3", "-s", "-1"], stdout=-1)
    lab.server.wait_for_port(5201, LIMIT_S)
    client = lab.client.start(["iperf3", "-c", "server", "-R", "-P", "2", "-t", str(seconds)], stdout=-1)
    time.sleep(seconds / 2)
    flows = cast("dict[str, int]", lab.show()["flows"])
    assert client.wait(LIMIT_S) == server.wait(LIMIT_S) == 0
    return flows
