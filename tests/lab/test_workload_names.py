"""Names that curl looks up over the path, by the stub resolver of glibc."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.lab.workload_trial import run_scenario

if TYPE_CHECKING:
    from pathlib import Path

RTT_MS = 50
SCENARIO = """
[path]
rate = "100mbit"
delay = "25ms"
[[workload]]
kind = "download"
size = "1kb"
names = "resolver"
limit = "30s"
"""


def test_a_lookup_is_one_query_over_the_path(tmp_path: Path) -> None:
    trial = run_scenario(SCENARIO, tmp_path)
    assert trial.outcome().status == "ok", trial.outcome().reason
    lines = (trial.folder / "raw/download/dnsmasq.log").read_text().splitlines()
    assert [line.split("query")[1].split(" from ")[0] for line in lines if "query" in line] == ["[A] server"]
    found = trial.metrics()
    assert RTT_MS <= found["name lookup"] <= found["connect time"] - RTT_MS
    assert found["connect time"] <= found["time to first byte"] - RTT_MS
