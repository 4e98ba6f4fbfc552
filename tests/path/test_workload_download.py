"""The workload `download` on a known path: constant 100 Mbit/s, 40 ms, one bandwidth-delay product of queue."""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING

import pytest
from workload_harness import KNOWN_PATH, metrics, nginx_pid, run_workload

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.path.lab import Laboratory
    from wavebed.workload.model import TrialContext

RTT_S = 0.040
RATE_BPS = 100e6
PACKET_BYTES = 1500
SEGMENT_BYTES = 1448
"""What a packet of 1500 bytes carries beside 20 bytes of IPv4 and 32 of TCP with time stamps."""
INITIAL_WINDOW = 10
"""Segments; RFC 6928, and Linux since 2.6.39."""
TRIES = 6


def theory_s(size_bytes: int) -> float:
    """Return the least time of a download over a new connection: slow start from 10 segments, then the link's rate.

    One round trip for the handshake, one until the first byte. The window doubles in each round trip until sending it
    takes the link a whole round trip; from then on the link never rests.
    """
    segments = math.ceil(size_bytes / SEGMENT_BYTES)
    packet_s = PACKET_BYTES * 8 / RATE_BPS
    elapsed_s, window = 2 * RTT_S, INITIAL_WINDOW
    while window * packet_s < RTT_S and segments > window:
        segments -= window
        window *= 2
        elapsed_s += RTT_S
    return elapsed_s + segments * packet_s


def check_least(table: dict[str, object], tmp_path: Path, bounds: dict[str, tuple[float, float]]) -> None:
    """Check that the least of each metric over a few downloads is within its bounds; the first that all are ends them.

    A busy machine makes a download slower, never quicker.
    """
    found = dict.fromkeys(bounds, math.inf)
    for number in range(TRIES):
        folder = tmp_path / str(number)
        folder.mkdir()
        outcome, _ = run_workload(table, KNOWN_PATH, folder)
        assert outcome.status == "ok", outcome.reason
        assert outcome.details["http_version"] == ("2" if table.get("protocol") == "h2" else "1.1")
        values = metrics(outcome)
        assert values["bytes"] == 2_000_000
        for name in bounds:
            found[name] = min(found[name], values[name] or 0)
        if all(found[name] < most for name, (_, most) in bounds.items()):
            break
    for name, (least, most) in bounds.items():
        assert least <= found[name] < most, name


def signal_nginx(lab: Laboratory, context: TrialContext, signal: str) -> None:
    """Send a signal to the nginx of a trial."""
    lab.server.run(["kill", f"-{signal}", nginx_pid(context.folder)], check=True)


@pytest.mark.alone
def test_two_megabytes_take_what_slow_start_takes(tmp_path: Path) -> None:
    """Within one round trip above theory.

    HyStart leaves slow start when acknowledgements come for half a round trip on end, here at 487 segments, which is
    more than the path holds (333): it costs nothing. Left a round too early by a machine that is late, it would cost
    less than a round trip. Nothing can be quicker than the theory; 1 % is for curl's clock.
    """
    expected_s = theory_s(2_000_000)
    assert math.isclose(expected_s, 0.410, abs_tol=0.001)
    bounds = {
        "connect time": (40, 60),
        "time to first byte": (80, 110),
        "download time": (0.99 * expected_s, expected_s + RTT_S),
    }
    check_least({"kind": "download"}, tmp_path, bounds)


@pytest.mark.alone
def test_http2_takes_a_round_trip_more_for_tls(tmp_path: Path) -> None:
    """TLS 1.3: one round trip before the request. The upper bound allows for the cryptography on a slow machine."""
    expected_s = theory_s(2_000_000) + RTT_S
    bounds = {
        "connect time": (40.0, 60.0),
        "time to first byte": (120.0, 180.0),
        "download time": (0.99 * expected_s, expected_s + 1.5 * RTT_S),
    }
    check_least({"kind": "download", "protocol": "h2"}, tmp_path, bounds)


def test_goodput_is_all_bytes_over_all_the_time(tmp_path: Path) -> None:
    outcome, _ = run_workload({"kind": "download"}, KNOWN_PATH, tmp_path)
    found = metrics(outcome)
    assert found["download time"] is not None
    assert found["goodput"] == pytest.approx(16 / found["download time"])


