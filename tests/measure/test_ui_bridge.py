"""The live page of a real bridge with sixteen devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from wavebed._core import find_core

AGENT = Path(__file__).parents[1] / "lab/bridge_page.py"


def test_each_device_of_a_bridge_has_its_row_with_the_figures_of_its_own_links(tmp_path: Path) -> None:
    command = [find_core(), "sandbox", "--", sys.executable, str(AGENT), str(tmp_path), "6"]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=variables)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["summary"] == "All 34 links"
    rows = {row[0]: dict(zip(("radio", "down", "up", "queue", "trip", "dropped", "outage"), row[1:], strict=True))
            for row in found["rows"]}  # fmt: skip
    assert list(rows) == [*(f"phone-{number}" for number in range(1, 17)), "all others"]
    assert rows["phone-1"]["radio"] in ("los", "nlos", "blocked", "outage", "handover", "fallback")
    for number in range(2, 17):
        row = rows[f"phone-{number}"]
        offered = 0.96 * (1 + (number - 1) % 4)
        rate = (5, 5, 2.5, 8)[(number - 1) % 4]
        figure, unit = row["down"].split()
        mbps = float(figure) / {"Mbit/s": 1, "kbit/s": 1000}[unit]
        # The sender paces on a busy machine: it may be late, and catches up.
        assert 0.6 * min(offered, rate) < mbps < 1.2 * min(offered, rate), (number, row)
        assert row["radio"] == ""
        assert row["outage"] == "–"
        waits = offered > rate
        # Two delays of 5 ms, and what waits for the link.
        assert (float(row["trip"].split()[0]) > 20 or row["trip"].endswith(" s")) == waits, (number, row)
