"""Bulk transfers: directions, streams and losses agree with the counters of the links; faults have their reason."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from tests.lab.workload_trial import Trial, link_now, run_scenario, until_done

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.lab.protocol import Lab
    from wavebed.workload.model import TrialContext

PATH = """
[path]
down-rate = "20mbit"
up-rate = "5mbit"
down-delay = "30ms"
up-delay = "10ms"
queue = "droptail:50kb"
"""
TCP_SHARE = 1448 / 1500
"""Payload of a packet of 1500 bytes, without 20 bytes of IPv4 and 32 of TCP with time stamps."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Two streams in each direction for a second."""
    text = (
        '[[workload]]\nkind = "bulk"\ndirection = "both"\nstreams = 2\nduration = "1s"\ncongestion-control = "reno"\n'
    )
    return run_scenario(PATH + text, tmp_path_factory.mktemp("both"))


def test_streams_use_the_congestion_control_of_the_scenario(both: Trial) -> None:
    assert both.outcome().status == "ok", both.outcome().reason
    assert both.outcome().details["congestion_control"] == {"down": "reno", "up": "reno"}


@pytest.mark.parametrize("direction", ["down", "up"])
def test_the_receiver_of_each_direction_counts_the_bytes_of_its_link(both: Trial, direction: str) -> None:
    received = both.metrics()[f"goodput {direction}"] * 1e6 / 8  # in a second
    link = both.engine("links", f"radio.{direction}")
    # The link also carries acknowledgements, segments sent again, and what arrives after the last second.
    assert link["delivered_bytes"] / 3 < received < 1.1 * TCP_SHARE * link["delivered_bytes"]
    assert both.metrics()[f"retransmits {direction}"] >= 0


@pytest.mark.parametrize("direction", ["down", "up"])
def test_streams_sum_up_to_the_goodput_of_their_direction(both: Trial, direction: str) -> None:
    parts = [both.series(f"goodput {direction} stream {number}").value for number in (1, 2)]
    whole = both.series(f"goodput {direction}").value
    assert all(sum(part) > 0 for part in parts)  # type: ignore[arg-type]
    assert math.isclose(sum(map(sum, parts)), sum(whole), rel_tol=0.02)  # type: ignore[arg-type]


def test_round_trips_take_the_delay_of_the_path(both: Trial) -> None:
    for direction in ("down", "up"):
        series = both.series(f"rtt {direction} stream 1")
        assert min(value for value in series.value if value is not None) >= 40
        assert series.time_s[0] >= both.span().start_s
        assert series.time_s[-1] <= both.span().end_s


def test_udp_above_the_rate_loses_what_the_queue_of_the_link_drops(tmp_path: Path) -> None:
    text = '[[workload]]\nkind = "bulk"\nprotocol = "udp"\nrate = "10mbit"\nduration = "1s"\ndirection = "up"\n'
    trial = run_scenario(PATH + text, tmp_path)
    assert trial.outcome().status == "ok", trial.outcome().reason
    link, server = trial.engine("links", "radio.up"), trial.engine("hosts", "server")
    dropped = link["dropped_segments"]["overflow"]
    assert dropped > 0
    lost = dropped + server["udp_receive_buffer_errors"]
    # Besides datagrams, the link carries about 20 segments of control.
    assert trial.metrics()["loss"] == pytest.approx(100 * lost / link["offered_segments"], rel=0.15)
    assert 0 < trial.metrics()["goodput"] < 10
    assert trial.metrics()["jitter"] is not None


def test_one_ends_at_its_limit_with_its_intervals_and_one_fails_with_the_words_of_iperf3(tmp_path: Path) -> None:
    text = """
[[workload]]
kind = "bulk"
name = "long"
duration = "60s"
limit = "1s"
[[workload]]
kind = "bulk"
name = "unknown"
congestion-control = "nonesuch"
limit = "30s"
"""
    trial = run_scenario(PATH + text, tmp_path)
    long, unknown = trial.outcome("long"), trial.outcome("unknown")
    assert (long.status, long.reason) == ("partial", "stopped at its limit of 1 s")
    assert trial.metrics("long")["goodput"] > 0
    assert sum(trial.series("goodput", "long").value) > 0  # type: ignore[arg-type]
    assert unknown.status == "failed"
    assert unknown.reason.startswith("iperf3: unable to set TCP_CONGESTION")


def test_a_server_that_dies_ends_the_transfer_before_its_limit(tmp_path: Path) -> None:
    def kill_server(lab: Lab, context: TrialContext) -> bool:
        if link_now(lab, "radio.down")["delivered_bytes"] < 100_000:
            return False
        pids = context.server.run(["pidof", "iperf3"], capture_output=True, check=True).stdout.split()
        # The server is older than the client; both are in the laboratory's own PID namespace.
        context.server.run(["kill", "-KILL", str(min(map(int, pids)))], check=True)
        return True

    text = '[[workload]]\nkind = "bulk"\nduration = "60s"\nlimit = "60s"\n'
    trial = run_scenario(PATH + text, tmp_path, until_done(kill_server))
    assert trial.outcome().status == "failed"
    assert "iperf3" in trial.outcome().reason
    assert trial.span().end_s < 60
