"""Scenarios and units on arbitrary text: a path, or one line, never anything else."""

from __future__ import annotations

import tempfile
from pathlib import Path

from wavebed.config import units
from wavebed.errors import UserError
from wavebed.path.api import Path as EmulatedPath

FILE = Path(tempfile.mkdtemp(prefix="wavebed-fuzz-")) / "scenario.toml"
PARSERS = (units.parse_rate, units.parse_time, units.parse_size, units.parse_limit, units.parse_percentage)


def test_one_input(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for parse in PARSERS:
        try:
            parse(text)
        except (UserError, ValueError) as error:
            assert "\n" not in str(error).strip(), "one line"
    FILE.write_bytes(data if b"[path]" in data else b"[path]\n" + data)
    try:
        EmulatedPath.load(FILE).laboratory()
    except UserError as error:
        assert "\n" not in str(error).strip(), "one line"
