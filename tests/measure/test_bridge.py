"""`wavebed bridge` between two hosts in network namespaces: its rate, its delay, and how soon it fails open."""

from __future__ import annotations

import statistics
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.lab.test_bridge import AGENT, ask, ask_classes, check_accounts

if TYPE_CHECKING:
    from pathlib import Path


def test_a_shaped_bridge_has_the_rate_and_the_delay_of_its_path() -> None:
    answer = ask(AGENT, "shaped")
    payload = 1448 / 1500
    for rtt, bps, wanted_ms, wanted_bps in (
        (answer["rtt_ms"], answer["tcp_bps"], 40, 20e6),
        (answer["rtt_later_ms"], answer["tcp_later_bps"], 10, 40e6),
    ):
        assert len(rtt) == 50
        # 64 bytes at the link's rate and two ends of its own are below a millisecond.
        assert wanted_ms <= statistics.median(rtt) < wanted_ms + 1
        assert 0.93 < bps / (wanted_bps * payload) < 1.02
    check_accounts(answer["show"])
    end = answer["end"]
    assert end["status"] == 0
    assert "net0 to dev0: frames in" in end["said"]


def test_a_bridge_fails_open_within_a_tenth_of_a_second() -> None:
    answer = ask(AGENT, "failure", "open")
    assert answer["killed_s"] is not None
    after = [at_s for _, at_s in answer["arrived_s"] if at_s > answer["killed_s"] - 0.05]
    assert len(after) > 100
    assert max(later - earlier for earlier, later in pairwise(after)) < 0.1
    assert answer["pings"] == 5
    assert answer["show"]["state"] == "unshaped"
    assert answer["show"]["frames"][0]["around_frames"] > 100
    assert answer["end"] == {"status": 1, "promiscuity": [0, 0]}


def test_a_bridge_whose_engine_hangs_fails_open_within_ten_seconds() -> None:
    assert ask(AGENT, "hang")["took_s"] < 10


def test_each_device_has_the_delay_of_its_links(tmp_path: Path) -> None:
    for (_, wanted_ms), rtts_ms in ask_classes(tmp_path)[1].items():
        assert wanted_ms <= statistics.median(rtts_ms) < wanted_ms + 8
