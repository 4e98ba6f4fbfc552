"""The radio presets of the crate ``wavebed-link``."""

from __future__ import annotations

from pathlib import Path

from wavebed.radio.engine_presets import preset_stages

FILE = Path(__file__).parents[2] / "crates/wavebed-link/src/sim/presets.json"


def test_the_crate_has_the_presets_of_python() -> None:
    assert FILE.read_text() == preset_stages(), f"run: python -m wavebed.radio.engine_presets {FILE}"
