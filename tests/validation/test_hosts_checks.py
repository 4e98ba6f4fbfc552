"""The checks of a trial between real hosts, and one-way delays between their clocks."""

from __future__ import annotations

import random
from math import exp, sqrt

from tests.unit.test_hosts_checks import suspected


def false_alarms(correlation: float, trials: int = 4000) -> float:
    """Return the share of trials that are suspect on a path whose idle delay varies, without any cross traffic."""
    source = random.Random(7)

    def pings() -> list[float]:
        level, found = source.gauss(0, 1), []
        for _ in range(20):
            level = correlation * level + sqrt(1 - correlation**2) * source.gauss(0, 1)
            found.append(15 + 10 * exp(0.8 * level))
        return found

    return sum(suspected(pings(), pings()) for _ in range(trials)) / trials


def test_the_rate_of_false_alarms_is_the_one_that_the_guide_states() -> None:
    assert false_alarms(0.0, 8000) <= 0.001
    assert all(false_alarms(correlation) <= 0.01 for correlation in (0.5, 0.7, 0.9))
