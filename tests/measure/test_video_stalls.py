"""A video on known paths: on a fast one it does not stall, on one below its lowest bitrate it does."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest
from tests.lab.workload_trial import run_scenario
from tests.measure.known_path import KNOWN_PATH, QUEUE, RATE

from wavebed.lab.tools import cache_folder
from wavebed.workload import read_workload
from wavebed.workload.video import Video
from wavebed.workload.video_player import dashjs

if TYPE_CHECKING:
    from pathlib import Path

LADDER = '[{ size = "512x288", rate = "1.15mbit" }, { size = "768x432", rate = "1.82mbit" }]'
TINY = f'[[workload]]\nkind = "video"\nladder = {LADDER}\nsegment = "1s"\n'


def test_on_the_known_path_it_never_stalls_and_reaches_the_top(tmp_path: Path) -> None:
    trial = run_scenario(f'{KNOWN_PATH}{TINY}duration = "4s"\nlimit = "25s"\n', tmp_path)
    outcome, found = trial.outcome(), trial.metrics()
    assert (outcome.status, outcome.reason) == ("ok", "")
    # The path holds 50 times the bitrate. A processor that is busy for half a second makes the picture stand too.
    assert found["stalled time"] < 1
    # Connection, MPD, two initialization segments and the first of 144 kB: at least 5 round trips of 40 ms.
    assert 0.2 < found["startup time"] < 6
    # Of 4 s the first segment is in the lowest representation, the last in the highest.
    assert 1.15 < found["mean bitrate"] < 1.82
    assert found["media played"] == pytest.approx(4, abs=1)
    assert found["media skipped"] < 1
    assert trial.series("bitrate").value[-1] == 1.82
    assert next(event.text for event in outcome.events if event.name == "switch") == "288p → 432p"


def test_on_a_path_below_the_lowest_bitrate_it_stalls_and_says_so(tmp_path: Path) -> None:
    path = KNOWN_PATH.replace(RATE, 'rate = "700kbit"\n').replace(QUEUE, 'queue = "droptail:100kb"\n')
    trial = run_scenario(f'{path}{TINY}duration = "8s"\nlimit = "11s"\n', tmp_path)
    outcome, found = trial.outcome(), trial.metrics()
    assert outcome.status == "partial"
    assert outcome.reason.startswith("stopped at its limit: ")
    assert found["stalls"] >= 1
    assert found["stalled time"] > 0.5
    stalls = [event for event in outcome.events if event.name == "stall"]
    assert len(stalls) == found["stalls"]
    assert sum((event.end_s or 0) - event.time_s for event in stalls) == pytest.approx(found["stalled time"])
    # A segment of 1.15 Mbit takes 1.64 s of 0.7 Mbit/s: whatever is played, the rest of the time is stalled.
    assert found["media played"] < 8 * 0.7 / 1.15


def test_a_missing_segment_is_named_and_nothing_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    dashjs(cache_folder())
    (cache / "npm").symlink_to(cache_folder() / "npm")
    monkeypatch.setenv("WAVEBED_CACHE", str(cache))
    keys = f'{TINY}duration = "4s"\nlimit = "25s"\n'
    (table,) = tomllib.loads(keys)["workload"]
    video = read_workload(table)
    assert isinstance(video, Video)
    video.prepare(cache)
    assert video.root is not None
    for name in ("288p", "432p"):
        (video.root / name / "3.m4s").unlink()
    trial = run_scenario(KNOWN_PATH + keys, tmp_path / "run")
    assert trial.outcome().status == "failed"
    assert trial.outcome().reason.endswith("3.m4s was answered with status 404")
    assert trial.metrics()["failed requests"] >= 1
