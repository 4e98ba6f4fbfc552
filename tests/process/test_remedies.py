"""Remedies: programs, routes, rules, files and libraries, and their end; in virtual time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.unit.test_remedies_two_ended import (  # noqa: F401
    ADDRESSES,
    ROUTES,
    Machine,
    Noting,
    NotingHost,
    _leads,
    programs,
    programs_of,
    started,
)
from tests.unit.test_remedy_mptcp import library  # noqa: F401

from wavebed.errors import MachineError, WavebedError
from wavebed.remedy import third_party

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("kind", "program"), [("tunnel", "wavebed-edge"), ("hysteria", "sing-box")])
def test_an_end_that_fails_does_not_leave_the_other_one_running(tmp_path: Path, kind: str, program: str) -> None:
    machine = Machine(refused="no TUN device", refused_on="client")
    with pytest.raises(WavebedError, match="on client: no TUN device"):
        started(machine, tmp_path, "server", kind, peer="client")
    assert machine.told == []
    assert machine.made is not None
    ends = programs_of(machine.made, program)
    assert [(process.host.name, process.poll()) for process in ends] == [("server", 0), ("client", 3)]


def test_hysteria_leads_tcp_and_udp_of_the_far_host_into_its_device(tmp_path: Path) -> None:
    machine = Machine()
    lab, running = started(machine, tmp_path, "client", "hysteria", peer="edge")
    assert [process.host.name for process in programs_of(lab, "sing-box")] == ["edge", "client"]
    (served,) = json.loads((tmp_path / "remedy.client.hysteria.edge.json").read_text())["inbounds"]
    used = json.loads((tmp_path / "remedy.client.hysteria.client.json").read_text())
    assert (served["listen"], served["listen_port"]) == ("198.18.0.2", 2861)
    assert machine.passwords[0] == machine.passwords[1]
    assert len(machine.passwords[0]) == 32
    assert not any(machine.passwords[0] in file.read_text() for file in tmp_path.glob("remedy.*"))
    assert "up_mbps" not in used["outbounds"][0], "BBR without rates"
    assert served["ignore_client_bandwidth"] is True
    assert used["inbounds"][0]["mtu"] == 1500
    assert machine.lines("edge") == []
    assert machine.lines("client")[-3:] == [
        "rule add to 198.18.0.2 ipproto udp dport 2861 lookup main priority 2761",
        "rule add ipproto tcp lookup 2861 priority 2861",
        "rule add ipproto udp lookup 2861 priority 2861",
    ]
    assert list(machine.keys.values()) == [True]
    assert not list(tmp_path.glob("*.key"))
    assert running.stop() == ""
    assert machine.lines("client")[-3:-1] == [
        "rule del ipproto tcp priority 2861",
        "rule del ipproto udp priority 2861",
    ]


def test_the_rates_of_hysteria_are_those_of_each_direction_at_both_ends(tmp_path: Path) -> None:
    started(Machine(), tmp_path, "client", "hysteria", peer="server", down="100mbit", up="20mbit")
    (served,) = json.loads((tmp_path / "remedy.client.hysteria.server.json").read_text())["inbounds"]
    (used,) = json.loads((tmp_path / "remedy.client.hysteria.client.json").read_text())["outbounds"]
    assert (served["up_mbps"], served["down_mbps"]) == (100, 20)
    assert (used["down_mbps"], used["up_mbps"]) == (100, 20)
    assert "ignore_client_bandwidth" not in served


def fake(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "mptcpize"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_the_library_is_that_of_mptcpize(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    third_party._library.cache_clear()
    fake(tmp_path, 'shift; LD_PRELOAD="" exec env LD_PRELOAD=/nowhere/wrap.so "$@" 2> /dev/null', monkeypatch)
    assert third_party._library() == "/nowhere/wrap.so"
    third_party._library.cache_clear()
    fake(tmp_path, "exit 1", monkeypatch)
    with pytest.raises(MachineError, match="mptcpize: does not say which library it preloads"):
        third_party._library()
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(MachineError, match=r"mptcpize: not found: run .apt-get install mptcpize."):
        third_party._library()
    third_party._library.cache_clear()
