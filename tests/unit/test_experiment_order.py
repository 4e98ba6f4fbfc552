"""The order of trials, and how long they take."""

from __future__ import annotations

import pytest

from wavebed.experiment.estimate import Estimate
from wavebed.experiment.order import in_blocks

TREATMENTS = ("bridge", "routing", "nat", "xdp", "relay")


def test_each_block_has_every_treatment_once_and_orders_are_drawn_by_the_seed() -> None:
    blocks = in_blocks(TREATMENTS, 6, 1)
    assert len(blocks) == 6
    assert all(sorted(block) == sorted(TREATMENTS) for block in blocks)
    assert len(set(blocks)) > 1
    assert blocks == in_blocks(TREATMENTS, 6, 1)
    assert blocks != in_blocks(TREATMENTS, 6, 2)


def test_more_blocks_leave_the_first_ones_as_they_were() -> None:
    assert in_blocks(TREATMENTS, 9, 1)[:6] == in_blocks(TREATMENTS, 6, 1)


def test_the_time_left_is_as_planned_at_first_and_as_measured_later() -> None:
    estimate = Estimate([10, 10, 20])
    assert estimate.left_s == 40
    estimate.done(1, 15)
    assert estimate.left_s == pytest.approx(1.5 * 30)
    estimate.done(2, 5)
    assert estimate.left_s == pytest.approx(20)
    estimate.done(3, 20)
    assert estimate.left_s == 0


def test_a_trial_that_is_left_out_takes_no_time() -> None:
    estimate = Estimate([10, 10, 20])
    estimate.done(2, 20)
    assert estimate.left_s == pytest.approx(40)
