"""Remedies with two ends, and HAProxy, in a laboratory: who sees whom, through what, and what is left afterwards."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from test_run import metric, trial, wavebed

from wavebed import Path
from wavebed.remedy import remedy_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path as FilePath

    from wavebed.path.lab import LabHost, Laboratory

THREE_HOSTS = """[path]
[[path.hop]]
name = "wired"
kind = "wired"
delay = "5ms"
[path.edge]
after = "wired"
[[path.hop]]
name = "radio"
kind = "radio"
rate = "50mbit"
delay = "2ms"
"""
SERVE = """import socket, sys
listener = socket.create_server(("", 4000))
print("ready", flush=True)
for _ in range(2):
    connection, peer = listener.accept()
    print(peer[0], flush=True)
    connection.sendall(bytes(300_000))
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)
"""
FETCH = """import socket, sys
connection = socket.create_connection((sys.argv[1], 4000), 20)
got = 0
while data := connection.recv(1 << 16):
    got += len(data)
print(got)
"""
STATE = "ip route show table all; ip -6 route show table all; ip rule; ip -6 rule; ip -o link; nft list ruleset"


@contextmanager
def laboratory(folder: FilePath) -> Iterator[Laboratory]:
    file = folder / "three.toml"
    file.write_text(THREE_HOSTS)
    with Path.load(file).up() as lab:
        yield lab


def state(host: LabHost) -> list[str]:
    done = host.run(["sh", "-c", STATE], capture_output=True, timeout=60, check=True)
    return sorted(line for line in done.stdout.splitlines() if "fe80" not in line and "multicast" not in line)


def states(lab: Laboratory) -> dict[str, list[str]]:
    return {name: state(lab.host(name)) for name in ("server", "edge", "client")}


def assert_as_before(lab: Laboratory, before: dict[str, list[str]]) -> None:
    """Fail with the lines that differ now, and with whether they still differ when a minute has passed."""
    now = states(lab)
    differs = {name: sorted({*before[name]} ^ {*now[name]}) for name in before if now[name] != before[name]}
    end = time.monotonic() + 60
    while now != before and time.monotonic() < end:
        now = states(lab)
    assert not differs, f"{differs}: {'for a moment' if now == before else 'for ever'}"


def address(lab: Laboratory, name: str) -> str:
    return lab.client.run(["echo", f"{{{name}}}"], capture_output=True, timeout=60).stdout.strip()


def fetched(lab: Laboratory, to: str) -> list[str]:
    """Fetch 300 kB from the server over two connections; return whom the server saw."""
    server = lab.server.start([sys.executable, "-c", SERVE], stdout=subprocess.PIPE)
    lab.server.wait_for_port(4000, 60.0)
    for _ in range(2):
        done = lab.client.run([sys.executable, "-c", FETCH, to], capture_output=True, timeout=60)
        assert done.stdout == "300000\n", done.stderr
    out, _ = server.output()
    assert out is not None
    return out.split()[1:]


def carried(host: LabHost, device: str) -> int:
    """Return the bytes that left a host by a device."""
    lines = host.run(["cat", "/proc/net/dev"], capture_output=True, timeout=60).stdout.splitlines()
    return next(int(line.split()[9]) for line in lines if line.strip().startswith(f"{device}:"))


@pytest.mark.parametrize(("host", "peer"), [("edge", "client"), ("client", "server"), ("server", "edge")])
def test_a_tunnel_carries_all_and_hosts_keep_their_addresses(tmp_path: FilePath, host: str, peer: str) -> None:
    with laboratory(tmp_path) as lab:
        before = states(lab)
        running = remedy_of("tunnel", {"peer": peer}).start(lab, host, tmp_path / f"remedy.{host}.tunnel.log")
        assert fetched(lab, address(lab, "server")) == [address(lab, "client")] * 2
        near = lab.host(min(host, peer, key=["server", "edge", "client"].index))
        far = peer if near.name == host else host
        assert carried(near, f"wb-{far}") > 600_000, "the server's bytes went through it"
        assert running.stop() == ""
        assert_as_before(lab, before)
        assert not list(tmp_path.glob("*.key"))
        assert fetched(lab, address(lab, "server")) == [address(lab, "client")] * 2


def test_haproxy_splits_with_the_clients_address_and_leaves_nothing(tmp_path: FilePath) -> None:
    with laboratory(tmp_path) as lab:
        before = state(lab.edge)
        running = remedy_of("haproxy", {"down": "bbr", "up": "reno"}).start(lab, "edge", tmp_path / "haproxy.log")
        routes = lab.edge.run(["ip", "route"], capture_output=True).stdout
        assert "congctl bbr" in routes
        assert "congctl reno" in routes
        assert fetched(lab, address(lab, "server")) == [address(lab, "client")] * 2
        rules = lab.edge.run(["nft", "list", "ruleset"], capture_output=True).stdout
        assert "wavebed_haproxy" in rules
        assert running.stop() == ""
        assert state(lab.edge) == before
        assert fetched(lab, address(lab, "server")) == [address(lab, "client")] * 2


@pytest.mark.skipif(shutil.which("sing-box") is None, reason="needs sing-box: wavebed doctor says how to install it")
def test_hysteria_carries_tcp_by_the_end_nearer_to_the_server(tmp_path: FilePath) -> None:
    with laboratory(tmp_path) as lab:
        before = state(lab.client)
        running = remedy_of("hysteria", {"peer": "edge"}).start(lab, "client", tmp_path / "remedy.client.hysteria.log")
        assert fetched(lab, address(lab, "server")) == [address(lab, "edge")] * 2
        assert running.stop() == ""
        assert state(lab.client) == before


TUNNEL = """[path]
rate = "20mbit"
delay = "10ms"
queue = "droptail:1000p"
[[workload]]
kind = "bulk"
protocol = "udp"
rate = "40mbit"
duration = "2s"
[[workload]]
kind = "latency"
probe = "udp"
[[treatment]]
name = "none"
[[treatment]]
name = "tunnel"
set = { "path.client.remedy" = { kind = "tunnel", peer = "server" } }
"""


def test_a_run_with_and_without_a_tunnel_records_what_it_did(kernel: FilePath, tmp_path: FilePath) -> None:
    done = wavebed(tmp_path, TUNNEL, "--virtual-time", timeout_s=600)
    assert done.returncode == 0, done.stderr
    records = [trial(tmp_path, folder.name) for folder in sorted((tmp_path / "out/trials").iterdir())]
    by_name = {record["treatment"]: record for record in records}
    assert set(by_name) == {"none", "tunnel"}
    (check,) = [check for check in by_name["tunnel"]["checks"] if check["code"] == "remedy"]
    assert check["holds"], check
    assert not [check for check in by_name["none"]["checks"] if check["code"] == "remedy"]
    (folder,) = (tmp_path / "out/trials").glob("*-tunnel")
    assert list(folder.glob("raw/remedy.client.tunnel*.log*"))
    assert all(metric(record, "path", "processor time") > 0 for record in records)
    # The flood waits in the tunnel's own queue, and the probes pass it.
    medians = {name: metric(record, "latency", "udp rtt loaded p50") for name, record in by_name.items()}
    assert medians["none"] > 400
    assert 20 <= medians["tunnel"] < 50
