"""Recordings of a rate under heavy load and of a delay under light load, as one pattern."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from wavebed.cli import main
from wavebed.fit.replay import GRID_NS, combine
from wavebed.pattern.files import read_trace
from wavebed.pattern.model import opportunities, steps

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
        (["heavy.txt", "light", "--report", "x.html"], "--report: is for map and physics: leave it out"),
    ],
)
def test_other_recordings_are_refused(folder, capsys, arguments, said):
    Path("both.csv").write_text(
        "# wavebed pattern 1\n# kind = steps\n# duration_s = 1\ntime_s,rate_bps,delay_s\n0,1,1\n"
    )
    assert fit(*arguments) == 2
    assert said in capsys.readouterr().err
