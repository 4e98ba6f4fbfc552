"""What applications receive is what was sent, whatever the path does to packets."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, cast

import pytest
from programs import python

from wavebed.path.api import Path

if TYPE_CHECKING:
    from pathlib import Path as FilePath

_SEND_FILE = """
import socket
s = socket.create_server(("::", {port}), family=socket.AF_INET6, dualstack_ipv6=True)
connection, _ = s.accept()
with open("{file}", "rb") as data:
    connection.sendfile(data)
connection.shutdown(socket.SHUT_WR)
connection.recv(1)
"""

_HASH = """
import hashlib, socket
family = socket.{family}
address = socket.getaddrinfo("server", {port}, family, socket.SOCK_STREAM)[0]
s = socket.socket(family)
s.connect(address[4])
digest = hashlib.sha256()
while chunk := s.recv(1 << 20):
    digest.update(chunk)
print(digest.hexdigest())
"""

SIZE = 60_000_000


@pytest.fixture(scope="module")
def large_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[FilePath, str]:
    path = tmp_path_factory.mktemp("files") / "large"
    block = bytearray()
    counter = 0
    while len(block) < SIZE:
        block += hashlib.sha256(str(counter).encode()).digest() * 64
        counter += 1
    path.write_bytes(block)
    return path, hashlib.sha256(block).hexdigest()


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6"])
@pytest.mark.parametrize("coalesce", ["off", "slot", "125us", "5ms"])
def test_a_large_file_arrives_intact(family: str, coalesce: str, large_file: tuple[FilePath, str]) -> None:
    path, expected = large_file
    emulated = Path.of(
        rate="2gbit", delay="1ms", queue="droptail:2mb", coalesce=coalesce,
        loss="0.2%", duplicate="0.5%", reorder={"probability": "0.5%", "delay": "200us"}, corrupt="0.1%",
    )  # fmt: skip
    with emulated.up() as lab:
        server = lab.server.start(python(_SEND_FILE, file=path), stdout=-1)
        lab.server.wait_for_port(5000)
        done = lab.client.run(python(_HASH, family=family), capture_output=True, check=True, timeout=180)
        server.wait(60)
    assert done.stdout.strip() == expected
    assert lab.summary is not None
    down = cast("list[dict[str, Any]]", lab.summary["links"])[0]
    assert down["dropped_segments"]["loss"] > 20
    assert down["duplicated_segments"] > 50
    assert down["corrupted_segments"] > 10
    assert down["unaccounted_segments"] == 0


def test_a_corrupted_segment_is_found_out_by_the_receiver() -> None:
    with Path.of(delay="1ms", down_corrupt="100%").up() as lab:
        done = lab.client.run(["ping", "-4", "-c", "3", "-i", "0.2", "-W", "1", "server"], capture_output=True)
        failed = lab.client.run(["cat", "/proc/net/snmp"], capture_output=True, check=True).stdout
    assert "0 received" in done.stdout
    icmp = [line.split()[1:] for line in failed.splitlines() if line.startswith("Icmp:")]
    ip = [line.split()[1:] for line in failed.splitlines() if line.startswith("Ip:")]
    checksum = int(dict(zip(*icmp, strict=True))["InCsumErrors"])
    header = int(dict(zip(*ip, strict=True))["InHdrErrors"])
    # A flipped bit is in the payload, in the ICMP header, or in the IP header: address, length and version too.
    assert checksum + header >= 1
