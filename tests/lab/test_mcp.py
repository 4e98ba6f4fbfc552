"""An agent runs a scenario in a laboratory, asks why its packets were late, and cancels another run."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from mcp.types.version import LATEST_HANDSHAKE_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCENARIO = """
title = "two hops"
[path]
packet-log = true
[[path.hop]]
name = "internet"
kind = "wired"
delay = "6ms"
rate = "200mbit"
[[path.hop]]
name = "radio"
kind = "radio"
rate = "60mbit"
up-rate = "10mbit"
radio = { preset = "nr-30khz", bler = "20%" }
ue-limit = { packets-per-second = 20000 }
[[workload]]
kind = "latency"
interval = "5ms"
duration = "1s"
[[workload]]
kind = "bulk"
duration = "1s"
"""


class Agent:
    """A client of ``wavebed mcp``, without its SDK."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "wavebed", "mcp", str(folder)]
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._number = 0
        about = {"name": "test", "version": "0"}
        self._ask("initialize", protocolVersion=LATEST_HANDSHAKE_VERSION, capabilities={}, clientInfo=about)

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        result = self._ask("tools/call", name=tool, arguments=arguments)
        assert not result["isError"], result["content"]
        answer: dict[str, Any] = result["structuredContent"]
        return answer

    def _ask(self, method: str, **params: object) -> dict[str, Any]:
        self._number += 1
        line = json.dumps({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(line.encode() + b"\n")
        self.server.stdin.flush()
        result: dict[str, Any] = json.loads(self.server.stdout.readline())["result"]
        return result

    def close(self) -> int:
        if self.server.poll() is None:
            self.server.communicate(timeout=60)
        return self.server.returncode


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    found = Agent(tmp_path)
    yield found
    found.close()


def test_an_agent_runs_a_path_and_learns_why_its_packets_were_late(agent: Agent, tmp_path: Path) -> None:
    answer = agent.call("run", toml=SCENARIO, wait_s=120)
    assert answer["state"] in {"ended", "failed"}, answer["reason"]  # a late machine has no valid trial
    assert answer["progress"]["stored"] == 1
    told = agent.call("explain", run=answer["run"])
    assert told["source"] == "packets"
    assert told["missing"] == []
    assert "unexplained" not in told["meanings"], "every nanosecond has its cause"
    down, up = told["directions"]
    assert (down["links"], up["links"]) == (["internet.down", "radio.down"], ["radio.up", "internet.up"])
    for direction in (down, up):
        assert direction["base_delay_ms"] == pytest.approx(6, abs=0.001)
        assert sum(cause["mean_ms"] for cause in direction["causes"]) == pytest.approx(
            direction["delay_mean_ms"], abs=1e-4
        )
        for moment in direction["worst_delays"]:
            assert sum(moment["late_ms_by_cause"].values()) == pytest.approx(moment["late_max_ms"], abs=1e-4)
    of_down, of_up = ({cause["cause"] for cause in direction["causes"]} for direction in (down, up))
    assert {"propagation", "transmission", "queue", "slot", "harq", "reordering", "ue", "host"} <= of_down
    assert "grant" in of_up
    assert "grant" not in of_down
    assert agent.close() == 0
    assert [entry.name for entry in tmp_path.iterdir()] == [answer["run"]]
    another = Agent(tmp_path)
    later = another.call("status", run=answer["run"])
    assert another.close() == 0
    assert (later["results"], later["progress"]["stored"]) == (answer["results"], 1)


def test_a_cancelled_run_leaves_no_laboratory_and_no_file(agent: Agent, tmp_path: Path) -> None:
    answer = agent.call("run", toml=SCENARIO.replace('duration = "1s"', 'duration = "300s"'), wait_s=0)
    assert answer["state"] == "running"
    until_s = time.monotonic() + 120
    while (agent.call("status")["progress"] or {}).get("current") is None:
        assert time.monotonic() < until_s
        time.sleep(0.1)
    assert agent.call("cancel", run=answer["run"])["state"] == "cancelled"
    command = ["pgrep", "-f", str(tmp_path / answer["run"])]
    while subprocess.run(command, capture_output=True, check=False).returncode == 0:
        assert time.monotonic() < until_s
        time.sleep(0.1)
    assert agent.close() == 0
    assert list(tmp_path.iterdir()) == []
