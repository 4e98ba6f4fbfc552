"""Recordings of emulated accesses: the rates, delays and queues that they find."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.lab.test_record import SCENARIO, record
from tests.lab.two_hosts import two_hosts

from wavebed.pattern import read_trace

if TYPE_CHECKING:
    from pathlib import Path

HOSTS = '[lab]\nbackend = "hosts"\nserver = "ssh://root@server"'
SHORT = ("--duration", "8s", "--light", "500ms", "--down", "1s", "--up", "500ms", "--fill", "500ms")


def check_pattern(file: Path, rate_bps: float, delay_s: float) -> None:
    pattern = read_trace(file)
    assert pattern.rate_bps is not None
    assert pattern.delay_ns is not None
    assert np.median(pattern.rate_bps) == pytest.approx(rate_bps, rel=0.03)
    assert np.median(pattern.delay_ns) / 1e9 == pytest.approx(delay_s, abs=0.001)


def test_an_access_is_recorded_and_replayed(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    path = 'down-rate = "60mbit"\nup-rate = "20mbit"\ndelay = "12ms"\nqueue = "droptail:500000b"'
    file.write_text(SCENARIO.format(lab="", path=path))
    done = record([str(file), *SHORT, "-o", str(tmp_path / "rec")])
    assert done.returncode == 0, done.stderr
    check_pattern(tmp_path / "rec" / "down.csv", 60e6, 0.012)
    check_pattern(tmp_path / "rec" / "up.csv", 20e6, 0.012)
    told = json.loads((tmp_path / "rec" / "recording.json").read_text())
    assert told["down"]["queue_is_full"]
    assert told["down"]["queue_bytes"] == pytest.approx(500_000, rel=0.1)
    again = record([str(file), "--replay", str(tmp_path / "rec"), "-o", str(tmp_path / "again"), "--json"])
    assert again.returncode == 0, again.stderr
    (trial,) = (tmp_path / "again").glob("trials/*/trial.json")
    metrics = {each["name"]: each["value"] for each in json.loads(trial.read_text())["metrics"]}
    assert metrics["one-way delay down idle p50"] == pytest.approx(12, abs=1)


def test_an_access_between_two_hosts_is_recorded(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SCENARIO.format(lab=HOSTS, path=""))
    with two_hosts(tmp_path, rate="40mbit", delay="10ms") as hosts:
        done = hosts.wavebed(["record", str(file), *SHORT, "-o", str(tmp_path / "rec")])
    assert done.returncode == 0, done.stderr
    check_pattern(tmp_path / "rec" / "down.csv", 40e6, 0.010)
    header = dict(read_trace(tmp_path / "rec" / "up.csv").header)
    assert header["one_way_delays"].startswith("half of the round trip each")
    assert (tmp_path / "rec" / "replay.toml").exists()
