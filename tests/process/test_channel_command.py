"""``wavebed channel`` as a user meets it, and what it draws, with a channel that is made up."""

from __future__ import annotations

import json
import queue
import re
import sys
import types
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import wavebed.channel
from wavebed.channel.plot_data import Album
from wavebed.channel.realisation import Realisation, to_pattern
from wavebed.channel.summary import Gathering, as_text
from wavebed.cli import main
from wavebed.pattern import read_trace
from wavebed.scene import load
from wavebed.scene.model import SceneInterval
from wavebed.terminal import StepProgress

if TYPE_CHECKING:
    from pathlib import Path

SCENE = "kau-e5g-1"
WARNING = "the distance is below 10 m, where the path loss does not hold"


def made_up(scene, *, mode="3gpp", seed=1, device=None) -> Realisation:
    """LOS, 2 s NLOS, 1 s outage, LOS again, in steps of 10 ms; the rate depends on the state and the seed."""
    scene = replace(scene, step_s=0.01)
    time_s = np.arange(round(scene.duration_s / 0.01)) * 0.01
    state = np.zeros(len(time_s), dtype=np.uint8)
    state[200:400] = 1
    state[400:500] = 3
    trajectory = scene.ue.trajectory
    sinr = np.choose(state, [30.0, 2.0, 0.0, -np.inf])
    rate = np.choose(state, [900, 100, 0, 0]).astype(np.int64) * 1_000_000 + seed * 1000 * (state == 0)
    end = scene.duration_s
    return Realisation(
        scene=scene,
        mode=mode,
        seed=seed,
        time_s=time_s,
        position_m=np.stack(
            [
                np.interp(time_s, trajectory.time_s, [place[axis] for place in trajectory.position_m])
                for axis in range(3)
            ],
            axis=1,
        ),
        serving=np.zeros(len(time_s), dtype=np.int16),
        los=state == 0,
        state=state,
        sinr_db=sinr,
        mcs=np.choose(state, [27, 3, 0, -1]).astype(np.int16),
        rate_bps=rate,
        bler=np.choose(state, [0.1, 0.2, 0.0, 1.0]),
        up_rate_bps=rate // 10,
        up_bler=np.choose(state, [0.05, 0.1, 0.0, 1.0]),
        losses_db={},
        intervals=(
            SceneInterval("LOS", 0.0, 2.0),
            SceneInterval("NLOS", 2.0, 4.0),
            SceneInterval("OUTAGE", 4.0, 5.0),
            SceneInterval("LOS", 5.0, end),
        ),
        warnings=(WARNING,),
    )


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("wavebed.cli.channel.PATIENCE_S", 60.0)
    monkeypatch.setattr(wavebed.channel, "realise", made_up, raising=False)
    monkeypatch.setattr(
        wavebed.channel,
        "ensemble",
        lambda scene, *, mode, seeds, device: (made_up(scene, mode=mode, seed=seed, device=device) for seed in seeds),
        raising=False,
    )
    monkeypatch.setattr(wavebed.channel, "to_pattern", to_pattern, raising=False)
    return tmp_path


def command(*arguments: str) -> int:
    return main(["channel", *arguments])


def test_help_is_as_recorded(folder, capsys, snapshot) -> None:
    with pytest.raises(SystemExit) as ended:
        command("--help")
    assert ended.value.code == 0
    text = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert re.sub(r"(-\w) [A-Z]+, --", r"\1, --", text) == snapshot  # Python 3.13 names the value once


def test_without_an_output_the_states_are_printed_as_a_table(folder, capsys) -> None:
    assert command(SCENE) == 0
    captured = capsys.readouterr()
    lines = [re.split(r" {2,}", line.strip()) for line in captured.out.splitlines()]
    assert lines[2] == ["state", "start", "end", "duration", "SINR", "capacity down", "up", "BLER"]
    assert lines[4] == ["NLOS", "2.000 s", "4.000 s", "2.000 s", "2.0 dB", "100 Mbit/s", "10 Mbit/s", "20.0 %"]
    assert lines[5] == ["OUTAGE", "4.000 s", "5.000 s", "1.000 s", "–", "0 bit/s", "0 bit/s", "–"]
    assert lines[7][0] == "all"
    assert captured.err == f"wavebed channel: warning: {WARNING}\n"


