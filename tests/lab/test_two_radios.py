"""A client with two radios: transfers by one of them, by both with the remedy mptcp, and with one as a backup."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from test_run import wavebed

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = 40, 20
"""Rates, Mbit/s of IP packets."""
PATH = f"""[[path.hop]]
name = "internet"
kind = "wired"
delay = "5ms"
[[path.hop]]
name = "radio"
kind = "radio"
rate = "{FIRST}mbit"
delay = "2ms"
queue = "droptail:30ms"
[path.second-radio]
rate = "{SECOND}mbit"
delay = "12ms"
queue = "droptail:30ms"
"""
EDGE = '[path.edge]\nafter = "internet"\n'
MPTCP = 'set = { "path.client.remedy" = { kind = "mptcp" } }\n'
DOWNLOAD = '[[workload]]\nkind = "download"\nsize = "40mb"\n'
"""8.3 s by the first radio. By both 5.7 s, and up to 0.9 s more for slow start and the slower radio at the end."""


def test_a_trial_whose_connections_fall_back_is_invalid(tmp_path: Path) -> None:
    split = '"path.edge.remedy" = { kind = "splitter" }, '
    treatment = f'[[treatment]]\nname = "split"\n{MPTCP.replace("{ ", "{ " + split, 1)}'
    done = wavebed(tmp_path, PATH + EDGE + DOWNLOAD + treatment, timeout_s=120)
    assert done.returncode == 1, done.stderr
    (file,) = (tmp_path / "out/trials").glob("*/trial.json")
    record = json.loads(file.read_text())
    assert record["verdict"] == "invalid"
    (check,) = [check for check in record["checks"] if check["code"] == "remedy"]
    assert "MPTCP connections of the client fell back to TCP: MPCapableFallbackSYNACK" in check["evidence"]
