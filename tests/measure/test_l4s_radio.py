"""One scalable and one CUBIC flow over a radio with a dual queue: the sender of `docs/validation/l4s_flow.py`."""

from __future__ import annotations

import pytest
from l4s import QUEUES, measure

SECONDS = 15
LATE_US = 1000


def test_a_scalable_and_a_cubic_flow_share_the_buffer_of_a_radio() -> None:
    found = measure(QUEUES["dualpi2"], SECONDS)
    if found.late_us > LATE_US:
        pytest.skip(f"inconclusive: the engine was late by {found.late_us:.0f} µs at p99")
    assert found.scalable_marks > 100
    # Overload drops packets even where they can be marked (RFC 9332, 4.2.3); most are marked.
    assert found.drops < found.classic_marks
    assert 0.35 <= found.share <= 0.65
    assert found.scalable_p99 <= 10
