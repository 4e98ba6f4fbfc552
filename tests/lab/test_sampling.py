"""Samples of connections and processors: what they contain, in which order, and what becomes of a full disk."""

from __future__ import annotations

import csv
import json
import os
import subprocess
from typing import TYPE_CHECKING, cast

import pytest
from programs import LIMIT_S

from wavebed.errors import UserError
from wavebed.path.api import Path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path as FilePath


@pytest.fixture
def small(tmp_path: FilePath) -> Iterator[FilePath]:
    """A folder on a disk of 100 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_samples_that_cannot_be_written_are_a_doubt_and_packets_go_on(small: FilePath, tmp_path: FilePath) -> None:
    with Path.of(delay="1ms").up(log=small, sample=True, summary=tmp_path / "summary.json") as lab:
        server = lab.server.start(["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
        lab.server.wait_for_port(5201, LIMIT_S)
        lab.client.run(["iperf3", "-c", "server", "-P", "20", "-t", "1"], check=True, capture_output=True)
        server.wait(60)
        ping = ["ping", "-c1", "-W30", "server"]
        lab.client.run(ping, check=True, capture_output=True)
    assert lab.summary is not None
    doubts = "\n".join(cast("list[str]", lab.summary["doubts"]))
    full = "No space left on device (os error 28): rows are missing"
    assert f"sampler: cannot write {small}/flows.csv: {full}" in doubts
    assert f"series: cannot write {small}/" in doubts
    assert json.loads((tmp_path / "summary.json").read_text())["doubts"] == lab.summary["doubts"]
    assert set(lab.summary["missing"]) <= set(lab.summary["doubts"])
    assert len(lab.summary["missing"]) >= 2


def test_samples_need_a_folder() -> None:
    with pytest.raises(UserError, match="sample: there is nowhere to write to"):
        Path.of(delay="1ms").up(sample=True)


def rows_of(file: FilePath) -> list[dict[str, str]]:
    with file.open() as text:
        return list(csv.DictReader(text))


def test_flows_and_every_processor_are_sampled(tmp_path: FilePath) -> None:
    """The round trip is 20 ms, and iperf3 says how many bytes it sent."""
    with Path.of(rate="20mbit", delay="10ms", queue="infinite").up(wait=True, log=tmp_path, sample=True) as lab:
        server = lab.server.start(["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
        lab.server.wait_for_port(5201, LIMIT_S)
        lab.begin()
        argv = ["iperf3", "-c", "server", "-R", "-P", "2", "-n", "3M", "-J"]
        report = json.loads(lab.client.run(argv, check=True, capture_output=True, timeout=LIMIT_S).stdout)
        server.wait(LIMIT_S)
    assert lab.summary is not None
    seconds = cast("float", lab.summary["duration_s"])
    sampler = cast("dict[str, float]", lab.summary["sampler"])
    assert 0 < sampler["rounds"] <= 100 * seconds + 1
    rows = rows_of(tmp_path / "flows.csv")
    assert {row["host"] for row in rows} == {"server", "client"}
    times_ns = [int(row["time_ns"]) for row in rows]
    assert times_ns == sorted(times_ns)
    flows: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        if row["host"] == "server" and row["state"] == "established":
            flows.setdefault(row["cookie"], []).append(row)
    data = [flow for flow in flows.values() if int(flow[-1]["bytes_acked"]) > 200_000]
    sent = sorted(stream["sender"]["bytes"] for stream in report["end"]["streams"])
    assert len(data) == len(sent) == 2
    for row in (row for flow in data for row in flow if int(row["bytes_acked"]) > 100_000):
        assert int(row["rtt_us"]) >= int(row["min_rtt_us"]) >= 20_000, "never less than the path's"
        if row["total_retrans_segments"] == "0":  # an engine that stood still for long makes the sender repeat some
            assert int(row["cwnd_segments"]) >= 10, "nothing was lost"
            assert row["ca_state"] == "open"
    for acked, total in zip(sorted(int(flow[-1]["bytes_acked"]) for flow in data), sent, strict=True):
        assert acked <= total + 1
    rows = rows_of(tmp_path / "cpu.csv")
    assert {int(row["core"]) for row in rows} == set(range(os.cpu_count() or 0))
    assert len({row["time_ns"] for row in rows}) > 1
    assert all(0 <= float(row["softirq"]) <= float(row["busy"]) <= 1 for row in rows)
