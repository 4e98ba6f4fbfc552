"""Many independent comparisons at once have the findings of each by itself."""

from __future__ import annotations

import numpy as np

from wavebed.stats.family import Primary, settle_many
from wavebed.stats.verdict import Margin


def test_false_alarms_of_a_family_are_held() -> None:
    generator = np.random.default_rng(9)
    alarms = 0
    for _ in range(300):
        family = [
            Primary(generator.normal(0, 1, 8).tolist(), generator.normal(0, 1, 8).tolist(), Margin(0.2), "higher")
            for _ in range(4)
        ]
        alarms += any(found.verdict in ("better", "worse") for found in settle_many([family])[0])
    assert alarms / 300 < 0.05 + 2 * (0.05 * 0.95 / 300) ** 0.5
