"""The real ports of the tester, with a cable between them: exact accounts, and a verdict for whatever goes wrong."""

from __future__ import annotations

import pytest
from tests.lab.test_forward_tester import ask, check_exact, codes


def test_every_frame_is_accounted_at_both_ends() -> None:
    paced, mixed, long = ask("exact")
    check_exact(paced, {"64": 20_000})
    check_exact(mixed, {"64": 2000, "594": 1000, "1518": 1000})
    check_exact(long, {"1518": 2500})
    assert len(paced["counters"]["sample"]) == 4
    latency = paced["counters"]["latency"]
    assert latency["count"] == paced["received"]
    assert 0 < latency["min_s"] <= latency["p50_s"] <= latency["max_s"] < 2
    assert latency["p50_s"] < 0.005  # a cable: microseconds on a quiet machine, a time slice on a busy one


def test_a_slow_device_loses_what_it_cannot_carry() -> None:
    (trial,) = ask("through", "shaped:rate=2000,burst=20", "64", "8000", "1")
    assert set(codes(trial)) <= {"late"}, trial["refusals"]
    assert trial["sent"] == trial["received"] + trial["lost"]
    assert trial["counters"]["foreign"] == trial["rx"]["rx_packets"] - trial["received"]
    most = 2000 * trial["took_s"] + 20
    assert 0 < trial["received"] <= 1.05 * most  # what was under way when the sender had done is in it
    if trial["refusals"]:
        pytest.skip("inconclusive: more than a tenth of the frames was late, so that the device may have rested")
    assert trial["received"] >= 0.85 * most
