"""The journal of a run: what is written, what is read back, and what a kill or a full disk leaves of it."""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING

import pytest

from wavebed.errors import UserError, WavebedError
from wavebed.experiment.events import Event, RunBegun, RunInterrupted, StepBegun, TrialStored
from wavebed.experiment.journal import Journal, read_journal
from wavebed.result.names import JOURNAL_FILE

if TYPE_CHECKING:
    from pathlib import Path

BEGUN = RunBegun(kind="run", title="A title")
STORED = TrialStored(trial="0001-cubic", number=1, verdict="suspect", wall_s=2.5, reasons=("late",))


def kinds(events: list[Event]) -> list[type]:
    return [type(event) for event in events]


def test_events_are_read_back_as_they_were_told_with_their_times(tmp_path: Path) -> None:
    heard: list[Event] = []
    with Journal(heard.append) as journal:
        journal.emit(BEGUN)
        journal.open(tmp_path)
        journal.emit(STORED)
    assert read_journal(tmp_path) == heard
    assert kinds(heard) == [RunBegun, TrialStored]
    assert heard[0].since_s <= heard[1].since_s
    assert all(event.time is not None and event.time.utcoffset() is not None for event in heard)


def test_a_line_is_one_json_object_that_names_its_event(tmp_path: Path) -> None:
    with Journal() as journal:
        journal.open(tmp_path)
        journal.emit(STORED)
    (line,) = (tmp_path / JOURNAL_FILE).read_text().splitlines()
    told = json.loads(line)
    assert told.pop("time").endswith("Z")
    assert told.pop("since_s") >= 0
    assert told == {
        "event": "trial-stored",
        "trial": "0001-cubic",
        "number": 1,
        "verdict": "suspect",
        "wall_s": 2.5,
        "reasons": ["late"],
        "attempt": 1,
    }


def test_an_event_is_one_write_and_a_stored_trial_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    real_write, real_sync = os.write, os.fsync
    monkeypatch.setattr(os, "write", lambda *given: (done.append("write"), real_write(*given))[1])
    monkeypatch.setattr(os, "fsync", lambda given: (done.append("fsync"), real_sync(given))[1])
    with Journal(lambda _: done.append("heard")) as journal:
        journal.open(tmp_path)
        journal.emit(BEGUN)
        journal.emit(STORED)
    assert done == ["write", "heard", "write", "fsync", "heard"]


@pytest.mark.parametrize("left", [1, 20, -1])
def test_a_torn_last_line_is_left_out(tmp_path: Path, left: int) -> None:
    with Journal() as journal:
        journal.open(tmp_path)
        journal.emit(BEGUN)
        journal.emit(STORED)
    file = tmp_path / JOURNAL_FILE
    first, second = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(first + second[:left])
    assert kinds(read_journal(tmp_path)) == [RunBegun]


def test_a_damaged_line_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / JOURNAL_FILE).write_text('{"event":"step-begun","step":"x"}\n{"event":"none-such"}\n')
    with pytest.raises(UserError, match=r"journal\.jsonl: line 2 is not an event \(.*\): the journal is damaged"):
        read_journal(tmp_path)


def test_results_of_before_there_was_a_journal_have_no_events(tmp_path: Path) -> None:
    assert read_journal(tmp_path) == []


@pytest.mark.parametrize("short", [True, False], ids=["short", "refused"])
def test_a_full_disk_ends_in_one_line_and_leaves_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: bool
) -> None:
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        if short:
            return real(descriptor, data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    def run() -> None:
        with Journal() as journal:
            journal.open(tmp_path)
            journal.emit(BEGUN)
            monkeypatch.setattr(os, "write", full)
            journal.emit(STORED)

    with pytest.raises(WavebedError, match=r"no space left on device: the trials that had ended can be read$"):
        run()
    assert kinds(read_journal(tmp_path)) == [RunBegun]
    assert (tmp_path / JOURNAL_FILE).read_bytes().endswith(b"\n")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), WavebedError("the port is gone")])
def test_an_error_is_the_last_event(tmp_path: Path, error: BaseException) -> None:
    def run() -> None:
        with Journal() as journal:
            journal.open(tmp_path)
            journal.emit(StepBegun(step="preparing web"))
            raise error

    with pytest.raises(type(error)):
        run()
    last = read_journal(tmp_path)[-1]
    assert isinstance(last, RunInterrupted)
    assert last.reason in ("KeyboardInterrupt", "the port is gone")
