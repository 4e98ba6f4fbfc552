"""A video on a known path: what is shown, when, and what happens when the network or the content is not enough."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from workload_harness import KNOWN_PATH, metrics, nginx_pid, run_workload

from wavebed.lab.tools import cache_folder, missing
from wavebed.workload import read_workload
from wavebed.workload.video import Video
from wavebed.workload.video_player import dashjs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.path,
    pytest.mark.skipif(bool(missing(program.name for program in Video.programs)), reason="programs are missing"),
]

LADDER = [{"size": "512x288", "rate": "1.15mbit"}, {"size": "768x432", "rate": "1.82mbit"}]
TINY = {"kind": "video", "ladder": LADDER, "duration": "4s", "segment": "1s", "limit": "25s"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for a trial, in whose cache the player is there already."""
    dashjs(cache_folder())
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "npm").symlink_to(cache_folder() / "npm")
    return tmp_path


def _content(folder: Path, table: dict[str, object]) -> Path:
    workload = read_workload(table)
    assert isinstance(workload, Video)
    workload.prepare(folder / "cache")
    assert workload.root is not None
    return workload.root


@pytest.mark.alone
def test_on_the_known_path_it_never_stalls_and_reaches_the_top(folder: Path) -> None:
    outcome, about = run_workload(TINY, KNOWN_PATH, folder)
    got = metrics(outcome)
    assert (outcome.status, outcome.reason) == ("ok", "")
    # The path holds 50 times the bitrate. A processor that is busy for half a second makes the picture stand too.
    assert got["stalled time"] is not None
    assert got["stalled time"] < 1
    # Connection, MPD, two initialization segments and the first of 144 kB: at least 5 round trips of 40 ms.
    assert 0.2 < (got["startup time"] or 0) < 6
    assert got["first frame"] <= got["startup time"]
    # Of 4 s the first segment is in the lowest representation, the last in the highest.
    assert 1.15 < (got["mean bitrate"] or 0) < 1.82
    assert got["media played"] == pytest.approx(4, abs=1)
    assert (got["media skipped"] or 0) < 1
    assert (got["time at 288p"] or 0) + (got["time at 432p"] or 0) == pytest.approx(100)
    assert outcome.series[1].value[-1] == 1.82
    assert next(event.text for event in outcome.events if event.name == "switch") == "288p → 432p"
    # Nobody has fetched anything before the workload began.
    first = next(event for event in outcome.events if event.name == "request")
    assert first.text == "manifest.mpd"
    assert first.time_s >= about["schedule"]["video"].start_s  # type: ignore[index]


@pytest.mark.alone
def test_what_is_kept_can_be_scored_by_p1203(folder: Path) -> None:
    outcome, about = run_workload({**TINY, "duration": "2s", "protocol": "h2"}, KNOWN_PATH, folder)
    assert outcome.reason == ""
    assert outcome.status == "ok"
    raw = about["folder"] / "raw" / "video"  # type: ignore[operator]
    given = json.loads((raw / "p1203-input.json").read_text())
    assert given["I23"]["stalling"][0] == [0, metrics(outcome)["startup time"]]
    assert [segment["start"] for segment in given["I13"]["segments"]] == [0, 1]
    assert "HTTP/2.0" in (raw / "access.log").read_text()


@pytest.mark.slow
def test_on_a_path_below_the_lowest_bitrate_it_stalls_and_says_so(folder: Path) -> None:
    slow = {**KNOWN_PATH, "rate": "700kbit", "queue": "droptail:100kb"}
    outcome, _ = run_workload({**TINY, "duration": "8s", "limit": "11s"}, slow, folder)
    got = metrics(outcome)
    assert outcome.status == "partial"
    assert outcome.reason.startswith("stopped at its limit: ")
    assert (got["stalls"] or 0) >= 1
    assert (got["stalled time"] or 0) > 0.5
    stalls = [event for event in outcome.events if event.name == "stall"]
    assert len(stalls) == got["stalls"]
    assert sum((event.end_s or 0) - event.time_s for event in stalls) == pytest.approx(got["stalled time"])
    # A segment of 1.15 Mbit takes 1.64 s of 0.7 Mbit/s: whatever is played, the rest of the time is stalled.
    assert (got["media played"] or 0) < 8 * 0.7 / 1.15


@pytest.mark.slow
def test_a_missing_segment_is_named_and_nothing_hangs(folder: Path) -> None:
    root = _content(folder, TINY)
    for name in ("288p", "432p"):
        (root / name / "3.m4s").unlink()
    outcome, _ = run_workload(TINY, KNOWN_PATH, folder)
    assert outcome.status == "failed"
    assert outcome.reason.endswith("3.m4s was answered with status 404")
    assert (metrics(outcome)["failed requests"] or 0) >= 1


@pytest.mark.slow
def test_a_truncated_segment_is_named(folder: Path) -> None:
    root = _content(folder, TINY)
    for name in ("288p", "432p"):
        os.truncate(root / name / "2.m4s", 5000)
    outcome, _ = run_workload(TINY, KNOWN_PATH, folder)
    assert outcome.status == "failed"
    assert "2.m4s has 5000 bytes instead of" in outcome.reason


@pytest.mark.slow
def test_a_server_that_dies_is_the_reason(folder: Path) -> None:
    def end_server(lab: object, context: object) -> None:
        pid = nginx_pid(context.folder)  # type: ignore[attr-defined]
        context.server.run(["sleep", "1"])  # type: ignore[attr-defined]
        context.server.run(["kill", pid])  # type: ignore[attr-defined]

    slow = {**KNOWN_PATH, "rate": "700kbit"}
    outcome, _ = run_workload({**TINY, "limit": "6s"}, slow, folder, during=end_server)
    assert outcome.status == "failed"
    assert outcome.reason.startswith("nginx ")
