"""Whatever is killed, nothing stays: 200 random kills of laboratories. `make stress` adds runs and browsers."""

from __future__ import annotations

import pytest
from tests.stress.kills import QUICK, measure


@pytest.mark.slow
def test_two_hundred_random_kills_leave_nothing() -> None:
    for figure in measure(200, QUICK):
        assert figure.state == "met", figure
