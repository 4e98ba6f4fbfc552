"""A campaign that is killed before any change of the disk, or finds it full, goes on as if undisturbed."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest
from tests.unit.campaign_example import example, live, run_until_killed, simulated

from wavebed.campaign.run import run_campaign
from wavebed.campaign.status import status_of
from wavebed.experiment.events import TrialStored
from wavebed.experiment.journal import read_journal
from wavebed.result.load import load_run
from wavebed.result.metrics import read_metrics

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.campaign.read import Campaign
    from wavebed.result.model import Verdict
    from wavebed.run.order import Slot

BETWEEN = 43
"""One in so many changes of the disk is tried; the slow tests try one in four, by turns."""
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture(autouse=True)
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVEBED_LOCK", str(tmp_path / "lock"))


def first_is_invalid(slot: Slot) -> Verdict:
    """Let one cell need two attempts in each block, and another fail in one block."""
    if slot.treatment.name == "40ms" and slot.block == 2:
        return "failed"
    return "invalid" if slot.treatment.name == "20ms" and slot.attempt == 1 else "valid"


TRIAL = simulated(first_is_invalid)


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("wavebed.run.runner.run_trial", TRIAL)
    run_campaign(example(tmp_path, attempts=2), tmp_path / "whole", [], live())
    monkeypatch.undo()
    monkeypatch.setenv("WAVEBED_LOCK", str(tmp_path / "lock"))
    return tmp_path / "whole"


def names(folder: Path) -> list[str]:
    return [event.trial for event in read_journal(folder) if isinstance(event, TrialStored)]


def check_as(folder: Path, whole: Path) -> None:
    assert names(folder) == names(whole)
    one, other = load_run(folder), load_run(whole)
    assert one.trials.equals(other.trials)
    assert one.metrics.equals(other.metrics)
    assert read_metrics(folder, {}).equals(read_metrics(whole, {}))
    assert {path.name for path in folder.iterdir()} == {path.name for path in whole.iterdir()}
    assert {path.name for path in (folder / "trials").iterdir()} == {path.name for path in (whole / "trials").iterdir()}
    assert status_of(folder).state == "ended"


def steps(first: int, between: int) -> list[int]:
    return list(range(first, 400, between))


def kill_at(campaign: Campaign, folder: Path, step: int) -> bool:
    return run_until_killed(campaign, folder, step, TRIAL)


def check_every(campaign: Campaign, whole: Path, first: int, between: int, error: OSError | None = None) -> int:
    """Disturb a campaign once at every such step, and return the steps that an undisturbed one has."""
    for step in steps(first, between):
        folder = whole.parent / f"at-{step}"
        if run_until_killed(campaign, folder, step, TRIAL, error):
            return step
        assert kill_at(campaign, folder, 10**9), f"step {step}: it does not go on"
        check_as(folder, whole)
    raise AssertionError("it has more steps than were tried")


@pytest.mark.parametrize("first", [1, 17])
def test_a_kill_before_a_change_of_the_disk_changes_nothing(first: int, whole: Path) -> None:
    assert check_every(example(whole.parent, attempts=2), whole, first, BETWEEN) > 100


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, 5, 9, 13])
def test_a_kill_before_many_changes_of_the_disk_changes_nothing(first: int, whole: Path) -> None:
    assert check_every(example(whole.parent, attempts=2), whole, first, 16) > 100


@pytest.mark.parametrize("first", [9, 30])
def test_a_disk_that_is_full_from_a_change_on_changes_nothing(first: int, whole: Path) -> None:
    assert check_every(example(whole.parent, attempts=2), whole, first, BETWEEN, FULL) > 100


@pytest.mark.slow
@pytest.mark.parametrize("first", [3, 7, 11, 15])
def test_a_disk_that_is_full_from_many_changes_on_changes_nothing(first: int, whole: Path) -> None:
    assert check_every(example(whole.parent, attempts=2), whole, first, 16, FULL) > 100


def test_many_kills_one_after_another_change_nothing(whole: Path) -> None:
    campaign, folder = example(whole.parent, attempts=2), whole.parent / "again"
    kills = 0
    while not kill_at(campaign, folder, 25 + 6 * kills):
        kills += 1
    assert kills > 5
    check_as(folder, whole)
