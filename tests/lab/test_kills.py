"""Whatever is killed, nothing stays, and campaigns go on: some kills by a seed. `make stress` has hundreds."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from tests.samples_by_seed import SEED
from tests.stress import campaigns
from tests.stress.kills import QUICK, measure

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBER = crc32(SEED.encode())


@pytest.fixture(autouse=True)
def _a_busy_machine() -> Iterator[None]:
    """Allow a minute: the three seconds of a quiet machine are a figure of `make stress`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WAVEBED_STRESS_GONE_WITHIN_S", "60")
        yield


def test_random_kills_leave_nothing() -> None:
    for figure in measure(8, QUICK, NUMBER):
        assert figure.state == "met", figure


def test_a_campaign_that_is_killed_again_and_again_ends_as_if_undisturbed() -> None:
    for figure in campaigns.measure(2, 5, NUMBER):
        assert figure.state == "met", figure
