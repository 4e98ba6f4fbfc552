"""QoE of sessions made by hand."""

from __future__ import annotations

import math

import pytest

from wavebed.workload.qoe import Chunk, Stall, p1203_input, pensieve, stalled


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
    given = p1203_input(_chunks(1.15), 0.4, [Stall(2.5, 1.25)], frames_per_s=24, audio_bps=33_000)
    assert given["I23"] == {"stalling": [[0, 0.4], [2.5, 1.25]], "streamId": 0}
    assert given["I13"] == {
        "segments": [
            {"codec": "h264", "start": 0, "duration": 4, "bitrate": 1150, "resolution": "1280x720", "fps": 24}
        ],
        "streamId": 0,
    }