@pytest.mark.alone
def test_the_first_bytes_of_a_long_download_are_as_fast_as_a_short_one(tmp_path: Path) -> None:
    """Within 3 %: the two connections are not one, and curl ends some milliseconds after its last byte."""
    best: dict[str, float] = {}
    for number in range(TRIES):
        for size, more, name in (("2mb", {}, "goodput"), ("20mb", {"marks": ["2mb"]}, "goodput first 2mb")):
            folder = tmp_path / f"{number}-{size}"
            folder.mkdir()
            outcome, _ = run_workload({"kind": "download", "size": size, **more}, KNOWN_PATH, folder)
            assert outcome.status == "ok", outcome.reason
            best[size] = max(best.get(size, 0.0), metrics(outcome)[name] or 0)
        if number and best["20mb"] == pytest.approx(best["2mb"], rel=0.03):
            break
    assert best["20mb"] == pytest.approx(best["2mb"], rel=0.03)


def test_marks_that_were_not_reached_have_no_value(tmp_path: Path) -> None:
    table = {"kind": "download", "size": "2gb", "limit": "2s", "marks": ["1kb", "1gb"]}
    outcome, _ = run_workload(table, KNOWN_PATH, tmp_path)
    found = metrics(outcome)
    assert outcome.status == "partial"
    assert outcome.reason.startswith("stopped at its limit of 2 s with ")
    assert found["goodput first 1kb"] is not None
    assert found["goodput first 1gb"] is None
    left = sorted(file.name for file in (tmp_path / "trial/raw/download").iterdir())
    assert left == ["access.log", "curl.json", "curl.log", "nginx.conf", "nginx.log"]


@pytest.mark.alone
def test_at_its_limit_it_stops_and_keeps_what_it_has(tmp_path: Path) -> None:
    outcome, about = run_workload({"kind": "download", "size": "2gb", "limit": "2s"}, KNOWN_PATH, tmp_path)
    found = metrics(outcome)
    assert outcome.status == "partial"
    assert outcome.reason.startswith("stopped at its limit of 2 s with ")
    assert found["download time"] is None
    assert found["bytes"] is not None
    assert found["goodput"] is not None
    # In 2 s the link carries at most 24.1 MB of payload. Slow start may end with 16 segments: by a twentieth more in
    # each of 44 round trips that makes 3.5 MB.
    assert 2e6 < found["bytes"] < 24.2e6
    assert math.isclose(found["goodput"], found["bytes"] * 8 / 2 / 1e6, rel_tol=0.05)
    file = tmp_path / "cache" / "download" / "2000000000.bin"
    assert file.stat().st_size == 2_000_000_000
    assert file.stat().st_blocks < 100
    assert about["wall_s"] < 2 + 8  # type: ignore[operator]


def test_a_path_that_carries_nothing_gives_no_byte_and_no_times(tmp_path: Path) -> None:
    outcome, _ = run_workload({"kind": "download", "limit": "1s"}, {**KNOWN_PATH, "loss": "100%"}, tmp_path)
    assert outcome.status == "partial"
    found = metrics(outcome)
    assert found.pop("bytes") == 0
    assert found.pop("goodput") == 0
    assert list(found.values()) == [None] * 3


@pytest.mark.alone
def test_a_server_that_dies_fails_it_at_once(tmp_path: Path) -> None:
    killed_at = 0.0

    def kill_nginx(lab: Laboratory, context: TrialContext) -> None:
        nonlocal killed_at
        time.sleep(1)
        signal_nginx(lab, context, "KILL")
        killed_at = context.clock.now_s()

    outcome, about = run_workload(
        {"kind": "download", "size": "1gb", "limit": "30s"}, KNOWN_PATH, tmp_path, during=kill_nginx
    )
    assert outcome.status == "failed"
    assert "nginx was ended by signal 9" in outcome.reason
    # What the dead server's kernel still held is delivered first: at 100 Mbit/s less than a second of it.
    assert about["schedule"]["download"].end_s < killed_at + 5  # type: ignore[index]
    found = metrics(outcome)
    assert found["goodput"] is None
    assert found["bytes"] is None or 0 < found["bytes"] < 1e9


def test_a_server_that_is_gone_refuses(tmp_path: Path) -> None:
    def stop_nginx(lab: Laboratory, context: TrialContext) -> None:
        signal_nginx(lab, context, "TERM")

    table = {"kind": "download", "start": "5s", "limit": "5s"}  # by then it is gone, on a busy machine too
    outcome, _ = run_workload(table, KNOWN_PATH, tmp_path, during=stop_nginx)
    assert outcome.status == "failed"
    assert outcome.reason.startswith("nginx ended with 0")
    report = json.loads((tmp_path / "trial/raw/download/curl.json").read_text())
    assert report["exitcode"] == 7
    assert metrics(outcome)["bytes"] == 0


def test_it_leaves_only_outputs(tmp_path: Path) -> None:
    run_workload({"kind": "download", "size": "1kb"}, KNOWN_PATH, tmp_path)
    left = sorted(file.name for file in (tmp_path / "trial/raw/download").iterdir())
    assert left == ["access.log", "curl.json", "curl.log", "nginx.conf", "nginx.log"]
