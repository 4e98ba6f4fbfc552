"""A tunnel keeps a flood from delaying others: round trips with and without it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from tests.lab.test_remedies_two_ended import address, fetched, laboratory, state
from tests.lab.test_run import metric, trial, wavebed
from tests.on_time import assert_usable, lateness

from wavebed.remedy import remedy_of

if TYPE_CHECKING:
    from pathlib import Path as FilePath


FLOOD = """[path]
rate = "20mbit"
delay = "10ms"
queue = "droptail:1000p"
[[workload]]
kind = "bulk"
protocol = "udp"
rate = "40mbit"
duration = "6s"
start = "1s"
[[workload]]
kind = "latency"
probe = "udp"
[[treatment]]
name = "none"
[[treatment]]
name = "tunnel"
set = { "path.client.remedy" = { kind = "tunnel", peer = "server" } }
"""
"""1000 packets of 1500 bytes are 0.6 s at 20 Mbit/s."""


def test_a_tunnel_keeps_a_flood_from_delaying_others(tmp_path: FilePath) -> None:
    done = wavebed(tmp_path, FLOOD, timeout_s=120)
    assert_usable(done, tmp_path / "out")
    records = [trial(tmp_path, folder.name) for folder in sorted((tmp_path / "out/trials").iterdir())]
    by_name = {record["treatment"]: record for record in records}
    for record in records:
        if late := lateness(record):
            pytest.skip(f"inconclusive: {late}")
    assert metric(by_name["none"], "latency", "udp rtt loaded p50") > 400
    assert metric(by_name["tunnel"], "latency", "udp rtt loaded p50") < 80
    (check,) = [check for check in by_name["tunnel"]["checks"] if check["code"] == "remedy"]
    assert check["holds"], check
    for record in records:
        assert metric(record, "path", "processor time") > 0


def test_hysteria_carries_tcp_by_the_end_nearer_to_the_server(tmp_path: FilePath) -> None:
    if shutil.which("sing-box") is None:
        pytest.skip("inconclusive: sing-box is not installed: wavebed doctor says how")
    with laboratory(tmp_path) as lab:
        before = state(lab.client)
        running = remedy_of("hysteria", {"peer": "edge"}).start(lab, "client", tmp_path / "remedy.client.hysteria.log")
        assert fetched(lab, address(lab, "server")) == [address(lab, "edge")] * 2
        assert running.stop() == ""
        assert state(lab.client) == before
