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


def test_the_ratio_of_a_kind_predicts_its_later_trials_and_little_of_the_others() -> None:
    estimate = Estimate([10, 10, 10, 10, 10], ["search", "latency", "search", "latency", "burst"])
    estimate.done(1, 30)
    estimate.done(2, 10)
    # Ratios 3 and 1, each shrunk a little towards the other; a kind of its own has the median of both and 1.
    assert estimate.ratio(3) == pytest.approx((30 + 5 * 2) / 15)
    assert estimate.ratio(4) == pytest.approx((10 + 5 * 2) / 15)
    assert estimate.ratio(5) == pytest.approx(4 / 3)
    assert estimate.left_s == pytest.approx(10 * (estimate.ratio(3) + estimate.ratio(4) + estimate.ratio(5)))
    assert estimate.after_s(4) == pytest.approx(10 * estimate.ratio(5))


def test_an_expectation_is_replaced_until_the_trial_has_finished() -> None:
    estimate = Estimate([10, 10])
    estimate.expect(2, 30)
    assert estimate.left_s == 40
    estimate.done(1, 10)
    estimate.expect(1, 99)
    assert estimate.left_s == pytest.approx(30)


def test_a_run_converges_to_its_time_by_kinds() -> None:
    kinds = ["a", "b"] * 50
    estimate = Estimate([10.0] * 100, kinds)
    took = {"a": 4.0, "b": 25.0}
    for number in range(1, 11):
        estimate.done(number, took[kinds[number - 1]])
    assert estimate.left_s == pytest.approx(45 * 29, rel=0.05)


def test_a_trial_in_the_middle_that_is_made_again_takes_its_time() -> None:
    estimate = Estimate([10, 20, 30, 40])
    for number in (1, 3, 4):
        estimate.done(number, 10.0 * number)
    assert estimate.from_s(2) == pytest.approx(20)
    estimate.done(2, 20)
    assert estimate.from_s(2) == pytest.approx(20)
    assert estimate.after_s(1) == 0
