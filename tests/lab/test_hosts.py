"""Trials between two hosts that ssh joins: their metrics, what is refused, and what is left on the hosts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from two_hosts import two_hosts

if TYPE_CHECKING:
    from pathlib import Path


SCENARIO = """
[lab]
backend = "hosts"
server = "ssh://root@server"
[path]
[[workload]]
kind = "bulk"
start = "2s"
duration = "4s"
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
    # irtt opens before the load begins; on a busy machine after it: a queue without an end loses no first packet.
    with two_hosts(tmp_path, rate="50mbit", delay="10ms", queue="infinite") as hosts:
        done = hosts.wavebed(["run", str(tmp_path / "s.toml"), "-o", str(tmp_path / "out")])
        left = hosts.lab.server.run(["sh", "-c", "ls -d /tmp/wavebed-agent.*"], capture_output=True).stdout
    assert done.returncode == 0, done.stderr
    assert not left
    found = metrics(tmp_path / "out")
    assert found["latency.one-way delay down loaded p50"] is None
    # A late machine leaves few probes, and a percentile needs twenty.
    assert found["latency.rtt loaded average"] >= 20
    assert found["latency.udp rtt loaded average"] >= 20
    assert found["bulk.goodput after 1s"] > 0
    assert "ssh://root@server" in (tmp_path / "out" / "report.html").read_text()


def test_a_host_that_ssh_does_not_reach_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO.replace("root@server", "root@server:2222"))
    with two_hosts(tmp_path, rate="50mbit") as hosts:
        done = hosts.wavebed(["run", str(tmp_path / "s.toml"), "-o", str(tmp_path / "out")])
    assert done.returncode == 3
    assert "Connection refused" in done.stderr.splitlines()[-1]
