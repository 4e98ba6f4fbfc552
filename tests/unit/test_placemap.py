"""The map of places: its file, the walks that are drawn from it, and where it is taken as a scene."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from wavebed.channel.placemap import (
    AGES,
    SIDES,
    UNKNOWN,
    PlaceMap,
    contexts,
    decode_map,
    draw_walks,
    encode_map,
    level_of,
    load_map,
    to_pattern,
)
from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.path.api import Path
from wavebed.pattern import read_trace

PLACES, STEP_S, SECONDS = 50, 2.0, 100


@pytest.fixture(scope="module")
def learned() -> PlaceMap:
    """Two levels, 1 to 9 and 100 to 500 Mbit/s: the low one only in the second half of the only course."""
    stay = np.array([[0.9, 0.1], [0.1, 0.9]])
    shares = np.where(np.arange(PLACES)[:, None] < PLACES // 2, [0.001, 0.999], [0.999, 0.001])
    return PlaceMap(
        name="place",
        title="a made-up street",
        source="no walk",
        duration_s=float(SECONDS),
        step_s=STEP_S,
        edges_mbps=np.array([50.0]),
        quantiles_mbps=np.array([[1.0, 2, 3, 5, 9], [100, 150, 200, 300, 500]]),
        stay=0.3,
        transitions=np.broadcast_to(stay[:, None, None], (2, len(AGES) + 1, SIDES, 2)).copy(),
        tilt=1.0,
        weights=np.array([1.0]),
        shares=shares[None],
        moves=np.array([[0.5, 0.5, 0], [0, 1.0, 0], [0, 1.0, 0]]),
    )


@pytest.fixture
def file(learned, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    file = tmp_path / "place.json"
    file.write_bytes(encode_map(learned))
    return file


def changed(file, **changes):
    content = json.loads(file.read_bytes())
    for key, value in changes.items():
        if value is None:
            del content[key]
        else:
            content[key] = value
    file.write_text(json.dumps(content))


def test_a_map_is_read_as_it_was_written(learned, file):
    again = load_map(file)
    assert again.name == "place"
    for field in PlaceMap.__slots__:
        assert np.array_equal(getattr(again, field), getattr(learned, field)), field
    assert encode_map(again) == file.read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"wavebed-map": 2}, "is of version 2; this wavebed reads version 1: install a newer wavebed"),
        ({"colour": "red"}, "map: object contains unknown field `colour`"),
        ({"tilt": None}, "map: object missing required field `tilt`"),
        ({"tilt": 1.5}, "tilt: expected `float` <= 1.0"),
        ({"tilt": "much"}, "tilt: expected `float`, got `str`"),
        ({"duration_s": 0}, "duration_s: expected `float` >= 1.0"),
        ({"stay": 1}, "stay: expected `float` < 1.0"),
        ({"title": "two\nlines"}, "title: is not on one line: write printable text"),
        ({"edges_mbps": [50, 60]}, "quantiles_mbps: is not an array of 3 × 5 numbers: name a map"),
        ({"quantiles_mbps": [[1, 2, 3, 5, 9]]}, "quantiles_mbps: is not an array of 2 × 5 numbers"),
        ({"quantiles_mbps": [[1, 2, 3, 9, 5], [1, 2, 3, 4, 5]]}, "quantiles_mbps: is not ascending: sort it"),
        ({"moves": [[1, 0, 0], [1, 0, 0], [0.5, 0, 0]]}, "moves: has probabilities whose sum is not 1"),
        ({"moves": [[1, 0, 0], [1, 0], [1, 0, 0]]}, "moves: is not an array of 3 × 3 numbers"),
        ({"transitions": [[[[1]]]]}, "transitions: is not an array of 2 × 6 × 3 × 2 numbers"),
        ({"courses": []}, "courses: expected `array` of length >= 1"),
        ({"courses": [{"weight": 1, "shares": [[0.5, 2]]}]}, "courses[0].shares[0][1]: expected `float` <= 1.0"),
        (
            {"courses": [{"weight": 1, "shares": [[0.5, 0.2]]}]},
            "courses[0].shares: has probabilities whose sum is not 1",
        ),
        (
            {"courses": [{"weight": 0.4, "shares": [[0.5, 0.5]]}]},
            "courses.weight: has probabilities whose sum is not 1",
        ),
        ({"courses": [{"weight": 1, "shares": [[1, 0]]}]}, "courses: level 1 is at no place"),
    ],
)
def test_a_wrong_map_is_refused_with_file_key_and_rule(file, changes, message):
    changed(file, **changes)
    with pytest.raises(UserError) as caught:
        load_map(file)
    assert str(caught.value).startswith(f"{file}: {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b"time_s,rate_bps\n", b'{"wavebed-map": NaN}', b"\xff"])
def test_other_files_are_no_maps(text):
    with pytest.raises(UserError, match=r"^place.json: .*name a map that wavebed fit wrote$"):
        decode_map(text, "place.json")


def test_a_seed_is_the_same_walk_alone_and_among_others(learned):
    together = draw_walks(learned, [7, 8, 9])
    assert np.array_equal(draw_walks(learned, [8])[0], together[1])
    assert not np.array_equal(together[0], together[1])


def test_walks_have_the_rates_of_the_places_that_they_pass(learned):
    drawn = draw_walks(learned, range(200))
    low = drawn < 50
    assert drawn.shape == (200, SECONDS)
    assert low[:, :40].mean() < 0.02
    assert low[:, 60:].mean() > 0.98
    assert drawn[low].min() >= 1
    assert drawn[low].max() <= 9
    assert np.median(drawn[low]) == pytest.approx(3, rel=0.03)
    assert np.median(drawn[~low]) == pytest.approx(200, rel=0.03)


def test_places_have_no_weight_without_a_tilt(learned):
    low = draw_walks(replace(learned, tilt=0.0), range(200)) < 50
    # All walks begin fast; the chain of levels, which leaves each of them once in ten seconds, forgets that.
    assert low[:, 0].mean() < 0.02
    assert low[:, 30:].mean() == pytest.approx(0.5, abs=0.05)
    changes = (low[:, 1:] != low[:, :-1]).mean()
    assert changes == pytest.approx(0.1, abs=0.01)


def test_the_age_and_the_side_of_a_level_are_those_of_its_run():
    found = contexts(level_of(np.array([1.0, 1, 5, 5, 5, 1, np.nan, 1, 1]), np.array([3.0])))
    assert found.level.tolist() == [0, 0, 1, 1, 1, 0, UNKNOWN, 0, 0]
    assert found.age.tolist() == [1, 2, 1, 2, 3, 1, 1, 1, 2]
    assert found.side.tolist() == [0, 0, 1, 1, 1, 2, 2, 0, 0]


def test_the_pattern_of_a_seed_has_one_row_a_second(learned):
    pattern = to_pattern(learned, 5)
    assert pattern.duration_ns == SECONDS * 10**9
    assert pattern.rate_bps.tolist() == np.rint(draw_walks(learned, [5])[0] * 1e6).tolist()
    assert dict(pattern.header) == {
        "title": "a made-up street",
        "source": "map place: no walk",
        "seed": "5",
        "direction": "down",
    }


def test_channel_writes_the_pattern_of_a_map(learned, file):
    assert main(["channel", "place.json", "--seed", "5", "-o", "walk.csv"]) == 0
    assert read_trace("walk.csv") == to_pattern(learned, 5)
    assert main(["channel", "place.json", "--seeds", "2", "-o", "many.csv"]) == 0
    assert read_trace("many.seed-2.csv") == to_pattern(learned, 2)


def test_channel_prints_and_draws_a_map(file, capsys):
    assert main(["channel", "place.json", "--seeds", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "a made-up street; no walk"
    assert [line.split()[0] for line in lines[3:]] == ["seed", "seed", "seed", "all"]
    assert main(["channel", "place.json", "--seeds", "3", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["states"] == []
    assert printed["summary"]["map"] == "place"
    assert printed["summary"]["seeds"] == [1, 2, 3]
    assert 1e6 < printed["summary"]["percentiles_rate_bps"]["p50"] < 500e6
    assert main(["channel", "place.json", "--plot", "walk.svg"]) == 0
    assert b"<svg" in file.with_name("walk.svg").read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mode", "reference"], "--mode reference: a map reproduces no study: leave --mode out"),
        (["--up-output", "up.csv"], "--up-output: the walks of a map have a downlink only: leave it out"),
        (["--plot", "walk.svg", "--seeds", "11"], "--plot: draws at most 10 walks of a map: write a lower --seeds"),
    ],
)
def test_options_of_scenes_alone_are_refused_for_a_map(file, capsys, options, message):
    assert main(["channel", "place.json", *options]) == 2
    assert capsys.readouterr().err == f"wavebed: {message}\n"


@pytest.fixture
def scenario(file, tmp_path):
    def read(text: str) -> dict:
        scenario = tmp_path / "scenario.toml"
        scenario.write_text(f'[path]\nscene = "place.json"\n{text}')
        return Path.load(scenario).laboratory()["network"]["legs"][0]["hops"][0]

    return read


def test_a_map_may_have_a_radio(scenario):
    hop = scenario('up-rate = "20mbit"\nradio = "nr-120khz"\n')
    assert hop["down"][0]["stage"] == hop["up"][0]["stage"] == "radio"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('mode = "3gpp"\n', "path.mode: a map has no modes: remove it"),
        ('rate = "1mbit"\n', "path.rate: a scene gives both links their rate: remove one of them"),
    ],
)
def test_keys_of_scenes_alone_are_refused_beside_a_map(scenario, text, message):
    with pytest.raises(UserError, match=message):
        scenario(text)


def test_a_wrong_map_is_refused_at_the_key_of_the_scenario(file, scenario):
    changed(file, tilt=2)
    with pytest.raises(UserError, match=r"path\.scene: .*place\.json: tilt: expected `float` <= 1\.0"):
        scenario("")
