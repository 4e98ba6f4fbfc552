"""Recordings of emulated accesses: their files, their replay, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.on_time import assert_ended, lateness

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


def record(words: Sequence[str], limit_s: float = 120.0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wavebed", "record", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)


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


SHORT = ("--duration", "3s", "--light", "300ms", "--down", "500ms", "--up", "300ms", "--fill", "300ms")


def test_an_access_is_recorded_and_replayed(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    path = 'down-rate = "30mbit"\nup-rate = "10mbit"\ndelay = "12ms"\nqueue = "droptail:100000b"'
    file.write_text(SCENARIO.format(lab="", path=path).replace('"2s"', '"500ms"'))
    # Light load of a second, so that no stand-still of the machine takes all of it.
    words = ("--duration", "5s", "--light", "1s", "--rounds", "2")
    done = record([str(file), *SHORT, *words, "-o", str(tmp_path / "rec")])
    if done.returncode:  # Both were late, also if one failed by that, and a late recording is none.
        trials = [json.loads(file.read_text()) for file in (tmp_path / "rec").glob("trials/*/trial.json")]
        unusable = [trial for trial in trials if trial["verdict"] in {"invalid", "failed"}]
        assert (done.returncode, bool(unusable)) == (1, True), done.stderr
        assert all(map(lateness, unusable)), done.stderr
        assert not list((tmp_path / "rec").glob("*.csv"))
        return
    for name in ("down", "up"):
        pattern = read_trace(tmp_path / "rec" / f"{name}.csv")
        assert pattern.rate_bps is not None
        assert pattern.delay_ns is not None
        assert pattern.rate_bps.max() > 0
        # No packet is faster than the path.
        assert pattern.delay_ns.min() >= 11_999_000
    told = json.loads((tmp_path / "rec" / "recording.json").read_text())
    assert {"down", "up"} <= told.keys()
    again = record([str(file), "--replay", str(tmp_path / "rec"), "-o", str(tmp_path / "again"), "--json"])
    assert_ended(again, tmp_path / "again")
    if again.returncode:
        return
    (trial,) = (tmp_path / "again").glob("trials/*/trial.json")
    metrics = {each["name"]: each["value"] for each in json.loads(trial.read_text())["metrics"]}
    assert metrics["one-way delay down average"] >= 11.9
