"""Trials between two hosts that ssh joins, here namespaces with a known path between them."""

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


@pytest.mark.alone
def test_a_trial_between_two_hosts_has_the_figures_of_the_path_between_them(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO)
    with two_hosts(tmp_path, rate="50mbit", delay="10ms") as hosts:
        done = hosts.wavebed(["run", str(tmp_path / "s.toml"), "-o", str(tmp_path / "out")])
        left = hosts.lab.server.run(["sh", "-c", "ls -d /tmp/wavebed-agent.*"], capture_output=True).stdout
    assert done.returncode == 0, done.stderr + done.stdout
    found = metrics(tmp_path / "out")
    # Slow start may end with 16 segments, from which cubic has the 83 that the path holds after 0.7 s.
    assert found["bulk.goodput after 1s"] == pytest.approx(47.5, rel=0.06)
    assert found["latency.rtt loaded p50"] >= 20
    assert not left
    report = (tmp_path / "out" / "report.html").read_text()
    assert "ssh://root@server" in report


FLOOD = SCENARIO.partition("[path]")[2].replace('kind = "bulk"', 'kind = "bulk"\nprotocol = "udp"\nrate = "60mbit"')
"""More than the path carries: its queue stays full. How full TCP keeps a queue differs from trial to trial."""


@pytest.mark.alone
@pytest.mark.slow
def test_the_same_scenario_has_the_same_figures_in_both_backends(tmp_path: Path) -> None:
    path = {"rate": "50mbit", "delay": "10ms", "queue": "droptail:10ms"}
    emulated_path = "[path]" + "".join(f'\n{key} = "{value}"' for key, value in path.items())
    (tmp_path / "emulated.toml").write_text(emulated_path + FLOOD)
    with two_hosts(tmp_path, **path) as hosts:
        lab = f'[lab]\nbackend = "hosts"\nserver-address = "{hosts.server_address}"\n'
        lab += f'server = "ssh://root@{hosts.join_beside()}"\n[path]'
        (tmp_path / "real.toml").write_text(lab + FLOOD)
        done = hosts.wavebed(["run", str(tmp_path / "real.toml"), "-o", str(tmp_path / "real")])
    assert done.returncode == 0, done.stderr
    run = [sys.executable, "-m", "wavebed", "run", str(tmp_path / "emulated.toml"), "-o", str(tmp_path / "emulated")]
    subprocess.run(run, check=True, capture_output=True)
    real, emulated = metrics(tmp_path / "real"), metrics(tmp_path / "emulated")
    assert real["bulk.goodput"] == pytest.approx(emulated["bulk.goodput"], rel=0.05)
    for name in ("latency.rtt loaded p50", "latency.udp rtt loaded p50"):
        assert real[name] == pytest.approx(emulated[name], rel=0.05, abs=0.5), name
        assert real[name] == pytest.approx(30, rel=0.05, abs=0.5), f"{name}: the path and its queue"


def test_one_way_delays_over_the_path_under_test_alone_are_refused(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO)
    with two_hosts(tmp_path, rate="50mbit", delay="10ms") as hosts:
        done = hosts.wavebed(["run", str(tmp_path / "s.toml"), "-o", str(tmp_path / "out")])
    assert done.returncode == 0, done.stderr
    assert metrics(tmp_path / "out")["latency.one-way delay down loaded p50"] is None


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
