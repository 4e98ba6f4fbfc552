"""Write the radio presets for the crate ``wavebed-link``: ``python -m wavebed.radio.engine_presets FILE``.

The file has the stages of both directions of each preset, as the engine takes them, without their rate.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Literal

from wavebed.output import write_output
from wavebed.radio.model import RadioSettings
from wavebed.radio.presets import PRESETS
from wavebed.radio.stage import radio_stage, wifi_stage
from wavebed.spec.part import plain
from wavebed.spec.types import ConstantRate

if TYPE_CHECKING:
    from wavebed.config.data import Json
    from wavebed.radio.model import MacSettings

__all__ = ["preset_stages"]


def preset_stages() -> str:
    """Return the JSON of all presets: by name and direction a stage without the key ``rate``."""
    stages = {name: {"down": _stage(preset, "down"), "up": _stage(preset, "up")} for name, preset in PRESETS.items()}
    return json.dumps(stages, indent=1) + "\n"


def _stage(preset: MacSettings, direction: Literal["down", "up"]) -> dict[str, Json]:
    rate = ConstantRate(1)
    stage = radio_stage(preset, direction, rate) if isinstance(preset, RadioSettings) else wifi_stage(preset, rate)
    return {key: value for key, value in plain(stage).items() if key != "rate"}


if __name__ == "__main__":
    write_output(sys.argv[1], preset_stages(), "FILE")
