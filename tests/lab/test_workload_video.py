"""A short video: content, requests and pictures agree with each other and with the links."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.lab.workload_trial import Trial, run_scenario

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = """
[path]
rate = "20mbit"
down-delay = "30ms"
up-delay = "10ms"
queue = "droptail:100kb"
[[workload]]
kind = "video"
ladder = [{ size = "512x288", rate = "1.15mbit" }, { size = "768x432", rate = "1.82mbit" }]
duration = "2s"
segment = "1s"
protocol = "h2"
limit = "60s"
"""
RTT_S = 0.04


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Play two segments."""
    return run_scenario(SCENARIO, tmp_path_factory.mktemp("video"))


def raw(video: Trial) -> Path:
    """Return the folder of the raw outputs."""
    return video.folder / "raw" / "video"


def test_a_video_starts_after_its_round_trips_and_plays_its_ladder(video: Trial) -> None:
    found = video.metrics()
    assert (video.outcome().status, video.outcome().reason) == ("ok", "")
    # A processor without time shows fewer frames.
    assert 0 < found["media played"] <= 2.1
    assert found["first frame"] <= found["startup time"]
    # TCP, TLS, the MPD, an initialization segment and the first media segment take a round trip each.
    assert 5 * RTT_S <= found["startup time"] < video.span().end_s - video.span().start_s
    assert 1.14 < found["mean bitrate"] < 1.83
    assert found["time at 288p"] + found["time at 432p"] == pytest.approx(100)
    assert found["stalled time"] >= 0


def test_requests_are_of_the_player_alone_and_their_bytes_cross_the_link(video: Trial) -> None:
    requests = [event for event in video.outcome().events if event.name == "request"]
    assert requests[0].text == "manifest.mpd"
    assert requests[0].time_s >= video.span().start_s
    assert video.metrics()["failed requests"] == 0
    received = video.metrics()["bytes received"]
    carried = video.engine("links", "radio.down")["delivered_bytes"]
    # Two segments at the lowest bitrate at least.
    assert 2 * 1.15e6 / 8 < received < carried < 2 * received
    assert 0 < video.engine("links", "radio.up")["delivered_bytes"] < carried / 3
    assert "HTTP/2.0" in (raw(video) / "access.log").read_text()


def test_the_input_of_p1203_has_the_segments_and_the_startup(video: Trial) -> None:
    given = json.loads((raw(video) / "p1203-input.json").read_text())
    assert given["I23"]["stalling"][0] == [0, video.metrics()["startup time"]]
    starts = [segment["start"] for segment in given["I13"]["segments"]]
    assert starts
    assert starts == [0, 1][: len(starts)]


def test_the_browser_uses_its_own_sandbox(video: Trial) -> None:
    assert video.outcome().details["browser sandbox"] == "on"
