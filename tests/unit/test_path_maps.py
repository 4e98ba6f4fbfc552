"""The maps of scenes, which displays get with a laboratory."""

from __future__ import annotations

import json

import pytest
from msgspec import convert

from wavebed.cli import main
from wavebed.path.api import Path
from wavebed.path.maps import SceneMap, scene_maps


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
