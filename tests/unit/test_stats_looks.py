"""Looks at results before the end, planned and at any time, and the blocks that a decision needs."""

from __future__ import annotations

from itertools import pairwise, product
from statistics import NormalDist

import numpy as np
import pytest
import ville
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import nct
from tests.costs import least_ratio, loops

from wavebed.stats.family import MOST, Primary, advise, settle
from wavebed.stats.intervals import fewest_pairs, signed_rank_interval
from wavebed.stats.looks import STAKES, Anytime, Planned, Score, Spending, log_wealth, look_levels
from wavebed.stats.paired import signed_rank_p
from wavebed.stats.verdict import Margin


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


SCORES: tuple[Score, ...] = ("ranks", "signs")


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("sizes", [np.arange(1.0, 13.0)[::-1], np.array([3.0, 1, 1, 2, 0, 2, 5, 5, 5, 1, 0, 4])])
def test_over_all_signs_the_mean_wealth_stays_1_and_false_alarms_below_their_level(score: Score, sizes) -> None:
    """All 4096 signs are equally likely if the differences are symmetric around 0, given their sizes."""
    signs = np.array(list(product((-1.0, 1.0), repeat=len(sizes))))
    wealth = np.exp(log_wealth(signs * sizes, score))
    assert wealth.mean(axis=0) == pytest.approx(np.ones(len(sizes)), rel=1e-9)
    alarms = [Anytime(score=score).p(row) <= 0.05 for row in signs * sizes]
    assert 0 < np.mean(alarms) <= 0.05


@pytest.mark.parametrize("score", SCORES)
def test_the_wealth_is_that_of_ville(score: Score) -> None:
    """Ville's test of a mean bets a constant part of the wealth if its level is beyond reach."""
    differences = np.random.default_rng(4).normal(0.5, 1, 40)
    sizes = np.abs(differences)
    ranks = np.array([(sizes[: place + 1] <= sizes[place]).sum() / (place + 2) for place in range(40)])
    bets = ranks if score == "ranks" else np.ones(40)
    parts = [
        ville.BettingTest(0.0, bounds=(-1, 1), alternative="greater", alpha=1e-300, c=1.0)
        .fit(np.sign(differences) * np.tanh(stake * bets))
        .log_e_values_
        for stake in STAKES
    ]
    expected = np.logaddexp.reduce(parts, axis=0) - np.log(len(STAKES))
    assert log_wealth(differences, score) == pytest.approx(expected, abs=1e-12)


def test_the_interval_meets_that_of_villes_median_and_is_narrower() -> None:
    rng = np.random.default_rng(5)
    ratios = []
    for _ in range(50):
        differences = rng.standard_t(3, 60) + 2
        found = Anytime().interval(differences)
        other = ville.QuantileCS(t_opt=40).fit(differences).interval()
        assert found.low is not None
        assert found.high is not None
        assert max(found.low, other[0]) <= min(found.high, other[1])
        ratios.append((found.high - found.low) / (other[1] - other[0]))
    assert np.median(ratios) < 1


@pytest.mark.parametrize("score", SCORES)
def test_the_interval_has_the_values_against_which_the_bets_did_not_win(score: Score) -> None:
    differences = np.random.default_rng(6).normal(1, 1, 25)
    found = Anytime(score=score).interval(differences)
    shifts = np.linspace(-2, 4, 601)
    kept = [
        shift
        for shift in shifts
        if max(log_wealth(differences - shift, score).max(), log_wealth(shift - differences, score).max()) < np.log(40)
    ]
    assert found.low == pytest.approx(min(kept), abs=0.011)
    assert found.high == pytest.approx(max(kept), abs=0.011)
    assert found.level == 0.95


@pytest.mark.parametrize("score", SCORES)
def test_later_looks_never_widen_the_interval_nor_raise_the_p_value(score: Score) -> None:
    differences = np.random.default_rng(7).normal(0.4, 1, 50)
    looks = [Anytime(score=score).interval(differences[:count]) for count in range(1, 51)]
    assert looks[4].low is None
    bounds = [(look.low, look.high) for look in looks if look.low is not None and look.high is not None]
    assert len(bounds) > 35
    assert all(one[0] <= two[0] and two[1] <= one[1] for one, two in pairwise(bounds))
    p_values = [Anytime(score=score).p(differences[:count]) for count in range(1, 51)]
    assert p_values == sorted(p_values, reverse=True)


