"""How the page on real traces measures: distance of two distributions, times below a threshold, rates of a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from real_traces_data import Runs, ks_distance, mahimahi, outages

if TYPE_CHECKING:
    from pathlib import Path


def numbers(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)


def test_a_sample_has_no_distance_from_itself_in_any_order_and_number() -> None:
    assert ks_distance(numbers(1, 2, 3), numbers(3, 1, 2, 1, 2, 3)) == 0


def test_samples_that_do_not_meet_are_one_apart() -> None:
    assert ks_distance(numbers(1, 2), numbers(3, 4, 5)) == 1
    assert ks_distance(numbers(3, 4, 5), numbers(1, 2)) == 1


def test_the_greatest_distance_counts_and_ties_are_jumped_at_once() -> None:
    assert ks_distance(numbers(1, 2, 3, 4), numbers(3, 4, 5, 6)) == 0.5
    assert ks_distance(numbers(1, 1, 1, 2), numbers(1, 2, 2, 2)) == 0.5
    assert ks_distance(numbers(0), numbers(-1, 0, 1, 2)) == 0.5


def test_two_draws_of_one_distribution_are_as_near_as_kolmogorov_says() -> None:
    chance = np.random.default_rng(1)
    one, other = chance.normal(size=4000), chance.normal(size=1000)
    scale = (1 / 4000 + 1 / 1000) ** 0.5
    assert ks_distance(one, other) < 1.95 * scale  # exceeded once in a thousand
    assert ks_distance(one, other + 0.5) > 1.95 * scale


def test_nothing_has_no_distribution() -> None:
    with pytest.raises(ValueError, match="samples"):
        ks_distance(numbers(), numbers(1))


def test_times_below_a_threshold_do_not_run_from_one_walk_into_the_next() -> None:
    found = outages(Runs("walks", (numbers(9, 1, 1, 5, 0), numbers(4, 4, 4, 9, 9))), 5)
    assert found.lengths_s.tolist() == [2, 1, 3]
    assert found.fraction == 0.6


def test_opportunities_are_counted_by_whole_second(tmp_path: Path) -> None:
    (tmp_path / "trace").write_text("0\n999\n1000\n2999\n3000\n")
    rates = mahimahi(tmp_path, "trace").rates
    assert rates.tolist() == pytest.approx([0.024, 0.012, 0.012])
