"""A run as a whole, as far as it needs no laboratory."""

from __future__ import annotations

import argparse
import io
import json
from functools import partial
from typing import TYPE_CHECKING

import pytest

from wavebed import output
from wavebed.cli.run import perform
from wavebed.errors import WavebedError
from wavebed.lab.memory import MemoryLab, Program
from wavebed.result.load import load_run
from wavebed.result.model import TrialRecord
from wavebed.run.progress import Live
from wavebed.run.runner import run_plan
from wavebed.run.scenario import read_plan
from wavebed.run.trial import run_trial
from wavebed.workload.model import Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wavebed.result.model import Check
    from wavebed.run.order import Slot
    from wavebed.run.resolve import Resolved
    from wavebed.run.scenario import Plan


def test_content_that_cannot_be_made_ends_the_run_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(workload: Workload, cache: Path) -> None:
        raise OSError(28, "No space left on device", str(cache / workload.name))

    monkeypatch.setattr(Workload, "prepare", full)
    monkeypatch.setattr("wavebed.run.runner._check_programs", lambda _: None)
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
        return TrialRecord(slot.folder, slot.block, slot.arm.name, slot.seed, "", 0.1, "valid", checks=checks)

    monkeypatch.setattr("wavebed.run.runner.run_trial", trial)
    monkeypatch.setattr("wavebed.run.runner._check_programs", lambda _: None)


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

    monkeypatch.setattr("wavebed.result.write.replace_file", counting)
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

    monkeypatch.setattr("wavebed.run.runner.Estimate.done", killed)
    with pytest.raises(KeyboardInterrupt):
        run_plan(_plan(tmp_path, 3), tmp_path / "run", [], Live("wavebed run", io.StringIO()))
    run = load_run(tmp_path / "run")
    assert run.record.ended is None
    assert list(run.trials["folder"]) == ["0001-as-described"]
    assert run.trial("0001-as-described").checks[0].name == "the only run on this machine"


def test_a_run_ends_with_status_1_if_one_workload_failed_at_its_limit_and_says_that_the_others_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = {"endless": Program(None), "short": Program(10.0)}
    monkeypatch.setattr("wavebed.run.runner.run_trial", partial(run_trial, start=lambda *_: MemoryLab(programs)))
    tables = "".join(f'[[workload]]\nkind = "command"\nname = "{name}"\nrun = ["{name}"]\n' for name in programs)
    scenario = tmp_path / "s.toml"
    scenario.write_text(f'[path]\nrate = "1mbit"\n{tables}')
    options = argparse.Namespace(command="run", output=tmp_path / "run", json=True)
    assert perform(read_plan(scenario, trials=2), options) == 1
    assert json.loads(capsys.readouterr().out)["trials"] == 2
    for folder in load_run(tmp_path / "run").trials["folder"]:
        trial = json.loads((tmp_path / "run/trials" / folder / "trial.json").read_text())
        assert trial["verdict"] == "failed"
        assert any("endless: stopped at its limit of 60 s" in reason for reason in trial["reasons"])
        assert {each["name"]: each["status"] for each in trial["workloads"]} == {"endless": "failed", "short": "ok"}
