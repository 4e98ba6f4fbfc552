"""Low-orbit access: its file, what a seed draws, and what a fit learns from drives that were drawn."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING

import numpy as np
import pytest

import wavebed
from wavebed.channel.low_orbit import (
    STEP_NS,
    STEPS_PER_S,
    LowOrbit,
    draw_areas,
    draw_drives,
    draw_rates,
    low_orbit_of,
    low_orbit_text,
    reconfigurations_s,
    to_pattern,
)
from wavebed.cli import main
from wavebed.conditions.lookup import find, find_low_orbit, load_scene
from wavebed.errors import UserError
from wavebed.fit.judge import runs_below
from wavebed.fit.low_orbit import NETWORK, DriveTest, learn_access, phase_of, read_drives
from wavebed.pattern import read_trace
from wavebed.pattern.model import STATES

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.pattern import Pattern

TEXT = """title = "Two places"
anchor = "illustrative"
duration = "240s"

[low-orbit]
between-slots = "70%"
slot-memory = 0.3
second-memory = 0.5
up-loss = "1%"

[low-orbit.delay]
least = "30ms"
change = "10ms"
jitter = "1ms"

[[low-orbit.area]]
name = "open"
share = "60%"
lasts = "60s"
down = ["50mbit", "100mbit", "200mbit"]
up = ["5mbit", "25mbit"]