def test_json_is_one_object_with_the_states_and_a_summary(folder, capsys) -> None:
    assert command(SCENE, "--seed", "4", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert sorted(found) == ["states", "summary"]
    states = [(state["state"], state["start_s"], state["end_s"]) for state in found["states"]]
    assert states == [("LOS", 0.0, 2.0), ("NLOS", 2.0, 4.0), ("OUTAGE", 4.0, 5.0), ("LOS", 5.0, 40.0)]
    assert found["states"][1]["mean_rate_bps"] == pytest.approx(100e6)
    assert found["states"][2]["mean_sinr_db"] is None
    summary = found["summary"]
    assert summary["seeds"] == [4]
    assert summary["mean_rate_bps"] == pytest.approx((37 * 900.004e6 + 2 * 100e6) / 40)
    assert summary["mean_bler_share"] == pytest.approx((37 * 0.1 + 2 * 0.2) / 39)
    assert summary["radio_states_share"] == pytest.approx({"los": 0.925, "nlos": 0.05, "outage": 0.025})
    assert summary["warnings"] == [WARNING]


def test_patterns_of_both_directions_are_written_with_what_made_them(folder, capsys) -> None:
    assert command(SCENE, "-o", "down.csv", "--up-output", "up.csv", "--seed", "7") == 0
    assert capsys.readouterr().out == ""
    down, up = read_trace("down.csv"), read_trace("up.csv")
    header = dict(down.header)
    assert (header["seed"], header["mode"], header["direction"]) == ("7", "3gpp", "down")
    assert (header["warning-1"], dict(up.header)["direction"]) == (WARNING, "up")
    assert down.rate_bps.tolist() == [900_007_000, 100_000_000, 0, 900_007_000]
    assert up.rate_bps.tolist() == [90_000_700, 10_000_000, 0, 90_000_700]
    assert down.state.tolist() == [0, 1, 3, 0]


def test_an_ensemble_gives_one_file_for_each_seed_and_percentiles(folder, capsys) -> None:
    assert command(SCENE, "--seeds", "3", "-o", "walk.csv", "--json") == 0
    assert sorted(path.name for path in folder.iterdir()) == [f"walk.seed-{seed}.csv" for seed in (1, 2, 3)]
    assert dict(read_trace("walk.seed-3.csv").header)["seed"] == "3"
    summary = json.loads(capsys.readouterr().out)["summary"]
    assert summary["seeds"] == [1, 2, 3]
    assert summary["percentiles_rate_bps"]["p50"]["p50"] == 900_002_000
    assert summary["mean_sinr_db"] == pytest.approx((37 * 30 + 2 * 2) / 39)


def test_an_ensemble_in_a_folder_is_named_after_the_scene(folder) -> None:
    (folder / "out").mkdir()
    assert command(SCENE, "--seeds", "2", "-o", "out", "--up-output", "out") == 0
    names = sorted(path.name for path in (folder / "out").iterdir())
    assert names == [
        "kau-e5g-1.seed-1.csv", "kau-e5g-1.seed-2.csv", "kau-e5g-1.up.seed-1.csv", "kau-e5g-1.up.seed-2.csv",
    ]  # fmt: skip


def test_a_study_is_written_as_the_study_made_it(folder, monkeypatch) -> None:
    made = types.ModuleType("wavebed.channel.reference")
    made.study_pattern = lambda scene, seed: to_pattern(made_up(scene, mode="reference", seed=seed), "down").merged()
    monkeypatch.setitem(sys.modules, "wavebed.channel.reference", made)
    assert command(SCENE, "--mode", "reference", "--study", "-o", "s.csv", "--seed", "2") == 0
    header = dict(read_trace("s.csv").header)
    assert (header["mode"], header["seed"]) == ("reference", "2")
    assert "study" in header
    assert "radio" not in header


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-scene"], "no-such-scene: no such file, scene or condition: wavebed scenes lists the names"),
        (["missing.toml"], "missing.toml"),
        ([SCENE, "--mode", "4gpp"], "argument --mode: '4gpp' is not a choice: did you mean '3gpp'?"),
        ([SCENE, "--seed", "1", "--seeds", "2"], "--seeds: not allowed with argument --seed"),
        ([SCENE, "--seeds", "0"], "--seeds 0: must be from 1 to"),
        ([SCENE, "--seed", "-1"], "--seed -1: must be from 0 to"),
        ([SCENE, "--seed", "x"], "argument --seed: invalid int value: 'x'"),
        ([SCENE, "--plot", "a.gif"], "--plot a.gif: the name must end in .png, .svg or .html"),
        ([SCENE, "-o", "no/where.csv"], "-o no/where.csv: its folder does not exist"),
        ([SCENE, "--plot", "no/where.png"], "--plot no/where.png: its folder does not exist"),
        ([SCENE, "-o", "."], "-o .: is a folder"),
        ([SCENE, "--seeds", "2", "-o", "walks/"], "-o walks/: no such folder"),
        ([SCENE, "-o", "a.csv", "--up-output", "a.csv"], "two of them name one file"),
        ([SCENE, "--study", "-o", "a.csv"], "add --mode reference"),
        ([SCENE, "--study", "--mode", "reference"], "add -o FILE"),
        ([SCENE, "--study", "--mode", "reference", "-o", "a", "--up-output", "b"], "leave --up-output out"),
    ],
)
def test_a_wrong_argument_gives_one_line_and_status_2(arguments, message: str, folder, capsys) -> None:
    assert command(*arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("option", "name"), [("-o", "s.toml"), ("--up-output", "./s.toml"), ("--plot", "s.html")])
