"""The time left is the sum over the trials that are left, whatever order they finish in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.experiment.estimate import Estimate

_SECONDS = st.integers(1, 60)


@given(st.data())
def test_the_time_left_is_the_sum_over_the_trials_that_are_left(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    expected = [float(data.draw(_SECONDS)) for _ in range(count)]
    kinds = [data.draw(st.sampled_from("abc")) for _ in range(count)]
    estimate = Estimate(expected, kinds)
    finished: set[int] = set()
    for _ in range(data.draw(st.integers(0, 15))):
        number = data.draw(st.integers(1, count))
        if data.draw(st.booleans()):
            estimate.done(number, float(data.draw(_SECONDS)))
            finished.add(number)
        elif number not in finished:
            expected[number - 1] = float(data.draw(_SECONDS))
            estimate.expect(number, expected[number - 1])
        after = data.draw(st.integers(0, count))
        left = [each for each in range(after + 1, count + 1) if each not in finished]
        whole_s = sum(expected[each - 1] * estimate.ratio(each) for each in left)
        assert estimate.after_s(after) == pytest.approx(whole_s, abs=1e-6)
    assert estimate.left_s == pytest.approx(estimate.after_s(max(finished, default=0)))
