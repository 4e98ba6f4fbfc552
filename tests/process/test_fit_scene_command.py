"""``wavebed fit --as physics`` as a user meets it, on made-up walks and with little work."""

from __future__ import annotations

import json

import pytest
from tests.made_up_walks import write_walks

from wavebed.cli import main
from wavebed.fit.physics import FitSettings
from wavebed.scene import load

STREET = """
title = "A street"
anchor = "illustrative"
duration = "80s"
step = "100ms"
propagation = "umi"
cell-load = { mean = "60%", time-constant = "8s" }
fitted = ["cell-load.mean (60%): a guess"]
[carrier]
technology = "nr"
frequency = "28ghz"
bandwidth = "400mhz"
[[base-station]]
name = "mast"
at = [100, 30, 10]
power = "40dbm"
[ue]
start = [0, 0, 1.5]
trajectory = [{ go-to = [100, 0], until = "80s" }]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    walks = tmp_path / "walks"
    walks.mkdir()
    write_walks(walks, 4)
    (tmp_path / "street.toml").write_text(STREET)
    brief = FitSettings(seeds=1, first=1, rounds=1, descents=1, resamples=5)
    monkeypatch.setattr("wavebed.fit.judgement.FitSettings", lambda: brief)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def fit(*arguments: str) -> int:
    return main(["fit", "walks", "--as", "physics", *arguments])


def test_a_scene_is_fitted_judged_and_written(folder, capsys):
    assert fit("--scene", "street.toml", "-o", "out.toml", "--report", "out.html") == 0
    text = capsys.readouterr().out
    assert text.startswith("3 walks fitted, 1 held out (rule every:4); mmWave; 12 walks drawn\n")
    assert "value of the scene" in text
    (line,) = load("out.toml").fitted
    assert line.startswith("cell-load.mean (")
    assert line.endswith("3 walks, held out by rule every:4")
    page = (folder / "out.html").read_text()
    assert "Values of the scene" in page
    assert "cell-load.mean" in page


def test_the_values_are_in_the_json(folder, capsys):
    assert fit("--scene", "street.toml", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["key"] for each in found["values"]] == ["cell-load.mean"]
    assert found["predictions"] == []
    assert all(0 <= each["held_out"] <= 1 for each in found["distances"])


def test_held_out_walks_have_no_effect_on_the_scene(folder):
    assert fit("--scene", "street.toml", "-o", "first.toml") == 0
    held_out = folder / "walks" / "4_walking.txt"
    lines = held_out.read_text().splitlines()
    held_out.write_text("".join(f"{line.split()[0]}\t4321.0\n" for line in lines))
    assert fit("--scene", "street.toml", "-o", "other.toml") == 0
    assert (folder / "first.toml").read_bytes() == (folder / "other.toml").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--scene", "nowhere"), "nowhere: no such file or scene: write a file, or one of "),
        (("-o", "out.json"), "-o out.json: the name of a scene must end in .toml"),
    ],
)
def test_a_wrong_argument_is_said_in_one_line(folder, capsys, arguments, said):
    assert fit(*arguments) == 2
    error = capsys.readouterr().err
    assert error.splitlines()[-1].startswith(f"wavebed: {said}") or said in error


def test_a_scene_is_for_physics_only(folder, capsys):
    assert main(["fit", "walks", "--scene", "street.toml"]) == 2
    assert "--scene: is for physics: add --as physics" in capsys.readouterr().err
