"""A run as a whole, as far as it needs no laboratory."""

from __future__ import annotations

import argparse
import io
import json
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from tests.memory_lab import MemoryLab, Program

from wavebed import output
from wavebed.cli.run import perform
from wavebed.errors import WavebedError
from wavebed.result.model import Check, TrialRecord, WorkloadRecord
from wavebed.run.progress import Live
from wavebed.run.runner import run_plan
from wavebed.run.scenario import read_plan
from wavebed.run.trial import run_trial
from wavebed.store.journal import (
    CheckFailed,
    RunInterrupted,
    RunPlanned,
    TrialFailed,
    TrialStored,
    WorkloadBegun,
    WorkloadEnded,
    read_journal,
)
from wavebed.store.load import load_run
from wavebed.workload.model import Outcome, TimeSpan, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wavebed.run.design import Slot
    from wavebed.run.resolve import Resolved
    from wavebed.run.scenario import Plan


def test_content_that_cannot_be_made_ends_the_run_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(workload: Workload, cache: Path) -> None:
        raise OSError(28, "No space left on device", str(cache / workload.name))

    monkeypatch.setattr(Workload, "prepare", full)
    monkeypatch.setattr("wavebed.run.runner.check_programs", lambda _: None)
    scenario = tmp_path / "s.toml"
    scenario.write_text('[path]\nrate = "1mbit"\n[[workload]]\nkind = "command"\nrun = ["true"]\n')
    with pytest.raises(WavebedError, match=r"^command: .*command: no space left on device: ") as told:
        run_plan(read_plan(scenario), tmp_path / "run", [], Live("wavebed run", io.StringIO()))
    assert "\n" not in str(told.value)


def _quick_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    def trial(
        slot: Slot, _resolved: Resolved, partial: Path, look: object, of_machine: Callable[[], Sequence[Check]]
    ) -> TrialRecord:
        checks = list(of_machine())
        return TrialRecord(slot.folder, slot.block, slot.treatment.name, slot.seed, "", 0.1, "valid", checks=checks)

    monkeypatch.setattr("wavebed.run.runner.run_trial", trial)
    monkeypatch.setattr("wavebed.run.runner.check_programs", lambda _: None)


def _plan(folder: Path, trials: int) -> Plan:
    scenario = folder / "s.toml"
    scenario.write_text('[path]\nrate = "1mbit"\n[[workload]]\nkind = "command"\nrun = ["true"]\n')
    return read_plan(scenario, trials=trials)


def test_keeping_a_trial_costs_the_same_however_many_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _quick_trials(monkeypatch)
    written: list[int] = []
    real = output.replace_file

    def counting(file: Path, data: bytes) -> None:
        written.append(len(data))
        real(file, data)

    monkeypatch.setattr("wavebed.store.folder.replace_file", counting)
    run_plan(_plan(tmp_path, 60), tmp_path / "run", [], Live("wavebed run", io.StringIO()))
    _scenario, first, *trials, _last = written
    assert len(trials) == 60
    assert max(trials) - min(trials) < 10
    assert first < 2000
    assert len(load_run(tmp_path / "run").trials) == 60


def test_the_trials_of_a_run_that_did_not_end_are_those_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _quick_trials(monkeypatch)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("wavebed.experiment.estimate.Estimate.done", killed)
    with pytest.raises(KeyboardInterrupt):
        run_plan(_plan(tmp_path, 3), tmp_path / "run", [], Live("wavebed run", io.StringIO()))
    events = read_journal(tmp_path / "run")
    assert isinstance(events[-1], RunInterrupted)
    assert [event.trial for event in events if isinstance(event, TrialStored)] == ["0001-as-described"]
    run = load_run(tmp_path / "run")
    assert run.record.ended is None
    assert list(run.trials["folder"]) == ["0001-as-described"]
    assert run.trial("0001-as-described").checks[0].name == "the only run on this machine"


