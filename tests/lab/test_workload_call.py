"""A call between two browsers: both directions carry pictures, and no figure is below what the path allows."""

from __future__ import annotations

import pytest
from tests.lab.workload_trial import Trial, run_scenario

SCENARIO = """
[path]
rate = "20mbit"
down-delay = "30ms"
up-delay = "10ms"
queue = "droptail:100kb"
[[workload]]
kind = "call"
duration = "3s"
limit = "60s"
"""
RTT_MS = 40


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Call for three seconds."""
    return run_scenario(SCENARIO, tmp_path_factory.mktemp("call"))


def test_both_ends_are_connected_in_the_browsers_own_sandbox(call: Trial) -> None:
    outcome = call.outcome()
    assert outcome.status == "ok", outcome.reason
    assert outcome.details["state"] == {"server": "connected", "client": "connected"}
    assert outcome.details["browser sandbox"] == "on"
    # A STUN check takes one round trip.
    assert call.metrics()["rtt p50"] >= RTT_MS


@pytest.mark.parametrize("direction", ["down", "up"])
def test_a_direction_shows_the_pictures_that_its_link_carries(call: Trial, direction: str) -> None:
    found = call.metrics()
    # ICE and DTLS take round trips before the first picture.
    assert found[f"time to first frame {direction}"] >= RTT_MS
    assert 0 < found[f"frame rate {direction}"] <= 45
    assert 0 < found[f"resolution {direction}"] <= 360
    assert 0 <= found[f"frozen {direction}"] <= 100
    assert found[f"packet loss {direction}"] == 0
    link = call.engine("links", f"radio.{direction}")
    # From the first picture to the end of the call the link carries the video, and little more.
    assert 0 < found[f"bitrate {direction}"] * 1e6 / 8 < link["delivered_bytes"]
    assert len(call.series(f"bitrate {direction}").value) >= 3
