"""The progress of a campaign, read from its journal by another process."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from tests.unit.campaign_example import example, live, run_until_killed, simulated

from wavebed.campaign.run import resume_campaign, run_campaign
from wavebed.campaign.status import Progress, Status, status_json, status_of, status_text, watch
from wavebed.cli import main
from wavebed.errors import UserError, WavebedError
from wavebed.experiment.disk import claimed
from wavebed.experiment.events import RunBegun, RunEnded, RunInterrupted, RunPlanned, StepBegun, TrialBegun, TrialStored
from wavebed.experiment.journal import Journal

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.run.order import Slot


@pytest.fixture(autouse=True)
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVEBED_LOCK", str(tmp_path / "lock"))


def begun(number: int, left_s: float) -> TrialBegun:
    return TrialBegun(trial=f"000{number}-a", number=number, trials=3, left_s=left_s, treatment="a", block=1, seed=4)


def assert_left(status: Status, of_s: float, before_s: float) -> None:
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
    status = Status(planned=3)
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


def test_an_interrupted_campaign_says_why_and_runs_again_after_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = example(tmp_path)

    def fails(slot: Slot) -> None:
        if slot.number == 4:
            raise WavebedError("no tunnel device")

    monkeypatch.setattr("wavebed.run.runner.run_trial", simulated(began=fails))
    with pytest.raises(WavebedError):
        run_campaign(campaign, tmp_path / "run", [], live())
    status = status_of(tmp_path / "run")
    assert (status.state, status.reason, len(status.stored), len(status.blocks)) == (
        "interrupted",
        "no tunnel device",
        3,
        1,
    )
    states = []
    monkeypatch.setattr(
        "wavebed.run.runner.run_trial", simulated(began=lambda _: states.append(status_of(tmp_path / "run")))
    )
    resume_campaign(campaign, tmp_path / "run", [], live())
    assert [(one.state, one.resumed, len(one.stored)) for one in states] == [
        ("running", 1, 3),
        ("running", 1, 4),
        ("running", 1, 5),
    ]
    assert status_json(status_of(tmp_path / "run"))["state"] == "ended"


def test_a_resumed_campaign_keeps_the_time_and_the_words_with_which_it_began(tmp_path: Path) -> None:
    campaign = example(tmp_path)
    assert not run_until_killed(campaign, tmp_path / "run", 60, simulated())
    file = tmp_path / "run/run.json"
    record = json.loads(file.read_text())
    record |= {"started": "2026-01-01T00:00:00+00:00", "command_line": ["wavebed", "first"]}
    file.write_text(json.dumps(record))
    assert run_until_killed(campaign, tmp_path / "run", 10**9, simulated())
    after = json.loads(file.read_text())
    assert [after[key] for key in ("started", "command_line")] == [record[key] for key in ("started", "command_line")]


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


def test_the_command_prints_text_or_an_object_in_each_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_until_killed(example(tmp_path), tmp_path / "run", 10**9, simulated())
    assert main(["campaign", "status", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().out == "c: ended\n6 of 6 trials (6 valid), 2 blocks ended, 0 repetitions\n"
    assert main(["campaign", "status", "--json", "--watch", str(tmp_path / "run")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["state"], told["stored"], told["left_s"], told["verdicts"]) == ("ended", 6, None, {"valid": 6})


def test_two_cannot_resume_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = example(tmp_path)
    refused = []

    def resumes_too(_: Slot) -> None:
        with pytest.raises(UserError) as caught:
            resume_campaign(campaign, tmp_path / "run", [], live())
        refused.append(str(caught.value))

    monkeypatch.setattr("wavebed.run.runner.run_trial", simulated(began=resumes_too))
    run_campaign(campaign, tmp_path / "run", [], live())
    assert refused == [f"{tmp_path}/run: is in use by another process: wavebed campaign status shows its progress"] * 6


@pytest.mark.timed
def test_a_campaign_waits_for_whoever_measures_on_this_machine_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = example(tmp_path)
    began: list[float] = []
    monkeypatch.setattr("wavebed.run.runner.run_trial", simulated(began=lambda _: began.append(time.monotonic())))
    other = subprocess.Popen([sys.executable, "-c", _MEASURES], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == b"measures\n"
    running = threading.Thread(target=run_campaign, args=(campaign, tmp_path / "run", [], live()))
    running.start()
    waited = f"waiting for the end of another run on this machine (process {other.pid})"
    end_s = time.monotonic() + 20
    while not _step(tmp_path / "run") and time.monotonic() < end_s:
        time.sleep(0.02)
    assert _step(tmp_path / "run") == waited
    assert not began
    other.communicate(b"\n", timeout=20)
    running.join(30)
    assert status_of(tmp_path / "run").state == "ended"


_MEASURES = """
from wavebed.experiment.machine_lock import measuring
with measuring():
    print("measures", flush=True)
    input()
"""


def _step(folder: Path) -> str:
    try:
        step = status_of(folder).step
    except (UserError, FileNotFoundError):
        return ""
    return step if step.startswith("waiting") else ""


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
