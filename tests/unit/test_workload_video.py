"""Video: sessions, their verdict, the ladder, and the model of ITU-T P.1203."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from wavebed.config.problems import Problem
from wavebed.lab.protocol import MachineClock
from wavebed.workload import read_workload
from wavebed.workload.video import Video, page
from wavebed.workload.video_media import LADDERS, Content, player_settings, read_ladder
from wavebed.workload.video_report import Chunk, Playback, PlayStall, outcome_of, p1203_input, pensieve, read, stalled

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.workload.model import Outcome


STUDY = LADDERS["study"]
STEP_MS = 1000 / 24


def _frames(from_ms: float, media_s: float, seconds: float, number: int) -> list[tuple[float, float, int, int]]:
    each = STUDY.representations[number]
    return [
        (from_ms + step * STEP_MS, media_s + step / 24, each.coded_width, each.coded_height)
        for step in range(round(seconds * 24))
    ]


def _record(**changes: Any) -> Any:
    """8 s of 288p without a flaw: it begins 500 ms after 1000."""
    record = {
        "started": 1000,
        "ended": 9500,
        "outcome": "played",
        "position": 8,
        "decoded": 192,
        "dropped": 0,
        "events": [(1200, "waiting", 0), (1500, "playing", 0), (9500, "ended", 8)],
        "samples": [(1000 + 250 * step, 0, 2) for step in range(34)],
        "frames": _frames(1490, 0, 8, 0),
        "errors": [],
        "requests": [],
        "origin_ns": 5_000_000_000,
        "uncertainty_ns": 1_000_000,
    }
    return {**record, **changes}


def _read(**changes: Any) -> Playback:
    clock = MachineClock()
    clock.begin(4_000_000_000)
    return read(_record(**changes), clock, STUDY.representations)


def _outcome(folder: Path, **changes: Any) -> Outcome:
    return outcome_of(_read(**changes), Content.of(STUDY, 4.0, 8.0), 8.0, folder)


def _metrics(outcome: Outcome) -> dict[str, float | None]:
    return {metric.name: metric.value for metric in outcome.metrics}


def _request(path: str, **changes: Any) -> dict[str, Any]:
    request = {"url": f"http://server:20000/{path}", "start": 1990, "request": 2000, "response": 2040, "end": 2100}
    return {**request, "bytes": 575_000, "transferred": 575_300, "status": 200, "protocol": "http/1.1", **changes}


def test_startup_ends_with_the_first_frame_and_playing() -> None:
    playback = _read()
    # The page's clock was 0 one second after time zero.
    assert playback.start_s == pytest.approx(2.0)
    assert playback.first_frame_s == pytest.approx(2.49)
    assert playback.begin_s == pytest.approx(2.5)


def test_waiting_for_the_start_is_no_stall() -> None:
    assert list(_read().stalls) == []


def test_a_stall_lasts_from_waiting_to_playing() -> None:
    events = [(1200, "waiting", 0), (1500, "playing", 0), (5500, "waiting", 4), (5900, "playing", 4)]
    frames = [*_frames(1490, 0, 4, 0), *_frames(5900, 4, 3.6, 0)]
    (stall,) = _read(events=events, frames=frames).stalls
    assert (stall.start_s, stall.end_s) == pytest.approx((6.5, 6.9))
    assert stall.media_s == 4


def test_waiting_while_the_clock_runs_on_is_no_stall() -> None:
    events = [(1500, "playing", 0), (5500, "waiting", 4), (6500, "playing", 5)]
    assert list(_read(events=events).stalls) == []


def test_a_picture_that_stands_is_a_stall_even_if_the_clock_runs_on() -> None:
    frames = [*_frames(1490, 0, 4, 0), *_frames(7490, 6, 2, 0)]
    (stall,) = _read(frames=frames).stalls
    assert stall.duration_s == pytest.approx(2.0, abs=0.05)


def test_a_stall_that_never_ends_ends_with_the_session() -> None:
    events = [(1500, "playing", 0), (5500, "waiting", 4)]
    playback = _read(events=events, frames=_frames(1490, 0, 4, 0), outcome="stopped")
    (stall,) = playback.stalls
    assert (stall.start_s, stall.end_s) == pytest.approx((6.5, 10.5), abs=0.05)
    assert playback.stalled_s / playback.watched_s == pytest.approx(0.5, abs=0.01)


def test_bitrate_is_that_of_the_frames_on_the_screen(tmp_path: Path) -> None:
    frames = [*_frames(1490, 0, 4, 0), *_frames(5490, 4, 4, 3)]
    outcome = _outcome(tmp_path, frames=frames)
    got = _metrics(outcome)
    assert got["mean bitrate"] == pytest.approx((1.15 + 7.94) / 2)
    assert got["switches"] == 1
    assert got["mean switch"] == pytest.approx(7.94 - 1.15)
    assert got["time at 1080p"] == pytest.approx(50)
    assert got["time at 720p"] == 0
    assert got["QoE linear"] == pytest.approx(1.15 + 7.94 - (7.94 - 1.15))
    bitrate = next(each for each in outcome.series if each.name == "bitrate")
    assert bitrate.value[0] is None
    assert bitrate.value[-1] == 7.94


def test_what_the_player_jumps_over_is_not_played() -> None:
    playback = _read(frames=[*_frames(1490, 0, 2, 0), *_frames(3490, 6, 2, 0)], ended=5500)
    assert playback.skipped_s == pytest.approx(4, abs=0.05)
    assert sum(playback.shown_s().values()) == pytest.approx(4)
    assert list(playback.stalls) == []


def test_without_a_picture_nothing_is_zero_that_was_not_measured(tmp_path: Path) -> None:
    outcome = _outcome(tmp_path, frames=[], events=[], outcome="stopped", decoded=0)
    got = _metrics(outcome)
    assert outcome.status == "partial"
    assert outcome.reason == "stopped at its limit: no picture came"
    for name in ("startup time", "first frame", "stalls", "stalled time", "mean bitrate", "QoE linear", "time stalled"):
        assert got[name] is None
    assert got["dropped frames"] is None
    assert not (tmp_path / "p1203-input.json").exists()


def test_dropped_frames_make_it_doubtful(tmp_path: Path) -> None:
    assert _outcome(tmp_path, dropped=9).doubts == []
    assert _outcome(tmp_path, dropped=20).doubts == ["the processor dropped 10 % of the frames"]


BOTH_SEGMENTS = [_request("288p/1.m4s", end=1400), _request("audio/2.m4s", end=1500), _request("288p/2.m4s", end=6480)]
"""The second one comes a second after its first picture is due."""


def test_frames_that_came_too_late_are_not_the_processors(tmp_path: Path) -> None:
    # The sound goes on, and the pictures of the second before the segment comes are dropped.
    frames = [*_frames(1490, 0, 4, 0), *_frames(6490, 5, 3, 0)]
    assert _read(frames=frames, requests=BOTH_SEGMENTS).late_frames(4) == 24
    assert _outcome(tmp_path, frames=frames, requests=BOTH_SEGMENTS, dropped=24).doubts == []
    assert _outcome(tmp_path, frames=frames, requests=BOTH_SEGMENTS, dropped=43).doubts == [
        "the processor dropped 10 % of the frames"
    ]


@pytest.mark.parametrize(
    ("frames", "changes", "late"),
    [
        pytest.param([*_frames(1490, 0, 4, 0), *_frames(6490, 5, 3, 0)], {"end": 5400}, 0, id="it came in time"),
        pytest.param(
            [*_frames(1490, 0, 4, 0), *_frames(6490, 5, 3, 0)], {"end": 5400, "status": 0}, 24, id="a part came before"
        ),
        pytest.param(_frames(1490, 0, 4, 0), {"end": 9600}, 96, id="it came when all of it was due"),
        pytest.param(_frames(1490, 0, 4, 0), {"end": 9400, "position": 4}, 0, id="the clock stood until it came"),
        pytest.param(
            [*_frames(1490, 0, 4, 0), *_frames(9000, 4.5, 0.5, 0)],
            {"end": 8400, "position": 5},
            0,
            id="dropped after the wait",
        ),
    ],
)
def test_a_frame_is_late_if_it_was_due_before_its_segment_came(
    frames: list[tuple[float, float, int, int]], changes: dict[str, float], late: int
) -> None:
    position = changes.get("position", 8)
    second = {key: value for key, value in changes.items() if key != "position"}
    requests = [*BOTH_SEGMENTS[:2], _request("288p/2.m4s", **second)]
    if "status" in changes:  # an aborted request, and the next one
        requests.append(BOTH_SEGMENTS[2])
    assert _read(frames=frames, requests=requests, position=position).late_frames(4) == late


def test_throughput_is_of_the_video_segments_that_came_over_the_network(tmp_path: Path) -> None:
    requests = [
        _request("288p/1.m4s"),
        _request("288p/2.m4s", transferred=0),
        _request("audio/1.m4s"),
        _request("288p/3.m4s", status=0, bytes=0, transferred=0),
    ]
    outcome = _outcome(tmp_path, requests=requests)
    assert _metrics(outcome)["segment throughput"] == pytest.approx(575_000 * 8 / 0.1 / 1e6)
    assert _metrics(outcome)["failed requests"] == 0
    events = [event.text for event in outcome.events if event.name == "request"]
    assert "288p/3.m4s (no answer)" in events


@pytest.mark.parametrize(
    ("changes", "status", "reason"),
    [
        ({}, "ok", ""),
        (
            {"requests": [_request("288p/2.m4s", status=404)]},
            "failed",
            "288p/2.m4s was answered with status 404",
        ),
        (
            {"requests": [_request("288p/2.m4s", bytes=1000)], "errors": [(3000, 3, "decode")]},
            "failed",
            "288p/2.m4s has 1000 bytes instead of 575000",
        ),
        ({"errors": [(3000, 3, "decode")]}, "failed", "the browser cannot play it: decode"),
        (
            {"errors": [(3000, 27, "not available")], "outcome": "broken"},
            "partial",
            "the player stopped: not available; 8.0 s of 8 s were played",
        ),
        ({"outcome": "stopped"}, "partial", "stopped at its limit: 8.0 s of 8 s were played"),
    ],
)
def test_the_verdict_tells_a_broken_video_from_a_slow_network(
    tmp_path: Path, changes: dict[str, Any], status: str, reason: str
) -> None:
    outcome = _outcome(tmp_path, **changes)
    assert (outcome.status, outcome.reason) == (status, reason)


def test_by_default_the_players_own_buffer_is_kept() -> None:
    assert "buffer" not in player_settings("dynamic", None)["streaming"]  # type: ignore[operator]
    assert player_settings("bola", 30.0)["streaming"]["buffer"]["bufferTimeDefault"] == 30  # type: ignore[index,call-overload]


def test_the_page_holds_the_player_and_asks_for_nothing() -> None:
    text = page('var dashjs = "</script>";')
    assert r'"<\/script>"' in text
    assert text.count("<script>") == text.count("</script>") == 2
    assert "src=" not in text


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("duration", "0s", "duration: .0s. is out of range: write a time from 1s"),
        ("segment", "1.01s", "segment: is not a segment"),
        ("buffer", "301s", "buffer: .301s. is out of range"),
        ("abr", "fast", "abr: 'fast' is not a choice"),
        ("protocol", "h3", "protocol: "),
        ("bitrate", "1mbit", "bitrate: unknown key"),
    ],
)
def test_bad_keys_are_refused(key: str, value: object, says: str) -> None:
    with pytest.raises(Problem, match=says):
        read_workload({"kind": "video", key: value})


def test_a_video_takes_as_long_as_it_is() -> None:
    video = read_workload({"kind": "video"})
    assert isinstance(video, Video)
    assert video.expected_s() == pytest.approx(42)
    assert video.content.duration_s == 40


def _chunks(*rates_mbit: float) -> list[Chunk]:
    return [Chunk(4.0 * number, 4.0, round(rate * 1e6), 1280, 720) for number, rate in enumerate(rates_mbit)]


def test_pensieve_of_a_steady_session_is_the_sum_of_its_bitrates() -> None:
    assert pensieve(_chunks(4, 4, 4), 0) == pytest.approx((12, 4))


def test_pensieve_takes_off_the_bitrates_difference_at_a_switch() -> None:
    # 1 + 4 + 2 - (|4 - 1| + |2 - 4|)
    assert pensieve(_chunks(1, 4, 2), 0) == pytest.approx((2, 2 / 3))


def test_pensieve_takes_off_4_3_mbit_for_each_second_stalled() -> None:
    assert pensieve(_chunks(4, 4), 2) == pytest.approx((8 - 8.6, (8 - 8.6) / 2))


def test_pensieve_log_counts_from_the_lowest_bitrate() -> None:
    total, mean = pensieve(_chunks(1, 4), 1, least_bps=1_000_000)
    # 0 + ln 4 - |ln 4 - 0| - 2.66
    assert total == pytest.approx(-2.66)
    assert mean == pytest.approx(-1.33)
    assert pensieve(_chunks(4, 4), 0, least_bps=1_000_000)[0] == pytest.approx(2 * math.log(4))


def test_a_session_in_which_nothing_was_shown_has_no_qoe() -> None:
    assert pensieve([], 10) == (None, None)


def test_the_share_stalled_is_of_the_time_watched() -> None:
    assert stalled(20, 5) == 25


def test_sessions_below_five_seconds_are_left_out() -> None:
    assert stalled(4.9, 1) is None
    assert stalled(5, 0) == 0


def test_the_first_stall_for_p1203_is_always_the_startup_at_zero() -> None:
    given = p1203_input(_chunks(1.15), 0.4, [PlayStall(2.5, 1.25)], frames_per_s=24, audio_bps=33_000)
    assert given["I23"] == {"stalling": [[0, 0.4], [2.5, 1.25]], "streamId": 0}
    assert given["I13"] == {
        "segments": [
            {"codec": "h264", "start": 0, "duration": 4, "bitrate": 1150, "resolution": "1280x720", "fps": 24}
        ],
        "streamId": 0,
    }


def test_the_studys_ladder_is_that_of_the_study() -> None:
    ladder = read_ladder("study")
    assert [(each.width, each.height, each.rate_bps / 1e6) for each in ladder.representations] == [
        (512, 288, 1.15),
        (768, 432, 1.82),
        (1280, 720, 4.14),
        (1920, 1080, 7.94),
    ]
    assert all((each.coded_width, each.coded_height) == (each.width, each.height) for each in ladder.representations)


def test_the_large_ladder_goes_to_100_mbit_in_small_pictures() -> None:
    top = LADDERS["uhd"].representations[-1]
    assert (top.name, top.rate_bps) == ("4320p", 100_000_000)
    assert top.coded_height <= 360


@pytest.mark.parametrize("name", LADDERS)
def test_every_representation_is_told_by_the_size_of_its_picture(name: str) -> None:
    each = LADDERS[name].representations
    assert len({(one.coded_width, one.coded_height) for one in each}) == len(each)
    assert len({one.name for one in each}) == len(each)


def test_an_own_ladder_is_sorted_by_bitrate_and_its_sizes_made_distinct() -> None:
    ladder = read_ladder([{"size": "1280x720", "rate": "6mbit"}, {"size": "1280x720", "rate": "3mbit"}])
    assert [each.rate_bps for each in ladder.representations] == [3_000_000, 6_000_000]
    assert [each.name for each in ladder.representations] == ["720p", "720p-2"]
    assert ladder.representations[0].coded_width != ladder.representations[1].coded_width


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("studi", "did you mean 'study'"),
        (4, "is not a ladder"),
        ([], "1 to 20"),
        ([{"size": "1280", "rate": "3mbit"}], "0.size: '1280' is not a picture size"),
        ([{"size": "1281x720", "rate": "3mbit"}], "even number"),
        ([{"size": "1280x720", "rate": "3kbit"}], "0.rate: is out of range"),
        ([{"size": "1280x720"}], "rate: is missing"),
        ([{"size": "1280x720", "rate": "3mbit"}, {"size": "640x360", "rate": "3mbit"}], "of one bitrate"),
    ],
)
def test_what_is_not_a_ladder_is_refused(value: object, says: str) -> None:
    with pytest.raises(Problem, match=says):
        read_ladder(value)
