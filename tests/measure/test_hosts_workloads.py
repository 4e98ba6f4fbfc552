"""Workloads with browsers, and others that need more than a program, between two hosts that ssh joins."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.lab.test_hosts_workloads import LAB, PATH
from tests.lab.two_hosts import two_hosts

if TYPE_CHECKING:
    from pathlib import Path

    from two_hosts import TwoHosts

FAR_CLIENT = 'client = "ssh://root@localhost"\n'
WEB = '[[workload]]\nkind = "web"\nsite = "google"\nlimit = "30s"\n'
CALL = '[[workload]]\nkind = "call"\nduration = "3s"\nlimit = "30s"\nafter = "web"\n'
VOICE = '[[workload]]\nkind = "voice"\nduration = "1s"\nafter = "call"\n'
COMMAND = """[[workload]]
kind = "command"
server-run = ["sh", "-c", "echo served; exec iperf3 -s -1 -p {port}"]
run = "iperf3 -c {server} -p {port} -n 1M > out.txt; cat out.txt"
limit = "20s"
after = "voice"
"""
LATENCY = '[[workload]]\nkind = "latency"\nprobe = "both"\ntail = "200ms"\n'


def run(hosts: TwoHosts, folder: Path, text: str) -> dict[str, Any]:
    """Run the only trial of a scenario; return its record."""
    (folder / "s.toml").write_text(text)
    done = hosts.wavebed(["run", str(folder / "s.toml"), "-o", str(folder / "out")], limit_s=120)
    assert done.returncode == 0, done.stderr
    (file,) = (folder / "out").glob("trials/*/trial.json")
    record: dict[str, Any] = json.loads(file.read_text())
    for workload in record["workloads"]:
        assert workload["status"] == "ok", workload
    return record


def values(record: dict[str, Any]) -> dict[str, Any]:
    return {f"{each['workload']}.{each['name']}": each["value"] for each in record["metrics"]}


def test_pages_calls_voice_and_commands_run_between_real_hosts(tmp_path: Path) -> None:
    with two_hosts(tmp_path, **PATH) as hosts:
        record = run(hosts, tmp_path, LAB + "[path]\n" + WEB + CALL + VOICE + COMMAND)
        left = hosts.lab.server.run(["sh", "-c", "ps -eo args | grep '[c]hromium'"], capture_output=True).stdout
    assert not left
    found = values(record)
    assert found["web.requests"] == 10
    assert found["web.connections"] == 2
    assert found["web.failed requests"] == 0
    # Of TCP, TLS and the request, Chromium may do all but the last before the navigation that it tells begins.
    assert found["web.ttfb"] >= 20
    assert found["call.rtt p50"] >= 20
    for direction in ("down", "up"):
        assert found[f"call.bitrate {direction}"] > 0.03
        assert found[f"call.time to first frame {direction}"] > 30
        assert found[f"voice.packet loss {direction}"] < 5
        assert found[f"voice.R factor {direction}"] is None, "nothing is known of one direction alone"
        assert found[f"voice.late {direction}"] is None
    (folder,) = (tmp_path / "out").glob("trials/*/raw/command")
    assert {file.name.removesuffix(".gz") for file in folder.iterdir()} >= {"out.txt", "server.out"}


def test_a_client_that_ssh_reaches_has_the_times_of_the_trial(tmp_path: Path) -> None:
    with two_hosts(tmp_path, also_client=True, **PATH) as hosts:
        record = run(hosts, tmp_path, LAB + FAR_CLIENT + "[path]\n" + WEB + LATENCY)
    found = values(record)
    assert found["web.requests"] == 10
    # Probes and the page ran at the same times of one clock: with another one no probe would be in the page's window.
    assert found["latency.rtt loaded p50"] >= 20
    (web,) = [each for each in record["workloads"] if each["name"] == "web"]
    assert web["start_s"] <= web["details"]["start_s"] <= web["end_s"], "its CLOCK_MONOTONIC is 5000 s ahead"
