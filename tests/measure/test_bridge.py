"""`wavebed bridge` between two hosts in network namespaces: its rate, its delay, and how soon it fails open."""

from __future__ import annotations

import csv
import statistics
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

from tests.lab.test_bridge import ask, check_accounts

if TYPE_CHECKING:
    from pathlib import Path


def test_a_shaped_bridge_has_the_rate_and_the_delay_of_its_path() -> None:
    answer = ask("shaped")
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
    answer = ask("failure", "open")
    assert answer["killed_s"] is not None
    after = [at_s for _, at_s in answer["arrived_s"] if at_s > answer["killed_s"] - 0.05]
    assert len(after) > 100
    assert max(later - earlier for earlier, later in pairwise(after)) < 0.1
    assert answer["pings"] == 5
    assert answer["show"]["state"] == "unshaped"
    assert answer["show"]["frames"][0]["around_frames"] > 100
    assert answer["end"] == {"status": 1, "promiscuity": [0, 0]}


def delivered(folder: Path) -> list[int]:
    """Return the bytes delivered in each window of 100 ms of a downlink."""
    windows: dict[int, int] = {}
    with (folder / "radio.down.csv").open() as file:
        for row in csv.DictReader(file):
            window = int(row["time_ms"]) // 100
            windows[window] = windows.get(window, 0) + int(row["delivered_bytes"])
    return [windows.get(window, 0) for window in range(50)]


def test_a_pattern_gives_the_same_link_as_in_a_laboratory(tmp_path: Path) -> None:
    random = Random(1)
    rates = [random.randrange(50, 400) * 1_000_000 for _ in range(20)]
    rows = "".join(f"{index / 4},{rate}\n" for index, rate in enumerate(rates))
    pattern = tmp_path / "pattern.csv"
    pattern.write_text(f"# wavebed pattern 1\n# kind = steps\n# duration_s = 5\ntime_s,rate_bps\n{rows}")
    answer = ask("pattern", str(pattern), str(tmp_path))
    check_accounts(answer["show"])
    assert answer["status"] == 0
    laboratory, bridge = delivered(tmp_path / "shell"), delivered(tmp_path / "bridge")
    # Both are loaded from the second second to the fifth; the phase of a packet in a window is another one.
    for window in range(15, 45):
        assert abs(laboratory[window] - bridge[window]) <= 0.005 * laboratory[window] + 1500, window
    assert sum(bridge[15:45]) > 50e6
