"""Downloads: bytes and times agree with the path and its links; limits and dead servers have their reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lab.workload_trial import Trial, link_now, run_scenario, until_done

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.lab.protocol import Lab
    from wavebed.workload.model import TrialContext

PATH = '[path]\nrate = "20mbit"\ndown-delay = "30ms"\nup-delay = "10ms"\nqueue = "droptail:100kb"\n'
RTT_MS = 40
PACKETS = 1500 / 1448
"""Bytes of packets for each byte of payload."""
OUTPUTS = ["access.log", "curl.json", "curl.log", "nginx.conf", "nginx.log"]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """A download over HTTP/2, and one over HTTP/1.1 after it."""
    text = """
[[workload]]
kind = "download"
size = "300kb"
protocol = "h2"
marks = ["100kb"]
limit = "30s"
[[workload]]
kind = "download"
name = "plain"
size = "50kb"
after = "download"
limit = "30s"
"""
    return run_scenario(PATH + text, tmp_path_factory.mktemp("done"))


@pytest.mark.parametrize(("name", "size", "version"), [("download", 300_000, "2"), ("plain", 50_000, "1.1")])
def test_all_bytes_come_by_the_version_of_http_of_the_scenario(done: Trial, name: str, size: int, version: str) -> None:
    outcome = done.outcome(name)
    assert (outcome.status, outcome.reason) == ("ok", "")
    assert outcome.details["http_version"] == version
    assert done.metrics(name)["bytes"] == size


@pytest.mark.parametrize(("name", "round_trips"), [("download", 3), ("plain", 2)])
def test_each_handshake_takes_a_round_trip(done: Trial, name: str, round_trips: int) -> None:
    """TCP takes one, TLS 1.3 one, the request one."""
    found = done.metrics(name)
    assert found["connect time"] >= RTT_MS
    assert found["time to first byte"] >= round_trips * RTT_MS
    span = done.span(name)
    # Milliseconds and seconds.
    assert found["time to first byte"] / 1e3 <= found["download time"] <= span.end_s - span.start_s


def test_goodput_is_all_bytes_over_all_the_time(done: Trial) -> None:
    found = done.metrics()
    assert found["goodput"] == pytest.approx(2.4 / found["download time"])
    assert 0 < found["goodput first 100kb"] < 0.8 / 0.12


def test_the_bytes_cross_the_link_down_once(done: Trial) -> None:
    carried = done.engine("links", "radio.down")["delivered_bytes"]
    # Two certificates, headers and segments that were sent again come on top.
    assert 350_000 * PACKETS < carried < 2 * 350_000 * PACKETS
    assert 0 < done.engine("links", "radio.up")["delivered_bytes"] < carried / 3


def test_a_download_leaves_only_its_outputs(done: Trial) -> None:
    assert sorted(file.name for file in (done.folder / "raw" / "download").iterdir()) == OUTPUTS


def test_at_its_limit_a_download_keeps_what_it_has(tmp_path: Path) -> None:
    text = '[[workload]]\nkind = "download"\nsize = "2gb"\nlimit = "1s"\nmarks = ["1kb", "1gb"]\n'
    trial = run_scenario(PATH + text, tmp_path)
    found = trial.metrics()
    assert trial.outcome().status == "partial"
    assert trial.outcome().reason == f"stopped at its limit of 1 s with {found['bytes']} of 2000000000 bytes"
    assert found["download time"] is None
    assert 0 < found["bytes"] < trial.engine("links", "radio.down")["delivered_bytes"]
    assert found["goodput"] == pytest.approx(found["bytes"] * 8 / 1e6, rel=0.5)
    assert found["goodput first 1kb"] > 0
    assert found["goodput first 1gb"] is None


def test_a_server_that_dies_ends_the_download_before_its_limit(tmp_path: Path) -> None:
    def kill_nginx(lab: Lab, context: TrialContext) -> bool:
        if link_now(lab, "radio.down")["delivered_bytes"] < 100_000:
            return False
        # nginx has written its number: it did so before it answered.
        pid = (context.folder / "nginx.pid").read_text().strip()
        context.server.run(["kill", "-KILL", pid], check=True)
        return True

    text = '[[workload]]\nkind = "download"\nsize = "1gb"\nlimit = "60s"\n'
    trial = run_scenario(PATH + text, tmp_path, until_done(kill_nginx))
    assert trial.outcome().status == "failed"
    assert "nginx was ended by signal 9" in trial.outcome().reason
    assert trial.span().end_s < 60
    assert trial.metrics()["goodput"] is None
