"""Trials between two hosts that ssh joins: their metrics, what is refused, and what is left on the hosts."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hosts_state import wait_for
from two_hosts import two_hosts

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.path.lab import LabHost

SCENARIO = """
[lab]
backend = "hosts"
server = "ssh://root@server"
[path]
[[workload]]
kind = "bulk"
duration = "2s"
settle = "1s"
limit = "10s"
[[workload]]
kind = "latency"
probe = "both"
tail = "200ms"
"""


def metrics(folder: Path) -> dict[str, Any]:
    """Return the metrics of the only trial of a run, by workload and name."""
    (file,) = folder.glob("trials/*/trial.json")
    trial = json.loads(file.read_text())
    return {f"{each['workload']}.{each['name']}": each["value"] for each in trial["metrics"]}


def test_a_trial_over_the_path_under_test_alone_has_round_trips_but_no_one_way_delays(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO)
    with two_hosts(tmp_path, rate="50mbit", delay="10ms") as hosts:
        done = hosts.wavebed(["run", str(tmp_path / "s.toml"), "-o", str(tmp_path / "out")])
        left = hosts.lab.server.run(["sh", "-c", "ls -d /tmp/wavebed-agent.*"], capture_output=True).stdout
    assert done.returncode == 0, done.stderr
    assert not left
    found = metrics(tmp_path / "out")
    assert found["latency.one-way delay down loaded p50"] is None
    assert found["latency.rtt loaded p50"] >= 20
    assert found["latency.udp rtt loaded p50"] >= 20
    assert found["bulk.goodput after 1s"] > 0
    assert "ssh://root@server" in (tmp_path / "out" / "report.html").read_text()


def test_a_host_that_ssh_does_not_reach_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO.replace("root@server", "root@server:2222"))
    with two_hosts(tmp_path, rate="50mbit") as hosts:
        done = hosts.wavebed(["run", str(tmp_path / "s.toml"), "-o", str(tmp_path / "out")])
    assert done.returncode == 3
    assert "Connection refused" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("victim", ["wavebed", "ssh", "agent"])
def test_whatever_is_killed_nothing_is_left_on_either_host(tmp_path: Path, victim: str) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO.replace('"2s"', '"20s"').replace('"10s"', '"30s"'))
    with two_hosts(tmp_path, rate="50mbit", delay="5ms") as hosts:
        argv = [sys.executable, "-m", "wavebed", "run", str(tmp_path / "s.toml"), "-o", str(tmp_path / "out")]
        run = hosts.lab.client.start(argv, env=hosts.variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_for(lambda: "iperf3 -s" in " ".join(programs(hosts.lab.server)))
        kill(hosts.lab.server, victim)
        wait_for(lambda: run.poll() is not None)
        wait_for(lambda: not programs(hosts.lab.server))
        left = hosts.lab.server.run(["sh", "-c", "ls -d /tmp/wavebed-agent.*"], capture_output=True).stdout
    assert not left
    if victim != "wavebed":
        assert "failed" in (tmp_path / "out" / "run.json").read_text()


PATTERNS = {"wavebed": "wavebed run", "ssh": "ssh -F none", "agent": "--remove-own-file"}


def programs(host: LabHost) -> list[str]:
    """Return numbers and command lines of agents and of the programs of workloads, on all hosts of the laboratory."""
    listing = host.run(["ps", "-eo", "pid,args"], capture_output=True).stdout.splitlines()
    wanted = ("--remove-own-file", "wavebed-agent", "iperf3", "irtt", "ping -")
    return [line for line in listing if any(word in line for word in wanted)]


def kill(host: LabHost, victim: str) -> None:
    """Kill the processes of a part of the run."""
    listing = host.run(["ps", "-eo", "pid,args"], capture_output=True).stdout.splitlines()
    pids = [line.split()[0] for line in listing if PATTERNS[victim] in line and "dropbear" not in line]
    assert pids, listing
    host.run(["kill", "-9", *pids])
