"""Probes: delays of each direction, sizes, windows and losses agree with the path and its links."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.lab.workload_trial import Trial, run_scenario

if TYPE_CHECKING:
    from pathlib import Path

PATH = '[path]\nrate = "20mbit"\ndown-delay = "30ms"\nup-delay = "10ms"\nqueue = "droptail:50kb"\n'


@pytest.fixture(scope="module")
def probes(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Probes of all kinds, and a load that begins after a second."""
    text = """
[[workload]]
kind = "latency"
probe = "both"
interval = "10ms"
udp-size = "1200b"
rpm = true
[[workload]]
kind = "bulk"
protocol = "udp"
rate = "1mbit"
duration = "1s"
start = "1s"
"""
    return run_scenario(PATH + text, tmp_path_factory.mktemp("probes"))


def test_no_probe_is_quicker_than_its_direction(probes: Trial) -> None:
    assert probes.outcome().status == "ok", probes.outcome().reason
    # ping rounds to 0.1 ms.
    for name, least_ms in (("rtt", 39.9), ("udp rtt", 40), ("one-way delay up", 10), ("one-way delay down", 30)):
        known = [value for value in probes.series(name).value if value is not None]
        assert least_ms <= min(known) < 10 * least_ms, name
        assert probes.metrics()[f"{name} average"] >= min(known)


def test_the_delays_of_both_directions_sum_up_to_the_round_trip(probes: Trial) -> None:
    up, down, rtt = (probes.series(name).value for name in ("one-way delay up", "one-way delay down", "udp rtt"))
    parts = [(a, b, both) for a, b, both in zip(up, down, rtt, strict=True) if None not in (a, b, both)]
    assert parts
    for a, b, both in parts:
        # irtt leaves the server's own time out of the round trip.
        assert cast("float", a) + cast("float", b) == pytest.approx(both, abs=0.1)


def test_every_probe_is_answered_lost_or_in_flight(probes: Trial) -> None:
    for kind in ("icmp", "udp"):
        count = cast("dict[str, Any]", probes.outcome().details[kind])
        assert count["sent"] == count["answered"] + count["lost"] + count["in flight at the end"]
        assert count["lost"] == 0
    assert probes.metrics()["probe loss"] == probes.metrics()["udp probe loss"] == 0


def test_probes_have_the_size_of_the_scenario(probes: Trial) -> None:
    found = json.loads((probes.folder / "raw/latency/irtt.json").read_text(encoding="utf-8"))
    assert found["config"]["params"]["length"] == 1172  # accepted by the server: without IPv4 and UDP


def test_the_loaded_window_is_the_time_of_the_load(probes: Trial) -> None:
    span = probes.span("bulk")
    assert probes.outcome().details["loaded"] == [[span.start_s, span.end_s]]
    assert probes.metrics()["rtt loaded average"] >= 39.9


def test_a_new_connection_takes_a_round_trip_for_each_of_its_parts(probes: Trial) -> None:
    assert probes.metrics()["rpm failed"] == 0
    for part in ("tcp_f", "tls_f", "http_f"):
        values = probes.series(f"rpm {part}").value
        assert min(cast("float", value) for value in values) >= 39.9, part


def test_lost_probes_are_the_drops_of_the_link(tmp_path: Path) -> None:
    text = (
        PATH + 'up-loss = "20%"\n[[workload]]\nkind = "latency"\nprobe = "both"\nduration = "3s"\ninterval = "10ms"\n'
    )
    trial = run_scenario(text, tmp_path)
    counts = [cast("dict[str, Any]", trial.outcome().details[kind]) for kind in ("icmp", "udp")]
    lost = sum(count["lost"] for count in counts)
    undetermined = sum(count["in flight at the end"] for count in counts)
    dropped = trial.engine("links", "radio.up")["dropped_segments"]["loss"]
    assert trial.engine("links", "radio.down")["dropped_segments"]["loss"] == 0
    # The handshake of irtt loses segments too.
    assert 0 < lost <= dropped <= lost + undetermined + 10
    for name, series in (("probe loss", "rtt"), ("udp probe loss", "udp rtt")):
        values = trial.series(series).value
        assert trial.metrics()[name] == pytest.approx(100 * sum(value is None for value in values) / len(values))
        assert list(trial.series(series).time_s) == sorted(trial.series(series).time_s)
