"""The plan: the time that was said is the time it takes, for hundreds of random devices."""

from __future__ import annotations

import random
from statistics import median

import pytest
from tests.unit.forward_simulated import SimulatedTester
from tests.unit.test_forward_plan import OVERHEAD_S, STEADY, time_of

from wavebed.forward.plan import plan_search
from wavebed.forward.settings import FULL_GOALS, QUICK_GOALS


@pytest.mark.parametrize("goals", [QUICK_GOALS, FULL_GOALS], ids=["quick", "full"])
def test_the_bound_cuts_off_no_search_of_a_device_that_is_no_noisier_than_one_percent(goals) -> None:
    draw = random.Random(7)
    cut = 0
    for number in range(100):
        noise, collapse = draw.choice([0.0, 0.002, 0.01]), draw.choice([1.0, 0.3, 0.01])
        tester = SimulatedTester(1.5e6 * 10 ** draw.uniform(-2, 0.1), noise=noise, collapse=collapse, seed=number)
        _, outcomes = time_of(tester, goals)
        # NDR and PDR are decided by most of several trials; one long trial may contradict the one before it.
        assert "refused" not in outcomes[1:], number
        cut += outcomes[0] == "refused"
    assert cut <= 5


def test_a_search_without_the_long_goal_is_planned_shorter() -> None:
    assert (
        plan_search(FULL_GOALS[1:]).part("64", 0.3, STEADY).expected_s
        < plan_search(FULL_GOALS).part("64", 0.3, STEADY).expected_s / 2
    )


@pytest.mark.parametrize("goals", [QUICK_GOALS, FULL_GOALS], ids=["quick", "full"])
def test_searches_take_about_the_time_that_was_expected(goals) -> None:
    draw = random.Random(11)
    expected_s = plan_search(goals).part("64", OVERHEAD_S, STEADY).expected_s
    took_s = []
    for number in range(100):
        noise = draw.choice([0.0, 0.002, 0.01])
        tester = SimulatedTester(1.5e6 * 10 ** draw.uniform(-1.5, 0), noise=noise, seed=number, overhead_s=OVERHEAD_S)
        took_s.append(time_of(tester, goals)[0])
    assert 0.7 * expected_s <= median(took_s) <= 1.4 * expected_s
