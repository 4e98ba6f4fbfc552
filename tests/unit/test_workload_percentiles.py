"""A percentile of too few values is missing, not the largest of them."""

from __future__ import annotations

import pytest

from wavebed.workload.percentiles import least_values, percentile


@pytest.mark.parametrize(("share", "least"), [(50, 2), (90, 10), (95, 20), (99, 100)])
def test_one_value_at_least_is_to_be_expected_above_it(share: int, least: int) -> None:
    assert least_values(share) == least
    values = [float(number) for number in range(least)]
    assert percentile(values[1:], share) is None
    # Linear between order statistics, as numpy and spreadsheets do it.
    assert percentile(values, share) == pytest.approx(share / 100 * (least - 1))


def test_more_may_be_asked_for() -> None:
    assert percentile([1.0] * 19, 50, least=20) is None
    assert percentile([1.0] * 20, 50, least=20) == 1.0
    assert percentile([], 50) is None
