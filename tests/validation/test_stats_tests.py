"""Drift, exclusions, percentiles."""

from __future__ import annotations

import numpy as np
import pytest

from wavebed.stats.family import drifts
from wavebed.stats.paired import exclusions


def test_many_treatments_have_no_more_false_drifts_than_one() -> None:
    rng = np.random.default_rng(2)
    wrong = [
        any(
            each.code != "none"
            for each in drifts({str(name): rng.normal(size=15).tolist() for name in range(5)}).values()
        )
        for _ in range(300)
    ]
    assert np.mean(wrong) < 0.05 + 2 * 0.0126


def test_exclusions_of_three_treatments_are_judged_together() -> None:
    found = exclusions({"a": (1, 20), "b": (12, 20), "c": (2, 20)})
    assert (found.code, found.method.name) == ("differ", "chi-square")
    assert exclusions({"a": (1, 20), "b": (2, 20), "c": (1, 20)}).code == "alike"
    with pytest.raises(ValueError, match="5 of 4 trials"):
        exclusions({"a": (5, 4)})
