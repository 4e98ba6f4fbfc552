"""A server is waited for until its port is open, and ended if it never is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.memory_lab import MemoryHost, MemoryLab, Program

from wavebed.errors import WavebedError
from wavebed.workload.serve import RunningServer

if TYPE_CHECKING:
    from pathlib import Path

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
