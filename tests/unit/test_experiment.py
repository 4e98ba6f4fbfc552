"""Experiments: the order of trials, the estimate, and the journal."""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.errors import UserError, WavebedError
from wavebed.experiment.estimate import Estimate, in_blocks
from wavebed.result.names import JOURNAL_FILE
from wavebed.store.journal import Event, Journal, RunBegun, RunInterrupted, StepBegun, TrialStored, read_journal

if TYPE_CHECKING:
    from pathlib import Path


TREATMENTS = ("bridge", "routing", "nat", "xdp", "relay")


def test_each_block_has_every_treatment_once_and_orders_are_drawn_by_the_seed() -> None:
    blocks = in_blocks(TREATMENTS, 6, 1)
    assert len(blocks) == 6
    assert all(sorted(block) == sorted(TREATMENTS) for block in blocks)
    assert len(set(blocks)) > 1
    assert blocks == in_blocks(TREATMENTS, 6, 1)
    assert blocks != in_blocks(TREATMENTS, 6, 2)


def test_more_blocks_leave_the_first_ones_as_they_were() -> None:
    assert in_blocks(TREATMENTS, 9, 1)[:6] == in_blocks(TREATMENTS, 6, 1)


def test_the_time_left_is_as_planned_at_first_and_as_measured_later() -> None:
    estimate = Estimate([10, 10, 20])
    assert estimate.left_s == 40
    estimate.done(1, 15)
    assert estimate.left_s == pytest.approx(1.5 * 30)
    estimate.done(2, 5)
    assert estimate.left_s == pytest.approx(20)
    estimate.done(3, 20)
    assert estimate.left_s == 0


def test_a_trial_that_is_left_out_takes_no_time() -> None:
    estimate = Estimate([10, 10, 20])
    estimate.done(2, 20)
    assert estimate.left_s == pytest.approx(40)


def test_the_ratio_of_a_kind_predicts_its_later_trials_and_little_of_the_others() -> None:
    estimate = Estimate([10, 10, 10, 10, 10], ["search", "latency", "search", "latency", "burst"])
    estimate.done(1, 30)
    estimate.done(2, 10)
    # Ratios 3 and 1, each shrunk a little towards the other; a kind of its own has the median of both and 1.
    assert estimate.ratio(3) == pytest.approx((30 + 5 * 2) / 15)
    assert estimate.ratio(4) == pytest.approx((10 + 5 * 2) / 15)
    assert estimate.ratio(5) == pytest.approx(4 / 3)
    assert estimate.left_s == pytest.approx(10 * (estimate.ratio(3) + estimate.ratio(4) + estimate.ratio(5)))
    assert estimate.after_s(4) == pytest.approx(10 * estimate.ratio(5))


def test_an_expectation_is_replaced_until_the_trial_has_finished() -> None:
    estimate = Estimate([10, 10])
    estimate.expect(2, 30)
    assert estimate.left_s == 40
    estimate.done(1, 10)
    estimate.expect(1, 99)
    assert estimate.left_s == pytest.approx(30)


def test_a_run_converges_to_its_time_by_kinds() -> None:
    kinds = ["a", "b"] * 50
    estimate = Estimate([10.0] * 100, kinds)
    took = {"a": 4.0, "b": 25.0}
    for number in range(1, 11):
        estimate.done(number, took[kinds[number - 1]])
    assert estimate.left_s == pytest.approx(45 * 29, rel=0.05)


def test_a_trial_in_the_middle_that_is_made_again_takes_its_time() -> None:
    estimate = Estimate([10, 20, 30, 40])
    for number in (1, 3, 4):
        estimate.done(number, 10.0 * number)
    assert estimate.from_s(2) == pytest.approx(20)
    estimate.done(2, 20)
    assert estimate.from_s(2) == pytest.approx(20)
    assert estimate.after_s(1) == 0


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


_SECONDS = st.integers(1, 60)


@given(st.data())
def test_the_time_left_is_the_sum_over_the_trials_that_are_left(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    expected = [float(data.draw(_SECONDS)) for _ in range(count)]
    kinds = [data.draw(st.sampled_from("abc")) for _ in range(count)]
    estimate = Estimate(expected, kinds)
    finished: set[int] = set()
    for _ in range(data.draw(st.integers(0, 15))):
        number = data.draw(st.integers(1, count))
        if data.draw(st.booleans()):
            estimate.done(number, float(data.draw(_SECONDS)))
            finished.add(number)
        elif number not in finished:
            expected[number - 1] = float(data.draw(_SECONDS))
            estimate.expect(number, expected[number - 1])
        after = data.draw(st.integers(0, count))
        left = [each for each in range(after + 1, count + 1) if each not in finished]
        whole_s = sum(expected[each - 1] * estimate.ratio(each) for each in left)
        assert estimate.after_s(after) == pytest.approx(whole_s, abs=1e-6)
    assert estimate.left_s == pytest.approx(estimate.after_s(max(finished, default=0)))
