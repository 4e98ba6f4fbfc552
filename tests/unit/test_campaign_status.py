"""The progress of a campaign, read from its journal by another process."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from wavebed.campaign.status import CampaignStatus, Progress, status_of, status_text, watch
from wavebed.cli import main
from wavebed.store.disk import claimed
from wavebed.store.journal import (
    Journal,
    RunBegun,
    RunEnded,
    RunInterrupted,
    RunPlanned,
    StepBegun,
    TrialBegun,
    TrialStored,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVEBED_LOCK", str(tmp_path / "lock"))


def begun(number: int, left_s: float) -> TrialBegun:
    return TrialBegun(trial=f"000{number}-a", number=number, trials=3, left_s=left_s, treatment="a", block=1, seed=4)


def assert_left(status: CampaignStatus, of_s: float, before_s: float) -> None:
    """Check that so many seconds were left at a moment since `before_s`, and have passed as they should."""
    left_s = status.left_s
    assert left_s is not None
    assert of_s - (time.monotonic() - before_s) - 0.1 <= left_s <= of_s + 0.1


def test_a_campaign_runs_while_its_folder_is_held_and_was_killed_if_nobody_holds_it(tmp_path: Path) -> None:
    with claimed(tmp_path), Journal() as journal:
        journal.open(tmp_path)
        journal.emit(RunBegun(kind="campaign", title="delays"))
        journal.emit(RunPlanned(trials=3, expected_s=30))
        assert (status_of(tmp_path).state, status_of(tmp_path).left_s) == ("running", 30)
        before_s = time.monotonic()
        journal.emit(begun(1, 30))
        status = status_of(tmp_path)
        assert status.current is not None
        assert_left(status, 30, before_s)
        assert status_text(tmp_path, status).splitlines()[-1] == "now: 0001-a, block 1, seed 4"
    killed = status_of(tmp_path)
    assert (killed.state, killed.current, killed.left_s) == ("killed", None, None)
    assert status_text(tmp_path, killed).startswith(
        f"delays: killed: go on with wavebed campaign run --resume {tmp_path}\n0 of 3 trials"
    )


def test_the_estimate_passes_between_trials_but_not_while_it_waits() -> None:
    status = CampaignStatus(planned=3)
    status.add(RunPlanned(trials=3, expected_s=30))
    before_s, ago = time.monotonic(), datetime.now(UTC) - timedelta(seconds=8)
    status.add(StepBegun(step="waiting", left_s=28, time=ago))
    assert status.left_s == 28
    status.add(TrialBegun(trial="0001-a", number=1, trials=3, left_s=30, time=ago))
    assert_left(status, 22, before_s)
    status.add(TrialStored(trial="0001-a", number=1, verdict="valid", wall_s=8))
    assert_left(status, 22, before_s)


def test_repetitions_are_counted_apart_and_the_last_verdict_counts(tmp_path: Path) -> None:
    with Journal() as journal:
        journal.open(tmp_path)
        journal.emit(RunPlanned(trials=2, expected_s=30))
        journal.emit(TrialStored(trial="0001-a", number=1, verdict="invalid", wall_s=1))
        journal.emit(TrialStored(trial="0001-a.2", number=1, verdict="valid", wall_s=1, attempt=2))
        journal.emit(RunEnded(trials=2, stopped="every primary metric is decided"))
    status = status_of(tmp_path)
    assert (status.state, status.stored, status.attempts) == ("ended", {1: "valid"}, 2)
    assert status_text(tmp_path, status).splitlines() == [
        ": ended, since every primary metric is decided",
        "1 of 2 trials (1 valid), 0 blocks ended, 1 repetitions",
    ]


def test_a_campaign_that_ends_while_it_is_looked_at_was_not_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Journal() as journal:
        journal.open(tmp_path)
        journal.emit(RunPlanned(trials=1, expected_s=30))

        def ends_now(_: Path) -> bool:
            journal.emit(RunEnded(trials=1))
            return True

        monkeypatch.setattr("wavebed.campaign.status._is_free", ends_now)
        assert Progress(tmp_path).look().state == "ended"


def test_watch_shows_each_look_until_the_end(tmp_path: Path) -> None:
    with claimed(tmp_path), Journal() as journal:
        journal.open(tmp_path)
        journal.emit(RunPlanned(trials=1, expected_s=30))
        looks = watch(tmp_path, every_s=0)
        assert next(looks).state == "running"
        journal.emit(begun(1, 30))
        assert next(looks).current is not None
        journal.emit(RunInterrupted(reason="Ctrl-C"))
        assert [status.state for status in looks] == ["interrupted"]


@pytest.mark.parametrize("given", ["nothing", "empty", "damaged"])
def test_a_folder_without_a_journal_is_refused_in_one_line(
    given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / given
    if given != "nothing":
        folder.mkdir()
    if given == "damaged":
        (folder / "journal.jsonl").write_bytes(b'{"event":"run-planned","trials":1,"expected_s":1}\n\0\0\0\n')
    assert main(["campaign", "status", str(folder)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    expected = "line 2 is not an event" if given == "damaged" else "has no journal: name a folder that wavebed campaign"
    assert expected in said[0]