[[low-orbit.area]]
name = "town"
share = "40%"
lasts = "40s"
down = ["10mbit", "90mbit"]
up = ["2mbit", "10mbit"]
outage-lasting = ["1s", "2s", "10s"]
outage-every = ["5s", "20s", "60s"]
"""


def access(tmp_path: Path, text: str = TEXT) -> LowOrbit:
    return low_orbit_of(tomllib.loads(text), tmp_path / "sky.toml", "sky")


def column(pattern: Pattern, name: str):  # type: ignore[no-untyped-def]
    return np.repeat(getattr(pattern, name), pattern.lengths() // STEP_NS)


def test_service_stops_at_each_reconfiguration_and_nowhere_else(tmp_path: Path) -> None:
    quiet = TEXT.replace("outage-lasting", "# outage-lasting").replace("outage-every", "# outage-every")
    orbit = access(tmp_path, quiet)
    times_s = reconfigurations_s(orbit)
    assert times_s.tolist() == [12 + 15 * number for number in range(16)]
    for direction in ("down", "up"):
        rates = column(to_pattern(orbit, 5, direction), "rate_bps")  # type: ignore[arg-type]
        begins, durations = runs_below(rates.astype(np.float64), 1.0)
        assert begins.tolist() == (times_s * STEPS_PER_S).astype(int).tolist()
        assert durations.min() >= 5
        assert durations.max() <= 13
        # Over the recovery of 200 ms half of the rate is missing.
        for begin, lasts in zip(begins, durations, strict=True):
            after = rates[begin + lasts : begin + lasts + 20]
            assert (np.diff(after) > 0).all()
            assert after.mean() == pytest.approx(rates[begin + lasts + 20] / 2, rel=0.06)


def test_the_round_trip_changes_at_reconfigurations_only(tmp_path: Path) -> None:
    orbit = access(tmp_path, TEXT.replace('jitter = "1ms"', 'jitter = "0ms"'))
    down, up = (column(to_pattern(orbit, 2, direction), "delay_ns") for direction in ("down", "up"))  # type: ignore[arg-type]
    assert (down == up).all()
    changes = (np.flatnonzero(np.diff(down)) + 1) / STEPS_PER_S
    assert set(changes.tolist()) <= set(reconfigurations_s(orbit).tolist())
    assert len(changes) == 16
    assert down.min() >= 15_000_000
    many = np.concatenate(
        [column(to_pattern(orbit, seed, "down"), "delay_ns")[:: 15 * STEPS_PER_S] for seed in range(40)]
    )
    assert 2 * many.mean() / 1e6 == pytest.approx(30 + 10, abs=1)


def test_the_jitter_is_above_the_least_delay_and_as_wide_as_said(tmp_path: Path) -> None:
    orbit = access(tmp_path, TEXT.replace('change = "10ms"', 'change = "0ms"'))
    delay_ms = column(to_pattern(orbit, 2, "down"), "delay_ns") / 1e6
    assert delay_ms.min() >= 15
    assert delay_ms.mean() == pytest.approx(15 + 2, abs=0.05)
    assert delay_ms.std() == pytest.approx(0.957, abs=0.03)  # a normal distribution cut off at two deviations


def test_packets_are_lost_in_outages_and_partly_in_interruptions(tmp_path: Path) -> None:
    orbit = access(tmp_path)
    for direction, usual in (("down", 0.0), ("up", 0.01)):
        pattern = to_pattern(orbit, 9, direction)  # type: ignore[arg-type]
        loss, state, rate = (column(pattern, name) for name in ("loss", "state", "rate_bps"))
        names = np.array(STATES)[state]
        assert (names == "outage").any()
        assert set(loss[names == "outage"]) == {1.0}
        assert set(loss[names == "handover"]) == {0.6}
        assert set(loss[names == "los"]) == {usual}
        assert not rate[names != "los"].any()


def test_a_seed_repeats_and_another_differs(tmp_path: Path) -> None:
    orbit = access(tmp_path)
    assert to_pattern(orbit, 1, "down") == to_pattern(access(tmp_path), 1, "down")
    assert not to_pattern(orbit, 1, "down").same_series(to_pattern(orbit, 2, "down"))
    assert not to_pattern(orbit, 1, "down").same_series(to_pattern(orbit, 1, "up"))
    assert (draw_drives(orbit, [1, 2])[1] == draw_drives(orbit, [2])[0]).all()


def test_the_seconds_of_a_drive_are_those_of_its_pattern(tmp_path: Path) -> None:
    orbit = access(tmp_path)
    rates = column(to_pattern(orbit, 4, "down"), "rate_bps").reshape(-1, STEPS_PER_S).mean(axis=1)
    assert draw_drives(orbit, [4])[0] == pytest.approx(rates / 1e6, abs=1e-4)


def test_rates_shares_and_outages_are_those_of_the_file(tmp_path: Path) -> None:
    orbit = access(tmp_path)
    areas = np.concatenate([draw_areas(orbit, seed, orbit.seconds) for seed in range(300)])
    assert (areas == 0).mean() == pytest.approx(0.6, abs=0.03)
    rates = np.concatenate([draw_rates(orbit, seed, "down") for seed in range(300)]) / 1e6
    opened, town = rates[areas == 0], rates[(areas == 1) & (rates > 0)]
    # Quantiles at 0, 50 and 100 %: a mean of 112.5; and 50 between two.
    assert opened.mean() == pytest.approx(112.5, rel=0.03)
    assert np.median(opened) == pytest.approx(100, rel=0.05)
    assert town.mean() == pytest.approx(50, rel=0.04)
    # Outages of 3.75 s each 26.25 s, beside those that reach from the town into the open.
    out = (rates[areas == 1] == 0).mean()
    assert out == pytest.approx(3.75 / (3.75 + 26.25), abs=0.03)


def test_the_memory_is_of_slots_and_of_seconds(tmp_path: Path) -> None:
    orbit = access(tmp_path, TEXT.replace('down = ["10mbit", "90mbit"]', 'down = ["50mbit", "100mbit", "200mbit"]'))
    orbit = LowOrbit(orbit.name, "", "", 3000.0, orbit.table, orbit.areas[:1])
    rates = np.array([draw_rates(orbit, seed, "down") for seed in range(40)])
    rates -= rates.mean()
    phase = (np.arange(3000) - 12) % 15

    def correlation(lag: int, chosen) -> float:  # type: ignore[no-untyped-def]
        first = np.flatnonzero(chosen[:-lag])
        return float((rates[:, first] * rates[:, first + lag]).mean() / (rates**2).mean())

    assert correlation(1, phase < 14) == pytest.approx(0.7 + 0.3 * 0.5, abs=0.04)
    assert correlation(6, phase < 9) == pytest.approx(0.7, abs=0.04)
    assert correlation(1, phase == 14) == pytest.approx(0.7 * 0.3, abs=0.06)


def test_a_file_is_an_access_wherever_a_scene_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sky.toml"
    file.write_text(TEXT, encoding="utf-8")
    hop = wavebed.Path(scene=str(file)).model.hops[0]
    assert (hop.down.rate, hop.down.loss_at) == (hop.down.delay, "entry")
    assert wavebed.Path(scene=str(file), delay="9ms", loss="2%").model.hops[0].down.delay != hop.down.delay
    assert main(["channel", str(file), "--seed", "3", "-o", str(tmp_path / "down.csv")]) == 0
    found = find_low_orbit(str(file))
    assert found is not None
    written = read_trace(tmp_path / "down.csv")
    assert written.same_series(to_pattern(found, 3, "down"))
    capsys.readouterr()
    assert main(["channel", str(file), "--seeds", "2"]) == 0
    assert "all 2" in capsys.readouterr().out
    with pytest.raises(UserError, match="no radio scene"):
        load_scene("starlink-home")
    assert not [name for name in wavebed.Scene.names() if name.startswith("starlink")]


def test_packets_meet_loss_then_the_queue_then_the_delay_of_one_pattern() -> None:
    path = wavebed.Path.of(**find("starlink-home").options)
    hop = json.loads(json.dumps(path.laboratory()))["network"]["legs"][0]["hops"][0]
    for direction in ("down", "up"):
        stages = hop[direction]
        assert [each["stage"] for each in stages] == ["loss", "bottleneck", "delay"]
        files = {stages[0]["model"]["file"], stages[1]["rate"]["file"], stages[2]["delay"]["file"]}
        assert len(files) == 1


def test_the_text_of_an_access_is_read_as_the_same(tmp_path: Path) -> None:
    orbit = access(tmp_path)
    again = access(tmp_path, low_orbit_text(orbit, ["rates: nothing"]))
    assert (again.areas, again.duration_s) == (orbit.areas, orbit.duration_s)
    assert to_pattern(again, 1, "up").same_series(to_pattern(orbit, 1, "up"))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            'down = ["10mbit", "90mbit"]',
            'down = ["90mbit", "10mbit"]',
            "low-orbit.area[2].down: does not ascend: sort it",
        ),
        (
            'down = ["10mbit", "90mbit"]',
            'down = "90mbit"',
            "low-orbit.area[2].down: '90mbit' is not an array of 2 to 101",
        ),
        ('down = ["10mbit", "90mbit"]', "down = [1, 2]", "low-orbit.area[2].down[0]: 1 is not a rate"),
        ("outage-every", "# outage-every", "low-orbit.area[2].outage-lasting: outage-lasting and outage-every stand"),
        (
            "slot-memory = 0.3",
            "slot-memory = 1",
            "low-orbit.slot-memory: 1 is not a correlation: write a number from 0",
        ),
        ("slot-memory = 0.3", "", "low-orbit.slot-memory: is missing"),
        ('up-loss = "1%"', 'first = "20s"', "low-orbit.first: is not before the second reconfiguration"),
        (
            'up-loss = "1%"',
            'recovery = "10s"\ninterruption = ["1s", "8s"]',
            "low-orbit.interruption: is, with recovery",
        ),
        ('up-loss = "1%"', 'interruption = ["1s"]', "low-orbit.interruption: "),
        ('up-loss = "1%"', 'interruption = ["1s", "2s", "3s"]', "low-orbit.interruption: has more than two times"),
        ('share = "60%"', 'shares = "60%"', "low-orbit.area[1].shares: unknown key: did you mean 'share'?"),
        ('duration = "240s"', 'duration = "1s"', "duration: '1s' is out of range"),
    ],
)
def test_a_wrong_file_gets_one_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in TEXT
    with pytest.raises(UserError) as error:
        access(tmp_path, TEXT.replace(old, new, 1))
    assert f"sky.toml: {says}" in str(error.value)
    assert "\n" not in str(error.value)


def drives(tmp_path: Path, count: int = 6, seconds: int = 900) -> list[Path]:
    """Write tables of drives that were drawn; their clocks begin at second 0 of a minute."""
    orbit = access(tmp_path, TEXT.replace("240s", f"{seconds}s"))
    files = []
    for seed in range(1, count + 1):
        rates, areas = draw_drives(orbit, [seed])[0], draw_areas(orbit, seed, seconds)
        lines = [
            f"2023-04-0{seed} 10:{second // 60:02}:{second % 60:02},{rate:.3f},{orbit.areas[area].name}"
            for second, (rate, area) in enumerate(zip(rates, areas, strict=True))
        ]
        files.append(tmp_path / f"day-{seed}.csv")
        files[-1].write_text("\n".join(["time,throughput_mbps,area", *lines, ""]), encoding="utf-8")
    return files


def test_a_fit_finds_what_drives_were_drawn_from(tmp_path: Path) -> None:
    notes: list[str] = []
    tests = read_drives(drives(tmp_path), notes)
    found = learn_access(tests, "fit", "drawn")
    assert [each.name for each in found.areas] == ["open", "town"]
    opened, town = found.areas
    assert np.mean(opened.down) / 1e6 == pytest.approx(112.5, rel=0.08)
    assert max(town.outage_lasting) <= 10
    assert opened.share == pytest.approx(0.6, abs=0.12)
    assert found.table.between_slots == pytest.approx(0.7, abs=0.12)
    assert found.table.second_memory == pytest.approx(0.5, abs=0.2)
    phase = phase_of(tests, rotations=50)
    assert (phase.phase_s, phase.chance) == (12, 0.0)
    assert phase.missing_s == pytest.approx(0.09 + 0.1, abs=0.08)


def test_rates_without_slots_have_no_phase() -> None:
    chances = []
    for seed in range(5):
        rates = 100 + np.random.default_rng(seed).normal(0, 20, 900)
        chances.append(phase_of([DriveTest("walk", np.arange(900) % 60, rates, np.full(900, "all"))], 100).chance)
    assert np.median(chances) > 0.1


def test_the_end_of_a_test_without_a_rate_is_left_out_and_said(tmp_path: Path) -> None:
    lines = [f"2023-04-04 10:{second // 60:02}:{second % 60:02},{0 if second > 199 else 80}" for second in range(300)]
    file = tmp_path / "day.csv"
    file.write_text("\n".join(["time,throughput_mbps", *lines]), encoding="utf-8")
    notes: list[str] = []
    (test,) = read_drives([file], notes)
    assert (len(test.rates), test.rates.min()) == (200, 80)
    assert notes == ["day.csv: the last 100 s of a test have no rate, and may be no outage: left out"]
    (kept,) = read_drives([file], notes, keep_ends=True)
    assert (kept.rates < NETWORK.none_mbps).sum() == 100


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("time,speed\n10:00:00,4\n", "has no columns time and throughput_mbps: write them"),
        ("time,throughput_mbps\nnoon,4\n", "line 2: has no clock time"),
        ("time,throughput_mbps\n10:00:00,fast\n", "line 2: 'fast' is no rate: write Mbit/s"),
        ("time,throughput_mbps\n10:00:00,4\n", "has no test of 60 s without a gap"),
        ("", "has no columns time and throughput_mbps"),
    ],
)
def test_a_wrong_table_gets_one_line(tmp_path: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "day.csv"
    file.write_text(text, encoding="utf-8")
    assert main(["fit", str(file), "--as", "leo", "--held-out", "none"]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert f"{file}: {says}" in said


def test_the_fit_command_writes_an_access_and_judges_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(each) for each in drives(tmp_path, 4, 300)]
    assert main(["fit", *files, "--as", "leo", "--held-out", "every:4", "-o", str(tmp_path / "out.toml")]) == 0
    said = capsys.readouterr().out
    assert "KS of 1 s rates, all walks pooled" in said
    assert "between-slots" in said
    assert find_low_orbit(str(tmp_path / "out.toml")) is not None
    assert main(["fit", *files, "--as", "leo", "--held-out", "quarter:1"]) == 2
    assert "drives have no quarters" in capsys.readouterr().err
    assert main(["fit", *files, "--as", "leo", "-o", str(tmp_path / "out.json")]) == 2
    assert "must end in .toml" in capsys.readouterr().err
