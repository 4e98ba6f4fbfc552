"""A server is waited for until its port is open, and ended if it never is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.memory_lab import MemoryHost, MemoryLab, Program

from wavebed.errors import WavebedError
from wavebed.lab.limits import LIMITS
from wavebed.path.lab import LabHost
from wavebed.workload.serve import RunningServer

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
PORT = 20_000


def started(folder: Path, program: Program) -> tuple[MemoryHost, RunningServer]:
    host = MemoryLab({"nginx": program}).host("server")
    log = folder / "log"
    log.write_text("starting\nnot yet\n")
    return host, RunningServer("the server", host.start(["nginx"]), log)


def since(host: MemoryHost, began_s: float = MemoryLab({}).clock.monotonic_s()) -> float:
    return host.clock.monotonic_s() - began_s


def test_it_is_ready_when_its_port_is_open(tmp_path: Path) -> None:
    host, server = started(tmp_path, Program(None, ports=(PORT,), opens_s=7.0))
    server.wait_until_bound(host, PORT)
    assert since(host) == pytest.approx(7, abs=0.02)


def test_one_that_never_opens_its_port_is_ended(tmp_path: Path) -> None:
    host, server = started(tmp_path, Program(None, ports=(PORT + 1,)))
    with pytest.raises(WavebedError, match=r"the server does not open port 20000 within 10 s: not yet"):
        server.wait_until_bound(host, PORT)
    assert server.process.returncode == -15
    assert since(host) == pytest.approx(10, abs=0.5)


def test_one_that_ends_first_says_how(tmp_path: Path) -> None:
    host, server = started(tmp_path, Program(2.0, status=3))
    with pytest.raises(WavebedError, match="the server ended with 3: not yet"):
        server.wait_until_bound(host, PORT)
    assert since(host) == pytest.approx(2, abs=0.3)


def test_all_ports_of_a_web_server_are_waited_for_within_one_limit(tmp_path: Path) -> None:
    host, server = started(tmp_path, Program(None, ports=(PORT,), opens_s=6.0))
    server.wait_for_ports(host, [PORT])
    with pytest.raises(WavebedError, match="the server does not listen on port 20001: not yet"):
        server.wait_for_ports(host, [PORT, PORT + 1])
    assert since(host) == pytest.approx(16, abs=0.5)


def test_one_whose_port_another_program_has_and_that_ended_has_failed(tmp_path: Path) -> None:
    host, server = started(tmp_path, Program(0.0, status=1))
    host.ports.add(PORT)
    with pytest.raises(WavebedError, match="the server ended with 1: not yet"):
        server.wait_for_ports(host, [PORT])


def lab_host(monkeypatch: pytest.MonkeyPatch, *tables: str) -> LabHost:
    """Return a host in namespaces whose sockets are first these, then those; the last stay."""
    left = list(tables)

    def run(*_: object, **__: object) -> Any:
        return SimpleNamespace(stdout=HEAD + (left.pop(0) if len(left) > 1 else left[0]))

    monkeypatch.setattr(LabHost, "run", run)
    return LabHost(cast("Any", SimpleNamespace(clock=None, limits=LIMITS)), "server")


@pytest.mark.parametrize(
    "row", ["   0: 00000000:4E20 00000000:0000 0A 0", "   0: 00000000:4E20 00000000:0000 07 0"], ids=["tcp", "udp"]
)
def test_a_port_is_open_when_a_socket_without_a_peer_has_it(monkeypatch: pytest.MonkeyPatch, row: str) -> None:
    lab_host(monkeypatch, "", row).wait_for_port(PORT, udp=True)


def test_a_connection_to_such_a_port_elsewhere_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    row = "   0: 00000000:8000 00000000:4E20 01 0\n   1: 00000000:4E20 0100007F:9000 01 0"
    with pytest.raises(TimeoutError, match=r"nothing on server listens on port 20000 after 0.05 s"):
        lab_host(monkeypatch, row).wait_for_port(PORT, 0.05, udp=True)
