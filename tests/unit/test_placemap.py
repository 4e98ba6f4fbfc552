"""The map of places: its file, the walks that are drawn from it, and where it is taken as a scene."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from wavebed.channel.placemap import (
    AGES,
    SIDES,
    TURNS,
    UNKNOWN,
    PlaceMap,
    contexts,
    decode_map,
    draw_walks,
    encode_map,
    level_of,
    load_map,
    next_chances,
    to_pattern,
)
from wavebed.channel.within import WITHIN_SHAPES, WithinSecond
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
        groups=np.array([0, 1]),
        stay=np.array([0.3, 0.3]),
        lean=None,
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


@pytest.fixture(scope="module")
def leaning(learned) -> PlaceMap:
    """The same street in version 2: rates lean to the level that a walk comes from or goes to, and parts of seconds."""
    lean = np.zeros((TURNS, TURNS, 2))
    lean[..., 1] = 0.5
    lean[0, :, 0], lean[2, :, 0] = 1.5, -1.5
    within = WithinSecond(*(np.full(shape, 0.2) for shape in WITHIN_SHAPES.values()))
    within.shape[:] = np.linspace(-2, 2, within.shape.shape[1])
    return replace(learned, stay=np.array([0.9, 0.2]), lean=lean, within=within, tilt_holds=False)


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


def test_a_map_of_version_2_is_read_as_it_was_written(leaning):
    text = encode_map(leaning)
    again = decode_map(text, "place.json")
    for field in set(PlaceMap.__slots__) - {"within"}:
        assert np.array_equal(getattr(again, field), getattr(leaning, field)), field
    for field in WithinSecond.__slots__:
        assert getattr(again.within, field) == pytest.approx(getattr(leaning.within, field), abs=1e-4)
    assert encode_map(again) == text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"wavebed-map": 1}, "groups: belongs to version 2 of the format: write 2 in wavebed-map, or remove it"),
        ({"stay": [0.5]}, "stay: is not an array of 2 numbers"),
        ({"stay": 0.5}, "stay: is not an array of 2 numbers"),
        ({"lean": None}, "lean: is not an array of 3 × 3 × 2 numbers"),
        ({"tilt_holds": None}, "tilt_holds: is missing: write true or false"),
        ({"groups": [0, 2]}, "groups: does not ascend from 0 by 0 or 1: number the groups so"),
        ({"within": {"spread": [], "shape": [], "stay": []}}, "within.spread: is not an array of 3 × 3 × 9 numbers"),
    ],
)
def test_a_wrong_map_of_version_2_is_refused(leaning, file, changes, message):
    file.write_bytes(encode_map(leaning))
    changed(file, **changes)
    with pytest.raises(UserError) as caught:
        load_map(file)
    assert str(caught.value).startswith(f"{file}: {message}")


def test_rates_lean_to_the_level_that_a_walk_comes_from(leaning):
    drawn = draw_walks(leaning, range(200))
    low = drawn < 50
    first = ~low[:, 1:] & low[:, :-1]
    later = ~low[:, 2:] & ~low[:, 1:-1] & ~low[:, :-2]
    # Scores of -1.5 and of 0 in the upper level: the rates at its quantiles 0.07 and 0.5.
    assert np.median(drawn[:, 1:][first]) < 125
    assert np.median(drawn[:, 2:][later]) == pytest.approx(200, rel=0.05)


def test_rates_keep_their_rank_by_level(leaning):
    drawn = draw_walks(replace(leaning, lean=np.stack([np.zeros((3, 3)), np.ones((3, 3))], axis=-1)), range(200))
    for low, expected in ((True, 0.9), (False, 0.2)):
        held = ((drawn[:, 1:] < 50) == low) & ((drawn[:, :-1] < 50) == low)
        logs = np.log(drawn)
        assert np.corrcoef(logs[:, :-1][held], logs[:, 1:][held])[0, 1] == pytest.approx(expected, abs=0.05)


def test_a_place_acts_on_staying_only_if_the_map_says_so(leaning):
    now = contexts(np.array([0, 1]), leaning.groups)
    tilts = np.array([[5.0, 1.0], [5.0, 1.0]])
    moves, all_of_them = (next_chances(replace(leaning, tilt_holds=holds), now, tilts) for holds in (False, True))
    # With two groups the only move keeps its probability.
    assert moves == pytest.approx(np.array([[0.9, 0.1], [0.1, 0.9]]))
    assert all_of_them == pytest.approx(np.array([[4.5, 0.1], [0.5, 0.9]]))


def test_levels_of_a_group_share_age_and_side():
    groups = np.array([0, 0, 1])
    found = contexts(np.array([0, 1, 0, 2, 2, 1]), groups)
    assert found.age.tolist() == [1, 2, 3, 1, 2, 1]
    assert found.side.tolist() == [0, 0, 0, 1, 1, 2]


def test_the_pattern_of_a_map_with_parts_keeps_the_mean_of_each_second(leaning):
    pattern = to_pattern(leaning, 5)
    assert len(pattern) == 10 * SECONDS
    means = np.rint(draw_walks(leaning, [5])[0] * 1e6).astype(np.int64)
    assert (pattern.rate_bps.reshape(-1, 10).sum(axis=1) == 10 * means).all()
    assert to_pattern(leaning, 5) == pattern
    assert len(to_pattern(replace(leaning, within=None), 5)) == SECONDS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"wavebed-map": 3}, "is of version 3; this wavebed reads version 2: install a newer wavebed"),
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
    found = contexts(level_of(np.array([1.0, 1, 5, 5, 5, 1, np.nan, 1, 1]), np.array([3.0])), np.array([0, 1]))
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
