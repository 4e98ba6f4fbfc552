"""The search for loss-free rates, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.forward.simulated import SimulatedTester

from wavebed.forward.frames import RFC2544_SIZES_BYTES, SIMPLE_IMIX, Headers, line_rate_pps
from wavebed.forward.model import Refusal
from wavebed.forward.plan import plan_search
from wavebed.forward.search import LOWERINGS, REPEATS, TRIES, search_size
from wavebed.forward.settings import FULL_GOALS, QUICK_GOALS, WIDTH, GoalSettings
from wavebed.forward.trials import TrialLog, load_limit

if TYPE_CHECKING:
    from wavebed.forward.search import SizeFinding


def searched(
    tester: SimulatedTester,
    goals: tuple[GoalSettings, ...] = QUICK_GOALS,
    sizes: tuple[int, ...] = (64,),
    link_mbps: float | None = 1000.0,
) -> tuple[SizeFinding, TrialLog]:
    log = tester.log()
    limit = load_limit(link_mbps, tester.calibrate(sizes), Headers())
    budget = plan_search(goals).budget(tester.overhead_s)
    return search_size(log, "x", limit, goals, budget), log


@pytest.mark.parametrize("goals", [QUICK_GOALS, FULL_GOALS], ids=["quick", "full"])
@pytest.mark.parametrize("size", RFC2544_SIZES_BYTES)
def test_a_known_capacity_is_found_within_the_width_at_every_size(goals, size) -> None:
    capacity = 0.37 * line_rate_pps(1000, [size])
    finding, _ = searched(SimulatedTester(capacity), goals, (size,))
    for goal in finding.goals:
        assert goal.outcome == "found"
        assert goal.rate is not None
        assert goal.width is not None
        assert goal.width <= WIDTH
        # What a goal accepts: capacity, or as much more as may be lost; a frame more or less by rounding of counts.
        accepted = capacity / (1 - goal.goal.loss_ratio)
        assert accepted * (1 - WIDTH) - 8 <= goal.rate.pps <= accepted + 8
        assert goal.upper is not None
        assert goal.upper.offered.pps >= accepted - 8


def test_loss_free_rates_are_in_order_and_the_conditional_throughput_is_what_arrived() -> None:
    finding, _ = searched(SimulatedTester(300_000, noise=0.002), FULL_GOALS)
    assert finding.in_order is True
    ndr, pdr = finding.goal("ndr"), finding.goal("pdr")
    assert ndr is not None
    assert pdr is not None
    assert ndr.rate is not None
    assert pdr.rate is not None
    assert ndr.rate.pps <= pdr.rate.pps
    assert pdr.conditional_throughput is not None
    assert pdr.lower is not None
    assert pdr.conditional_throughput.pps == pytest.approx(pdr.rate.pps * (1 - pdr.lower.loss_ratio))
    assert pdr.lower.loss_ratio <= 0.005


def test_all_three_rates_of_a_result_belong_together() -> None:
    finding, _ = searched(SimulatedTester(300_000))
    rate = finding.goals[0].rate
    assert rate is not None
    assert rate.l1_mbps == pytest.approx(rate.pps * 84 * 8 / 1e6)
    assert rate.frame_mbps == pytest.approx(rate.pps * 64 * 8 / 1e6)
    assert rate.payload_mbps == pytest.approx(rate.pps * 18 * 8 / 1e6)


def test_a_device_that_carries_the_link_is_at_line_rate() -> None:
    finding, _ = searched(SimulatedTester(1e9))
    assert [goal.outcome for goal in finding.goals] == ["line_rate"] * 3
    assert finding.goals[0].rate is not None
    assert finding.goals[0].rate.l1_mbps == pytest.approx(1000)
    assert finding.goals[0].upper is None


def test_where_the_tester_ends_first_the_result_is_refused_and_says_at_least() -> None:
    finding, _ = searched(SimulatedTester(1e9, ceiling_pps=1_000_000))
    for goal in finding.goals:
        assert goal.outcome == "at_least"
        assert goal.rate is None
        assert goal.refusal is not None
        assert goal.refusal.code == "tester_limit"
        assert "at least 880,000 pps" in goal.refusal.reason
        assert goal.lower is not None
        assert goal.lower.offered.pps == pytest.approx(880_000)
    assert finding.limited_by == "tester"


def test_a_found_rate_below_what_the_tester_can_do_stands_without_any_link_speed() -> None:
    finding, _ = searched(SimulatedTester(500_000, ceiling_pps=1_000_000), link_mbps=None)
    assert [goal.outcome for goal in finding.goals] == ["found"] * 3
    assert finding.line_rate is None


def test_a_load_that_the_sender_does_not_reach_is_lowered_until_it_does() -> None:
    finding, log = searched(SimulatedTester(300_000, reach_pps=700_000))
    assert [goal.outcome for goal in finding.goals] == ["found"] * 3
    assert finding.max_load.pps <= 700_000
    assert finding.limited_by == "tester"
    assert [one.code for one in log.trials[0].refusals] == ["late"]


def test_a_device_faster_than_the_sender_reaches_is_refused_as_the_testers_limit() -> None:
    finding, _ = searched(SimulatedTester(1e9, reach_pps=700_000))
    assert {goal.outcome for goal in finding.goals} == {"at_least"}
    assert {goal.refusal.code for goal in finding.goals if goal.refusal} == {"tester_limit"}


@pytest.mark.parametrize("at", [1, 2, 5])
@pytest.mark.parametrize("code", ["reboot", "duplicates", "flood", "peer", "super_packets"])
def test_a_refused_trial_ends_the_search_without_a_number(at, code) -> None:
    reason = Refusal(code, "it happened", "mend it")
    tester = SimulatedTester(300_000, noise=0.01, refuse=lambda number, _pps: reason if number >= at else None)
    finding, log = searched(tester)
    assert len(log.trials) == at
    for goal in finding.goals:
        assert goal.outcome == "refused"
        assert goal.refusal == reason
        assert goal.rate is None
        assert goal.lower is None
    assert finding.in_order is None


def test_a_trial_in_which_the_tester_was_disturbed_is_made_again() -> None:
    late = Refusal("late", "the machine was busy")
    tester = SimulatedTester(300_000, refuse=lambda number, _pps: late if number in (3, 6) else None)
    finding, log = searched(tester)
    assert [goal.outcome for goal in finding.goals] == ["found"] * 3
    assert tester.made[2] == tester.made[3]
    assert sum(1 for trial in log.trials if trial.refusals) == 2


def test_a_highest_load_is_not_lowered_for_one_disturbance() -> None:
    late = Refusal("late", "the machine was busy")
    tester = SimulatedTester(300_000, refuse=lambda number, _pps: late if number == 1 else None)
    finding, _ = searched(tester)
    assert finding.limited_by == "line_rate"
    assert finding.max_load.l1_mbps == pytest.approx(1000)


def test_every_other_trial_may_be_disturbed() -> None:
    late = Refusal("late", "the machine was busy")
    tester = SimulatedTester(300_000, noise=0.002, refuse=lambda number, _pps: late if number % 2 else None)
    finding, _ = searched(tester, QUICK_GOALS[1:])
    assert [goal.outcome for goal in finding.goals] == ["found"] * 2


def test_a_tester_that_stays_disturbed_ends_the_search() -> None:
    late = Refusal("late", "the machine was busy")
    after_start = SimulatedTester(300_000, refuse=lambda number, _pps: late if number > 2 else None)
    finding, log = searched(after_start)
    assert {goal.refusal for goal in finding.goals} == {late}
    assert 2 + 3 <= len(log.trials) <= 2 + 1 + REPEATS


def test_a_tester_that_is_late_at_every_load_ends_the_search() -> None:
    late = Refusal("late", "the machine was busy")
    finding, log = searched(SimulatedTester(300_000, refuse=lambda _number, _pps: late))
    assert {goal.outcome for goal in finding.goals} == {"refused"}
    assert {goal.refusal for goal in finding.goals} == {late}
    assert len(log.trials) <= LOWERINGS * TRIES + 1 + REPEATS


def test_a_device_that_loses_at_any_load_has_no_rate_below_the_lowest() -> None:
    tester = SimulatedTester(1.0)
    finding, _ = searched(tester)
    for goal in finding.goals:
        assert goal.outcome == "below"
        assert goal.rate is None
        assert goal.upper is not None


def test_one_goal_that_no_rate_fulfils_leaves_the_others_their_rates() -> None:
    # A frame lost about every other second: trials of 2 s hardly pass, most of 0.25 s do.
    finding, _ = searched(SimulatedTester(300_000, stray_per_s=0.5, seed=4))
    strict, ndr, pdr = finding.goals
    assert strict.outcome == "refused"
    assert strict.refusal is not None
    assert strict.refusal.code == "unsteady"
    assert strict.rate is None
    for goal in (ndr, pdr):
        assert goal.rate is not None
        assert goal.rate.pps == pytest.approx(300_000, rel=0.011)


def test_trials_made_before_a_goal_was_given_up_are_not_made_again() -> None:
    finding, log = searched(SimulatedTester(300_000, stray_per_s=0.5, seed=4))
    # The first load is the highest one; once is enough for it.
    top = finding.max_load.pps
    assert sum(1 for trial in log.trials if trial.offered_pps == top) == 1


def test_noise_moves_a_rate_by_no_more_than_the_noise() -> None:
    for seed in range(20):
        finding, _ = searched(SimulatedTester(300_000, noise=0.01, seed=seed), FULL_GOALS)
        for name in ("ndr", "pdr"):
            goal = finding.goal(name)
            assert goal is not None
            assert goal.rate is not None
            assert goal.rate.pps == pytest.approx(300_000, rel=0.03)


def test_a_device_that_collapses_under_overload_is_still_found_at_its_best() -> None:
    finding, _ = searched(SimulatedTester(400_000, collapse=0.02))
    for goal in finding.goals:
        assert goal.rate is not None
        assert goal.rate.pps == pytest.approx(400_000, rel=2 * WIDTH)


def test_a_mix_is_searched_as_one_and_names_its_genome() -> None:
    finding, log = searched(SimulatedTester(100_000), sizes=SIMPLE_IMIX)
    assert finding.genome == "IMIX - aAaaAgaAaaAa (A=594)"
    assert finding.goals[0].outcome == "found"
    assert {trial.sizes_bytes for trial in log.trials} == {SIMPLE_IMIX}
    assert finding.trials == tuple(range(len(log.trials)))


def test_bounds_count_their_trials() -> None:
    finding, log = searched(SimulatedTester(300_000), FULL_GOALS)
    for goal in finding.goals:
        assert goal.lower is not None
        at_load = [trial for trial in log.trials if trial.offered_pps == goal.lower.offered.pps]
        assert goal.lower.trials == len(at_load)
        assert goal.lower.good_s >= goal.goal.duration_sum_s * (1 - goal.goal.exceed_ratio)
        assert goal.lower.worst_loss_ratio == max(trial.loss_ratio for trial in at_load)
