"""Whether a link with a full queue delivered what its pattern allows, from rows made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from wavebed.run.backlog import backlog_check
from wavebed.run.capacity import Steps

if TYPE_CHECKING:
    from wavebed.result.model import Check


def steps(rate_bps: int) -> Steps:
    return Steps("radio.down", np.zeros(1, np.int64), np.array([rate_bps], np.int64), np.full(1, -1, np.int8))


def rows(
    rate_bps: int,
    *,
    size_bytes: int = 1500,
    overhead_bytes: int = 0,
    still_ms: range = range(0),
    first_ms: int = 0,
    queue_bytes: int = 100_000,
) -> pd.DataFrame:
    """Return two seconds of a full queue, from which a unit leaves whenever the rate allows, but for `still_ms`."""
    every_ms = (size_bytes + overhead_bytes) * 8 * 1000 / rate_bps
    times = np.floor(np.arange(first_ms, 2000, every_ms)).astype(int)
    time_ms, count = np.unique(np.append(0, times[~np.isin(times, still_ms)]), return_counts=True)
    frame = pd.DataFrame({"time_ms": time_ms, "link": "radio.down", "delivered_segments": count})
    frame["delivered_bytes"] = count * size_bytes
    frame["dropped_loss_segments"] = 0
    frame["dropped_corrupted_header_segments"] = 0
    frame["queue_bytes"] = queue_bytes
    return frame


def judged(rate_bps: int, **how: int | range) -> Check:
    return backlog_check(rows(rate_bps, **how), steps(rate_bps))  # type: ignore[arg-type]


@pytest.mark.parametrize("rate_bps", [300_000, 2_000_000, 50_000_000, 1_000_000_000])
def test_a_link_that_delivers_at_its_rate_holds(rate_bps: int) -> None:
    check = judged(rate_bps)
    assert check.holds, check.evidence
    assert "windows of 0.2 s" in check.evidence


def test_super_packets_that_leave_at_once_are_no_shortfall() -> None:
    assert judged(10_000_000, size_bytes=64_000).holds


@pytest.mark.parametrize("rate_bps", [2_000_000, 100_000_000])
def test_a_link_that_stands_still_beside_its_full_queue_does_not_hold(rate_bps: int) -> None:
    check = judged(rate_bps, still_ms=range(800, 1600))
    assert not check.holds
    assert check.severity == "suspect"


def test_a_queue_that_is_nearly_empty_says_nothing() -> None:
    check = judged(100_000_000, still_ms=range(800, 1600), queue_bytes=3000)
    assert check.holds
    assert "never full" in check.evidence


def test_headers_of_lower_layers_use_the_rate() -> None:
    found = rows(10_000_000, size_bytes=200, overhead_bytes=40)
    assert not backlog_check(found, steps(10_000_000)).holds
    assert backlog_check(found, replace(steps(10_000_000), overhead_bytes=40)).holds


def test_what_is_still_on_its_way_does_not_lack() -> None:
    found = rows(10_000_000, first_ms=600)
    assert not backlog_check(found, steps(10_000_000)).holds
    check = backlog_check(found, replace(steps(10_000_000), delay_ns=600_000_000))
    assert check.holds
    assert "windows of 0.2 s" in check.evidence


def test_the_queue_of_a_ue_at_its_packet_rate_is_no_shortfall() -> None:
    found = rows(12_000_000)  # 1000 packets of 1500 bytes in a second
    assert not backlog_check(found, steps(50_000_000)).holds
    assert backlog_check(found, replace(steps(50_000_000), packets_per_s=1000)).holds


def test_a_queue_that_is_in_turn_that_of_the_ue_and_of_the_rate_is_no_shortfall() -> None:
    """Half of each window has packets of 1250 bytes at the rate, the other half small ones at the limit of the UE."""
    found = rows(8_000_000, size_bytes=1000)
    small = found["time_ms"] % 200 >= 100
    found.loc[~small, "delivered_bytes"] = found.loc[~small, "delivered_segments"] * 1250
    found.loc[small, "delivered_bytes"] = found.loc[small, "delivered_segments"] * 100
    assert backlog_check(found, replace(steps(10_000_000), packets_per_s=1000)).holds


def test_a_link_that_is_still_beside_both_full_queues_does_not_hold() -> None:
    found = rows(12_000_000, still_ms=range(800, 1600))
    assert not backlog_check(found, replace(steps(50_000_000), packets_per_s=1000)).holds
