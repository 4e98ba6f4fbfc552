"""A campaign that is killed before any change of the disk, or finds it full, goes on as if undisturbed.

These are samples: `make stress EXPERIMENTS=campaign_steps` tries every change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.samples_by_seed import sample
from tests.stress.campaign_steps import FULL, Whole

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Whole:
    monkeypatch.setenv("WAVEBED_LOCK", "")  # restores the variable, which Whole sets
    return Whole(tmp_path)


@pytest.mark.parametrize("error", [None, FULL], ids=["killed", "disk full"])
def test_a_campaign_that_is_disturbed_at_a_change_of_the_disk_ends_as_if_undisturbed(
    error: OSError | None, whole: Whole
) -> None:
    assert len(whole.steps()) > 100
    for step in sample(whole.steps(), 8):
        assert not (problem := whole.problem_at(step, error)), f"change {step}: {problem}"


def test_many_kills_one_after_another_change_nothing(whole: Whole) -> None:
    kills, difference = whole.killed_again_and_again(25, 6)
    assert kills > 5
    assert not difference
