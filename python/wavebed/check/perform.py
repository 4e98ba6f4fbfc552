"""Run the trials of a check, and decide its requirements from their folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.check.judge import check_names, decide, value_text
from wavebed.check.lateness import most_lateness_s
from wavebed.check.links import link_metrics
from wavebed.check.result import CheckResult
from wavebed.check.trials import last_attempts, seen
from wavebed.result.computing import read_computing
from wavebed.result.names import TRIALS_FOLDER
from wavebed.run.design import Design
from wavebed.run.folder import in_virtual_time
from wavebed.run.runner import run_plan
from wavebed.store.records import read_trial

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.check.judge import Decision
    from wavebed.check.requirement import Requirement
    from wavebed.check.trials import Seen
    from wavebed.result.model import TrialLine
    from wavebed.run.progress import Live
    from wavebed.run.scenario import Plan
    from wavebed.store.folder import Ledger

__all__ = ["perform_check"]


def perform_check(
    plan: Plan,
    requirements: Sequence[Requirement],
    folder: Path,
    command_line: Sequence[str],
    live: Live,
    *,
    attempts: int = 1,
    fail_fast: bool = False,
) -> CheckResult:
    """Run a plan and decide.

    Parameters
    ----------
    attempts : int
        Most attempts at a trial, with its seed, until the machine was not late.
    fail_fast : bool
        Whether it ends as soon as a requirement fails whatever the other seeds give.

    Raises
    ------
    Problem
        If a metric of a requirement is not in the results; found after the first trial.
    WavebedError
        As `wavebed.run.runner.run_plan`.
    """
    trials = _Trials(folder, requirements, plan.trials, fail_fast=fail_fast)
    design = Design(attempts=attempts, is_repeated=trials.was_late, stop=trials.reason_to_stop)
    record = run_plan(plan, folder, command_line, live, design)
    found = trials.read([line.folder for line in record.trials])
    check_names(requirements, found)
    decisions = decide(requirements, found, plan.trials)
    if in_virtual_time(plan):
        _keep_bundles(folder, decisions, found, live)
    return CheckResult(
        title=plan.title,
        seeds=range(plan.seed, plan.seed + plan.trials),
        decisions=decisions,
        trials=found,
        folder=folder,
        stopped=trials.stopped,
    )


def _keep_bundles(folder: Path, decisions: Sequence[Decision], trials: Sequence[Seen], live: Live) -> None:
    """Keep a bundle of each measured trial that breaks a requirement which fails."""
    from wavebed.run.bundle import write_bundles

    broken: dict[str, list[tuple[str, str]]] = {}
    names = {(trial.treatment, trial.seed): trial.folder for trial in trials if trial.state == "measured"}
    for each in decisions:
        requirement, bound = each.requirement, each.bound
        if each.outcome != "fail" or requirement is None or bound is None:
            continue
        for seed, value in each.values.items():
            name = names.get((each.treatment, seed))
            if name is not None and not requirement.holds(value, bound):
                measured = f"{requirement.text}: {value_text(value, each.unit)}"
                broken.setdefault(name, []).append((requirement.text, measured))
    found = [(name, [why for _, why in each], [text for text, _ in each]) for name, each in broken.items()]
    for line in write_bundles(folder, found):
        live.note(line)


class _Trials:
    """The trials of a check so far; each is read once."""

    def __init__(self, folder: Path, requirements: Sequence[Requirement], seeds: int, *, fail_fast: bool) -> None:
        self._folder = folder / TRIALS_FOLDER
        self._requirements = requirements
        self._seeds = seeds
        self._fail_fast = fail_fast
        self._seen: dict[str, Seen] = {}
        self.stopped = ""

    def read(self, folders: Sequence[str]) -> list[Seen]:
        """Return the trials in these folders, the attempt that counts of each."""
        for name in folders:
            if name not in self._seen:
                folder = self._folder / name
                trial = read_trial(folder)
                self._seen[name] = seen(
                    trial, link_metrics(trial, folder), most_lateness_s(trial, folder), read_computing(folder)
                )
        return last_attempts([self._seen[name] for name in folders])

    def was_late(self, line: TrialLine) -> bool:
        """Return whether a trial leads to another attempt: its machine was late, a little or much."""
        (trial,) = self.read([line.folder])
        return trial.is_late or trial.delayed_s > 0

    def reason_to_stop(self, ledger: Ledger) -> str:
        """Return why no further trial is needed, or nothing."""
        trials = self.read([one.line.folder for one in ledger.stored()])
        check_names(self._requirements, trials)
        if self._fail_fast:
            failed = next(
                (each for each in decide(self._requirements, trials, self._seeds) if each.outcome == "fail"), None
            )
            if failed is not None:
                self.stopped = f"stopped after {len(trials)} trials: {failed.text!r} fails whatever the others give"
        return self.stopped