def test_the_scene_is_not_written_over(option: str, name: str, folder, capsys) -> None:
    scene = folder / name
    scene.write_text("title = 'mine'")
    assert command(str(scene), option, name) == 2
    assert f"{option} {name}: is the scene itself: write to another file" in capsys.readouterr().err
    assert scene.read_text() == "title = 'mine'"


def test_a_full_disk_leaves_the_old_file_and_nothing_else(folder, monkeypatch, capsys) -> None:
    (folder / "a.csv").write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fchmod", full)
    assert command(SCENE, "-o", "a.csv") == 2
    assert "no space left on device" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["a.csv"]
    assert (folder / "a.csv").read_text() == "old"


@pytest.mark.parametrize("kind", ["png", "svg", "html"])
def test_pictures_are_made_and_are_the_same_each_time(kind: str, folder) -> None:
    assert command(SCENE, "--plot", f"one.{kind}") == 0
    assert command(SCENE, "--plot", f"two.{kind}") == 0
    data = (folder / f"one.{kind}").read_bytes()
    assert data == (folder / f"two.{kind}").read_bytes()
    assert data.startswith({"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml", "html": b"<!doctype html>"}[kind])


def test_an_ensemble_is_drawn(folder) -> None:
    assert command(SCENE, "--seeds", "3", "--plot", "a.png") == 0
    assert (folder / "a.png").stat().st_size > 10_000


def test_the_page_is_whole_and_holds_values_warnings_and_the_walk(folder) -> None:
    assert command(SCENE, "--plot", "a.html") == 0
    page = (folder / "a.html").read_text()
    assert not re.search(r"\bsrc\s*=|https?://|@import|__[A-Z]+__", page)
    assert WARNING in page
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL).group(1))
    assert [panel["name"] for panel in data["panels"]] == ["SINR", "MCS", "capacity", "BLER"]
    assert data["panels"][2]["states"][1]["spans"] == [[4, 5]]
    walk = data["walk"]
    assert (walk["time"][0], len(set(walk["x"]))) == (0, 1)
    assert walk["y"][0] > walk["y"][-1]
    assert all(0 < place < 1 for place in (*walk["x"], *walk["y"]))


