"""Trials between two hosts that ssh joins: the figures of their path, and how exactly their clocks are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lab.skewed_clock import Skew
from tests.lab.test_hosts import SCENARIO, metrics
from tests.lab.test_hosts_clocks import APART, PATH, errors_ms, one_way, told, trial
from tests.lab.two_hosts import two_hosts

if TYPE_CHECKING:
    from pathlib import Path


def test_a_trial_between_two_hosts_has_the_figures_of_the_path_between_them(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO)
    with two_hosts(tmp_path, rate="50mbit", delay="10ms") as hosts:
        done = hosts.wavebed(["run", str(tmp_path / "s.toml"), "-o", str(tmp_path / "out")])
    assert done.returncode == 0, done.stderr + done.stdout
    found = metrics(tmp_path / "out")
    # Slow start may end with 16 segments, from which cubic has the 83 that the path holds after 0.7 s.
    assert found["bulk.goodput after 1s"] == pytest.approx(47.5, rel=0.06)
    assert found["latency.rtt loaded p50"] >= 20


@pytest.mark.parametrize(
    "skew",
    [
        APART,
        Skew(offset_ns=-50_000_000, drift_ppm=-100),
        Skew(offset_ns=3_600 * 10**9),
    ],
)
def test_the_error_of_a_one_way_delay_is_within_the_one_that_is_stated(tmp_path: Path, skew: Skew) -> None:
    with two_hosts(tmp_path, **PATH) as hosts:
        record = trial(hosts, tmp_path, skew, beside=True)
    stated_ms = told(record)["error of the clocks, ms"]
    if one_way(record)[0] is None:
        pytest.skip(f"inconclusive: the machine was late: the clocks are known to {stated_ms:.3f} ms only")
    found = errors_ms(tmp_path)
    assert max(abs(each) for each in found) <= stated_ms
    server = record["engine"]["hosts"][0]
    assert server["clock_ahead_s"] == pytest.approx(skew.offset_ns / 1e9, abs=0.005)