def test_the_journal_has_every_step_and_progress_is_made_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spans = {"soon": TimeSpan(0.0, 1.0, False), "command": TimeSpan(0.5, 2.0, False)}

    def trial(slot: Slot, _resolved: Resolved, _partial: Path, look: Callable[..., None], _: object) -> TrialRecord:
        running = [SimpleNamespace(workload=SimpleNamespace(name="soon"), start_s=0.0, end_s=None)]
        look(None, running)
        look(None, running)
        workloads = [WorkloadRecord(name, "command", span, Outcome()) for name, span in spans.items()]
        checks = [Check("samplers", False, "suspect", "3 of 9", "samplers"), Check("all", True, "invalid", "0", "all")]
        return TrialRecord(
            slot.folder, slot.block, slot.treatment.name, slot.seed, "", 0.1, "suspect", ["not so"], checks, workloads
        )

    monkeypatch.setattr("wavebed.run.runner.run_trial", trial)
    monkeypatch.setattr("wavebed.run.runner.check_programs", lambda _: None)
    monkeypatch.setattr(Live, "look", lambda live, *_: live.say("{}, {:.0f} s".format(*live.position())))
    said = io.StringIO()
    run_plan(_plan(tmp_path, 2), tmp_path / "run", [], Live("wavebed run", said))
    events = read_journal(tmp_path / "run")
    assert [str(type(event).__struct_config__.tag) for event in events] == [
        "run-begun",
        "run-planned",
        "step-begun",
        *["trial-begun", "workload-begun", "workload-ended", "workload-begun", "workload-ended"],
        *["check-failed", "trial-stored", "block-ended"],
        *["trial-begun", "workload-begun", "workload-ended", "workload-begun", "workload-ended"],
        *["check-failed", "trial-stored", "block-ended"],
        "run-ended",
    ]
    planned = events[1]
    assert isinstance(planned, RunPlanned)
    assert [part.trial for part in planned.parts] == ["0001-as-described", "0002-as-described"]
    assert planned.expected_s == sum(part.expected_s for part in planned.parts)
    failed = next(event for event in events if isinstance(event, CheckFailed))
    assert (failed.trial, failed.code, failed.severity) == ("0001-as-described", "samplers", "suspect")
    lines = said.getvalue().splitlines()
    assert lines[0] == "wavebed run: preparing command"
    assert lines[1].startswith("wavebed run: 1 of 2, as-described, ")
    assert lines[3] == "wavebed run: trial 1 of 2 (0001-as-described) is suspect: not so"
    assert lines[-1] == "wavebed run: trial 2 of 2 (0002-as-described) is suspect: not so"


def test_a_journal_that_cannot_be_written_during_a_trial_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trial(slot: Slot, _resolved: Resolved, _partial: Path, look: Callable[..., None], _: object) -> TrialRecord:
        monkeypatch.setattr("os.write", full)
        look(None, [SimpleNamespace(workload=SimpleNamespace(name="command"), start_s=0.0, end_s=None)])
        monkeypatch.undo()
        return TrialRecord(slot.folder, slot.block, slot.treatment.name, slot.seed, "", 0.1, "valid")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("wavebed.run.runner.run_trial", trial)
    monkeypatch.setattr("wavebed.run.runner.check_programs", lambda _: None)
    monkeypatch.setattr(Live, "look", lambda *_: None)
    with pytest.raises(WavebedError, match="no space left on device: the trials that had ended can be read"):
        run_plan(_plan(tmp_path, 2), tmp_path / "run", [], Live("wavebed run", io.StringIO()))
    assert isinstance(read_journal(tmp_path / "run")[-1], RunInterrupted)
    assert list((tmp_path / "run/trials").iterdir()) == []


def test_a_trial_that_cannot_be_stored_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _quick_trials(monkeypatch)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("wavebed.store.disk.sync_tree", full)
    with pytest.raises(WavebedError, match="no space left on device: the trials that had ended can be read"):
        run_plan(_plan(tmp_path, 2), tmp_path / "run", [], Live("wavebed run", io.StringIO()))
    *_, failed, interrupted = read_journal(tmp_path / "run")
    assert isinstance(failed, TrialFailed)
    assert failed.trial == "0001-as-described"
    assert isinstance(interrupted, RunInterrupted)
    assert list((tmp_path / "run/trials").iterdir()) == []


def test_a_run_ends_with_status_1_if_one_workload_failed_at_its_limit_and_says_that_the_others_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = {"endless": Program(None), "short": Program(10.0)}
    monkeypatch.setattr("wavebed.run.runner.run_trial", partial(run_trial, start=lambda *_: MemoryLab(programs)))
    tables = "".join(f'[[workload]]\nkind = "command"\nname = "{name}"\nrun = ["{name}"]\n' for name in programs)
    scenario = tmp_path / "s.toml"
    scenario.write_text(f'[path]\nrate = "1mbit"\n{tables}')
    options = argparse.Namespace(command="run", output=tmp_path / "run", json=True, is_own_process=False)
    assert perform(read_plan(scenario, trials=2), options) == 1
    assert json.loads(capsys.readouterr().out)["trials"] == 2
    for folder in load_run(tmp_path / "run").trials["folder"]:
        trial = json.loads((tmp_path / "run/trials" / folder / "trial.json").read_text())
        assert trial["verdict"] == "failed"
        assert any("endless: stopped at its limit of 60 s" in reason for reason in trial["reasons"])
        assert {each["name"]: each["status"] for each in trial["workloads"]} == {"endless": "failed", "short": "ok"}
        spans = {(each["name"], each["start_s"], each["end_s"]) for each in trial["workloads"]}
        told = [event for event in read_journal(tmp_path / "run") if getattr(event, "trial", "") == folder]
        begun = {event.workload: event.at_s for event in told if isinstance(event, WorkloadBegun)}
        ended = {event.workload: event.at_s for event in told if isinstance(event, WorkloadEnded)}
        assert {(name, begun[name], ended[name]) for name in programs} == spans
        assert {event.code for event in told if isinstance(event, CheckFailed)} == {
            check["code"] for check in trial["checks"] if not check["holds"]
        }
        assert isinstance(told[-1], TrialStored)
        assert (told[-1].verdict, list(told[-1].reasons)) == ("failed", trial["reasons"])