@pytest.mark.parametrize("scene", ["kau-e5g-2", "kau-e5g-4", "cas-mmwave-iron", "street-canyon-bus"])
def test_no_label_of_a_map_lies_on_another(scene: str, monkeypatch) -> None:
    from wavebed.channel import plot_map

    made = []

    class Watched(plot_map.Labels):
        def __init__(self, *arguments) -> None:
            super().__init__(*arguments)
            self.placed = []
            made.append(self)

        def _write(self, text, place, *arguments, **options) -> None:
            self.placed.append((text, place))
            super()._write(text, place, *arguments, **options)

    monkeypatch.setattr(plot_map, "Labels", Watched)
    from wavebed.channel.plot import render_picture

    album = Album()
    loaded = load(scene)
    album.add(made_up(loaded))
    render_picture(album.view())
    (labels,) = made
    places = [place for _, place in labels.placed]
    assert not any(a.meets(b) for number, a in enumerate(places) for b in places[:number])
    written = " ".join(text for text, _ in labels.placed)
    assert all(station.name in written for station in loaded.base_stations)
    assert all(obstacle.name in written for obstacle in loaded.obstacles)


def test_a_map_has_one_scale_for_both_axes() -> None:
    from wavebed.channel.plot import render_map

    album = Album()
    album.add(made_up(load("kau-e5g-2")))
    picture = render_map(album.view())
    width, height = (float(size) for size in re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', picture.svg).groups())
    per_metre_x = picture.box[2] * width / picture.region.width
    per_metre_y = picture.box[3] * height / picture.region.height
    assert per_metre_x == pytest.approx(per_metre_y, rel=1e-6)


def test_drawn_los_states_that_differ_by_seed_are_summed_up_by_kind() -> None:
    gathering = Gathering()
    scene = load(SCENE)
    for seed, end_s in ((1, 10.0), (2, 20.0)):
        made = made_up(scene, seed=seed)
        gathering.add(replace(made, intervals=(SceneInterval("LOS", 0.0, end_s), SceneInterval("NLOS", end_s, 40.0))))
    summary = gathering.summary()
    assert summary.states_differ
    assert [row.state for row in summary.rows] == ["LOS", "NLOS"]
    assert summary.rows[0].duration_s.median == 15.0
    assert "15.000 (10.500 to 19.500) s" in as_text("x", summary)


def test_means_are_those_of_exact_edges_not_of_whole_steps() -> None:
    made = made_up(load(SCENE))
    gathering = Gathering()
    gathering.add(replace(made, intervals=(SceneInterval("LOS", 0.0, 2.005), SceneInterval("NLOS", 2.005, 40.0))))
    row = gathering.summary().rows[0]
    assert row.rate_bps.median == pytest.approx((2.0 * 900.001e6 + 0.005 * 100e6) / 2.005)


def test_no_word_of_progress_for_work_that_is_soon_over(folder, capsys) -> None:
    assert command(SCENE, "--seeds", "2") == 0
    assert "left" not in capsys.readouterr().err


def test_long_work_says_how_long_it_will_still_take(folder, monkeypatch, capsys) -> None:
    say = StepProgress.say
    said: queue.SimpleQueue[str] = queue.SimpleQueue()

    def slow(scene, *, mode, seeds, device):
        for seed in seeds:
            while f"seed {seed} of 2" not in said.get(timeout=60):
                pass
            yield made_up(scene, mode=mode, seed=seed)

    def heard(progress, words, *left_s) -> None:
        say(progress, words, *left_s)
        said.put(words)

    monkeypatch.setattr("wavebed.cli.channel.PATIENCE_S", 0.0)
    monkeypatch.setattr(StepProgress, "is_due", lambda _: True)
    monkeypatch.setattr(StepProgress, "say", heard)
    monkeypatch.setattr(wavebed.channel, "ensemble", slow)
    assert command(SCENE, "--seeds", "2") == 0
    assert re.search(r"wavebed channel: seed 2 of 2 \(about \d+ s left\)", capsys.readouterr().err)
