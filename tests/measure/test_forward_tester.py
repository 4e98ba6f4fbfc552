"""The real ports of the tester: the rate of a slow device between them, and the latency of a cable."""

from __future__ import annotations

import pytest
from tests.lab.test_forward_tester import ask


def test_the_latency_of_a_cable_is_below_five_milliseconds() -> None:
    latency = ask("exact")[0]["counters"]["latency"]
    # Microseconds on a quiet machine, a time slice on a busy one.
    assert latency["p50_s"] < 0.005
    assert latency["max_s"] < 2


def test_a_slow_device_passes_its_rate() -> None:
    (trial,) = ask("through", "shaped:rate=2000,burst=20", "64", "8000", "1")
    if trial["refusals"]:
        pytest.skip("inconclusive: more than a tenth of the frames was late, so that the device may have rested")
    assert trial["received"] >= 0.85 * (2000 * trial["took_s"] + 20)
