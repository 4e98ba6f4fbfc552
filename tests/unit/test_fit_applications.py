"""Downloads and videos over walks in virtual time, beside plain simulations and known courses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from wavebed.fit.applications import Measure, applications, compare, videos
from wavebed.fit.playback import SHORT_BUFFER, USUAL_BUFFER, Sessions, Video, watch
from wavebed.fit.volumes import EVERY_S, Volumes, download_s

STUDY = Video(buffer_s=6.0, top_buffer_s=6.0, segment_s=4.0, duration_s=24.0, ladder="study")


def watched(rates: np.ndarray, start_s: float, video: Video) -> Sessions:
    return watch(Volumes([rates]), np.array([0]), np.array([start_s]), video)


def plain_download_s(rates: np.ndarray, start_s: float, size_mb: float) -> float:
    """Step through the walk, second by second."""
    now, left = start_s, 8 * size_mb
    while True:
        end = math.floor(now) + 1
        rate = rates[math.floor(now) % len(rates)]
        if rate * (end - now) >= left:
            return now + left / rate - start_s
        left -= rate * (end - now)
        now = end


def test_a_download_takes_what_a_plain_simulation_takes():
    random = np.random.default_rng(1)
    walks = [np.where(random.random(n) < 0.2, 0.0, random.gamma(1, 200, n)) for n in (60, 75, 200)]
    walk, start_s = np.repeat([0, 1, 2], 40), np.concatenate([random.uniform(0, len(each), 40) for each in walks])
    for size_mb in (0.5, 20.0, 3000.0):
        found = download_s(Volumes(walks), walk, start_s, size_mb)
        known = [plain_download_s(walks[w], s, size_mb) for w, s in zip(walk, start_s, strict=True)]
        assert found == pytest.approx(known, rel=1e-6, abs=1e-6)


def test_a_download_in_an_outage_ends_after_it():
    rates = np.array([100.0, 0, 0, 100, 100])
    assert download_s(Volumes([rates]), np.array([0, 0]), np.array([1.0, 2.5]), 12.5).tolist() == [3, 1.5]


def test_starts_are_at_every_fifth_second_and_none_in_a_walk_without_a_rate():
    walk, start_s = Volumes([np.ones(12), np.zeros(60), np.ones(7)]).starts()
    assert walk.tolist() == [0, 0, 0, 2, 2]
    assert start_s.tolist() == [0, EVERY_S, 2 * EVERY_S, 0, EVERY_S]


@pytest.mark.parametrize(("rate", "top"), [(200.0, 100.0), (30.0, 25.0), (8.5, 4.14), (1.2, 1.15)])
def test_a_constant_rate_gives_the_highest_bitrate_within_it(rate: float, top: float):
    found = watched(np.full(60, rate), 0.0, replace(USUAL_BUFFER, duration_s=4000.0))
    assert found.bitrate_mbps[0] == pytest.approx(top, rel=0.01)
    assert found.stalled_s[0] == 0
    assert found.startup_s[0] == pytest.approx(0.04 + 4 * 1.15 / rate)


def test_a_rate_below_the_lowest_bitrate_stalls_for_what_is_missing():
    found = watched(np.full(60, 0.575), 0.0, replace(STUDY, duration_s=80.0))
    # Each segment takes 8 s and a round trip, and lasts 4 s; the first is the startup.
    assert found.stalled_s[0] == pytest.approx(19 * 4.04)
    assert len(found.stall_s) == 19


def test_an_outage_stalls_for_its_length_less_the_buffer():
    # Three segments, 12 s, are there by 4 s, and the next is asked for when the buffer is down to 6 s, in the outage.
    # The player runs dry at 12.086 s, and the segment is there 0.046 s after the outage.
    rates = np.full(60, 100.0)
    rates[4:18] = 0.0
    found = watched(rates, 0.0, STUDY)
    assert found.stalled_s[0] == pytest.approx(18.046 - 12.086)


def test_a_segment_that_takes_too_long_is_abandoned_for_a_lower_bitrate():
    rates = np.full(200, 5.0)
    rates[:5] = 400.0
    found = watched(rates, 0.0, replace(SHORT_BUFFER, duration_s=40.0))
    # Without it the segment of 100 Mbit alone would take 20 s.
    assert found.stalled_s[0] < 3


def test_a_player_that_has_switched_down_stays_down_for_some_segments():
    rates = np.full(80, 200.0)
    rates[20:24] = 30.0

    def shown_mbit(seconds: float) -> float:
        return seconds * watched(rates, 0.0, replace(SHORT_BUFFER, duration_s=seconds)).bitrate_mbps[0]

    # The link has 200 Mbit/s again from 24 s on, and the throughput is known to be above 50 soon after.
    assert shown_mbit(34) - shown_mbit(28) <= 6 * 45
    assert shown_mbit(48) - shown_mbit(44) == pytest.approx(4 * 100)


def test_a_player_does_not_know_of_the_others():
    random = np.random.default_rng(3)
    walks = [np.where(random.random(100) < 0.1, 0.0, random.gamma(1, 60, 100)) for _ in range(3)]
    volumes = Volumes(walks)
    walk, start_s = volumes.starts()
    all_of_them = watch(volumes, walk, start_s, SHORT_BUFFER)
    for place in (0, 25, 59):
        alone = watched(walks[walk[place]], start_s[place], SHORT_BUFFER)
        assert alone.stalled_s[0] == pytest.approx(all_of_them.stalled_s[place])
        assert alone.bitrate_mbps[0] == pytest.approx(all_of_them.bitrate_mbps[place])
        assert alone.stall_s == pytest.approx(all_of_them.stall_s[all_of_them.stall_session == place])


def test_the_stalls_of_a_walk_are_its_own():
    bad, good = np.tile([30.0, 30, 0, 0, 0, 0, 0, 0, 30, 30], 10), np.full(100, 30.0)
    found = {each.key: each for each in videos([good, bad], SHORT_BUFFER)}
    durations = found["video_4_s_duration_of_a_stall"].by_walk
    assert len(durations[0]) == 0
    assert len(durations[1]) == found["video_4_s_stalls_in_a_session"].by_walk[1].sum() > 0


def test_equal_walks_meet_the_targets_and_slower_ones_do_not():
    random = np.random.default_rng(4)
    walks = [np.where(random.random(200) < 0.1, 0.0, random.gamma(1, 300, 200)) for _ in range(4)]
    for row in applications(walks, walks, walks):
        assert (row.deviation, row.distance, row.met) == (0, 0, True)
    download, _, stalled = applications([0.5 * each for each in walks], walks, walks)
    assert download.deviation > 0.5
    assert download.floor_deviation == 0
    assert download.met is False
    assert stalled.drawn > stalled.held_out


def test_a_figure_without_values_has_no_target():
    none, one = Measure("a", "a", "s", [np.empty(0)]), Measure("a", "a", "s", [np.ones(3)])
    row = compare(one, one, none)
    assert row.met is None
    assert math.isnan(row.held_out)
    assert applications([np.ones(60)], [np.ones(60)], []) == []
