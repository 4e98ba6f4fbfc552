"""The real ports of the tester, with a cable between them: exact accounts, and a verdict for whatever goes wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from wavebed._core import find_core

AGENT = Path(__file__).with_name("trials.py")
WITHIN_S = 120.0
"""Each takes a few seconds; the machine may be busy."""
BUSY = {"late", "reboot", "tester_limit"}
"""Codes of what a busy machine does to a trial."""


def ask(*what: str) -> list[dict[str, Any]]:
    command = [find_core(), "sandbox", "--", sys.executable, str(AGENT), *what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 0, done.stderr
    trials: list[dict[str, Any]] = json.loads(done.stdout)["trials"]
    return trials


def codes(trial: dict[str, Any]) -> list[str]:
    return [refusal["code"] for refusal in trial["refusals"]]


def check_exact(trial: dict[str, Any], planned: dict[str, int]) -> None:
    """Every frame of every size is in the counters of both ends, or was dropped where the sending end says so.

    A busy machine sends frames late, fills the ring of a cable, shows gaps or is slower than the offer. The trial has
    the codes of these then, and its accounts are as exact.
    """
    found = set(codes(trial))
    is_full = trial["tx"] is not None and 0 < trial["lost"] <= trial["tx"]["tx_dropped"]
    busy = found <= BUSY and ("reboot" not in found or "late" in found or is_full)
    assert busy, trial["refusals"]
    counters, late = trial["counters"], "late" in found
    assert trial["sent"] == sum(planned.values()) or (late and 0 < trial["sent"] < sum(planned.values()))
    assert trial["sent"] == trial["received"] + trial["lost"]
    assert trial["lost"] <= trial["tx"]["tx_dropped"] + trial["rx"]["rx_dropped"] + counters["receiver_lost"]
    assert counters["unique"] == trial["received"] > 0
    assert (counters["duplicates"], counters["stale"], counters["damaged"], counters["other_trial"]) == (0, 0, 0, 0)
    assert trial["rx"]["rx_packets"] == trial["received"] + counters["foreign"] + counters["receiver_lost"]
    missing = sum(planned.values()) - trial["received"]
    assert set(counters["sizes"]) == set(planned)
    assert all(planned[size] - missing <= counters["sizes"][size] <= planned[size] for size in planned)


def test_every_frame_is_accounted_at_both_ends() -> None:
    paced, mixed, long = ask("exact")
    check_exact(paced, {"64": 20_000})
    check_exact(mixed, {"64": 2000, "594": 1000, "1518": 1000})
    check_exact(long, {"1518": 2500})
    assert len(paced["counters"]["sample"]) == 4
    latency = paced["counters"]["latency"]
    assert latency["count"] == paced["received"]
    assert 0 < latency["min_s"] <= latency["p50_s"] <= latency["max_s"]


def test_segmentation_offload_is_a_refusal_and_its_remedy_helps() -> None:
    trap, mended = ask("offload")
    assert codes(trap) == ["offload"]
    assert trap["refusals"][0]["remedy"] == "ethtool -K tx0 tx-udp-segmentation off"
    assert trap["counters"] is None
    check_exact(mended, {"64": 200})


def test_a_frame_beyond_the_mtu_of_a_port_is_refused() -> None:
    long, short = ask("mtu")
    assert codes(long) == ["mtu"]
    check_exact(short, {"64": 200})


@pytest.mark.parametrize("what", ["down", "away"])
def test_a_port_that_goes_down_amid_a_trial_gives_no_number(what: str) -> None:
    for trial in ask(what):
        assert trial["verdict"] == "invalid"
        assert "port_down" in codes(trial), trial["refusals"]


@pytest.mark.parametrize("what", ["killed", "vanish"])
def test_a_port_that_vanishes_amid_a_trial_gives_no_number(what: str) -> None:
    for trial in ask(what):
        assert trial["verdict"] == "invalid"
        assert codes(trial) == ["peer"]


def test_a_port_behind_the_server_is_as_good_as_one_at_hand() -> None:
    (trial,) = ask("peer")
    check_exact(trial, {"64": 3000})
    assert trial["counters"]["latency"] is not None  # the same machine: one clock


@pytest.mark.parametrize(
    ("device", "rate_pps", "seconds", "code"),
    [
        ("flooding:rate=10000", 2000, 1, "flood"),
        ("duplicating:every=100", 2000, 1, "duplicates"),
        ("rebooting:after=500ms,down=200ms", 2000, 2, "reboot"),
    ],
)
def test_a_faulty_device_is_told_from_a_slow_one(device: str, rate_pps: int, seconds: int, code: str) -> None:
    (trial,) = ask("through", device, "64", str(rate_pps), str(seconds))
    assert trial["verdict"] == "invalid"
    assert code in codes(trial) or (code == "reboot" and set(codes(trial)) & {"port_down", "no_frames"})
