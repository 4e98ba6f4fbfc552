"""The plan: the time that was said is the time it takes, for hundreds of random devices."""

from __future__ import annotations

import random

import pytest
from tests.unit.forward_simulated import SimulatedTester
from tests.unit.test_forward_plan import OVERHEAD_S, time_of

from wavebed.forward.plan import plan_search
from wavebed.forward.settings import FULL_GOALS, QUICK_GOALS


def random_device(number: int) -> SimulatedTester:
    """Return a device as unsteady as they come: noisy, collapsing, leaking, or behind a slow sender."""
    draw = random.Random(number)
    return SimulatedTester(
        capacity=1.5e6 * 10 ** draw.uniform(-3.0, 0.1),
        noise=draw.choice([0.0, 0.002, 0.01, 0.05, 0.2]),
        stray_per_s=draw.choice([0.0, 0.0, 0.02, 0.3, 3.0]),
        collapse=draw.choice([1.0, 1.0, 0.5, 0.01]),
        buffer_frames=draw.choice([0, 100, 5000]),
        reach_pps=draw.choice([float("inf"), 8e5]),
        overhead_s=draw.uniform(0.5, 1.4) * OVERHEAD_S,
        seed=number,
    )


@pytest.mark.parametrize("goals", [QUICK_GOALS, FULL_GOALS, QUICK_GOALS[1:], FULL_GOALS[:1]])
def test_no_search_of_two_hundred_random_devices_exceeds_its_bound(goals) -> None:
    bound_s = plan_search(goals).budget(OVERHEAD_S).at_most_s
    for number in range(200):
        took_s, _ = time_of(random_device(number), goals)
        assert took_s <= bound_s, number
