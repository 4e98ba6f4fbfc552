"""The workload `command` in a laboratory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from workload_harness import KNOWN_PATH, metrics, run_workload

from wavebed.errors import WavebedError

if TYPE_CHECKING:
    from pathlib import Path


def test_ping_sees_the_round_trip_of_the_path(tmp_path: Path) -> None:
    """40 ms; the least of five, and 10 ms for a busy machine. ping waits for the last answer for an interval only."""
    table = {"kind": "command", "run": ["ping", "-4", "-c", "5", "-i", "0.5", "{server}"], "parser": "ping"}
    outcome, _ = run_workload(table, KNOWN_PATH, tmp_path)
    assert outcome.status == "ok", outcome.reason
    found = metrics(outcome)
    assert found["rtt min"] is not None
    assert 39.9 <= found["rtt min"] < 50
    assert found["loss"] == 0


def test_iperf3_against_its_server(tmp_path: Path) -> None:
    table = {
        "kind": "command",
        "run": ["iperf3", "-4", "-c", "{server}", "-p", "{port}", "-t", "1", "-J"],
        "server-run": ["iperf3", "-s", "-1", "-p", "{port}"],
        "parser": "iperf3",
    }
    # The path holds 17 packets, so that slow start fills it wherever it ends.
    outcome, _ = run_workload(table, {**KNOWN_PATH, "delay": "1ms"}, tmp_path)
    assert outcome.status == "ok", outcome.reason
    goodput = metrics(outcome)["goodput"]
    assert goodput is not None
    assert 30 < goodput < 100


def test_a_line_goes_to_the_shell_with_its_names_replaced(tmp_path: Path) -> None:
    line = 'echo "host = $((1 + 1)) $(echo {server}-{client}-{seed})"; echo kept >&2'
    outcome, about = run_workload({"kind": "command", "run": line, "parser": "key-value"}, {}, tmp_path, seed=7)
    assert outcome.status == "ok", outcome.reason
    (metric,) = outcome.metrics
    assert (metric.name, metric.value, metric.unit) == ("host", 2, "server-client-7")
    raw = about["folder"] / "raw" / "command"  # type: ignore[operator]
    assert (raw / "stdout").read_text() == "host = 2 server-client-7\n"
    assert (raw / "stderr").read_text() == "kept\n"


def test_an_exit_status_is_a_failure_with_the_last_line(tmp_path: Path) -> None:
    outcome, _ = run_workload({"kind": "command", "run": "echo first >&2; echo it broke >&2; exit 3"}, {}, tmp_path)
    assert (outcome.status, outcome.reason) == ("failed", "the shell ended with 3: it broke")


def test_an_output_that_does_not_fit_the_parser_is_a_failure(tmp_path: Path) -> None:
    outcome, _ = run_workload({"kind": "command", "run": ["echo", "none"], "parser": "json-numbers"}, {}, tmp_path)
    assert outcome.status == "failed"
    assert outcome.reason.startswith("json-numbers: the output is not JSON")


def test_one_that_may_be_stopped_counts_until_its_limit(tmp_path: Path) -> None:
    table = {
        "kind": "command",
        "run": ["ping", "-4", "-i", "0.1", "{server}"],
        "parser": "ping",
        "limit": "1s",
        "may-be-stopped": True,
    }
    outcome, about = run_workload(table, KNOWN_PATH, tmp_path)
    assert (outcome.status, outcome.reason) == ("partial", "stopped at its limit of 1 s")
    assert metrics(outcome)["rtt average"] is not None
    assert about["wall_s"] < 10  # type: ignore[operator]


def test_a_server_that_does_not_start_ends_the_opening(tmp_path: Path) -> None:
    table = {"kind": "command", "run": ["true"], "server-run": "echo {port} is taken >&2; exit 1"}
    with pytest.raises(WavebedError, match=r"^server-run ended with 1: 20000 is taken$"):
        run_workload(table, {}, tmp_path)


def test_a_program_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    outcome, _ = run_workload({"kind": "command", "run": ["nonesuch-program"]}, {}, tmp_path)
    assert outcome.status == "failed"
    assert "nonesuch-program" in outcome.reason
