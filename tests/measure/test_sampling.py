"""Samples of connections come each ten milliseconds."""

from __future__ import annotations

import subprocess
import time
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import pytest
from tests.lab.test_sampling import rows_of

from wavebed.path.api import Path

if TYPE_CHECKING:
    from pathlib import Path as FilePath

ROUND_TRIP_US = 20_000


def test_flows_are_sampled_each_ten_milliseconds(tmp_path: FilePath) -> None:
    with Path.of(rate="50mbit", delay="10ms", queue="infinite").up(wait=True, log=tmp_path, sample=True) as lab:
        server = lab.server.start(["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
        lab.server.wait_for_port(5201, 60.0)
        lab.begin()
        client = lab.client.start(["iperf3", "-c", "server", "-R", "-P", "2", "-t", "2"], stdout=subprocess.DEVNULL)
        time.sleep(1.2)
        flows = cast("dict[str, int]", lab.show()["flows"])
        assert flows["count"] == 3, "two flows and iperf3's control"
        assert flows["max_rtt_us"] >= ROUND_TRIP_US
        assert client.wait(20) == 0
        server.wait(60)
    assert lab.summary is not None
    sampler = cast("dict[str, float]", lab.summary["sampler"])
    seconds = cast("float", lab.summary["duration_s"])
    assert sampler["rounds"] + sampler["missed"] == pytest.approx(100 * seconds, abs=3)
    assert sampler["rounds"] > 200
    rows = rows_of(tmp_path / "flows.csv")
    check_data_flows(rows, 2)


def check_data_flows(rows: list[dict[str, str]], count: int) -> None:
    """Each flow that carries data has a sample each ten milliseconds."""
    flows: dict[str, list[int]] = {}
    for row in rows:
        if row["host"] == "server" and row["state"] == "established" and int(row["bytes_acked"]) > 1_000_000:
            flows.setdefault(row["cookie"], []).append(int(row["time_ns"]))
    assert len(flows) == count
    for times in flows.values():
        # Two seconds at 100 Hz; a busy machine may miss some.
        assert len(times) > 100
        gaps = sorted(later - earlier for earlier, later in pairwise(times))
        assert gaps[len(gaps) // 2] == pytest.approx(10e6, rel=0.1)
