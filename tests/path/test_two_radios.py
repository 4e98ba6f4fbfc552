"""A client with two radios: transfers by one of them, by both with the remedy mptcp, and with one as a backup."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from test_run import metric, wavebed
from tests.on_time import assert_usable, lateness

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
TREATMENTS = f"""[[treatment]]
name = "one"
[[treatment]]
name = "both"
{MPTCP}[[treatment]]
name = "backup"
{MPTCP.replace('"mptcp"', '"mptcp", backup = true')}"""
BULK = '[[workload]]\nkind = "bulk"\nduration = "6s"\nsettle = "2s"\n'
DOWNLOAD = '[[workload]]\nkind = "download"\nsize = "40mb"\n'
"""8.3 s by the first radio. By both 5.7 s, and up to 0.9 s more for slow start and the slower radio at the end."""


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


@pytest.mark.alone
@pytest.mark.slow
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


@pytest.mark.alone
@pytest.mark.slow
def test_a_download_by_both_radios_is_faster(tmp_path: Path) -> None:
    done = wavebed(tmp_path, PATH + EDGE + DOWNLOAD + TREATMENTS, timeout_s=180)
    assert_usable(done, tmp_path / "out")
    by_name = records(tmp_path)
    seconds = {name: metric(record, "download", "download time") for name, record in by_name.items()}
    assert seconds["both"] < 0.9 * seconds["one"]
    assert share(by_name["both"]) > 10


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
