"""A client with two radios: which of them carry a transfer, and what makes a trial invalid."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from test_run import metric, wavebed

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(1800)

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


@pytest.mark.parametrize("edge", ["", EDGE], ids=["server", "edge"])
def test_a_transfer_uses_one_radio_or_both(kernel: Path, tmp_path: Path, edge: str) -> None:
    treatments = f'[[treatment]]\nname = "one"\n[[treatment]]\nname = "both"\n{MPTCP}'
    if edge:
        treatments += '[[treatment]]\nname = "split"\nset = { "path.edge.remedy" = { kind = "splitter" } }\n'
    download = '[[workload]]\nkind = "download"\nsize = "20mb"\n'
    done = wavebed(tmp_path, PATH + edge + download + treatments, "--virtual-time", timeout_s=600)
    assert done.returncode == 0, done.stderr
    found = [json.loads(file.read_text()) for file in (tmp_path / "out/trials").glob("*/trial.json")]
    by_name = {record["treatment"]: record for record in found}
    shares = {name: metric(record, "path", "share of second radio down") for name, record in by_name.items()}
    assert [record["verdict"] for record in found] == ["valid"] * len(found)
    assert shares["one"] == 0
    # Slow start and the end leave the slower radio a little less than a third.
    assert 30 < shares["both"] < 100 / 3
    if edge:
        # The client's connection ends at the edge, 2 ms away and not 7 ms.
        connected_ms = {name: metric(record, "download", "connect time") for name, record in by_name.items()}
        assert 4 <= connected_ms["split"] < 5
        assert 14 <= connected_ms["one"] < 15
    (check,) = [check for check in by_name["both"]["checks"] if check["code"] == "remedy"]
    assert check["holds"], check
    for name, most_mbps in (("one", FIRST), ("both", FIRST + SECOND)):
        assert metric(by_name[name], "download", "download time") >= 20 * 8 / most_mbps
    folder = next((tmp_path / "out/trials").glob("*both*"))
    flows = pq.read_table(folder / "series/flows.parquet").to_pylist()
    second = "198.18.2.2" if edge else "198.18.1.2"
    assert max(row["bytes_acked"] or 0 for row in flows if (row["remote"] or "").startswith(f"{second}:")) > 1000
    assert list(folder.glob("raw/remedy.client.mptcp.log*"))
