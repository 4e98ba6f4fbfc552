"""Samples of connections come each ten milliseconds, and agree with what the programs say."""

from __future__ import annotations

import csv
import json
import subprocess
import time
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import pytest

from wavebed.path.api import Path

if TYPE_CHECKING:
    from pathlib import Path as FilePath

ROUND_TRIP_US = 20_000


def rows_of(file: FilePath) -> list[dict[str, str]]:
    with file.open() as text:
        return list(csv.DictReader(text))


def test_flows_are_sampled_each_ten_milliseconds(tmp_path: FilePath) -> None:
    with Path.of(rate="50mbit", delay="10ms", queue="infinite").up(wait=True, log=tmp_path, sample=True) as lab:
        server = lab.server.start(["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
        lab.server.wait_for_port(5201)
        lab.begin()
        client = lab.client.start(["iperf3", "-c", "server", "-R", "-P", "2", "-t", "2", "-J"], stdout=subprocess.PIPE)
        time.sleep(1.2)
        flows = cast("dict[str, int]", lab.show()["flows"])
        assert flows["count"] == 3, "two flows and iperf3's control"
        assert flows["max_rtt_us"] >= ROUND_TRIP_US
        assert client.wait(20) == 0
        server.wait(60)
        report = json.loads(client.output()[0] or "")
    assert lab.summary is not None
    sampler = cast("dict[str, float]", lab.summary["sampler"])
    seconds = cast("float", lab.summary["duration_s"])
    assert sampler["rounds"] + sampler["missed"] == pytest.approx(100 * seconds, abs=3)
    assert sampler["rounds"] > 200
    rows = rows_of(tmp_path / "flows.csv")
    check_data_flows(rows, {stream["sender"]["bytes"] for stream in report["end"]["streams"]})
    assert {row["host"] for row in rows} == {"server", "client"}
    times = [int(row["time_ns"]) for row in rows]
    assert times == sorted(times)
    assert times[-1] <= seconds * 1e9 + 1e8


def check_data_flows(rows: list[dict[str, str]], sent: set[int]) -> None:
    """The flows that carry data have congestion windows and round trips of the path, and the bytes that iperf3 sent."""
    flows: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        if row["host"] == "server" and row["state"] == "established":
            flows.setdefault(row["cookie"], []).append(row)
    data = [flow for flow in flows.values() if int(flow[-1]["bytes_acked"]) > 1_000_000]
    assert len(data) == len(sent) == 2
    for flow in data:
        # Two seconds at 100 Hz; a busy machine may miss some.
        assert len(flow) > 150
        for row in flow[5:]:
            assert int(row["rtt_us"]) >= ROUND_TRIP_US, "never less than the path's"
            assert int(row["min_rtt_us"]) >= ROUND_TRIP_US
            assert int(row["cwnd_segments"]) >= 10, "nothing was lost"
            assert row["ca_state"] == "open"
        times = [int(row["time_ns"]) for row in flow]
        gaps = sorted(later - earlier for earlier, later in pairwise(times))
        assert gaps[len(gaps) // 2] == pytest.approx(10e6, rel=0.1)
    # The last sample is up to 10 ms older than the end, and what was in the queue then was acknowledged later.
    last = sorted(int(row["bytes_acked"]) for flow in data for row in flow[-1:])
    for acked, total in zip(last, sorted(sent), strict=True):
        assert 0.5 * total < acked <= total + 1
