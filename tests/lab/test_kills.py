"""Whatever is killed, nothing stays, and campaigns go on: `make stress` has more kills, of runs and browsers too."""

from __future__ import annotations

from tests.stress import campaigns
from tests.stress.kills import QUICK, measure


def test_a_hundred_random_kills_leave_nothing() -> None:
    for figure in measure(100, QUICK):
        assert figure.state == "met", figure


def test_a_campaign_that_is_killed_ten_times_ends_as_if_undisturbed() -> None:
    for figure in campaigns.measure(10, 20):
        assert figure.state == "met", figure
