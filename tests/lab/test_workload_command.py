"""Commands in a laboratory: names, parsers, servers, and the reason of each failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lab.workload_trial import Trial, run_in_virtual_time

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(1800)

SCENARIO = """
[path]
rate = "20mbit"
down-delay = "30ms"
up-delay = "10ms"
queue = "droptail:50kb"

[[workload]]
kind = "command"
name = "ping"
run = ["ping", "-4", "-c", "5", "-i", "0.2", "-W", "20", "{server}"]
parser = "ping"

[[workload]]
kind = "command"
name = "iperf3"
run = ["iperf3", "-4", "-c", "{server}", "-p", "{port}", "-t", "1", "-J"]
server-run = ["iperf3", "-s", "-1", "-p", "{port}"]
parser = "iperf3"

[[workload]]
kind = "command"
name = "line"
run = 'echo "host = $((1 + 1)) $(echo {server}-{client}-{seed})"; echo kept >&2'
parser = "key-value"

[[workload]]
kind = "command"
name = "stopped"
run = ["ping", "-4", "-i", "0.1", "{server}"]
parser = "ping"
limit = "1s"
may-be-stopped = true

[[workload]]
kind = "command"
name = "status"
run = "echo first >&2; echo it broke >&2; exit 3"

[[workload]]
kind = "command"
name = "parser"
run = ["echo", "none"]
parser = "json-numbers"

[[workload]]
kind = "command"
name = "server"
run = ["true"]
server-run = "echo {port} is taken >&2; exit 1"

[[workload]]
kind = "command"
name = "absent"
run = ["nonesuch-program"]
"""


@pytest.fixture(scope="module")
def trial(kernel: Path, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """All commands side by side."""
    return run_in_virtual_time(SCENARIO, tmp_path_factory.mktemp("commands"), seed=7)


def test_ping_measures_the_round_trip_of_the_path(trial: Trial) -> None:
    assert trial.outcome("ping").status == "ok", trial.outcome("ping").reason
    found = trial.metrics("ping")
    assert 39.9 <= found["rtt min"] < 400
    assert found["loss"] == 0


def test_iperf3_reaches_its_server_at_the_port_of_the_workload(trial: Trial) -> None:
    assert trial.outcome("iperf3").status == "ok", trial.outcome("iperf3").reason
    received = trial.metrics("iperf3")["goodput"] * 1e6 / 8  # in a second at least
    assert 0 < received < trial.engine("links", "radio.up")["delivered_bytes"]


def test_a_line_goes_to_the_shell_with_its_names_replaced(trial: Trial) -> None:
    (metric,) = trial.outcome("line").metrics
    server, client, seed = metric.unit.split("-")
    assert (metric.name, metric.value, seed) == ("host", 2, "7")
    assert all(each.startswith(("198.18.", "198.19.")) for each in (server, client))
    assert trial.raw("line/stdout") == f"host = 2 {metric.unit}\n"
    assert trial.raw("line/stderr") == "kept\n"


def test_a_command_that_may_be_stopped_counts_until_its_limit(trial: Trial) -> None:
    outcome = trial.outcome("stopped")
    assert (outcome.status, outcome.reason) == ("partial", "stopped at its limit of 1 s")
    assert trial.metrics("stopped")["rtt average"] >= 39.9


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("status", "the shell ended with 3: it broke"),
        ("parser", "json-numbers: the output is not JSON"),
        ("server", "server-run ended with 1: 20120 is taken"),
        ("absent", "cannot run nonesuch-program: No such file"),
    ],
)
def test_a_failure_has_its_reason_and_the_others_go_on(trial: Trial, name: str, reason: str) -> None:
    outcome = trial.outcome(name)
    assert outcome.status == "failed"
    assert reason in outcome.reason
