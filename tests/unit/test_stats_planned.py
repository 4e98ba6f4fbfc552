"""Planned looks, against published boundaries."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from wavebed.stats.intervals import signed_rank_interval
from wavebed.stats.paired import signed_rank_p
from wavebed.stats.planned import Planned, Spending, look_levels


@pytest.mark.parametrize(
    ("spending", "boundaries"),
    [  # Two-sided 5 %, five equal looks: Jennison and Turnbull 2000, chapter 7.
        ("obrien-fleming", (4.877, 3.357, 2.680, 2.290, 2.031)),
        ("pocock", (2.438, 2.427, 2.410, 2.397, 2.386)),
    ],
)
def test_boundaries_are_the_published_ones(spending: Spending, boundaries: tuple[float, ...]) -> None:
    levels = look_levels((10, 20, 30, 40, 50), 0.05, spending)
    found = [-NormalDist().inv_cdf(level / 2) for level in levels]
    assert found == pytest.approx(boundaries, abs=1.5e-3)


def test_a_single_look_is_a_fixed_size() -> None:
    differences = np.random.default_rng(1).normal(0.5, 1, 20)
    found, fixed = Planned((20,)).interval(differences), signed_rank_interval(differences)
    assert (found.low, found.high, found.estimate) == (fixed.low, fixed.high, fixed.estimate)
    assert Planned((20,)).p(differences) == pytest.approx(signed_rank_p(differences), rel=1e-3)


def test_only_planned_looks_count() -> None:
    differences = np.random.default_rng(2).normal(2, 1, 40)
    design = Planned((10, 20, 30), spending="pocock")
    assert design.interval(differences[:9]).low is None
    assert design.p(differences[:9]) == 1
    assert design.interval(differences[:19]) == design.interval(differences[:10])
    assert design.interval(differences) == design.interval(differences[:30])


def test_the_p_value_is_at_most_5_percent_exactly_if_an_interval_excluded_0() -> None:
    rng = np.random.default_rng(3)
    agree = []
    for _ in range(60):
        differences = rng.normal(0.5, 1, 30)
        design = Planned((10, 20, 30), spending="pocock")
        found = design.interval(differences)
        assert found.low is not None
        assert found.high is not None
        agree.append((found.low > 0 or found.high < 0) == (design.p(differences) <= 0.05))
    assert all(agree)


@pytest.mark.parametrize("looks", [(), (0, 5), (10, 10), (20, 10)])
def test_looks_must_rise(looks: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="must rise"):
        Planned(looks)
