"""Real laboratories: round trips, rates, and how changes of both take effect."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Any, cast

import pytest
from tests.lab.programs import arrivals, least_rtt_ms, transfer

from wavebed.path.api import Path

ROOT = FilePath(__file__).resolve().parents[2]


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6"])
def test_the_round_trip_is_the_commanded_delay(family: str) -> None:
    with Path.of(delay="10ms").up() as lab:
        # The benchmarks measure the error itself.
        assert 20.0 <= least_rtt_ms(lab, family=family) < 22


def test_the_directions_have_their_own_delays() -> None:
    with Path.of(down_delay="5ms", up_delay="20ms").up() as lab:
        assert 25.0 <= least_rtt_ms(lab) < 27


def test_a_transfer_gets_the_rate_less_its_headers() -> None:
    with Path.of(rate="100mbit", delay="2ms").up() as lab:
        mbps, _, _ = transfer(lab, 10_000_000)
    # 1448 of 1500 bytes are payload with IPv4 and time stamps, 1428 with IPv6.
    assert 85 < mbps < 97


def test_a_path_without_a_rate_is_fast() -> None:
    with Path.of().up() as lab:
        mbps, _, _ = transfer(lab, 100_000_000)
    assert mbps > 500


def test_three_hosts_reach_each_other() -> None:
    with Path.load(ROOT / "scenarios/three-hosts.toml", delay="4ms", loss="0%").up() as lab:
        assert 50 <= least_rtt_ms(lab) < 53
        assert 8 <= least_rtt_ms(lab, host="edge") < 10
        names = lab.edge.run(["cat", "/proc/sys/kernel/hostname"], capture_output=True).stdout
        assert names == "edge\n"


def test_changes_act_while_it_runs(tmp_path: FilePath) -> None:
    with Path.of(rate="100mbit", delay="5ms", loss="0%").up() as lab:
        assert 10 <= least_rtt_ms(lab) < 12
        lab.set(delay="20ms")
        assert 40 <= least_rtt_ms(lab) < 42
        lab.set(**{"radio.up.delay": "1ms"})
        assert 21 <= least_rtt_ms(lab) < 23
        lab.set(delay="1ms", rate="10mbit")
        assert transfer(lab, 1_000_000)[0] < 11
        pattern = tmp_path / "p.csv"
        pattern.write_text("# wavebed pattern 1\n# kind = steps\n# duration_s = 9\ntime_s,rate_bps\n0,40000000\n")
        lab.set(pattern=str(pattern))
        assert 25 < transfer(lab, 4_000_000)[0] < 41
        lab.set(loss="100%")
        assert arrivals(lab, 10) == []
        shown = cast("list[dict[str, Any]]", lab.show()["links"])
        assert shown[1]["dropped_segments"]["loss"] == 10
