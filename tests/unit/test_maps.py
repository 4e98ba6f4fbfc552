"""Maps of places for displays: what is drawn, and what a path tells of its scene."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import convert

from wavebed.channel.placemap import AGES, SIDES, TURNS, PlaceMap, decode_map, draw_walks, encode_map
from wavebed.cli import main
from wavebed.path.api import Path
from wavebed.path.model import SceneMap, scene_maps


def test_a_path_behind_a_scene_has_its_map() -> None:
    (made,) = scene_maps(Path.of(scene="street-canyon-bus", start_at="4s").model)
    scene = convert(made, SceneMap)
    assert (scene.hop, scene.duration_s, scene.start_s, scene.end, scene.replaced) == (
        "radio",
        30.0,
        4.0,
        "repeat",
        False,
    )
    assert [station.name for station in scene.stations] == ["mast"]
    assert (scene.ue.x_m[0], scene.ue.y_m[0], scene.ue.time_s[0]) == (50.0, 18.0, 0.0)
    shapes = {obstacle.name: obstacle for obstacle in scene.obstacles}
    assert shapes["shops"].outline_m == [(0.0, -15.0), (120.0, -15.0), (120.0, 0.0), (0.0, 0.0)]
    assert shapes["shops"].movement is None
    bus = shapes["bus"]
    assert len(bus.outline_m) == 2
    assert bus.movement is not None
    assert (bus.movement.x_m[0], bus.movement.x_m[-1]) == (0.0, -140.0)


@pytest.mark.parametrize("options", [{"rate": "1mbit"}, {"trace": "scenarios/patterns/kau-e5g-1.csv"}])
def test_a_path_without_a_scene_has_no_map(options: dict[str, object]) -> None:
    assert scene_maps(Path.of(**options).model) == []


def test_the_laboratory_file_has_maps_only_where_there_is_a_scene(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shell", "--scene", "street-canyon-bus", "--print-laboratory", "--", "true"]) == 0
    (made,) = json.loads(capsys.readouterr().out)["maps"]
    assert made["title"].startswith("A street canyon")
    assert main(["shell", "--rate", "1mbit", "--print-laboratory", "--", "true"]) == 0
    assert "maps" not in json.loads(capsys.readouterr().out)


@st.composite
def maps(draw) -> PlaceMap:
    levels, courses, places = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    edges = np.sort(rng.uniform(0, 2000, levels - 1))
    ends = np.concatenate(([0.0], edges, [3000.0]))
    inner = np.linspace(0, 1, 5) * draw(st.sampled_from([0.0, 0.5, 1.0]))

    def rows(*shape: int) -> np.ndarray:
        weights = rng.uniform(0.01, 1, shape)
        return weights / weights.sum(axis=-1, keepdims=True)

    return PlaceMap(
        name="any",
        title="any map",
        source="made up",
        duration_s=float(draw(st.integers(1, 40))),
        step_s=float(draw(st.sampled_from([0.5, 1.0, 2.0, 7.0]))),
        edges_mbps=edges,
        quantiles_mbps=ends[:-1, None] + inner * np.diff(ends)[:, None],
        groups=np.arange(levels) // 2,
        stay=np.full(levels, draw(st.sampled_from([0.0, 0.3, 0.99]))),
        lean=np.full((TURNS, TURNS, 2), draw(st.sampled_from([0.0, 0.5]))),
        tilt_holds=draw(st.booleans()),
        transitions=rows(levels, len(AGES) + 1, SIDES, levels),
        tilt=draw(st.floats(0, 1)),
        weights=rows(courses),
        shares=rows(courses, places, levels),
        moves=rows(3, 3),
    )


@settings(max_examples=60, deadline=None)
@given(maps(), st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=3, unique=True))
def test_drawn_rates_are_within_the_quantiles_and_a_seed_repeats_them(learned, seeds):
    again = decode_map(encode_map(learned), "any.json")
    assert encode_map(again) == encode_map(learned)
    drawn = draw_walks(again, seeds)
    assert drawn.shape == (len(seeds), round(learned.duration_s))
    assert np.isfinite(drawn).all()
    assert drawn.min() >= again.quantiles_mbps.min() - 1e-6
    assert drawn.max() <= again.quantiles_mbps.max() + 1e-6
    assert np.array_equal(draw_walks(again, seeds[-1:])[0], drawn[-1])
