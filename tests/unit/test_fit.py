"""Fits: judge, laps, applications, replays, and what is learned of walks."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ks_2samp
from tests.made_up_walks import SECONDS, profile, walk, write_walks

from wavebed.channel.placemap import draw_walks, encode_map
from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.fit import judge
from wavebed.fit.applications import (
    EVERY_S,
    GRID_NS,
    SHORT_BUFFER,
    USUAL_BUFFER,
    Measure,
    Sessions,
    VideoOnWalk,
    Volumes,
    applications,
    combine,
    compare,
    download_s,
    videos,
    watch,
)
from wavebed.fit.laps import Lap, align, find_files, forecast, places_of_seconds, read_laps, split
from wavebed.fit.learn import Learned, learn, predictions
from wavebed.pattern.formats import read_trace
from wavebed.pattern.model import opportunities, steps

DIPS = np.array([500.0, 50, 50, 200, 450, 50, 300, 50, 600.0])
"""Three times below 100: 2 s, 1 s and 1 s; the first and the last recover to 400, after 1 s and at once."""


def test_the_distance_of_distributions_is_that_of_kolmogorov_and_smirnov():
    rng = np.random.default_rng(1)
    first, other = rng.normal(0, 1, 500), np.round(rng.normal(0.3, 2, 300), 1)
    assert judge.ks_distance(first, other) == pytest.approx(ks_2samp(first, other).statistic)
    assert judge.ks_distance(first, first) == 0
    assert math.isnan(judge.ks_distance(first, np.empty(0)))


def test_dips_are_the_times_below_a_threshold():
    assert judge.dips(DIPS, 100).tolist() == [2, 1, 1]
    assert judge.longest_dip_s(DIPS, 100) == 2
    assert judge.per_10_min(DIPS, 100) == 200
    assert judge.share_below(DIPS, 100) == pytest.approx(4 / 9)
    assert judge.longest_dip_s(DIPS, 1) == 0


def test_a_recovery_ends_where_the_rate_falls_again():
    times, ends = judge.recoveries(DIPS, 100, 400)
    assert times.tolist() == [1, 0]
    assert ends == 3


def test_a_dip_that_does_not_end_is_no_recovery():
    times, ends = judge.recoveries(np.array([500.0, 50, 50]), 100, 400)
    assert (len(times), ends) == (0, 0)


def test_the_autocorrelation_of_a_known_process():
    rng = np.random.default_rng(2)
    values = rng.normal(0, 1, 50_000)
    for place in range(1, len(values)):
        values[place] += 0.9 * values[place - 1]
    assert judge.autocorrelation(values, 1) == pytest.approx(0.9, abs=0.01)
    assert judge.autocorrelation(values, 5) == pytest.approx(0.9**5, abs=0.03)


def test_the_spectrum_of_noise_is_flat_and_that_of_a_random_walk_falls_by_two():
    rng = np.random.default_rng(3)
    noise = rng.normal(0, 1, 20_000)
    assert judge.spectrum_slope(noise) == pytest.approx(0, abs=0.05)
    # Up to 0.1 Hz the slope of a sampled random walk is 2; near half the sampling frequency it is flatter.
    assert -2 < judge.spectrum_slope(np.cumsum(noise)) < -1.6


def test_the_score_of_samples_is_its_definition():
    rng = np.random.default_rng(4)
    samples, measured = rng.gamma(2, 100, (3, 40)), np.array([50.0, 200.0, 900.0])
    for row, value, score in zip(samples, measured, judge.crps(samples, measured), strict=True):
        error = np.abs(row - value).mean()
        spread = np.abs(row[:, None] - row).mean() / 2
        assert score == pytest.approx(error - spread)


def test_minutes_are_whole():
    assert judge.minute_means(np.arange(130.0)).tolist() == [29.5, 89.5]


def laps(numbers) -> list[Lap]:
    return [Lap(f"{number}.txt", walk(number, back=number % 2 == 0)) for number in numbers]


@pytest.fixture(scope="module")
def learned() -> Learned:
    return learn(laps(range(1, 11)), "loop", "a loop", "made-up walks")


def test_the_two_directions_of_a_loop_are_two_courses(learned):
    assert learned.places.weights.tolist() == [0.5, 0.5]
    unseen = laps([21, 22, 23, 24])
    found = [each.course for each in align(learned.courses, unseen)]
    assert found[0] == found[2] != found[1] == found[3]


def test_a_place_has_the_rates_that_walks_have_there(learned):
    (alignment,) = align(learned.courses, laps([21]))
    shares = learned.places.shares[alignment.course][places_of_seconds(alignment, SECONDS)]
    mean = shares @ learned.places.quantiles_mbps.mean(axis=1)
    # The edges of stretches are blurred by the window of the counts.
    inner = np.abs(np.subtract.outer(np.arange(SECONDS), [0, 40, 70, 90, 130, SECONDS])).min(axis=1) >= 8
    assert np.corrcoef(mean[inner], profile()[inner])[0, 1] > 0.9


def test_a_slower_walk_passes_the_same_places(learned):
    second = np.arange(SECONDS)
    slow = Lap("slow.txt", walk(21, back=False)[np.where(second < 100, second * 9 // 10, second - 10)])
    (alignment,) = align(learned.courses, [slow])
    (usual,) = align(learned.courses, laps([21]))
    assert alignment.course == usual.course
    places = places_of_seconds(alignment, SECONDS)
    expected = places_of_seconds(usual, SECONDS)
    # Ten seconds late where the fast stretch after the outage begins and ends.
    assert abs(int(places[100]) - int(expected[90])) <= 2


def test_drawn_walks_have_the_rates_of_measured_ones(learned):
    drawn = draw_walks(learned.places, range(1, 101))
    measured = np.concatenate([lap.rates for lap in laps(range(31, 41))])
    assert judge.ks_distance(drawn.ravel(), measured) < 0.08
    assert judge.share_below(drawn.ravel(), 100) == pytest.approx(judge.share_below(measured, 100), abs=0.06)


def with_silences(number: int) -> Lap:
    """Return a walk with three more silences of 1 to 8 s, anywhere."""
    rng = np.random.default_rng(number)
    rates = walk(number, back=number % 2 == 0)
    for _ in range(3):
        start = rng.integers(0, SECONDS - 10)
        rates[start : start + rng.integers(1, 9)] = 0.3
    return Lap(f"{number}.txt", rates)


def test_drawn_walks_stall_and_fall_silent_for_as_long_as_measured_ones():
    measured = [with_silences(number) for number in range(1, 25)]
    rates = [lap.rates for lap in measured]
    places = learn(measured, "loop", "a loop", "made-up walks").places
    drawn = list(draw_walks(places, range(1, 301)))
    stalled = [videos(walks, SHORT_BUFFER)[1].middle for walks in (drawn, rates)]
    assert stalled[0] == pytest.approx(stalled[1], rel=0.1)
    lengths = [np.concatenate([judge.dips(each, 1.0) for each in walks]).mean() for walks in (drawn, rates)]
    assert lengths[0] == pytest.approx(lengths[1], rel=0.1)


def test_walks_of_one_rate_can_be_learned():
    places = learn([Lap(f"{number}", np.full(100, 50.0)) for number in range(4)], "flat", "t", "s").places
    assert draw_walks(places, [1, 2]) == pytest.approx(50.0)


def test_one_walk_is_too_few():
    with pytest.raises(UserError, match=r"^1 walk to learn from: name at least 2 beside those held out$"):
        learn(laps([1]), "one", "t", "s")


def test_hidden_seconds_teach_nothing(tmp_path):
    texts = []
    for name, value in (("first", 7777.0), ("other", 8888.0)):
        folder = tmp_path / name
        folder.mkdir()
        for file in write_walks(folder, 6):
            lines = file.read_text().splitlines()
            lines[80:120] = [f"{second + 1:.1f}\t{value}" for second in range(80, 120)]
            file.write_text("\n".join(lines) + "\n")
        found = split(find_files([folder]), "quarter:3")
        assert found.held_out_laps([])[0].known.tolist() == [value] * 40
        texts.append(encode_map(learn(found.fitted_laps([]), "x", "t", "s").places))
    assert texts[0] == texts[1]


def test_a_forecast_uses_no_second_after_its_own(learned):
    lap = laps([21])[0]
    later = replace(lap, rates=np.where(np.arange(SECONDS) < 100, lap.rates, 3.0))
    first, other = (forecast(learned.places, [each], 10, np.random.default_rng(1))[0] for each in (lap, later))
    assert np.array_equal(first[:110], other[:110])
    assert not np.array_equal(first[110:], other[110:])


def test_the_forecast_of_a_walk_does_not_depend_on_its_length(learned):
    long = laps([21])[0]
    short = replace(long, rates=long.rates[:90])
    found = forecast(learned.places, [short, long], 10, np.random.default_rng(1))
    assert [len(each) for each in found] == [90, SECONDS]
    assert np.isfinite(found[0]).all()


def test_who_knows_more_predicts_better(learned):
    pool = np.concatenate([lap.rates for lap in laps(range(1, 11))])
    found = {each.key: each for each in predictions(learned, pool, laps([21, 22, 23, 24]))}
    assert found["pooling"].gain == 0
    assert np.isnan(found["pooling"].correlation)
    assert found["forecast"].gain > 0.4
    assert found["aligned"].gain > 0.4
    assert found["aligned"].gain > found["surrogate"].gain + 0.2
    assert found["forecast"].mae_mbps < found["persistence"].mae_mbps < found["pooling"].mae_mbps


FILES = [Path(f"{number}.txt") for number in range(1, 11)]


def names(files) -> list[str]:
    return [file.stem for file in files]


def test_files_are_in_the_natural_order_of_their_names(tmp_path):
    files = write_walks(tmp_path, 12)
    assert [file.name for file in find_files([tmp_path])] == [f"{number}_walking.txt" for number in range(1, 13)]
    assert find_files([*reversed(files), tmp_path]) == files


def test_hidden_files_and_folders_are_no_walks(tmp_path):
    (file,) = write_walks(tmp_path, 1)
    (tmp_path / ".hidden").write_text("1 2\n")
    (tmp_path / "more").mkdir()
    assert find_files([tmp_path]) == [file]


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"has no files: name a folder of traces$"):
        find_files([tmp_path])


@pytest.mark.parametrize(
    ("rule", "held_out"),
    [
        ("every:4", ["4", "8"]),
        ("every:10", ["10"]),
        ("last:0.25", ["8", "9", "10"]),
        ("last:.1", ["10"]),
        ("none", []),
    ],
)
def test_a_rule_holds_walks_out_by_their_names_alone(rule, held_out):
    found = split(FILES, rule)
    assert names(found.held_out) == held_out
    assert names(found.fitted) == [name for name in names(FILES) if name not in held_out]


@pytest.mark.parametrize(
    "rule", ["every:0", "every", "every:x", "last:1.5", "last:2", "quarter:5", "quarter:0", "some"]
)
def test_an_unknown_rule_names_the_rules(rule):
    with pytest.raises(
        UserError, match=r"is no rule: write every:N, last:F\S+, quarter:N, files:PATH or none, as every:4"
    ):
        split(FILES, rule)


@pytest.mark.parametrize(
    ("rule", "what"), [("every:11", "no walk"), ("last:0.01", "no walk"), ("every:1", "all walks")]
)
def test_a_rule_must_leave_walks_on_both_sides(rule, what):
    with pytest.raises(UserError, match=f"--held-out {rule}: holds out {what} of 10"):
        split(FILES, rule)


def test_walks_are_judged_by_other_files(tmp_path):
    files = write_walks(tmp_path, 4)
    (tmp_path / "kept").mkdir()
    kept = write_walks(tmp_path / "kept", 2)
    found = split(files, f"files:{tmp_path / 'kept'}")
    assert (found.fitted, found.held_out) == (tuple(files), tuple(kept))
    named_twice = split(files, f"files:{tmp_path / '.' / files[1].name}")
    assert names(named_twice.fitted) == names([files[0], *files[2:]])


def test_other_files_must_exist_and_leave_walks(tmp_path):
    files = write_walks(tmp_path, 2)
    with pytest.raises(UserError, match=r"^--held-out files:\S+/none: \S+/none: no such file or directory"):
        split(files, f"files:{tmp_path / 'none'}")
    with pytest.raises(UserError, match=r"holds out all walks: name other walks to learn from$"):
        split(files, f"files:{tmp_path}")


@pytest.mark.parametrize("quarter", [1, 2, 3, 4])
def test_a_quarter_is_seen_by_one_side_only(tmp_path, quarter):
    found = split(write_walks(tmp_path, 2), f"quarter:{quarter}")
    fitted, held_out = found.fitted_laps([]), found.held_out_laps([])
    for seen, hidden in zip(fitted, held_out, strict=True):
        assert (np.isnan(seen.rates) != np.isnan(hidden.rates)).all()
        assert np.flatnonzero(~np.isnan(hidden.rates)).tolist() == list(
            range((quarter - 1) * SECONDS // 4, quarter * SECONDS // 4)
        )
        assert len(seen.parts) == (1 if quarter in (1, 4) else 2)
        assert sum(len(part) for part in seen.parts) == len(seen.known) == SECONDS * 3 // 4


def test_unusable_files_are_left_out_with_a_line_each(tmp_path):
    files = write_walks(tmp_path, 2)
    short, text = tmp_path / "3.txt", tmp_path / "4.txt"
    short.write_text("1.0\t5.0\n2.0\t6.0\n")
    text.write_text("this is no trace\n")
    notes: list[str] = []
    assert [lap.name for lap in read_laps([*files, short, text], notes)] == ["1_walking.txt", "2_walking.txt"]
    assert notes[0] == f"{short}: lasts 2 s: name walks of 60 to 100000 s: left out"
    assert notes[1].startswith(f"{text}: ")
    assert len(notes) == 2


def test_the_first_line_is_an_error_where_no_file_is_usable(tmp_path):
    file = tmp_path / "1.csv"
    file.write_text("# wavebed pattern 1\n# kind = steps\n# duration_s = 100\ntime_s,delay_s\n0,0.01\n")
    with pytest.raises(UserError, match=r"has no rate over time: name traces of rates$"):
        read_laps([file], [])


def test_a_second_is_the_mean_of_what_the_trace_has_in_it(tmp_path):
    file = tmp_path / "1.csv"
    rows = "".join(f"{second},1000000\n{second}.5,3000000\n" for second in range(60))
    file.write_text(f"# wavebed pattern 1\n# kind = steps\n# duration_s = 60.5\ntime_s,rate_bps\n{rows}60,7000000\n")
    (lap,) = read_laps([file], [])
    assert lap.rates.tolist() == [2.0] * 60


STUDY = VideoOnWalk(buffer_s=6.0, top_buffer_s=6.0, segment_s=4.0, duration_s=24.0, ladder="study")


def watched(rates: np.ndarray, start_s: float, video: VideoOnWalk) -> Sessions:
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


S = 10**9


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("heavy.txt").write_text(
        "".join(f"{second + 1:.1f}\t{rate}\n" for second, rate in enumerate([10.0, 0.0, 40.0]))
    )
    # Each line has the base delay, and the light opportunities after it: 30 ms, then 50, then 40.
    Path("light").write_text("0 30 0 1 2\n1000 50 0 2 4\n2000 40 0 1 1\n4000 40 0 1 1\n")
    return tmp_path


def fit(*arguments: str) -> int:
    return main(["fit", *arguments, "--as", "replay"])


def test_the_rate_is_that_of_one_and_the_delay_that_of_the_other(folder):
    assert fit("heavy.txt", "light", "-o", "both.csv") == 0
    both = read_trace("both.csv")
    assert both.period == 3 * S
    at = {time: row for row, time in enumerate(both.index.tolist())}
    assert [both.rate_bps[at[second * S]] for second in range(3)] == [10_000_000, 0, 40_000_000]
    # Between its samples the delay is interpolated, as CellReplay does.
    assert [both.delay_ns[at[time]] / 1e6 for time in (0, S // 2, S, 3 * S // 2, 2 * S)] == [30, 40, 50, 45, 40]
    assert np.diff(both.index).max() == GRID_NS


def test_the_order_of_the_recordings_has_no_effect(folder):
    assert fit("heavy.txt", "light", "-o", "one.csv") == fit("light", "heavy.txt", "-o", "other.csv") == 0
    assert Path("one.csv").read_bytes() == Path("other.csv").read_bytes()


def test_opportunities_are_averaged_and_keep_their_bytes(folder):
    random = np.random.default_rng(1)
    times = np.sort(random.integers(0, 2 * S, 500))
    heavy = opportunities(times, 2 * S, np.full(500, 1500))
    both = combine(heavy, steps(np.array([0, S]), 5 * S, delay_ns=np.array([10**7, 10**7])))
    assert both.period == 2 * S
    lengths = np.diff([*both.index, both.period])
    assert (both.rate_bps * lengths).sum() / 8 / S == pytest.approx(500 * 1500)
    assert set(both.delay_ns.tolist()) == {10**7}


def test_the_light_rate_of_the_light_recording_is_kept_and_its_rate_is_not(folder):
    Path("light.csv").write_text(
        "# wavebed pattern 1\n# kind = steps\n# duration_s = 4\n# light_bytes = 15000\n# light_idle_s = 0.1\n"
        "time_s,rate_bps,delay_s,light_rate_bps\n0,7,0.03,20000000\n1.505,7,0.03,0\n2,7,0.03,5000000\n"
    )
    assert fit("heavy.txt", "light.csv", "-o", "both.csv") == 0
    both = read_trace("both.csv")
    assert (both.light_bytes, both.light_idle_ns) == (15_000, S // 10)
    assert set(both.rate_bps.tolist()) == {10_000_000, 0, 40_000_000}
    assert set(both.delay_ns.tolist()) == {30_000_000}
    light = {20_000_000: [0, 1505], 0: [1505, 2000], 5_000_000: [2000, 3000]}
    for rate, (start_ms, end_ms) in light.items():
        within = (both.index >= start_ms * 10**6) & (both.index < end_ms * 10**6)
        assert set(both.light_rate_bps[within].tolist()) == {rate}
    assert both.index.tolist().count(1_505_000_000) == 1
    assert read_trace("both.csv").same_series(combine(read_trace("heavy.txt"), read_trace("light.csv")))


def test_the_figures_of_both_are_printed(folder, capsys):
    assert fit("heavy.txt", "light") == 0
    text = capsys.readouterr().out
    assert text.startswith("3 s\n")
    assert "rate under heavy load, Mbit/s" in text
    assert "The least delay, 30 ms, is 25 % below the median." in text
    assert fit("heavy.txt", "light", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["delay_ms"]["p50"] == pytest.approx(40, abs=0.5)
    assert found["rate_mbps"] == {"p10": 0, "p50": 10, "p90": 40}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["heavy.txt"], "found recordings: 1 of a rate and 0 of a delay: name one of a rate and one of a delay"),
        (["light", "light"], "found recordings: 0 of a rate and 2 of a delay"),
        (["heavy.txt", "both.csv"], "both.csv: is no recording of either a rate or a delay over time"),
        (["heavy.txt", "light", "-o", "x.json"], "-o x.json: the name of a pattern must end in .csv"),
        (["heavy.txt", "light", "--report", "x.html"], "--report: is for map, physics and leo: leave it out"),
    ],
)
def test_other_recordings_are_refused(folder, capsys, arguments, said):
    Path("both.csv").write_text(
        "# wavebed pattern 1\n# kind = steps\n# duration_s = 1\ntime_s,rate_bps,delay_s\n0,1,1\n"
    )
    assert fit(*arguments) == 2
    assert said in capsys.readouterr().err