@given(st.lists(st.integers(-6, 9), min_size=1, max_size=30), st.sampled_from(SCORES))
def test_an_interval_without_0_has_a_p_value_of_5_percent_at_most(values: list[int], score: Score) -> None:
    design = Anytime(score=score)
    found = design.interval([float(value) for value in values])
    if found.low is not None and found.high is not None and not found.low <= 0 <= found.high:
        assert design.p([float(value) for value in values]) <= 0.05 + 1e-12


@given(st.lists(st.integers(-6, 9), min_size=1, max_size=20), st.integers(-8, 8), st.sampled_from(SCORES))
def test_the_wealth_falls_in_the_centre(values: list[int], shift: int, score: Score) -> None:
    """This makes the values that are not rejected an interval."""
    differences = np.array(values, dtype=np.float64)
    wealth = [log_wealth(differences - centre, score) for centre in (shift, shift + 0.25, shift + 0.5)]
    assert (wealth[0] >= wealth[1] - 1e-12).all()
    assert (wealth[1] >= wealth[2] - 1e-12).all()


def test_blocks_that_contradict_earlier_ones_give_the_gap_between_them() -> None:
    differences = [10.0 + 0.01 * place for place in range(15)] + [-10.0 - 0.01 * place for place in range(60)]
    found = Anytime().interval(differences)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0 < found.high


def test_without_blocks_there_is_nothing_to_say() -> None:
    assert Anytime().interval([]).estimate is None
    assert Anytime().p([]) == 1


def test_a_look_at_ten_metrics_of_a_hundred_blocks_takes_no_time() -> None:
    """Hundredths of a second. Measured: 0.7 to 0.9 times the peer."""
    sample = np.random.default_rng(8).normal(100, 5, (10, 2, 100))
    primaries = [Primary(a.tolist(), b.tolist(), Margin(0.05, relative=True), "lower") for a, b in sample]
    assert least_ratio(lambda: settle(primaries, Anytime()), loops) < 3


def test_the_size_is_that_of_the_non_central_t_distribution() -> None:
    pilot = np.random.default_rng(1).normal(0, 2, 10)
    spread = pilot.std(ddof=1)
    expected = (spread / 1.5 * nct.ppf(0.8, 9, 1.959964)) ** 2 * np.pi / 3 + 1.959964**2 / 2
    found = advise(pilot.tolist(), 1.5)
    assert found.blocks == int(np.ceil(expected))
    assert found.spread == pytest.approx(spread)
    assert found.reason is None


def test_a_certain_pilot_needs_what_the_textbook_says() -> None:
    """The normal distribution: ((1.96 + 0.84) / 0.5)² / 0.955 + 1.92."""
    pilot = np.random.default_rng(2).normal(0, 1, 20_000)
    found = advise(pilot.tolist(), 0.5)
    assert found.blocks == pytest.approx(34.8, abs=1.5)


def test_more_primaries_more_power_and_smaller_margins_need_more_blocks() -> None:
    pilot = np.random.default_rng(3).normal(0, 1, 15).tolist()
    sizes = [
        advise(pilot, 1.0).blocks,
        advise(pilot, 1.0, primaries=3).blocks,
        advise(pilot, 0.5, primaries=3).blocks,
        advise(pilot, 0.5, power=0.9, primaries=3).blocks,
    ]
    assert None not in sizes
    assert sizes == sorted(set(sizes), key=lambda each: each or 0)


def test_a_pilot_without_spread_or_margin_bears_no_advice() -> None:
    assert (advise([2.0] * 10, 1.0).blocks, advise([2.0] * 10, 1.0).reason) == (None, "constant")
    assert advise([1.0, 2.0, 3.0, 4.0], 1.0).reason == "too-few"
    assert advise([1.0, 2.0, 3.0, 4.0, 6.0], None).reason == "no-margin"
    assert advise([1.0, 2.0, 3.0, 4.0, 6.0], 0.0).reason == "no-margin"
    found = advise([1.0, 2.0, 3.0, 4.0, 6.0], 1e-4)
    assert (found.blocks, found.reason) == (None, "too-many")
    assert MOST == 100_000


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99, 1 - 0.05 / 3])
def test_no_advice_is_below_the_pairs_that_an_interval_needs(level: float) -> None:
    pilot = [0.0, 0.001, 0.002, 0.001, 0.0015]
    blocks = advise(pilot, 10.0, level).blocks
    assert blocks == fewest_pairs(level)
    assert signed_rank_interval(list(range(blocks)), level).low is not None
    assert signed_rank_interval(list(range(blocks - 1)), level).low is None
