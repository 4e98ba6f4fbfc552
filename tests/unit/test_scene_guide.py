"""The guide's scene, put together from its pieces, is a scene, and does what the guide says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.docs.scene_guide import scene_of_the_guide

from wavebed.scene import load
from wavebed.scene.geometry import intervals

if TYPE_CHECKING:
    from pathlib import Path


def test_the_scene_of_the_guide_hides_the_base_station_for_a_while(tmp_path: Path) -> None:
    file = tmp_path / "street.toml"
    file.write_text(scene_of_the_guide(), encoding="utf-8")
    scene = load(file)
    assert [part.state for part in intervals(scene, "3gpp")] == ["LOS", "NLOS", "LOS"]
    assert [obstacle.name for obstacle in scene.obstacles] == ["kiosk", "van", "passer-by"]
