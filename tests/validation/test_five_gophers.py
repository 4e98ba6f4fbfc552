"""Distance and orientation of 5Gophers: from one published median, the load of the cell; from that, the other."""

from __future__ import annotations

import pytest
from five_gophers import PAIRS, retained


@pytest.mark.parametrize("name", ["distance", "orientation"])
def test_the_second_median_of_an_experiment_follows_from_the_first(name: str) -> None:
    pair = PAIRS[name]
    assert pair.predicted_mbps() == pytest.approx(pair.far_mbps, rel=0.15)


def test_behind_a_person_75_m_away_the_published_fraction_is_left() -> None:
    """1185 of 1772 Mbit/s, within 10 points. The distance is not published: nearer, more is left."""
    assert retained(75, 1, "umi") == pytest.approx(1185 / 1772, abs=0.10)
