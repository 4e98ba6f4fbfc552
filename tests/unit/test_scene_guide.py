"""The guide's scene, put together from its pieces, is a scene, and does what the guide says."""

from __future__ import annotations

import re
from pathlib import Path

from wavebed.scene import load
from wavebed.scene.geometry import intervals

GUIDE = Path(__file__).parents[2] / "docs/guides/scenes.md"


def test_the_scene_of_the_guide_hides_the_base_station_for_a_while(tmp_path: Path) -> None:
    pieces = re.findall(r"```toml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(pieces) == 6
    top, *rest = pieces
    cell_load, fallback = rest[3].split("\n\n", 1)
    file = tmp_path / "street.toml"
    file.write_text("\n".join([top, cell_load, *rest[:3], fallback, rest[4]]), encoding="utf-8")
    scene = load(file)
    assert [part.state for part in intervals(scene, "3gpp")] == ["LOS", "NLOS", "LOS"]
    assert [obstacle.name for obstacle in scene.obstacles] == ["kiosk", "van", "passer-by"]
