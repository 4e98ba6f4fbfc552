"""How soon a download begins after an outage, with the remedy syn and without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lab.test_run import metric, trial, wavebed
from tests.on_time import assert_usable, lateness

if TYPE_CHECKING:
    from pathlib import Path

PATTERN = """# wavebed pattern 1
# kind = steps
# duration_s = 60
time_s,rate_bps
0,0
0.75,50000000
"""
SCENARIO = """[path]
trace = "outage.csv"
delay = "5ms"
outage = "drop"
trace-end = "hold"
[[workload]]
kind = "download"
size = "1kb"
[[treatment]]
name = "none"
[[treatment]]
name = "syn"
set = { "path.client.remedy" = { kind = "syn" } }
"""
"""The first SYN meets 0.75 s of outage: the kernel sends the second one after 1 s."""


def test_a_download_begins_soon_after_an_outage(tmp_path: Path) -> None:
    (tmp_path / "outage.csv").write_text(PATTERN)
    done = wavebed(tmp_path, SCENARIO)
    assert_usable(done, tmp_path / "out")
    records = [trial(tmp_path, folder.name) for folder in sorted((tmp_path / "out/trials").iterdir())]
    by_name = {record["treatment"]: record for record in records}
    assert set(by_name) == {"none", "syn"}
    for record in records:
        if late := lateness(record):
            pytest.skip(f"inconclusive: {late}")
    # The download's start is a few milliseconds after time zero.
    assert 0.95 < metric(by_name["none"], "download", "download time") < 1.2
    assert 0.65 < metric(by_name["syn"], "download", "download time") < 0.95
    (check,) = [check for check in by_name["syn"]["checks"] if check["code"] == "remedy"]
    assert check["holds"], check
    folder = next((tmp_path / "out/trials").glob("*syn*"))
    assert list(folder.glob("raw/remedy.client.syn.log*"))
