"""A client with two radios: the goodput by one of them, by both with the remedy mptcp, and with a backup."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from tests.lab.test_run import metric, wavebed
from tests.lab.test_two_radios import EDGE, FIRST, MPTCP, PATH, SECOND
from tests.on_time import assert_usable, lateness

if TYPE_CHECKING:
    from pathlib import Path

TREATMENTS = f"""[[treatment]]
name = "one"
[[treatment]]
name = "both"
{MPTCP}[[treatment]]
name = "backup"
{MPTCP.replace('"mptcp"', '"mptcp", backup = true')}"""
BULK = '[[workload]]\nkind = "bulk"\nduration = "6s"\nsettle = "2s"\n'


def records(folder: Path) -> dict[str, Any]:
    found = [json.loads(file.read_text()) for file in sorted((folder / "out/trials").glob("*/trial.json"))]
    for record in found:
        if late := lateness(record):
            pytest.skip(f"inconclusive: {late}")
    return {record["treatment"]: record for record in found}


def share(record: Any, direction: str = "down") -> float:
    found = metric(record, "path", f"share of second radio {direction}")
    assert isinstance(found, float | int)
    return found


@pytest.mark.parametrize("edge", ["", EDGE], ids=["server", "edge"])
def test_a_transfer_uses_one_radio_or_both(tmp_path: Path, edge: str) -> None:
    done = wavebed(tmp_path, PATH + edge + BULK + TREATMENTS, timeout_s=180)
    assert_usable(done, tmp_path / "out")
    by_name = records(tmp_path)
    goodput = {name: metric(record, "bulk", "goodput after 2s") for name, record in by_name.items()}
    assert 0.8 * FIRST < goodput["one"] < FIRST
    assert 0.8 * FIRST < goodput["backup"] < FIRST
    assert FIRST + 0.5 * SECOND < goodput["both"] < FIRST + SECOND
    assert share(by_name["one"]) == 0
    assert share(by_name["backup"]) < 5
    assert 20 < share(by_name["both"]) < 45
    for name in ("both", "backup"):
        (check,) = [check for check in by_name[name]["checks"] if check["code"] == "remedy"]
        assert check["holds"], check
    folder = next((tmp_path / "out/trials").glob("*both*"))
    flows = pq.read_table(folder / "series/flows.parquet").to_pylist()
    second = "198.18.2.2" if edge else "198.18.1.2"
    acknowledged = max(row["bytes_acked"] or 0 for row in flows if (row["remote"] or "").startswith(f"{second}:"))
    assert acknowledged > 0.1 * metric(by_name["both"], "bulk", "goodput") * 6e6 / 8
    assert list(folder.glob("raw/remedy.client.mptcp.log*"))
