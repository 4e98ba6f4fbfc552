"""A check as a whole, with trials that are made up."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import pytest

from wavebed.check.perform import CheckedCommand, command_plan, perform_check
from wavebed.check.requirement import parse_requirement
from wavebed.cli import main
from wavebed.config.problems import Problem
from wavebed.errors import UserError
from wavebed.result.model import Check, TrialRecord, WorkloadRecord
from wavebed.run.checks import verdict
from wavebed.run.progress import Live
from wavebed.workload.model import Metric, Outcome, TimeSpan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from wavebed.check.result import CheckResult
    from wavebed.run.design import Slot
    from wavebed.run.scenario import Plan

LATE = Check("engine on time", False, "suspect", "late by 9 ms", "late")


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[int, Sequence[float | str]]], list[int]]:
    """Let trials have these values of `load time` by seed and attempt, in ms; ``late``, ``broken`` and both are texts.

    Returns the seeds that ran.
    """

    def use(values: Mapping[int, Sequence[float | str]]) -> list[int]:
        ran: list[int] = []

        def trial(slot: Slot, *_: object) -> TrialRecord:
            ran.append(slot.seed)
            value = values[slot.seed][slot.attempt - 1]
            outcome = Outcome(metrics=[Metric("load time", value if isinstance(value, float) else 1.0, "ms")])
            if "broken" in str(value):
                outcome = Outcome("failed", "sh ended with 1")
            checks = [LATE] if "late" in str(value) else []
            workloads = [WorkloadRecord("command", "command", TimeSpan(0.0, 1.0, is_load=True), outcome)]
            found, reasons = verdict(checks, workloads)
            return TrialRecord(
                slot.folder, slot.block, slot.treatment.name, slot.seed, "", 0.1, found, reasons, checks, workloads,
                attempt=slot.attempt,
            )  # fmt: skip

        monkeypatch.setattr("wavebed.run.runner.run_trial", trial)
        monkeypatch.setattr("wavebed.run.runner.check_programs", lambda _: None)
        return ran

    return use


def plan(seeds: int, **options: object) -> Plan:
    return command_plan(CheckedCommand(argv=["sh", "-c", "true"]), [], None, {"rate": "1mbit", **options}, seeds)


def checked(folder: Path, seeds: int, text: str, **options: int) -> CheckResult:
    live = Live("wavebed check", io.StringIO())
    return perform_check(plan(seeds), [parse_requirement(text)], folder / "run", [], live, **options)


def test_another_run_that_is_waited_for_is_named_once_where_lines_stay() -> None:
    stream = io.StringIO()
    live = Live("wavebed check", stream)
    for process in ("7", "7", "7", "8"):
        live.waiting(process)
    assert [line.rpartition("s ")[2] for line in stream.getvalue().splitlines()] == ["7)", "8)"]


def test_a_requirement_is_decided_over_the_seeds(tmp_path: Path, made_up: Callable[..., list[int]]) -> None:
    ran = made_up({1: [900.0], 2: [1100.0], 3: [1000.0]})
    found = checked(tmp_path, 3, "load time p50 <= 1 s")
    assert ran == [1, 2, 3]
    assert found.outcome == "pass"
    assert found.decisions[1].values == {1: 900.0, 2: 1100.0, 3: 1000.0}
    assert json.loads((tmp_path / "run" / "run.json").read_text())["title"] == "sh -c true"


def test_only_a_late_machine_leads_to_another_attempt(tmp_path: Path, made_up: Callable[..., list[int]]) -> None:
    ran = made_up({1: ["late", "late", 900.0], 2: [5000.0], 3: ["broken"]})
    found = checked(tmp_path, 3, "load time max < 1 s", attempts=3)
    assert ran == [1, 1, 1, 2, 3]
    assert [each.outcome for each in found.decisions] == ["fail", "fail"]
    assert found.decisions[1].values[1] == 900.0


def test_a_command_that_failed_on_a_late_machine_is_run_again(
    tmp_path: Path, made_up: Callable[..., list[int]]
) -> None:
    ran = made_up({1: ["broken, late", 900.0], 2: ["broken, late", "broken"]})
    found = checked(tmp_path, 2, "load time max < 1 s", attempts=3)
    assert ran == [1, 1, 2, 2]
    assert found.outcome == "fail"
    assert found.trials[0].state == "measured"


def test_what_stays_late_stays_inconclusive(tmp_path: Path, made_up: Callable[..., list[int]]) -> None:
    ran = made_up({1: [900.0], 2: ["late", "late"]})
    found = checked(tmp_path, 2, "load time max < 1 s", attempts=2)
    assert ran == [1, 2, 2]
    assert (found.outcome, found.exit_status) == ("inconclusive", 3)


def test_fail_fast_ends_when_no_other_seed_can_save_it(tmp_path: Path, made_up: Callable[..., list[int]]) -> None:
    ran = made_up({seed: [5000.0] for seed in range(1, 6)})
    found = checked(tmp_path, 5, "load time p50 < 1 s", fail_fast=True)
    assert ran == [1, 2, 3]
    assert found.outcome == "fail"
    assert found.stopped == "stopped after 3 trials: 'load time p50 < 1 s' fails whatever the others give"


def test_without_fail_fast_all_seeds_run(tmp_path: Path, made_up: Callable[..., list[int]]) -> None:
    ran = made_up({seed: [5000.0] for seed in range(1, 6)})
    assert checked(tmp_path, 5, "load time p50 < 1 s").outcome == "fail"
    assert ran == [1, 2, 3, 4, 5]


def test_an_unknown_metric_ends_it_after_the_first_trial(tmp_path: Path, made_up: Callable[..., list[int]]) -> None:
    ran = made_up({seed: [1.0] for seed in range(1, 6)})
    with pytest.raises(Problem, match=r"lod time: no metric of the results: did you mean 'command.load time'"):
        checked(tmp_path, 5, "lod time p50 < 1 s")
    assert ran == [1]


def test_a_command_becomes_a_workload_with_its_own_numbers() -> None:
    required = [parse_requirement("exit status every = 2")]
    command = CheckedCommand(argv=["sh", "-c", "x"], servers=["a", "b"], wait_for_port="80", limit="9s", confined=True)
    (treatment,) = command_plan(command, required, None, {"seed": "7"}, 2).treatments
    (workload,) = treatment.workloads
    options = workload.options
    assert (options.run, options.servers, options.wait_for_port) == (["sh", "-c", "x"], ("a", "b"), 80)
    assert (options.any_status, options.wall_time, options.confined, options.parser) == (True, True, True, "printed")
    assert workload.common.limit_s == 9.0


def test_the_seeds_begin_with_that_of_the_path() -> None:
    assert (plan(3, seed="7").seed, plan(3, seed="7").trials) == (7, 3)


def test_the_command_writes_what_was_asked_for_and_ends_with_the_outcome(
    tmp_path: Path,
    made_up: Callable[..., list[int]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made_up({1: [900.0], 2: ["late"]})
    monkeypatch.setattr("wavebed.cli.run.write_run_report", lambda *_: None)
    junit, markdown = tmp_path / "j.xml", tmp_path / "m.md"
    words = ["check", "--seeds", "2", "--attempts", "1", "--require", "load time max < 1 s", "--rate", "1mbit"]
    words += ["--junit", str(junit), "--markdown", str(markdown), "-o", str(tmp_path / "run"), "--json", "--", "true"]
    assert main(words) == 3
    assert json.loads(capsys.readouterr().out)["outcome"] == "inconclusive"
    assert "<skipped message=" in junit.read_text()
    assert "wavebed check: inconclusive" in markdown.read_text()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "nothing to check: write a command after --, or --scenario FILE with workloads"),
        (["--", "no-such-program"], "no-such-program: no such program: write it as in a shell, after --"),
        (["--require", "x < 3", "--", "true"], "--require: 'x < 3' is not a requirement: did you mean 'x p90 < 3'?"),
        (["--seeds", "0", "--", "true"], "--seeds: 0 is out of range"),
        (["--attempts", "none", "--", "true"], "--attempts: 'none' is not a whole number"),
        (["--wait-for-port", "80", "--", "true"], "--wait-for-port: there is no --server to open it"),
        (["--limit", "long", "--", "true"], "limit: 'long' is not a time"),
        (["--rate", "fast", "--", "true"], "--rate: 'fast' is not a rate"),
        (["--workload", "web", "--", "true"], "--workload: CMD is the workload: leave one of the two out"),
        (["--scenario", "demo", "--limit", "3s"], "--limit: belongs to a command: write one after --"),
    ],
)
def test_wrong_words_are_answered_in_a_line(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["wavebed", "check", *words])
    assert main(["check", *words]) == UserError.exit_status
    told = capsys.readouterr().err
    assert told.startswith(f"wavebed: {line}")
    assert told.count("\n") == 1
