"""Recordings of emulated accesses, their replay and judgement."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from two_hosts import two_hosts

from wavebed.pattern import read_trace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SCENARIO = """
title = "an access"
{lab}
[path]
{path}
[[workload]]
kind = "latency"
probe = "udp"
duration = "2s"
"""
HOSTS = '[lab]\nbackend = "hosts"\nserver = "ssh://root@server"'
SHORT = ("--duration", "8s", "--light", "500ms", "--down", "1s", "--up", "500ms", "--fill", "500ms")


def record(words: Sequence[str], limit_s: float = 120.0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wavebed", "record", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)


def check_pattern(file: Path, rate_bps: float, delay_s: float) -> None:
    pattern = read_trace(file)
    assert pattern.rate_bps is not None
    assert pattern.delay_ns is not None
    assert np.median(pattern.rate_bps) == pytest.approx(rate_bps, rel=0.03)
    assert np.median(pattern.delay_ns) / 1e9 == pytest.approx(delay_s, abs=0.001)


@pytest.mark.alone
@pytest.mark.slow
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


@pytest.mark.alone
@pytest.mark.slow
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


def test_a_scenario_with_treatments_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    text = SCENARIO.format(lab="", path='rate = "1mbit"')
    file.write_text(text + '\n[[treatment]]\nname = "a"\n[[treatment]]\nname = "b"\n')
    done = record([str(file), "-o", str(tmp_path / "rec")])
    assert done.returncode == 2
    assert "has treatments (a, b)" in done.stderr
    assert not (tmp_path / "rec").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--duration", "soon"], "--duration: 'soon'"),
        (["--down", "0s", "--up", "0s"], "--down: is 0s, and so is up"),
        (["--most-rate", "0mbit"], "--most-rate: is 0"),
        (["--margin", "10%"], "--margin: is for --judge"),
        (["--judge", "--margin", "much"], "'much' is no margin"),
        (["--replay", "nowhere"], "nowhere"),
        (["--replay", "nowhere", "--down", "1s"], "--down: is of a recording"),
        (["--rounds", "0"], "--rounds"),
    ],
)
def test_a_wrong_option_is_named(tmp_path: Path, words: list[str], said: str) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SCENARIO.format(lab="", path='rate = "1mbit"'))
    done = record([str(file), *words, "-o", str(tmp_path / "rec")])
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "rec").exists()
