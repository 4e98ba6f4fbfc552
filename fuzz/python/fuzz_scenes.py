"""Scenes and their units on arbitrary text: a scene with a geometry, or one line, never anything else."""

from __future__ import annotations

import tempfile
from pathlib import Path

from wavebed.config import units
from wavebed.errors import UserError
from wavebed.scene import load
from wavebed.scene.geometry import intervals

FILE = Path(tempfile.mkdtemp(prefix="wavebed-fuzz-")) / "scene.toml"
PARSERS = (units.parse_frequency, units.parse_power, units.parse_gain, units.parse_speed, units.parse_angle)
HEAD = b"""title = "t"
anchor = "illustrative"
duration = "10s"
carrier = { technology = "nr", frequency = "28ghz", bandwidth = "100mhz" }
base-station = [{ name = "mast", at = [0, 0, 10], power = "30dbm" }]
"""
UE = b"""ue = { start = [50, 0, 1.5] }
"""


def test_one_input(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for parse in PARSERS:
        try:
            parse(text)
        except UserError as error:
            assert "\n" not in str(error).strip(), "one line"
    head = b"" if data[:5] == b"title" else HEAD if b"[ue]" in data else HEAD + UE
    FILE.write_bytes(head + data)
    try:
        scene = load(FILE)
    except UserError as error:
        assert "\n" not in str(error).strip(), "one line"
        return
    for mode in ("3gpp", "reference"):
        parts = intervals(scene, mode)
        assert parts[0].start_s == 0
        assert parts[-1].end_s == scene.duration_s
